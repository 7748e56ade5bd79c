"""One writer with natural group commit: what has gathered is committed as soon as the last commit ended."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from fanfold.errors import InvalidReply, StoreError, StoreFull
from fanfold.journal.apply import apply
from fanfold.journal.store import Store, translate

Entry = tuple[Any, "asyncio.Future[Any] | None"]
Hook = Callable[[int], None]


class Writer:
    """Gathers facts on the event loop and commits them in groups.

    With `thread=True` a thread of its own does the committing. Without it, commits happen on the
    loop itself, once per turn: slower, but the same every time, for simulation.
    `after_commit` is called with the number of each commit (tests crash there on purpose).
    """

    def __init__(
        self, store: Store, *, thread: bool = True, after_commit: Hook | None = None
    ) -> None:
        self._store = store
        self._db = store.connect()
        self._thread = (
            threading.Thread(target=self._work, name="journal", daemon=True) if thread else None
        )
        self._after = after_commit
        self._gathered: deque[Entry] = deque()
        self._wake = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._due = False
        self.commits = 0
        self.error: StoreError | None = None
        self.low_on_space = False
        self.on_low: Callable[[], None] = _nothing  # called on the loop when the disk is full
        if self._thread:
            self._thread.start()

    @property
    def backlog(self) -> int:
        return len(self._gathered)

    def write(self, fact: Any) -> asyncio.Future[Any]:
        """Hand in a fact; the future resolves when it is durable, with what applying it gave."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._hand_in((fact, future), loop)
        return future

    def note(self, fact: Any) -> None:
        """Hand in a fact nobody waits for. It is durable after the next `flush` at the latest."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self._hand_in((fact, None), loop)

    def close(self) -> None:
        """Commit what is left and stop. Never raises: what could not be written shows in `error`."""
        self._closing = True
        if self._thread and self._thread.is_alive():
            self._wake.set()
            self._thread.join()
        elif self._gathered:
            self._commit_gathered()
        self._db.close()

    def _hand_in(self, entry: Entry, loop: asyncio.AbstractEventLoop) -> None:
        self._gathered.append(entry)
        if self._thread:
            if not self._wake.is_set():
                self._wake.set()
        elif not self._due:
            self._due = True
            loop.call_soon(self._commit_gathered)

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._gathered:
                self._commit_gathered()
            elif self._closing:
                return
            if self._closing:
                self._wake.set()

    def _commit_gathered(self) -> None:
        self._due = False
        gathered = self._gathered  # appended to by the loop's thread: only ever popped here
        entries = [gathered.popleft() for _ in range(len(gathered))]
        if not entries:
            return
        answers, error = self._commit([fact for fact, _ in entries])
        loop = self._loop
        assert loop is not None
        if not self._thread:
            self._resolve(entries, answers, error)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._resolve, entries, answers, error)

    def _commit(self, facts: list[Any]) -> tuple[list[Any], StoreError | None]:
        if self.error is not None:
            return [], self.error
        try:
            return self._transact(facts), None
        except StoreFull as error:
            return self._commit_with_ballast(facts, error)
        except StoreError as error:
            self.error = error
            return [], error

    def _commit_with_ballast(
        self, facts: list[Any], error: StoreError
    ) -> tuple[list[Any], StoreError | None]:
        """The disk is full: give up the ballast, once, so that what is under way is not lost."""
        self.low_on_space = True
        if self._store.drop_ballast():
            try:
                self._db.execute("pragma wal_autocheckpoint = 0")  # it would eat what was freed
                return self._transact(facts), None
            except StoreError as again:
                error = again
        self.error = error
        return [], error

    def _transact(self, facts: list[Any]) -> list[Any]:
        """All or nothing; but a fact that no store can hold is left out, and its own answer."""
        db = self._db
        try:
            db.execute("begin immediate")
            answers = apply(db, facts)
            db.execute("commit")
        except sqlite3.Error as error:
            self._roll_back()
            raise translate(error, self._store.file) from error
        except Exception as error:
            self._roll_back()
            if len(facts) == 1:
                return [InvalidReply(f"cannot be recorded: {error}")]
            return [answer for fact in facts for answer in self._transact([fact])]
        self.commits += 1
        if self._after:
            self._after(self.commits)
        return answers

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("rollback")

    def _resolve(self, entries: list[Entry], answers: list[Any], error: StoreError | None) -> None:
        """Back on the loop: one call for the whole group."""
        if self.low_on_space:
            self.on_low()
        if error is not None:
            answers = [error] * len(entries)
        for (_, future), answer in zip(entries, answers, strict=True):
            if future is None or future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


def _nothing() -> None:
    """Nobody listens."""
