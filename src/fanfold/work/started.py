"""What a member and the processes that it starts both know. Nothing is imported here: the host of an agent
needs it too, and stays small."""

from __future__ import annotations

PARENT, STORE = "FANFOLD_PARENT", "FANFOLD_STORE"
"""The variables by which a process that a member starts knows the span and the store it is for."""

MAX_BYTES = 32_000_000
"""The largest answer of a member that is read, unless its roster states another limit."""
