"""Half of the sample chooses, the other half reports: what may be promised, and how surely."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Protocol, TypeVar

import msgspec

from fanfold.errors import BadInput
from fanfold.tune.bounds import lower, upper
from fanfold.tune.policy import Labelled, PlanStep, Single, Way, total
from fanfold.tune.search import Scored, frontier, search
from fanfold.work.nearest import remedy

LEAST = 40  # items in each half, below which nothing can be said
RISK = 0.05
STEP = 0.005  # of the expected share, by which a way in the list is better than the one before it


class Goal(msgspec.Struct, frozen=True):
    """What is wanted: a share of right answers, at most so many dollars for 1,000 items, or to be as
    good as a member. Without any: the best share."""

    target: float | None = None
    max_usd: float | None = None
    as_good_as: str | None = None

    def check(self, known: Collection[str]) -> None:
        """Before anything is asked: whom it should be as good as is tried."""
        if self.as_good_as is not None and self.as_good_as not in known:
            raise BadInput(f"--as-good-as {self.as_good_as}: {remedy(self.as_good_as, known)}")


class ReportedWay(msgspec.Struct, frozen=True):
    """A way on the items that had no part in choosing it. `low` and `high` hold for all ways that are
    listed together, with the probability that the tuning states."""

    way: Way
    share: float
    low: float
    high: float
    usd_1000: float
    seconds_1000: float
    calls: float
    expected: float


class Tuning(msgspec.Struct, frozen=True):
    """`recommended` is the place in `ways`; `promised` a bound that its share is not below, with the
    probability `surely`. `reached`: whether what was wanted was expected of it."""

    ways: tuple[ReportedWay, ...]
    recommended: int
    promised: float
    surely: float
    reached: bool
    chosen_on: int
    reported_on: int
    tried: int

    def step(self) -> PlanStep:
        """What is recommended, as a step of a plan states it."""
        found = self.ways[self.recommended].way.step()
        assert found is not None, "only what a step can state is recommended"
        return found


def tune(items: Sequence[Labelled], goal: Goal) -> Tuning:
    """One half of the items chooses, the other reports. Halves go by a hash of the ids."""
    return chosen_way(*checked_halves(items), goal)


def chosen_way(
    first: Sequence[Labelled], second: Sequence[Labelled], goal: Goal, risk: float = RISK
) -> Tuning:
    """What the first items choose, with what the second say of it."""
    scored = search(first)
    best, reached = _pick(scored, goal)
    chosen = sorted({one.way.text(): one for one in (*frontier(scored, STEP), best)}.values(),
                    key=lambda one: one.usd)  # fmt: skip
    each = tuple(_reported(one, second, risk / len(chosen)) for one in chosen)
    right = total(best.way, second).right
    return Tuning(
        each, chosen.index(best), lower(right, len(second), risk), 1 - risk, reached, len(first),
        len(second), len(scored),
    )  # fmt: skip


class _Named(Protocol):
    @property
    def id(self) -> str: ...


_Item = TypeVar("_Item", bound=_Named)


def halves(items: Sequence[_Item]) -> tuple[list[_Item], list[_Item]]:
    sides: tuple[list[_Item], list[_Item]] = ([], [])
    for item in items:
        sides[sha256(item.id.encode()).digest()[0] % 2].append(item)
    return sides


def checked_halves(items: Sequence[_Item]) -> tuple[list[_Item], list[_Item]]:
    first, second = halves(items)
    if min(len(first), len(second)) < LEAST:
        raise BadInput(
            f"{len(items)} labelled items make halves of {len(first)} and {len(second)}; "
            f"at least {LEAST} in each are needed"
        )
    return first, second


def _pick(scored: list[Scored], goal: Goal) -> tuple[Scored, bool]:
    """The cheapest that is expected to be good enough, or the best that is cheap enough; of those that
    one step of a plan can state."""
    chosen = frontier(one for one in scored if one.way.step() is not None)
    target = goal.target
    if goal.as_good_as is not None:
        known = {one.way.text(): one for one in scored if isinstance(one.way, Single)}
        goal.check(known)
        target = known[goal.as_good_as].expected
    if target is not None:
        good = [one for one in chosen if one.expected >= target]
        return (good[0], True) if good else (chosen[-1], False)
    if goal.max_usd is not None:
        cheap = [one for one in chosen if 1000 * one.usd <= goal.max_usd]
        return (cheap[-1], True) if cheap else (chosen[0], False)
    return chosen[-1], True


def _reported(one: Scored, items: Sequence[Labelled], risk: float) -> ReportedWay:
    found, of = total(one.way, items), len(items)
    return ReportedWay(
        one.way, found.right / of, lower(found.right, of, risk / 2), upper(found.right, of, risk / 2),
        1000 * found.usd / of, 1000 * found.seconds / of, found.calls / of, one.expected,
    )  # fmt: skip
