"""A run's end of a queue: an ask that is not wanted any more is taken back, and nobody waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from fanfold.errors import StoreError
from fanfold.run.queue_client import QueueClient
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Message
from fanfold.work.batch import NeverSubmitted
from fanfold.work.media import Attachment
from fanfold.work.member import Request, tell_nobody

ASK = Request(Ask((Message("user", "hello"),)), span="run:1")


class Rows:
    """A queue with nothing but what is in it. `taken`: a worker takes each ask at once."""

    identity = session = "rows"

    def __init__(self, *, taken: bool = False, broken: bool = False) -> None:
        self.taken, self.broken, self.waiting = taken, broken, set[str]()

    async def enter(self) -> None: ...

    async def leave(self) -> None: ...

    def check(self) -> None: ...

    async def put(self, asks: Collection[Any]) -> frozenset[str]:
        self.waiting.update(() if self.taken else (ask.span for ask in asks))
        return frozenset()

    async def own(self, spans: Collection[str]) -> None: ...

    async def withdraw(self, spans: Collection[str]) -> list[str]:
        if self.broken:
            raise StoreError("the queue is gone")
        found = self.waiting & set(spans)
        self.waiting -= found
        return sorted(found)

    async def answers(self, but: Collection[str]) -> list[tuple[str, bytes]]:
        return []

    async def held_by(self) -> dict[str, list[str]]:
        return {}

    async def dead(self, workers: Collection[str]) -> set[str]:
        return set()

    async def forget(self, spans: Collection[str]) -> None: ...

    async def cancel(self, spans: Collection[str], message: str = "") -> list[str]:
        return []


def taken_back(rows: Rows, *, closed: bool = False) -> tuple[bool, BaseException | None]:
    """Whether an ask could be, and how it ended."""

    async def main(clock: VirtualClock) -> tuple[bool, BaseException | None]:
        client: Any = QueueClient(lambda heard: rows)  # type: ignore[arg-type, return-value]
        await client.open()
        asked = asyncio.ensure_future(client.ask(traits("m"), ASK, tell_nobody))
        await clock.sleep(5.0)
        if closed:
            await client.close()
        back = await client.take_back("run:1")
        await clock.sleep(5.0)
        ended = asked.exception() if asked.done() else None
        asked.cancel()
        await asyncio.wait((asked,))
        await client.close()
        return back, ended

    return run_virtual(main)


def test_what_no_worker_has_taken_is_taken_back_and_was_never_sent() -> None:
    rows = Rows()
    back, ended = taken_back(rows)
    assert (back, rows.waiting) == (True, set())
    assert isinstance(ended, NeverSubmitted)


def test_what_a_worker_has_goes_on() -> None:
    assert taken_back(Rows(taken=True)) == (False, None)


@pytest.mark.parametrize("how", ["broken", "closed"])
def test_a_queue_that_is_gone_is_not_waited_for(how: str) -> None:
    back, _ = taken_back(Rows(broken=how == "broken"), closed=how == "closed")
    assert not back


class Slow(Rows):
    """A queue to which files are on their way until it is told that they have arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.put_in, self.arrived = list[str](), asyncio.Event()

    async def lacking(self, hashes: Collection[str]) -> list[str]:
        await self.arrived.wait()
        return []

    async def put(self, asks: Collection[Any]) -> frozenset[str]:
        self.put_in += [ask.span for ask in asks]
        return frozenset()


def test_an_ask_whose_files_are_still_on_their_way_is_taken_back_and_never_put_in() -> None:
    """It was booked at its worst case when another request had been answered."""
    rows, image = Slow(), Attachment("image", "image/png", "a" * 32, 9)
    ask = Request(Ask((Message("user", "look", (image,)),)), span="run:1")

    async def main(clock: VirtualClock) -> None:
        client: Any = QueueClient(lambda heard: rows)  # type: ignore[arg-type, return-value]
        await client.open()
        asked = asyncio.ensure_future(client.ask(traits("m"), ask, tell_nobody))
        await clock.sleep(5.0)
        assert await client.take_back("run:1")
        rows.arrived.set()
        with pytest.raises(NeverSubmitted):
            await asked
        await client.close()

    run_virtual(main)
    assert rows.put_in == []
