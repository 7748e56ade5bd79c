"""One writer with natural group commit: what has gathered is committed as soon as the last commit ended,
or, where much comes in, after as long again: half as many commits, each of twice as many facts."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from fanfold.errors import BadInput, InvalidReply, RunStopped, StoreBusy, StoreError, StoreFull
from fanfold.journal.contract import Patience
from fanfold.journal.facts import Fact, StartAttempt
from fanfold.journal.sqlite.home import Backing
from fanfold.journal.sqlite.trouble import FULL
from fanfold.journal.sqlite.unsaved import (
    WAIT,
    answer_to,
    is_kept,
    paused,
    unholdable,
    with_replies,
    without_reply,
)
from fanfold.journal.stream import Commit, Subscriber
from fanfold.work.raised import error_text

Entry = tuple[Fact, "asyncio.Future[Any] | None"]
Hook = Callable[[int], None]
MANY = 8  # facts in a commit that say that there is much to do
LONGEST_PAUSE = 0.005  # seconds between two commits then; else as long as the last one took


class Writer:
    """Gathers facts on the event loop and commits them in groups.

    With `thread=True` a thread of its own does the committing. Without it, commits happen on the
    loop itself, once per turn: slower, but the same every time, for simulation.
    `after_commit` is called with the number of each commit (tests crash there on purpose); what it
    raises is the answer to all facts of that commit.

    What cannot be committed is kept in memory and in a side file, and tried again. A locked store is
    waited for; any other trouble, or a lock that lasts too long, stops the run: `on_trouble` is
    called with the reason, nothing new may start, and what is in progress is kept.
    """

    def __init__(
        self,
        store: Backing,
        *,
        thread: bool = True,
        after_commit: Hook | None = None,
        patience: Patience = Patience(),
    ) -> None:
        self._store, self._patience = store, patience
        self._thread = (
            threading.Thread(target=self._work, name="journal", daemon=True) if thread else None
        )
        self._after = after_commit
        self._gathered: deque[Entry] = deque()
        self._kept: list[Entry] = []  # tried, and not committed yet
        self._since: float | None = None  # when the first try failed
        self._notified = False
        self._stop = ""  # why nothing may start any more
        self._wake, self._woken = threading.Event(), False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._due = False
        self._subscribers: list[Subscriber] = []
        self._published: list[Commit] = []  # of the group that is being committed
        self.commits = 0
        self.on_trouble: Callable[[str], None] = _nothing  # these are called on the loop
        self.on_wait: Callable[[str], None] = _nothing
        self.on_moved: Callable[[], None] = lambda: None
        self._connect()
        self._side = store.side_file()
        if self._thread:
            self._thread.start()

    def _connect(self) -> None:
        self._db = self._store.connect(wait=self._patience.between if self._thread else 0)

    @property
    def backlog(self) -> int:
        return len(self._gathered)

    def write(self, fact: Any) -> asyncio.Future[Any]:
        """Hand in a fact; the future resolves when it is durable, with what applying it gave."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._gathered.append((fact, future))
        if self._thread is None:
            self._commit_soon(loop)
        elif not self._woken:
            self._woken = True
            self._wake.set()
        return future

    def note(self, fact: Any) -> None:
        """Hand in a fact nobody waits for. It is durable after the next `flush` at the latest."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self._gathered.append((fact, None))
        if self._thread is None:
            self._commit_soon(loop)
        elif not self._woken:
            self._woken = True
            self._wake.set()

    def close(self) -> None:
        """Commit what is left and stop. Never raises: what the store does not take is left in the
        side file."""
        self._closing = True
        if self._thread and self._thread.is_alive():
            self._wake.set()
            self._thread.join()
        elif self._gathered or self._kept:
            self._commit_gathered()
        if self._side is not None:
            self._side.close()
        self._store.disconnect(self._db)

    def _commit_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._due:
            self._due = True
            loop.call_soon(self._commit_gathered)

    def _work(self) -> None:
        while True:
            self._wake.wait(self._patience.between if self._kept else None)
            self._wake.clear()
            self._woken = False  # before it looks: what comes after that wakes it again
            last = self._closing  # all that was handed in before is tried once more
            if self._gathered or self._kept:
                began = time.monotonic()
                many = self._commit_gathered()
                if many >= MANY and not self._closing:  # the next group is larger for that
                    time.sleep(min(LONGEST_PAUSE, time.monotonic() - began))
            if last and not self._gathered:
                return
            if self._closing:
                self._wake.set()

    # ── committing ──

    def _commit_gathered(self) -> int:
        """How many facts there were."""
        self._due = False
        gathered = self._gathered  # appended to by the loop's thread: only ever popped here
        entries = [*self._kept, *(gathered.popleft() for _ in range(len(gathered)))]
        if not entries:
            return 0
        try:
            if self._store.displaced():
                self._find_again()
            answers = self._commit([fact for fact, _ in entries])
        except StoreError as error:
            self._hold(entries, error)
            return 0
        if self._since is not None and self._side is not None:
            self._side.clear()
        self._kept, self._since, self._notified = [], None, False
        self._hand_out(entries, answers)
        return len(entries)

    def _commit(self, facts: list[Any]) -> list[Any]:
        """Nothing is started whose reply might find no room, or once the run must stop."""
        if self._store.was_displaced:
            facts = [paused(fact, self._stop) for fact in facts]
        if self._stop:
            facts = [with_replies(fact) for fact in facts]
        try:
            starts = sum([type(fact) is StartAttempt for fact in facts])
            if starts and not self._stop and not self._store.secure(starts):
                self._halt(FULL)
            return self._without_starts(facts) if self._stop else self._transact(facts)
        except StoreFull as error:
            self._halt(FULL)
            if not self._store.drop_ballast():
                raise
            try:
                self._db.execute("pragma wal_autocheckpoint = 0")  # it would eat what was freed
            except sqlite3.Error:
                raise error from None
            return self._without_starts(facts)

    def _without_starts(self, facts: list[Any]) -> list[Any]:
        """Whoever wanted to start stops with the run."""
        others = [fact for fact in facts if not isinstance(fact, StartAttempt)]
        given = iter(self._transact(others) if others else ())
        stopped = RunStopped(f"paused: {self._stop}")
        return [stopped if isinstance(fact, StartAttempt) else next(given) for fact in facts]

    def _transact(self, facts: list[Any]) -> list[Any]:
        """All or nothing; but of a fact that no store can hold only the end of its attempt is written, in the
        same commit: whoever begins in it has the money that came back."""
        try:
            answers = self._store.commit(self._db, facts)
        except StoreError:
            raise
        except Exception as error:
            refusals = [self._refusal(fact) for fact in facts]
            if not any(refusals):
                raise StoreError(f"{self._store.file}: cannot be recorded: {error}") from error
            rest = [
                fact if no is None else without_reply(fact, no)
                for fact, no in zip(facts, refusals, strict=True)
            ]
            storable = [fact for fact in rest if fact is not None]
            given = iter(self._transact(storable) if storable else ())
            done = [None if fact is None else next(given) for fact in rest]
            return [one if no is None else no for one, no in zip(done, refusals, strict=True)]
        self.commits += 1
        self._store.committed(facts, answers)
        if self._subscribers:
            log = self._store.log
            self._published.append(Commit(log.position, log.at, facts, answers))
        return self._hooked(answers)

    def _hooked(self, answers: list[Any]) -> list[Any]:
        """A hook that raises stops the run; those whose facts are durable do not wait: they get its error."""
        if self._after is not None:
            try:
                self._after(self.commits)
            except Exception as error:
                failed = StoreError(
                    f"the hook after commit {self.commits} raised {error_text(error)}"
                )
                self._halt(str(failed))
                return [failed for _ in answers]
        return answers

    def _refusal(self, fact: Any) -> Exception | None:
        """Why no store can hold this fact; it is tried alone, so that all others stay one commit."""
        try:
            self._store.commit(self._db, [fact], keep=False)
        except StoreError:
            raise
        except Exception as error:
            bad = isinstance(error, BadInput)
            return error if bad else InvalidReply(f"cannot be recorded: {error}")
        return None

    # ── when the store does not take it ──

    def _hold(self, entries: list[Entry], error: StoreError) -> None:
        """Keep them all, and save what was paid. A lock is waited for; else the run stops."""
        self._kept = entries = self._holdable(entries)
        now = self._now()
        self._since = now if self._since is None else self._since
        saved = self._side is not None and self._side.save(fact for fact, _ in entries)
        waited = now - self._since
        if isinstance(error, StoreBusy) and waited < self._patience.limit and not self._closing:
            if waited >= self._patience.notice and not self._notified:
                self._notified = True
                self._on_loop(self.on_wait, f"{self._store.busy(error)}; waiting for it")
        else:
            self._give_up(entries, error, saved)
        self._try_later()

    def _holdable(self, entries: list[Entry]) -> list[Entry]:
        """What no file can hold either is not kept: whoever waits for it hears so at once."""
        kept: list[Entry] = []
        for fact, future in entries:
            no = unholdable(fact) if is_kept(fact) else None
            if no is None:
                kept.append((fact, future))
                continue
            self._hand_out([(fact, future)], [no])
            if (rest := without_reply(fact, no)) is not None:
                kept.append((rest, None))
        return kept

    def _give_up(self, entries: list[Entry], error: StoreError, saved: bool) -> None:
        """The run stops. Who waits for what is saved continues; what is not saved anywhere is still
        waited for."""
        reason = self._reason(error, saved)
        self._halt(reason)
        self._kept, resolved, answers = [], [], []
        for fact, future in entries:
            answer, keep = answer_to(fact, error, reason, saved)
            waits = answer is WAIT and future is not None
            if keep:
                self._kept.append((fact, future if waits else None))
            if not waits:
                resolved.append((fact, future))
                answers.append(None if answer is WAIT else answer)
        self._hand_out(resolved, answers)

    def _reason(self, error: StoreError, saved: bool) -> str:
        why = self._store.busy(error) if isinstance(error, StoreBusy) else str(error)
        side = self._side
        if side is None or not saved:
            return f"{why}; replies that were paid can be saved nowhere and are held in memory"
        if not side.replies or side.file is None:
            return why
        replies = "1 reply is" if side.replies == 1 else f"{side.replies} replies are"
        return f"{why}; {replies} kept in {side.file} until the store is opened again"

    def _try_later(self) -> None:
        if self._thread is None and self._loop is not None and not self._closing and self._kept:
            self._due = True
            self._loop.call_later(self._patience.between, self._commit_gathered)

    def _find_again(self) -> None:
        """The store was moved, deleted or replaced in mid-run. What is in it is put back."""
        old = self._db
        self._stop = self._store.find_again(old)
        self._on_loop(self.on_trouble, self._stop)
        if self._store.saved_elsewhere:
            self._connect()
            self._on_loop(lambda _: self.on_moved(), "")
            self._store.disconnect(old)

    def listen(self, act: Callable[[str], None]) -> None:
        """Who hears of trouble; of that which was there before, at once."""
        self.on_trouble = act
        if self._stop:
            act(self._stop)

    def _halt(self, reason: str) -> None:
        if not self._stop:
            self._stop = reason
            self._on_loop(self.on_trouble, reason)

    def _now(self) -> float:
        return time.monotonic() if self._thread or self._loop is None else self._loop.time()

    # ── back on the loop ──

    def _on_loop(self, act: Callable[[str], None], text: str) -> None:
        loop = self._loop
        if self._thread is None:
            act(text)
        elif loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(act, text)

    def _hand_out(self, entries: list[Entry], answers: list[Any]) -> None:
        loop, published = self._loop, self._published
        assert loop is not None
        if published:
            self._published = []
        if not self._thread:
            self._publish(published)
            _resolve(entries, answers)
        elif not loop.is_closed():
            if published:
                loop.call_soon_threadsafe(self._publish, published)
            loop.call_soon_threadsafe(_resolve, entries, answers)

    def subscribe(self, hook: Subscriber) -> Callable[[], None]:
        """Returns what ends the subscription."""
        self._subscribers.append(hook)
        return lambda: self._subscribers.remove(hook) if hook in self._subscribers else None

    def _publish(self, commits: list[Commit]) -> None:
        """A subscriber that raises must not disturb the run; its error goes to the loop's handler."""
        for commit in commits:
            for hook in tuple(self._subscribers):
                try:
                    hook(commit)
                except Exception as error:
                    said = {"message": "a subscriber of the store failed", "exception": error}
                    assert self._loop is not None
                    self._loop.call_exception_handler(said)


def _resolve(entries: list[Entry], answers: list[Any]) -> None:
    """One call for the whole group."""
    for (_, future), answer in zip(entries, answers, strict=True):
        if future is None or future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def _nothing(text: str) -> None:
    """Nobody listens."""
