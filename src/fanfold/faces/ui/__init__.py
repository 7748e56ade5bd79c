"""A live page in the browser over a store: what every run does now, what it costs, and why."""
