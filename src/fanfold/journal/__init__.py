"""WHAT HAPPENED. The durable facts of all runs in one store."""
