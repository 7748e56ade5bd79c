"""IN WHICH SHAPE. Patterns are ordinary async functions over a run."""
