"""Server-sent events: every page learns that something changed, and reads itself again.

One look at the store every so often, whatever the number of pages; none while nobody watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fanfold.errors import FanfoldError
from fanfold.faces.ui.reading import News, StoreReader

EVERY = 0.5  # seconds between looks
BEAT = 15.0  # seconds after which a silent stream says that it is alive


class Announcer:
    """`stream` is one page's; the newest change replaces one that it has not taken yet."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader, self._news = reader, News()
        self._waiting: set[asyncio.Queue[str]] = set()
        self._looking: asyncio.Task[None] | None = None

    @property
    def watched(self) -> bool:
        return bool(self._waiting)

    async def stream(self) -> AsyncIterator[bytes]:
        mine: asyncio.Queue[str] = asyncio.Queue(1)
        self._waiting.add(mine)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield b"retry: 1000\n\n: open\n\n"
            while True:
                try:
                    changed = await asyncio.wait_for(mine.get(), BEAT)
                    yield f"event: changed\ndata: {changed}\n\n".encode()
                except TimeoutError:
                    yield b": alive\n\n"
        finally:
            self._waiting.discard(mine)

    async def _look(self) -> None:
        while self._waiting:
            try:
                changed = await self._reader.ask(self._news.look)
            except FanfoldError:
                changed = None  # the page itself says what is wrong
            if changed is None or changed:
                self._announce(changed)
            await asyncio.sleep(EVERY)

    def _announce(self, changed: set[int] | None) -> None:
        for queue in self._waiting:
            before = queue.get_nowait() if queue.full() else ""
            runs = set() if before in ("", "*") else set(before.split())
            both = runs | set(map(str, changed or ()))
            queue.put_nowait("*" if changed is None or before == "*" else " ".join(sorted(both)))

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
