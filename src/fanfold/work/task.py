"""One unit of work: an ask with its item id, its gate and its terms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from fanfold.work.ask import Ask, Reply
from fanfold.work.outcome import Outcome, Part, Verdict

OnFailure = Literal["skip", "abort", "hold"]
InDoubt = Literal["retry", "hold"]


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be spent; any of them. `seconds` are active seconds: a pause does not count."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None


class Hedge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A second request for an ask that takes long; the first good reply wins.

    `extra`: at most so many more calls, as a share (0.05: one for twenty). `after`: seconds to wait
    first; None is longer than 95 % of the member's calls at this step took.
    """

    extra: float
    after: float | None = None


class Who(msgspec.Struct, frozen=True):
    """Who may answer: the named members, or those good at `needs`, or anyone. `use`: at most so many.

    `fallback`: these, in order, but each only when all before it are closed or have failed.
    `among`: the router chooses, but only among these. `why`: what an attempt's record says of those
    that are named; usually just that.
    """

    members: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    use: int | None = None
    fallback: tuple[str, ...] = ()
    among: tuple[str, ...] = ()
    why: str = "named"


class Terms(msgspec.Struct, frozen=True):
    """What all tasks of one step have in common.

    `needed` False: others can do without the reply (one voter of several). When nobody is left who
    could be asked, such a task ends `cancelled` and the run goes on; else the run pauses.
    """

    step: str
    gate: Gate
    who: Who = Who()
    revise: int = 1
    escalate: tuple[str, ...] = ()
    on_failure: OnFailure = "skip"
    in_doubt: InDoubt | None = None
    attempts: int = 4
    concurrency: int = 8
    budget: Budget = Budget()
    keep: Callable[[Task, Reply], bool] | None = None
    needed: bool = True
    hedge: Hedge | None = None


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where an item stands in the plan: which batch of the run, which position in it."""

    batch: int
    position: int


class Task(msgspec.Struct, frozen=True, gc=False):
    """`flaw`: why no ask could be made of the item; it fails with that, and only it."""

    id: str
    ask: Ask
    terms: Terms
    place: Place | None = None
    flaw: str | None = None


AskPower: TypeAlias = Callable[[Task], Awaitable[Outcome]]
"""The run's own `do`, passed to those who need to ask (a judge, an asked reduce)."""

Gate: TypeAlias = Callable[[Task, Reply, AskPower], Verdict | Awaitable[Verdict]]
"""A check. Pure ones return a Verdict at once; a judge returns an awaitable."""

Reducer: TypeAlias = Callable[[Iterable[Part]], Any]
"""Many passed replies into one value. Parts come in planned order, one at a time."""
