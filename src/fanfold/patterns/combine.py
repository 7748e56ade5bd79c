"""The parts of a divided problem back into one: what passed, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal, TypeAlias

import msgspec

from fanfold.errors import FanfoldError
from fanfold.patterns.asked_reduce import (
    AskedReduce,
    SourcedPart,
    compose,
    left_out,
    say_left_out,
    value_or_flag,
    value_or_pause,
)
from fanfold.patterns.piecewise import knowing, of_some
from fanfold.run.run import Run
from fanfold.work.outcome import Missing, Outcome, Part
from fanfold.work.pieces import Branch, Leaf, Tree
from fanfold.work.raised import error_text
from fanfold.work.task import Reducer

_encode = msgspec.json.Encoder().encode

Made: TypeAlias = tuple[Any] | None
"""A value, in a tuple because it may be None; or None when none could be made."""


class Solution(msgspec.Struct, frozen=True):
    """What a part of the tree came to.

    `nothing`: none of its pieces passed. `stuck`: it waits for the operator, or its combine failed,
    so nothing above it can be made. `first_missing` is the first piece below that did not pass, `missing`
    all of these. `whole`: no combine was needed for it.
    """

    id: str
    start: int
    state: Literal["made", "nothing", "stuck"]
    value: Any = None
    ids: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    first_missing: Missing | None = None
    whole: bool = False


class BranchState:
    """A branch on its way: what its parts came to, in order, and how many are still out."""

    __slots__ = ("branch", "landed", "left", "slot")

    def __init__(self, branch: Branch, slot: Slot) -> None:
        self.branch, self.slot = branch, slot
        self.left = len(branch.parts)
        self.landed: list[Solution | None] = [None] * self.left

    def taken(self) -> list[Solution]:
        """What has landed; it is not kept here any longer."""
        parts = [part for part in self.landed if part is not None]
        self.landed.clear()
        return parts


class Slot(msgspec.Struct, frozen=True):
    """Where something goes when it is solved: into a node, or nowhere, when it is the root."""

    node: BranchState | None = None
    at: int = 0


def slots_of(tree: Tree, slot: Slot) -> Iterator[Slot]:
    """Nodes for the branches, and the slots of the leaves in them."""
    if isinstance(tree, Leaf):
        yield slot
        return
    node = BranchState(tree, slot)
    for at, part in enumerate(tree.parts):
        yield from slots_of(part, Slot(node, at))


def _sourced(made: list[Solution]) -> list[SourcedPart]:
    return [SourcedPart(part.id, part.ids, part.value) for part in made]


class Combiner:
    """Combines the parts of a branch by a reducer or by asking, each branch when its parts are there.

    When one combine fails the result is lost, so those that would come after it are not made, unless
    it may be `partial`: then only what is behind it is, but for the last one. `inside`: what is
    divided is an item of its own, and not the run's to pause for.
    """

    def __init__(self, run: Run, reduce: Reducer | AskedReduce, step: str, *, inside: bool) -> None:
        self._run, self._reduce, self._step = run, reduce, step
        self._value_of = value_or_flag if inside else value_or_pause
        self._broken = False
        self._fallen: Outcome | None = None
        self._left_out: dict[int, list[Missing]] = {}  # by where the branch starts
        self._first_left_out: Outcome | None = None

    async def combined(self, branch: Branch, parts: list[Solution], *, last: bool) -> Solution:
        """Cases: something below is stuck; nothing passed; made of what passed; that failed, and is
        done without or not."""
        made = [part for part in parts if part.state == "made"]
        missing = tuple(chain.from_iterable([part.missing for part in parts]))
        first_missing = next(
            (part.first_missing for part in parts if part.first_missing is not None), None
        )
        blank = Solution(branch.id, branch.start, "stuck", first_missing=first_missing)
        if self._broken or any(part.state == "stuck" for part in parts):
            return blank
        if not made:
            return msgspec.structs.replace(blank, state="nothing", missing=missing)
        found = await self._made_of(branch, made, missing, last=last)
        if isinstance(found, Outcome) and not last and self._may_be_partial:
            gone = left_out(branch.id, _sourced(made), found)
            self._left_out[branch.start], first = gone, self._first_left_out
            self._first_left_out = first or found
            return msgspec.structs.replace(blank, state="nothing", missing=(*missing, *gone))
        if isinstance(found, Outcome):
            self._broken, self._fallen = True, self._fallen or found
        if not isinstance(found, tuple):
            return blank
        ids = tuple(dict.fromkeys(chain.from_iterable([part.ids for part in made])))
        return msgspec.structs.replace(
            blank, state="made", value=found[0], ids=ids, missing=missing
        )

    def final(self, root: Solution | None) -> Any:
        """The result. A reducer is applied to a single piece too, and to nothing at all."""
        if isinstance(self._reduce, AskedReduce):
            step, lost = self._reduce.terms.step, sorted(self._left_out.items())
            say_left_out(
                self._run, step, [x for _, gone in lost for x in gone], self._first_left_out
            )
            if self._fallen is not None:
                return self._value_of(self._run, step, self._fallen)
        if root is not None and root.state == "stuck":
            return None
        if isinstance(self._reduce, AskedReduce):
            return None if root is None else root.value
        made = [] if root is None or root.state == "nothing" else [root]
        if made and not made[0].whole:
            return self._plain(made[0].value)
        found = self._reduced(
            knowing(self._reduce, lambda: () if root is None else root.missing), made
        )
        return None if found is None else self._plain(found[0])

    @property
    def _may_be_partial(self) -> bool:
        return isinstance(self._reduce, AskedReduce) and self._reduce.partial

    async def _made_of(
        self, branch: Branch, made: list[Solution], missing: tuple[Missing, ...], *, last: bool
    ) -> Made | Outcome:
        """An outcome: it was asked for, and did not pass."""
        if not isinstance(self._reduce, AskedReduce):
            reduce = self._reduce if last else of_some(self._reduce)
            return self._reduced(knowing(reduce, lambda: missing), made)
        outcome = await compose(self._run, self._reduce, branch.id, _sourced(made), missing)
        return (outcome.value,) if outcome.state == "passed" else outcome

    def _reduced(self, reduce: Reducer, made: list[Solution]) -> Made:
        """A reducer may be anybody's function: what it raises flags the run, and loses no item."""
        try:
            return (reduce(Part(part.id, part.start, part.value) for part in made),)
        except FanfoldError as error:
            self._fail(str(error))
        except Exception as error:
            self._fail(f"raised {error_text(error)}")
        return None

    def _plain(self, value: Any) -> Any:
        """A result that is not JSON cannot be kept, which is better known now than at the close."""
        try:
            _encode(value)
        except (TypeError, ValueError, RecursionError) as error:
            return self._fail(f"gave a {type(value).__name__} that is not JSON: {error}")
        return value

    def _fail(self, why: str) -> None:
        self._broken = True
        self._run.flawed(f"{self._step}: combine: {why}")
