"""Reading a store for pages: in threads of its own, so that no question stops the server.

What is quick is answered at once. What takes long (the sums over a million calls) is worked out beside
it: a page waits for it a moment, then shows the last answer, and says that it is being counted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Unfinished
from typing import Any, Generic, NamedTuple, TypeVar

from fanfold.faces.ui.orders import PageOrders
from fanfold.fleet.look import WorkerReader
from fanfold.journal import opening
from fanfold.journal.contract import StoreView
from fanfold.journal.damage import damage_is_named
from fanfold.journal.facts import AddRun, RemoveRuns, RunRecord
from fanfold.journal.following import RunMemory, StoreFollower
from fanfold.observe.progress import ItemRate

T = TypeVar("T")
KEPT = 64
"""Runs whose answers are remembered until something happens to them."""
MOST_LATE = 256
PATIENCE = 0.6  # seconds that one page waits for answers that take long
SHARE = 10  # an answer is worked out again after so many times as long as it took


class LateAnswer(NamedTuple, Generic[T]):
    """`value` is None before the first one; `late`: there may be a newer one soon."""

    value: T | None
    late: bool


class _Working(NamedTuple):
    """An answer that is being worked out, or was: with when it began, and how long it took."""

    future: Future[tuple[Any, float]]
    began: float
    last: tuple[Any, float] | None


class StoreReader:
    """Questions of pages to one store. A store that nobody has open shows what came since only when it
    is opened again, so each question opens it. Without `orders` its pages only read."""

    def __init__(self, place: str, orders: PageOrders | None = None) -> None:
        self.place, self.orders = place, orders
        self.shown = re.sub(r"(?<=://)[^/@]*@", "…@", place)  # no password is on a page
        self._quick, self._slow = ThreadPoolExecutor(1, "quick"), ThreadPoolExecutor(1, "slow")
        self._memories: dict[int, RunMemory] = {}
        self._workers: dict[int, WorkerReader] = {}
        self._rates: dict[str, ItemRate] = {}
        self._late: dict[Hashable, _Working] = {}
        self._deadline = 0.0

    async def ask(self, question: Callable[[StoreView], T]) -> T:
        def asked() -> T:
            self._deadline = time.monotonic() + PATIENCE
            return self._opened(question)

        return await asyncio.get_running_loop().run_in_executor(self._quick, asked)

    def _opened(self, question: Callable[[StoreView], T]) -> T:
        view = opening.look(self.place)
        try:
            with damage_is_named(view):
                return question(view)
        finally:
            view.close()

    # ── within a question ──

    def later(self, key: Hashable, question: Callable[[StoreView], T]) -> LateAnswer[T]:
        """The answer to a question that may take long. It has a view of its own."""
        before = self._late.pop(key, None)
        working = self._worked_out(before, question)
        self._late[key] = working
        if len(self._late) > MOST_LATE:
            del self._late[next(iter(self._late))]
        try:
            value, took = working.future.result(max(0.0, self._deadline - time.monotonic()))
            return LateAnswer(value, late=time.monotonic() - working.began > took + PATIENCE)
        except Unfinished:
            return LateAnswer(None if working.last is None else working.last[0], late=True)

    def _worked_out(self, before: _Working | None, question: Callable[[StoreView], T]) -> _Working:
        """The one that is under way, or that is recent for how long it took; else a new one."""
        last = None
        if before is not None:
            if not before.future.done():
                return before
            if before.future.exception() is None:
                last = before.future.result()
                if time.monotonic() - before.began < SHARE * last[1]:
                    return before
        began = time.monotonic()

        def work() -> tuple[T, float]:
            start = time.monotonic()
            return self._opened(question), time.monotonic() - start

        return _Working(self._slow.submit(work), began, last)

    def over(self, view: StoreView, run: int) -> StoreView:
        """With answers about a run that are remembered; only in what is asked `later`."""
        memory = self._memories.pop(run, None) or RunMemory()
        self._memories[run] = memory
        if len(self._memories) > KEPT:
            del self._memories[next(iter(self._memories))]
        return memory.over(view, run)

    def workers(self, run: int) -> WorkerReader:
        """Each log is read on from where it was."""
        return self._workers.setdefault(run, WorkerReader())

    def rate(self, record: RunRecord) -> ItemRate:
        """Items per second of the process that runs it, from what pages have seen."""
        return self._rates.setdefault(f"{record.id}:{record.session}", ItemRate())

    def close(self) -> None:
        self._quick.shutdown()
        self._slow.shutdown(cancel_futures=True)


class News:
    """What changed since the last look: the numbers of runs; None is any of them."""

    def __init__(self) -> None:
        self._follower = StoreFollower()

    def look(self, view: StoreView) -> set[int] | None:
        facts = self._follower.news(view)
        if facts is None:
            return None
        if any(isinstance(fact, AddRun | RemoveRuns) for fact, _ in facts):
            return None
        return {run for fact, _ in facts if (run := getattr(fact, "run", 0))}
