"""WHO answers. A member translates an ask for one kind of backend and brings the reply back."""
