"""A plan as boxes and arrows."""
