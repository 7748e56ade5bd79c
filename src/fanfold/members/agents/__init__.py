"""Agents: command lines that work for minutes on end (claude, codex), each in a host of its own."""
