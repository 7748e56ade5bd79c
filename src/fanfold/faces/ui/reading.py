"""Reading a store for pages: in one thread of its own, so that no question stops the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fanfold.fleet.look import WorkerReader
from fanfold.journal import opening
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import AddRun, RemoveRuns, RunRecord
from fanfold.journal.following import RunMemory, StoreFollower
from fanfold.observe.progress import ItemRate

T = TypeVar("T")
KEPT = 64
"""Runs whose answers are remembered until something happens to them."""


class StoreReader:
    """Questions of pages to one store, one after the other. A store that nobody has open shows what
    came since only when it is opened again, so each question opens it."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._thread = ThreadPoolExecutor(1, "store")
        self._memories: dict[int, RunMemory] = {}
        self._workers: dict[int, WorkerReader] = {}
        self._rates: dict[str, ItemRate] = {}

    async def ask(self, question: Callable[[StoreView], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._asked, question)

    def _asked(self, question: Callable[[StoreView], T]) -> T:
        view = opening.look(self.place)
        try:
            return question(view)
        finally:
            view.close()

    def over(self, view: StoreView, run: int) -> StoreView:
        """With answers about a run that are remembered; only within a question."""
        memory = self._memories.pop(run, None) or RunMemory()
        self._memories[run] = memory
        if len(self._memories) > KEPT:
            del self._memories[next(iter(self._memories))]
        return memory.over(view, run)

    def workers(self, run: int) -> WorkerReader:
        """Each log is read on from where it was; only within a question."""
        return self._workers.setdefault(run, WorkerReader())

    def rate(self, record: RunRecord) -> ItemRate:
        """Items per second of the process that runs it, from what pages have seen."""
        return self._rates.setdefault(f"{record.id}:{record.session}", ItemRate())

    def close(self) -> None:
        self._thread.shutdown()


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
