"""What the model server says in these tests; it imports them by name."""

from __future__ import annotations

from fanfold.testing.script import Asked, Says

SLOW = 1.5


def slow_at_first(asked: Asked) -> Says:
    """The first three requests take a while: long enough to interrupt them. The others do not."""
    return Says(latency=SLOW if asked.n <= 3 else 0.0)


def never(asked: Asked) -> Says:
    """Nobody gets an answer, so that a run stays under way until it is ended."""
    return Says(hang=True)


def tells_the_key(asked: Asked) -> Says:
    """Refuses every key and repeats it, as careless servers do."""
    return Says(status=401, message=f"Incorrect API key provided: {asked.key}.")
