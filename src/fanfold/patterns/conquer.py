"""The tree of a divided problem while it is worked on: leaves are asked about, branches combined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.asked_reduce import (
    AskedReduce,
    SourcedPart,
    ask_about_parts,
    compose,
    placeholder_asks,
)
from fanfold.patterns.combine import BranchState, Combiner, Slot, Solution, slots_of
from fanfold.run.planning import Batch
from fanfold.run.pool import Pool
from fanfold.run.run import Run
from fanfold.work.ask import Ask
from fanfold.work.cut import Cutter
from fanfold.work.item import Item, Source
from fanfold.work.outcome import Missing, Outcome
from fanfold.work.parts import list_in
from fanfold.work.pieces import (
    Held,
    Leaf,
    NoSplit,
    Piece,
    Tree,
    content,
    contents,
    grouped,
    leaves_of,
    with_text,
)
from fanfold.work.task import Place, Reducer, Task, Terms

FLUSH = 1000  # outcomes noted, before the journal is waited for


class Problem(msgspec.Struct, frozen=True):
    """What is to be divided, and by whom. `split`: who is asked to split, if a member is. `batch` is
    one that was planned, or only a source: then no item of it gets an outcome here."""

    run: Run
    batch: Batch | Source
    terms: Terms
    ask: Callable[[Piece], Ask]
    cutter: Cutter
    combine: Reducer | AskedReduce
    split: AskedReduce | None = None


class PieceTask(msgspec.Struct, frozen=True):
    """A leaf with what it holds."""

    leaf: Leaf
    held: Held
    slot: Slot


class DivideRun:
    """Workers take what can be done next: a branch whose parts have landed, else a leaf.

    Planned leaves are read from the source when their turn comes, so memory holds one for each
    worker, and the values of what is not yet combined.
    """

    def __init__(self, problem: Problem) -> None:
        self._p, self._run = problem, problem.run
        self._planned: Iterator[PieceTask] = iter(())
        self._pool: Pool[PieceTask | BranchState] = Pool(
            self._workers(self._p.terms.at_once),
            self._do,
            lambda: next(self._planned, None),
            lambda: problem.run.stopping is not None,
        )
        self._skipping = msgspec.structs.replace(problem.terms, on_failure="skip")
        inside = not isinstance(problem.batch, Batch)
        self._combining = Combiner(problem.run, problem.combine, problem.terms.step, inside=inside)
        self._settled = 0
        self._root: Solution | None = None

    async def result(self) -> Any:
        """Split, govern, solve, combine. A combine without a reply pauses the run."""
        source = self._p.batch.source if isinstance(self._p.batch, Batch) else self._p.batch
        if isinstance(self._p.batch, Batch):
            self._run.needs.drop(self._p.terms.step)  # its pieces are asked about instead
        tree = self._p.cutter.whole(source.walk())
        if tree is not None:
            leaves = list(leaves_of(tree))
            await self._govern(leaves, lambda: contents(leaves, source.walk()))
            slots = self._plant(tree, Slot())
            held = contents(leaves, source.walk())
            self._planned = (PieceTask(*one) for one in zip(leaves, held, slots, strict=True))
            await self._carry_out()
        await self._run.flush()
        return self._combining.final(self._root)

    @property
    def first_missing(self) -> Missing | None:
        """The first piece of all that did not pass."""
        return None if self._root is None else self._root.first_missing

    async def _govern(self, leaves: Sequence[Leaf], held: Callable[[], Iterable[Held]]) -> None:
        """Asks are made for the governor one by one, and anew when it is their turn."""
        ask, split = self._p.ask, self._p.split
        found = ((leaf, own) for leaf, own in zip(leaves, held(), strict=True))
        await self._run.govern(
            self._p.terms,
            (ask(_piece(*one)) for one in found if not (one[0].flaw or one[0].unsplit)),
        )
        self._run.needs.add(self._p.terms.step, sum(not one.flaw for one in leaves))
        combine = self._p.combine
        if isinstance(combine, AskedReduce) and len(leaves) > 1:
            nodes = -(-(len(leaves) - 1) // (combine.fan_in - 1))
            self._run.needs.add(combine.terms.step, nodes)
            await self._run.govern(combine.terms, placeholder_asks(nodes))
        if split is not None and any(leaf.unsplit for leaf in leaves):
            found = ((leaf, own) for leaf, own in zip(leaves, held(), strict=True))
            asks = (ask_about_parts(split, [_whole(*one)]) for one in found if one[0].unsplit)
            await self._run.govern(split.terms, asks)

    def _plant(self, tree: Tree, slot: Slot) -> list[Slot]:
        """Where each leaf belongs, in order."""
        if isinstance(self._p.combine, AskedReduce):
            tree = grouped(tree, self._p.combine.fan_in)
        return list(slots_of(tree, slot))

    # ── who does what next ──

    async def _carry_out(self) -> None:
        """What is under way ends by itself when the run stops; nothing new is begun. Pieces that
        could not be paid pause the run when all others are done; those of one item among many leave
        that item unfunded, and the others go on."""
        with self._run.resizing(self._p.terms, lambda many: self._pool.grow(self._workers(many))):
            await self._pool.run()
        if isinstance(self._p.batch, Batch):
            self._run.pause_if_unpaid()

    def _workers(self, many: int) -> int:
        """A few more than calls at once: some wait for their reply to be durable."""
        others = [one.terms.concurrency for one in (self._p.combine, self._p.split)
                  if isinstance(one, AskedReduce)]  # fmt: skip
        return many + max(2, many // 4) + sum(others)

    async def _do(self, job: PieceTask | BranchState) -> None:
        await (self._combine(job) if isinstance(job, BranchState) else self._solve(job))

    # ── leaves ──

    async def _solve(self, job: PieceTask) -> None:
        found = await self._outcome(job)
        if isinstance(found, Outcome):
            await self._land_leaf(job, found)
        else:
            await self._grow(job, found)

    async def _outcome(self, job: PieceTask) -> Outcome | Tree:
        """Ask about a leaf. One that is too long, or not split yet, gives way to smaller ones."""
        leaf, held, cutter = job.leaf, job.held, self._p.cutter
        if leaf.flaw is not None:
            return Outcome(leaf.id, "failed", reasons=(leaf.flaw,))
        if leaf.unsplit:
            outcome = await self._split_by_asking(job)
            if outcome.state != "passed":
                return outcome
            parts = _listed(outcome.value, held[0][1].data)
            return _or_failed(leaf.id, (), lambda: cutter.given(leaf, held, parts))
        task = Task(leaf.id, self._p.ask(_piece(leaf, held)), self._skipping)
        outcome = await self._run.do_one_of_many(task)
        if not outcome.too_long:
            return outcome
        return _or_failed(leaf.id, outcome.reasons, lambda: cutter.smaller(leaf, held))

    async def _split_by_asking(self, job: PieceTask) -> Outcome:
        split = self._p.split
        assert split is not None
        whole, id = _whole(job.leaf, job.held), job.leaf.id
        outcome = await self._run.do_separately(
            Task(id, Ask(), split.terms),
            lambda task: compose(self._run, split, f"{id}/split", [whole]),
        )
        if outcome is None:
            return Outcome(id, "unfunded", reasons=(f"`{id}` could not be split: out of budget",))
        if outcome.state == "passed":
            return outcome
        why = tuple([f"`{id}` could not be split: {reason}" for reason in outcome.reasons])
        return msgspec.structs.replace(outcome, reply=None, reasons=why)

    async def _grow(self, job: PieceTask, tree: Tree) -> None:
        leaves = list(leaves_of(tree))
        held = [content(leaf, job.held) for leaf in leaves]
        await self._govern(leaves, lambda: held)
        slots = self._plant(tree, job.slot)
        self._pool.add(*[PieceTask(*one) for one in zip(leaves, held, slots, strict=True)])

    async def _land_leaf(self, job: PieceTask, outcome: Outcome) -> None:
        leaf, held, state = job.leaf, job.held, outcome.state
        if leaf.origin is None:
            for position, item in held:
                alone = outcome.reply if len(held) == 1 else None
                await self._settle(position, item, msgspec.structs.replace(outcome, reply=alone))
        if state == "passed":
            ids = (leaf.origin,) if leaf.origin is not None else tuple([i.id for _, i in held])
            solved = Solution(leaf.id, leaf.start, "made", outcome.value, ids, whole=True)
        else:
            lost = [Missing(item.id, at, state, outcome.reasons) for at, item in held]
            waits = state in ("in_doubt", "unfunded") or (
                state == "failed" and self._p.terms.on_failure == "hold"
            )
            solved = Solution(
                leaf.id, leaf.start, "stuck" if waits else "nothing", first_missing=lost[0],
                missing=() if state == "skipped" else tuple(lost),
            )  # fmt: skip
        self._land(job.slot, solved)

    async def _settle(self, position: int, item: Item, outcome: Outcome) -> None:
        if not isinstance(self._p.batch, Batch):
            return
        place = Place(self._p.batch.no, position)
        task = Task(item.id, Ask(items=(item,)), self._p.terms, place)
        self._run.settle(task, outcome)
        self._settled += 1
        if self._settled % FLUSH == 0:
            await self._run.flush()

    # ── branches ──

    def _land(self, slot: Slot, solved: Solution) -> None:
        node = slot.node
        if node is None:
            self._root = solved
            return
        node.landed[slot.at] = solved
        node.left -= 1
        if not node.left:
            self._pool.add(node)

    async def _combine(self, node: BranchState) -> None:
        """All parts have landed. One item that was split has its outcome now."""
        branch, parts = node.branch, node.taken()
        if branch.settles:
            first_missing = next(
                (part.first_missing for part in parts if part.first_missing is not None), None
            )
            await self._settle(
                branch.start, Item(branch.id, None), ending(branch.id, first_missing)
            )
        last = node.slot.node is None
        self._land(node.slot, await self._combining.combined(branch, parts, last=last))


def _or_failed(id: str, reasons: tuple[str, ...], make: Callable[[], Tree]) -> Outcome | Tree:
    try:
        return make()
    except (NoSplit, BadInput) as error:
        return Outcome(id, "failed", reasons=(*reasons, str(error)))


def _piece(leaf: Leaf, held: Held) -> Piece:
    return Piece(leaf.id, tuple([item for _, item in held]))


def _whole(leaf: Leaf, held: Held) -> SourcedPart:
    """A piece as it is shown to the one who is to split it."""
    return SourcedPart(leaf.id, (leaf.origin or leaf.id,), held[0][1].data)


def ending(id: str, first_missing: Missing | None) -> Outcome:
    """How an item ended that was split: passed, or as the first piece of it that did not."""
    if first_missing is None:
        return Outcome(id, "passed")
    reasons = tuple([f"{first_missing.id}: {reason}" for reason in first_missing.reasons])
    return Outcome(id, first_missing.state or "failed", reasons=reasons)


def _listed(value: Any, whole: Any) -> Any:
    """The pieces in a reply: a list, alone or as the only field, or the JSON of one in its text."""
    value = list_in(value)
    if not isinstance(value, list) or not (isinstance(whole, dict) and "text" in whole):
        return value
    return [with_text(whole, part) if isinstance(part, str) else part for part in value]
