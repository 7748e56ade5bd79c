"""The fuzzer itself stays alive: a few cases of each part, the same every time; `make fuzz` has the rest."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.fuzz.engine import FuzzPart, Given, Wrong, fuzz, one
from tests.fuzz.parts import PARTS

CASES = {
    "plan": 15,
    "roster": 40,
    "fleet": 40,
    "replies": 50,
    "agents": 60,
    "journal": 6,
    "requests": 25,
}


@pytest.mark.parametrize("name", PARTS)
def test_nothing_is_wrong_with_the_first_cases(name: str) -> None:
    part = PARTS[name]()
    try:
        tally = fuzz(part, 0, cases=CASES[name])
    finally:
        part.close()
    assert [str(failure) for failure in tally.found.values()] == []
    assert tally.cases == CASES[name]


def test_a_case_is_the_same_every_time() -> None:
    part = PARTS["agents"]()
    assert part.make(Random("agents:3:4")) == part.make(Random("agents:3:4"))
    assert part.make(Random("agents:3:4")) != part.make(Random("agents:3:5"))


class Fails:
    """Wrong whenever there is an `x` in it."""

    name, divisible = "fails", True

    def make(self, rng: Random) -> Given:
        return [b"one", b"two x two", b"three", rng.randbytes(5)]

    def check(self, given: Given) -> None:
        if b"x" in b"".join(given):
            raise Wrong("there is an x")

    def close(self) -> None: ...


class Raises(Fails):
    def check(self, given: Given) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("part", "place"), [(Fails, "there is an x"), (Raises, "ZeroDivisionError in test_fuzz.py:check")]
)  # fmt: skip
def test_what_is_wrong_is_told_once_and_made_small(
    part: Callable[[], FuzzPart], place: str
) -> None:
    tally = fuzz(part(), 1, cases=5)
    assert list(tally.found) == [place]
    assert b"".join(tally.found[place].given) == (b"x" if part is Fails else b"")
    assert one(part(), 1, 0) == tally.found[place]
