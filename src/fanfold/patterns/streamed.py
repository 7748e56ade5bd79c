"""A stage that starts on the parts of a reply before that has ended: each line, or each element of its
list, is asked about as soon as it is complete."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Unpack

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.patterns.arguments import PatternOptions, TaskHandler, terms_of
from fanfold.patterns.asked_reduce import AskedReduce
from fanfold.patterns.fold import collect
from fanfold.patterns.nested import NestedMapReduce, Over
from fanfold.patterns.prompt import make_task, prompt_of
from fanfold.patterns.reduce import reducing
from fanfold.run.run import Run
from fanfold.work.arguments import public
from fanfold.work.check import whole
from fanfold.work.item import Item
from fanfold.work.member import Event
from fanfold.work.nearest import remedy
from fanfold.work.options import needed
from fanfold.work.outcome import Outcome
from fanfold.work.parts import PART_KINDS, PartKind, PartReader, parts_of
from fanfold.work.task import Reducer, Task, Terms

WAITING = 8


@public
def on_parts(
    kind: PartKind,
    prompt: str | None = None,
    *,
    reduce: Reducer | AskedReduce | None = None,
    schema: dict[str, Any] | type | None = None,
    waiting: int = WAITING,
    **how: Unpack[PatternOptions],
) -> TaskHandler:
    """For a stage after another one: `prompt` is asked about each of the `lines` or `items` of the
    reply before, as soon as it is complete: `stage(by=on_parts("lines", ...))`.

    Each part is a planned item, `ITEM/0` and so on, once the whole reply has passed its gate; what
    was asked before that is on record, and not asked again. Trap: when the reply does not pass, what
    was asked about its parts was paid for nothing. At most `waiting` parts are under way before the
    reply has ended. Without `reduce` the value is a list of {"id", "value"}.
    """
    if kind not in PART_KINDS:
        raise BadInput(f"parts are lines or items, not {kind!r}: {remedy(str(kind), PART_KINDS)}")
    made = prompt_of(prompt, schema, how=how)
    terms = terms_of(how, made.schema, "parts")
    inner = NestedMapReduce(reply_parts(kind), made, terms, reducing(reduce or collect()))
    return OnParts(inner, kind, needed("waiting", waiting, whole(least=1)))


def reply_parts(kind: PartKind) -> Over:
    """The parts of the reply of the stage before, known by their numbers."""

    def parts(view: dict[str, Any]) -> Any:
        *_, value = view.get("steps", {}).values() or ("",)
        found = parts_of(value, kind)
        if not isinstance(found, list):
            return found
        return [Item(str(n), part) for n, part in enumerate(found)]

    return parts


class OnParts(msgspec.Struct, frozen=True):
    """The way of a task through the parts of the reply before; and how the stage before is asked,
    `ahead`, so that they are known early."""

    inner: NestedMapReduce
    kind: PartKind
    waiting: int = WAITING

    @property
    def terms(self) -> Terms:
        return self.inner.terms

    async def begin(self, run: Run) -> None:
        await self.inner.begin(run)

    async def __call__(self, run: Run, task: Task) -> Outcome:
        return await self.inner(run, task)

    async def ahead(self, run: Run, task: Task) -> Outcome:
        early = EarlyParts(run, task.id, self)
        try:
            return await run.do(task, early.hear)
        finally:
            await early.end()


class EarlyParts:
    """What is asked about a reply while it comes. Nothing is made of it here: the replies are on
    record, for when the whole has passed. What goes wrong shows then too."""

    def __init__(self, run: Run, id: str, way: OnParts) -> None:
        self._run, self._id, self._way = run, id, way
        self._terms = msgspec.structs.replace(way.terms, on_failure="skip", needed=False)
        self._reader, self._number = PartReader(way.kind), 0
        self._waiting: deque[Item] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    def hear(self, event: Event) -> None:
        """A note says that somebody is asked, perhaps once more: the reply begins anew."""
        if event.kind == "note":
            self._reader, self._number = PartReader(self._way.kind), 0
            self._waiting.clear()
        elif event.kind == "delta":
            for part in self._reader.take(event.text):
                self._waiting.append(Item(f"{self._id}/{self._number}", part))
                self._number += 1
            self._start()

    def _start(self) -> None:
        while self._waiting and len(self._under_way) < self._way.waiting:
            doing = asyncio.create_task(self._ask(self._waiting.popleft()))
            self._under_way.add(doing)
            doing.add_done_callback(self._ended)

    def _ended(self, doing: asyncio.Task[None]) -> None:
        self._under_way.discard(doing)
        self._start()

    async def _ask(self, part: Item) -> None:
        task = make_task(self._way.inner.prompt, part, self._terms, None)
        try:
            if task.flaw is None and self._run.stopping is None:
                await self._run.govern(self._terms, [task.ask])
                await self._run.do(task)
        except FanfoldError:  # the run stops, or it cannot be paid
            self._waiting.clear()

    async def end(self) -> None:
        """No other part begins. What is under way ends by itself, unless all is cancelled."""
        self._waiting.clear()
        if self._under_way:
            await asyncio.gather(*self._under_way)
