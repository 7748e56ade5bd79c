"""What was committed, for those who follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fanfold.journal.facts import Fact


class Commit(msgspec.Struct, frozen=True):
    """Facts that became durable together, each with its answer. Positions grow with every commit of
    the store, whichever process made it; `at` is the newest time that the facts of it, or of one
    before, name."""

    position: int
    at: float
    facts: Sequence[Fact]
    answers: Sequence[Any]


Subscriber = Callable[[Commit], None]
