"""The store in one folder: an SQLite database, and what protects it from a hostile machine."""
