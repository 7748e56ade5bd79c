"""The journal: durable facts in, questions answered. One per open store and process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from fanfold.journal.apply import PlanItems
from fanfold.journal.facts import Lose
from fanfold.journal.read import Reader
from fanfold.journal.store import Store
from fanfold.journal.writer import Hook, Writer

PLAN_CHUNK = 5000


class Journal:
    """`write` awaits durability, `note` does not; `read` sees only what is durable."""

    def __init__(
        self, folder: Path | str, *, thread: bool = True, after_commit: Hook | None = None
    ) -> None:
        self.store = Store(Path(folder))
        self.store.prepare()
        self._writer = Writer(self.store, thread=thread, after_commit=after_commit)
        self.write, self.note = self._writer.write, self._writer.note
        self._reading = self.store.connect(readonly=True)
        self.read = Reader(self._reading, self.store.file)

    @property
    def backlog(self) -> int:
        return self._writer.backlog

    @property
    def commits(self) -> int:
        return self._writer.commits

    def when_low_on_space(self, act: Callable[[], None]) -> None:
        """The disk is full: what is under way can still be recorded, but nothing new may start."""
        self._writer.on_low = act

    async def flush(self) -> None:
        """Everything handed in so far is durable when this returns."""
        await self._writer.write(PlanItems([]))

    async def plan_items(self, rows: Iterator[tuple[int, int, int, str, bytes]]) -> int:
        """Stream planned ids and hashes in, a chunk at a time; memory stays flat."""
        count = 0
        chunk: list[tuple[int, int, int, str, bytes]] = []
        for row in rows:
            chunk.append(row)
            count += 1
            if len(chunk) == PLAN_CHUNK:
                await self.write(PlanItems(chunk))
                chunk = []
        if chunk:
            await self.write(PlanItems(chunk))
        return count

    async def recover(self, now: float) -> int:
        """Attempts whose process is surely gone are in doubt from now on. Returns how many."""
        alive: dict[str, bool] = {}
        lost = []
        for number, session in self.read.open_attempts():
            if session not in alive:
                alive[session] = self.store.alive(session)
            if not alive[session]:
                lost.append(number)
        if lost:
            await self.write(Lose(tuple(lost), now))
        return len(lost)

    def close(self) -> None:
        self._writer.close()
        self._reading.close()


class Archive:
    """A store opened only to look: status and report. It never creates or changes anything."""

    def __init__(self, folder: Path | str) -> None:
        self.store = Store(Path(folder))
        self._reading = self.store.look()
        self.read = Reader(self._reading, self.store.file)

    def close(self) -> None:
        self._reading.close()
