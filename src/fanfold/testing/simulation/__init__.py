"""Whole runs from a seed: processes, services, a store, time and everything that goes wrong with them."""
