"""Gates that run code of the user's or ask somebody: first the reply is durable, then it is judged.

A gate of the user's may end the whole process. The reply is on record by then, so nothing is paid
twice, but each resume would meet the same gate again. So it is on record too that judging began;
a reply on which the process ended twice is not judged a third time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TypeVar

from fanfold.errors import RunStopped, StoreError
from fanfold.journal.contract import Store
from fanfold.journal.facts import BeginJudging, EndJudging
from fanfold.work.ask import Reply
from fanfold.work.item import canonical, digest
from fanfold.work.kick_back import ended, raised
from fanfold.work.outcome import State, Verdict, unjudged
from fanfold.work.task import AskPower, Task

ENOUGH = 2
GAVE_UP = (
    "the process ended twice while the gate judged this reply; correct the gate, then start a new"
    " run to have it judged"
)
T = TypeVar("T")
_alone: ContextVar[bool] = ContextVar("alone", default=False)


class Judgings:
    """What a run's gates are at work on. `crashes`: how often the process ended there before."""

    def __init__(self, store: Store, run: int, session: str, crashes: dict[bytes, int]) -> None:
        self._store, self._run, self._session = store, run, session
        self._crashes = crashes
        self._expected: dict[bytes, None] = {}
        self._marking: dict[bytes, asyncio.Future[None]] = {}
        self._turn = asyncio.Lock()

    def expect(self, key: bytes) -> None:
        """A recorded reply that will be judged soon: marked together with the others."""
        if key not in self._crashes:
            self._expected[key] = None

    def begin_with(self, keys: tuple[bytes, ...]) -> None:
        """Replies that are about to be recorded: marked in the same commit, or in one before it."""
        fresh = tuple(key for key in keys if key not in self._crashes)
        if fresh:
            marked = self._store.write(BeginJudging(self._run, self._session, fresh))
            marked.add_done_callback(_seen)
            self._marking.update(dict.fromkeys(fresh, marked))

    @asynccontextmanager
    async def _at_work(self, key: bytes) -> AsyncIterator[bool]:
        """Around a gate of the user's. False: it must not be called, see `GAVE_UP`.

        A reply on which a process ended before is judged while no other such one is: if it happens
        again, it is known which one it was.
        """
        before = self._crashes.get(key, 0)
        if before >= ENOUGH:
            yield False
        elif before and not _alone.get():
            async with self._turn:
                await self._store.write(BeginJudging(self._run, self._session, (key,)))
                token = _alone.set(True)
                try:
                    yield True
                finally:
                    _alone.reset(token)
            self._ended(key)
        else:
            await self._mark(key)
            yield True
            self._ended(key)

    async def _mark(self, key: bytes) -> None:
        marked = self._marking.get(key)
        if marked is None:
            keys = tuple(dict.fromkeys((key, *self._expected)))
            self._expected.clear()
            marked = self._store.write(BeginJudging(self._run, self._session, keys))
            marked.add_done_callback(_seen)
            self._marking.update(dict.fromkeys(keys, marked))
        if not marked.done():
            await asyncio.wait((marked,))
        marked.result()

    def _ended(self, key: bytes) -> None:
        self._crashes.pop(key, None)
        self._marking.pop(key, None)
        self._store.note(EndJudging(self._run, key))

    async def judge(
        self, task: Task, reply: Reply, ask: AskPower, key: bytes | None = None
    ) -> tuple[State, Verdict]:
        """How a durable reply ends by gate and filter, if it is not kicked back. `key`: that of the
        ask it came from. A reply that no single ask gave (a vote, a reduce) has none; what is behind
        it is on record."""
        if task.terms.nature != "foreign":
            return await _judged(task, reply, ask)
        if key is None:
            said = canonical([task.terms.step, task.id, reply.value])
            key = digest(task.ask.key("both") + said)
        async with self._at_work(key) as may:
            return await _judged(task, reply, ask) if may else ("unjudged", unjudged(GAVE_UP))


async def _judged(task: Task, reply: Reply, ask: AskPower) -> tuple[State, Verdict]:
    return ended(task, reply, await call_gate(lambda: task.terms.gate(task, reply, ask)))


async def call_gate(gate: Callable[[], Verdict | Awaitable[T]]) -> T | Verdict:
    """What a gate says. One that raises leaves what it judges unjudged; a stopping run stops."""
    try:
        said = gate()
        return said if isinstance(said, Verdict) else await said
    except (RunStopped, StoreError):
        raise
    except Exception as error:
        return raised("gate", error)


def _seen(marked: asyncio.Future[None]) -> None:
    """An error that nobody waits for has been seen; those who wait see it themselves."""
    if not marked.cancelled():
        marked.exception()
