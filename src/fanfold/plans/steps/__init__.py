"""The steps of a plan file: read, and checked so that mistakes show with their lines."""
