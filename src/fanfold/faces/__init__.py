"""The faces: thin, strangers to one another."""
