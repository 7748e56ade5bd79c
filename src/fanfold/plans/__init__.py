"""Plan files: read, check, carry out."""
