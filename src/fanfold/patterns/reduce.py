"""Many passed replies into one: all at once, in a tree, or in a tree of asks."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, TypeAlias

import msgspec

from fanfold.errors import BadInput, FanfoldError, ReduceFailed, RunStopped, StoreError
from fanfold.patterns.asked_reduce import (
    AskedReduce,
    SourcedPart,
    begin_asked,
    compose,
    expect_tree,
    left_out,
    say_left_out,
    value_or_flag,
    value_or_pause,
)
from fanfold.patterns.piecewise import Piecewise, knowing, piecewise
from fanfold.run.planning import Batch
from fanfold.run.pool import Pool
from fanfold.run.run import Run
from fanfold.work.arguments import at_once
from fanfold.work.options import reducer, takes_missing
from fanfold.work.outcome import Missing, Outcome, Part
from fanfold.work.raised import error_text, name_of
from fanfold.work.task import Reducer, Terms
from fanfold.work.tree import ReduceNode, ReduceTree, check_fan_in

WAITING = 2  # nodes that wait for an ask, per ask at once, before the map is held up

Landing: TypeAlias = tuple[int, Part | None]
"""A planned position has its outcome: the part that passed, or none."""
Absent: TypeAlias = Callable[[int, int], Iterable[Missing]]
"""The items without a part at the positions from the first up to the second, from the journal."""


class Reducing(msgspec.Struct, frozen=True):
    """`how` is a pure reducer, or an ask, or nothing; with a `fan_in` it goes by a tree. `inside`: of
    one item among many, so that the run goes on when it fails."""

    how: Reducer | AskedReduce | None = None
    fan_in: int | None = None
    inside: bool = False


def reducing(reduce: Reducer | AskedReduce | None, fan_in: int | None = None) -> Reducing:
    """From what a script gives. An ask goes by a tree always; `fan_in` stands before its own."""
    if reduce is None and fan_in is not None:
        raise BadInput("`fan_in` requires a `reduce`")
    if isinstance(reduce, AskedReduce):
        fan_in = reduce.fan_in if fan_in is None else fan_in
    elif reduce is not None:
        reducer("reduce", reduce)
    return Reducing(reduce, None if fan_in is None else check_fan_in(fan_in))


async def begin_reduce(run: Run, reduction: Reducing) -> None:
    """Before anything is asked: who would make the result is there."""
    if isinstance(reduction.how, AskedReduce):
        await begin_asked(run, reduction.how)


async def reduce_batch(run: Run, batch: Batch, terms: Terms, reduction: Reducing) -> Any:
    """Reduce what passed a step that is done, from the journal, a page at a time.

    A tree has the same nodes as one that grew with the map, so their asks have the same keys.
    """
    absent = absent_of(run, batch, terms)
    if reduction.fan_in is None or reduction.how is None:
        if reduction.how is None or isinstance(reduction.how, AskedReduce):
            return None
        reduce = knowing(reduction.how, lambda: absent(0, batch.size))
        with _named(reduction.how):
            return at_once(piecewise(reduce)(run.passed(batch, terms)))
    return await grow(run, batch.size, _on_record(run, batch, terms), reduction, absent)


def absent_of(run: Run, batch: Batch, terms: Terms) -> Absent:
    """What a filter left out is not missing.

    Why a call failed is not told: that may read otherwise when a resumed run has tried again, and
    the ask would be another one. What a gate said of a recorded reply stays.
    """

    def absent(first: int, end: int) -> Iterator[Missing]:
        for one in run.missing(batch, terms, first, end):
            if one.state == "kicked":
                yield one
            elif one.state != "skipped":
                yield msgspec.structs.replace(one, reasons=())

    return absent


async def grow(
    run: Run,
    size: int,
    landings: AsyncGenerator[Landing, None],
    reduction: Reducing,
    absent: Absent = lambda first, end: (),
) -> Any:
    """Reduce in a tree while the parts land. Of nothing: what the reducer makes of no parts; a
    member is not asked for that, so None. An asked node is told who is `absent` among its items."""
    assert reduction.fan_in is not None
    async with aclosing(landings):
        if isinstance(reduction.how, AskedReduce):
            expect_tree(run, reduction.how, size)
            composing = Composing(run, ReduceTree(size, reduction.fan_in), reduction.how, absent)
            value_of = value_or_flag if reduction.inside else value_or_pause
            return await _grow_asked(run, composing, landings, value_of)
        assert reduction.how is not None
        growing = PureTree(run, ReduceTree(size, reduction.fan_in), reduction.how, absent)
        return await growing.grow(landings)


async def _on_record(run: Run, batch: Batch, terms: Terms) -> AsyncGenerator[Landing, None]:
    after = 0
    for part in run.passed(batch, terms):
        for position in range(after, part.position):
            yield position, None
        yield part.position, part
        after = part.position + 1
    for position in range(after, batch.size):
        yield position, None


@contextmanager
def _named(how: Reducer) -> Iterator[None]:
    """What a reducer raises, as why there is no result."""
    try:
        yield
    except (RunStopped, StoreError, BadInput):
        raise
    except FanfoldError as error:
        raise ReduceFailed(str(error)) from error
    except Exception as error:
        what = " ".join(error_text(error).split())
        raise ReduceFailed(f"reduce: `{name_of(how)}` raised {what}") from error


# ── pure ─────────────────────────────────────────────────────────────────────────────────────


class PureTree:
    """A tree of reducers. One that wants to know who is missing gets those below its node."""

    def __init__(self, run: Run, tree: ReduceTree[Part], how: Reducer, absent: Absent) -> None:
        self._run, self._tree, self._how, self._absent = run, tree, how, absent
        self._plain = None if takes_missing(how) else piecewise(how)

    async def grow(self, landings: AsyncGenerator[Landing, None]) -> Any:
        tree = self._tree
        try:
            async for position, part in landings:
                node = tree.land(position, part)
                while node is not None:
                    reduce = self._plain or await self._knowing(*node.span(tree.fan_in))
                    with _named(self._how):
                        one = reduce.gather if node.level == 1 else reduce.join
                        made = at_once(one(node.parts))
                    node = tree.reduced(node, Part(node.name, node.index, made))
        finally:
            async for _ in landings:  # a reducer that raises does not cut the map short
                pass
        assert tree.done
        reduce = self._plain or await self._knowing(0, tree.widths[0])
        with _named(self._how):
            result = tree.result
            return at_once(reduce(()) if result is None else reduce.result(result.value))

    async def _knowing(self, first: int, end: int) -> Piecewise:
        """All items below have their outcome by now; it is read when it is durable."""
        await self._run.flush()
        return piecewise(knowing(self._how, lambda: self._absent(first, end)))


# ── asked ────────────────────────────────────────────────────────────────────────────────────


async def _grow_asked(
    run: Run,
    composing: Composing,
    landings: AsyncGenerator[Landing, None],
    value_of: Callable[[Run, str, Outcome], Any],
) -> Any:
    """The map goes on to its end also when a node does not pass; `value_of` says what that means."""
    tree, terms = composing.tree, composing.reduction.terms
    pool = composing.pool
    pool.open_source()
    pool.start()
    try:
        async for position, part in landings:
            whole = None if part is None else SourcedPart(part.id, (part.id,), part.value)
            composing.land(position, whole)
            await pool.room(WAITING * terms.concurrency)
        pool.close_source()
        await pool.wait()
    except RunStopped:
        await pool.end(graceful=True)
        raise
    finally:
        await pool.end()
    if pool.error is not None:
        raise pool.error
    if composing.fallen is not None:
        return value_of(run, terms.step, composing.fallen)
    say_left_out(run, terms.step, composing.left_out, composing.first_left_out)
    assert tree.done
    return None if tree.result is None else tree.result.value


class Composing:
    """The nodes of a tree that are asked for: as many at once as the terms allow, others wait.

    `fallen` is the first that did not pass; after it nothing more is asked for. If it may be
    `partial`, those behind a node that did not pass are left out instead, but for the last one.
    """

    def __init__(
        self, run: Run, tree: ReduceTree[SourcedPart], reduction: AskedReduce, absent: Absent
    ) -> None:
        self._run, self.tree, self.reduction, self._absent = run, tree, reduction, absent
        self._lost: dict[tuple[int, int], list[Missing]] = {}  # by the span of the node
        self.first_left_out: Outcome | None = None
        self._gaps = array("q")  # positions without a part, in order
        self.pool: Pool[ReduceNode[SourcedPart]] = Pool(reduction.terms.at_once, self._make)
        self.fallen: Outcome | None = None

    def land(self, position: int, part: SourcedPart | None) -> None:
        if not self.pool.closed:
            if part is None:
                insort(self._gaps, position)
            self._add(self.tree.land(position, part))

    def _add(self, node: ReduceNode[SourcedPart] | None) -> None:
        if node is not None and not self.pool.closed:
            self.pool.add(node)

    async def _make(self, node: ReduceNode[SourcedPart]) -> None:
        absent = await self._absent_below(node)
        outcome = await compose(self._run, self.reduction, node.name, node.parts, absent)
        if outcome.state == "passed":
            ids = tuple([id for part in node.parts for id in part.ids])
            self._add(self.tree.reduced(node, SourcedPart(node.name, ids, outcome.value)))
            await asyncio.sleep(
                0
            )  # one that failed at the same moment is heard before the next ask
        elif self.reduction.partial and node.level + 1 < len(self.tree.widths):
            self.first_left_out = self.first_left_out or outcome
            span = node.span(self.tree.fan_in)
            self._lost[span] = left_out(node.name, node.parts, outcome)
            self._add(self.tree.reduced(node, None))
        else:
            self.fallen = self.fallen or outcome
            self.pool.close()

    @property
    def left_out(self) -> list[Missing]:
        """Items that passed, but are behind a node that did not."""
        return [one for span in sorted(self._lost) for one in self._lost[span]]

    async def _absent_below(self, node: ReduceNode[SourcedPart]) -> Iterable[Missing]:
        """All items below the node have their outcome by now; it is read when it is durable."""
        first, end = node.span(self.tree.fan_in)
        lost = [
            one for span in sorted(self._lost) if first <= span[0] < end for one in self._lost[span]
        ]
        if bisect_left(self._gaps, first) == bisect_left(self._gaps, end):
            return lost
        await self._run.flush()
        return [*self._absent(first, end), *lost]
