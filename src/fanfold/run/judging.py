"""Gates that run code of the user's or ask somebody: first the reply is durable, then it is judged.

A gate of the user's may end the whole process. The reply is on record by then, so nothing is paid
twice, but each resume would meet the same gate again. So it is on record too that judging began;
a reply on which the process ended twice is not judged a third time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from contextvars import ContextVar

from fanfold.errors import RunStopped, StoreError
from fanfold.journal.contract import Store
from fanfold.journal.facts import BeginJudging, EndJudging
from fanfold.work.ask import Reply
from fanfold.work.item import canonical, digest
from fanfold.work.outcome import Verdict, unjudged
from fanfold.work.raised import error_text
from fanfold.work.task import AskPower, Task, nature_of

ENOUGH = 2
GAVE_UP = (
    "the process ended twice while the gate judged this reply; correct the gate, then start a new"
    " run to have it judged"
)
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
            marked.add_done_callback(_heard)
            self._marking.update(dict.fromkeys(fresh, marked))

    @asynccontextmanager
    async def at_work(self, key: bytes) -> AsyncIterator[bool]:
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
            marked.add_done_callback(_heard)
            self._marking.update(dict.fromkeys(keys, marked))
        if not marked.done():
            await asyncio.wait((marked,))
        marked.result()

    def _ended(self, key: bytes) -> None:
        self._crashes.pop(key, None)
        self._marking.pop(key, None)
        self._store.note(EndJudging(self._run, key))

    async def verdict(self, task: Task, reply: Reply, ask: AskPower) -> Verdict:
        """Of a reply that no single ask gave (a vote, a reduce): what is behind it is on record."""
        if nature_of(task.terms.gate) != "foreign":
            return await heard(task, reply, ask)
        said = canonical([task.terms.step, task.id, reply.value])
        async with self.at_work(digest(task.ask.key("both") + said)) as may:
            return await heard(task, reply, ask) if may else unjudged(GAVE_UP)


async def heard(task: Task, reply: Reply, ask: AskPower) -> Verdict:
    """What the gate says. One that cannot judge leaves the reply unjudged; a stopping run stops."""
    try:
        said: Verdict | Awaitable[Verdict] = task.terms.gate(task, reply, ask)
        return said if isinstance(said, Verdict) else await said
    except (RunStopped, StoreError):
        raise
    except Exception as error:
        text = f"the gate raised {error_text(error)}"
        return unjudged(text.encode("utf-8", "replace").decode())


def _heard(marked: asyncio.Future[None]) -> None:
    """An error that nobody waits for has been seen; those who wait see it themselves."""
    if not marked.cancelled():
        marked.exception()
