"""The queue of a simulation, and its workers: the rows of a real queue, in memory, which every process sees
unless it is cut off."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fanfold.journal.queue import QueueState, TakenAsk
from fanfold.journal.sqlite.queue import FolderQueue, state_of
from fanfold.testing.simulation.machine import ProcessKilled, SimulatedProcess
from fanfold.testing.simulation.storage import (
    ProcessSessions,
    SharedStore,
    WorldDatabase,
    check_lease,
)

T = TypeVar("T")
PLACE = Path("simulated")


class SharedQueue:
    """What outlives every process: the rows. `heard`: who is told when they change; `taken`: see `Books`."""

    def __init__(self, store: SharedStore, rows: WorldDatabase, taken: dict[str, int]) -> None:
        self.store, self._rows, self.taken = store, rows, taken
        self._db: sqlite3.Connection | None = None
        self.heard: list[ProcessQueue] = []

    @property
    def db(self) -> sqlite3.Connection:
        """Empty when it is first needed: few worlds have workers."""
        if self._db is None:
            self._db = self._rows.queue()
        return self._db


class ProcessQueue(FolderQueue):
    """One process's end of it. With leases, who is cut off for too long may take and send nothing."""

    def __init__(
        self, shared: SharedQueue, process: SimulatedProcess, heard: Callable[[str], None]
    ) -> None:
        self._shared, self._process, self._heard = shared, process, heard
        self.folder, self._file = PLACE, PLACE
        self.sessions, self.session = ProcessSessions(shared.store, process), ""
        self._wake, self._one_at_a_time = None, asyncio.Lock()
        self._db, self.identity = shared.db, "simulated"

    async def leave(self) -> None:
        if self in self._shared.heard:
            self._shared.heard.remove(self)
            await self._execute("delete from workers where id = ?", self.session)
            await self._execute("delete from ends where id = ?", self.session)
            self.sessions.leave(self.session)

    async def take(
        self, members: Mapping[str, str], tags: Sequence[str], most: int
    ) -> list[TakenAsk]:
        check_lease(self._shared.store, self._process)
        since = self._process.machine.steps
        asks = await super().take(members, tags, most)
        self._shared.taken.update((one.span, since) for one in asks)
        return asks

    def check(self) -> None:
        check_lease(self._shared.store, self._process)

    def state(self) -> QueueState:
        return state_of(self._db, self.sessions)

    async def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """A server that is away is waited for; so is everybody who has something to do before."""
        async with self._one_at_a_time:
            await asyncio.sleep(0)
            while self._process.cut_off_until > self._process.machine.now:
                await self._process.clock.sleep(1.0)
            if not self._process.alive:
                raise ProcessKilled
            done = self._committed(work)
            await asyncio.sleep(0)
            return done

    def _listen(self) -> None:
        self._shared.heard.append(self)

    def _tell(self, payload: str) -> None:
        for one in self._shared.heard:
            if one is not self and one._process.alive and not one._process.ended:
                one._process.loop.call_soon(one._heard, payload)
