"""WHAT is to be done. Frozen records and pure functions, no I/O."""
