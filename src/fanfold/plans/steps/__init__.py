"""The kinds of steps of a plan: each is one module, and `table` lists them."""
