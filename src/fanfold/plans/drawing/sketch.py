"""The parts that the pictures of steps are made of."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from fanfold.members.roster import Roster
from fanfold.plans.asking import Asking
from fanfold.plans.drawing.describe import (
    describe_gate,
    describe_kick_back,
    describe_options,
    describe_who,
    gate_line,
    joined,
)
from fanfold.plans.header import PlanHeader
from fanfold.work.picture import Arrow, Box, Look, Picture

MOST_TASKS = 60
"""A graph, or a scatter, with more than so many is drawn in summary."""

_MOST_LANES = 4


class Sketch(msgspec.Struct, frozen=True):
    """What is known of the input and the members when steps are drawn."""

    plan: PlanHeader
    items: int | None
    roster: Roster | None

    def asked(self, asking: Asking) -> tuple[str, ...]:
        """Who answers, and on which terms."""
        return (describe_who(asking.who, self.roster), *describe_options(asking))

    def leaf(self, id: str, title: str, asking: Asking) -> Box:
        """One ask, with its gate in a line of its own."""
        return Box(id, title, (describe_who(asking.who, self.roster), *gate_line(asking)))


def title(name: str, kind: str) -> str:
    return kind if name == kind else f"{name} ({kind})"


def rows(*several: list[Box]) -> Picture:
    """Each box of a row leads to each of the next."""
    joined = [Arrow(a.id, b.id) for upper, lower in pairwise(several) for a in upper for b in lower]
    return Picture(tuple(box for row in several for box in row), tuple(joined))


def lanes(what: str, number: int | None) -> list[Box]:
    """So many of a kind side by side, or the first two and the last."""
    if number is not None and number <= _MOST_LANES:
        return [_lane(what, str(n + 1)) for n in range(max(number, 1))]
    last = "n" if number is None else f"{number:,}"
    return [_lane(what, "1"), _lane(what, "2"), _lane(what, "…", "more"), _lane(what, last)]


def _lane(what: str, number: str, look: Look = "ask") -> Box:
    return Box(f"{what} {number}", number if look == "more" else f"{what} {number}", (), look)


def gate_box(asking: Asking, *, kick: bool = True) -> Box:
    lines = describe_gate(asking)
    kicked = describe_kick_back(asking) if kick else ""
    return Box("gate", "gate", (*lines, *joined([kicked])), "gate")
