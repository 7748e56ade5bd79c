"""How many examples are tried: a few in `make test`, all of them in `make sweep`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings


def examples(most: int, quick: int | None = None, **more: Any) -> settings:
    """At most so many, and no more than `quick` or the profile has; the sweep tries them all."""
    if settings.get_current_profile_name() != "sweep":
        most = min(most, quick or settings().max_examples)
    return settings(max_examples=most, **more)


def crossed(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """All pairs; in `make test` a third of them, in which each of both occurs."""
    return [
        (a, b) if (n + m) % 3 == 0 else pytest.param(a, b, marks=pytest.mark.sweep)
        for n, a in enumerate(first)
        for m, b in enumerate(second)
    ]


def points(quick: int, all: int) -> list[Any]:
    """At so many points of a run it is killed in `make test`, and at `all` of them in the sweep."""
    return [quick, pytest.param(all, marks=pytest.mark.sweep)]


def seeds(all: Sequence[Any], quick: int) -> list[Any]:
    """About so many of them, evenly spread, in `make test`; the others are for the sweep."""
    every = len(all) // quick
    return [
        one if n % every == 0 else pytest.param(one, marks=pytest.mark.sweep)
        for n, one in enumerate(all)
    ]
