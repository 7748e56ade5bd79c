"""The journal: durable facts in, questions answered. One per open store and process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from fanfold.journal.apply import PlanItems, apply
from fanfold.journal.facts import End, Lose
from fanfold.journal.marks import highest
from fanfold.journal.read import Reader
from fanfold.journal.store import Store
from fanfold.journal.trouble import sqlite_errors
from fanfold.journal.unsaved import left_behind
from fanfold.journal.writer import Hook, Patience, Writer

PLAN_CHUNK = 1000


class Journal:
    """`write` awaits durability, `note` does not; `read` sees only what is durable."""

    def __init__(
        self,
        folder: Path | str,
        *,
        thread: bool = True,
        after_commit: Hook | None = None,
        patience: Patience = Patience(),
    ) -> None:
        self.store = Store(Path(folder))
        self.store.prepare()
        self.warnings = self._begin()
        self._writer = Writer(
            self.store, thread=thread, after_commit=after_commit, patience=patience
        )
        self._writer.on_moved = self._read_there
        self.write, self.note = self._writer.write, self._writer.note
        self._reading = self.store.connect(readonly=True)
        self.read = Reader(self._reading, self.store.file)

    def _begin(self) -> tuple[str, ...]:
        """Before anything is judged lost: take up what writers could not save that have died since.
        Answers what the operator should know."""
        db = self.store.connect()
        try:
            lack = self.store.attach(db)
            with left_behind(self.store.folder, self.store.identity) as facts:
                if facts:
                    with sqlite_errors(self.store.file):
                        db.execute("begin immediate")
                        apply(db, facts)
                        db.execute("commit")
                        self.store.marks.write(highest(db))
        finally:
            db.close()
        taken = sum(isinstance(fact, End) and bool(fact.landed) for fact in facts)
        replies = "1 reply" if taken == 1 else f"{taken} replies"
        told = f"{self.store.file}: {replies} that could not be saved before are in it now"
        return (*lack, told) if taken else lack

    def _read_there(self) -> None:
        """The store was put back: read what is there from now on."""
        before, self._reading = self._reading, self.store.connect(readonly=True)
        self.read.move(self._reading, self.store.file)
        before.close()

    @property
    def backlog(self) -> int:
        return self._writer.backlog

    @property
    def commits(self) -> int:
        return self._writer.commits

    def when_in_trouble(self, act: Callable[[str], None]) -> None:
        """Called with the reason when nothing new may start: the disk is full, or the store is
        locked for long, damaged, moved or deleted. What is under way is still kept."""
        self._writer.on_trouble = act

    def when_waiting(self, tell: Callable[[str], None]) -> None:
        """Called with a line for the operator while another process keeps the store locked."""
        self._writer.on_wait = tell

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
            await self.lose(tuple(lost), now)
        return len(lost)

    async def lose(self, attempts: tuple[int, ...], now: float) -> None:
        """Their process is gone: they are in doubt, but for those whose end it left in a side file."""
        with left_behind(self.store.folder, self.store.identity) as facts:
            for fact in facts:
                await self.write(fact)
        await self.write(Lose(attempts, now))

    def close(self) -> None:
        self._writer.close()
        self._reading.close()
        self.store.detach()


class Archive:
    """A store opened only to look: status and report. It never creates or changes anything."""

    def __init__(self, folder: Path | str) -> None:
        self.store = Store(Path(folder))
        self._reading = self.store.look()
        self.read = Reader(self._reading, self.store.file)
        self.warnings = self.store.lacking(self._reading)

    def close(self) -> None:
        self._reading.close()
