"""What a plan would do and take, worked out without asking anyone."""
