"""The operator's fleet: long-running agents with dependencies, budgets and a window for each."""
