"""How right what was fitted is, on sentences whose aspects people have marked: for score.py and fit.py."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from aspects import usual
from halves import Sentence


class AspectCounts(NamedTuple):
    """`right` of those `found`, `met` of those `there`; of those met, `signs` with the same sign."""

    right: int = 0
    found: int = 0
    met: int = 0
    there: int = 0
    signs: int = 0


def as_review(n: int, one: Sentence) -> dict[str, str]:
    """A sentence is read as if it were one."""
    return {"id": str(n), "text": " ".join(one.said) or "."}


def spoken(heard: Any) -> dict[str, dict[str, int]]:
    """What was found in each sentence, with the sign of the opinion."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for one in heard["aspects"]:
        for id in one["praised"]:
            found[id][one["aspect"]] = 1
        for id in one["criticised"]:
            found[id][one["aspect"]] = -1
    return found


def aspect_counts(about: list[tuple[dict[str, int], Sentence]]) -> AspectCounts:
    """Two names are one aspect if all words of the shorter are in the longer: `battery` and `battery
    life`. Words for the same thing go under one name on both sides."""
    right = taken = met = there = agreed = 0
    for found, one in about:
        truth = {usual(name): sign for name, sign in one.aspects.items()}
        right += sum(any(_same(name, other) for other in truth) for name in found)
        taken += len(found)
        there += len(truth)
        for name, sign in truth.items():
            pair = [found[other] for other in found if _same(name, other)]
            met += bool(pair)
            agreed += bool(pair) and pair[0] == sign
    return AspectCounts(right, taken, met, there, agreed)


def _same(one: str, two: str) -> bool:
    first, second = set(one.split()), set(two.split())
    return first <= second or second <= first
