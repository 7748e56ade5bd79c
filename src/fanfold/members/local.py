"""The kind `local`: a model on this machine, in a server of its own that comes and goes with us."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from fanfold.members.local_labels import Labels
from fanfold.members.local_server import Server, Serving
from fanfold.members.local_store import CONTEXT, Tuning, cache_folder, find_engine, find_weights
from fanfold.members.openai import OpenAI
from fanfold.work.ask import Ask, Reply
from fanfold.work.member import Member, Request, Tell, Traits

_NOWHERE = "http://127.0.0.1:0"


class Local:
    """The server is started when the member is opened, and again when it has died since; what was
    under way then is lost and tried again by the run. A relative `model` is looked for in `beside`.
    """

    def __init__(
        self, traits: Traits, tuning: Tuning, *, beside: Path, cache: Path | None = None
    ) -> None:
        self._traits, self._tuning, self._beside = traits, tuning, beside
        self._cache = cache or cache_folder()
        self._server: Server | None = None
        self._wire = self._speaking(_NOWHERE)
        self._starting = asyncio.Lock()

    @property
    def traits(self) -> Traits:
        return self._traits

    @property
    def server(self) -> Server | None:
        return self._server

    async def open(self) -> None:
        await self._ready()

    async def close(self) -> None:
        await self._wire.close()
        if self._server is not None:
            await self._server.stop()

    def prepare(self, ask: Ask) -> Request:
        return self._wire.prepare(ask)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        await self._ready()
        return await self._wire.ask(request, tell)

    async def _ready(self) -> None:
        async with self._starting:
            if self._server is None:
                self._server = Server(self._traits.id, self._serving())
            if not self._server.runs:
                await self._server.start()
                await self._wire.close()
                self._wire = self._speaking(self._server.address)
                await self._wire.open()

    def _speaking(self, address: str) -> Member:
        if self._tuning.answers == "labels":
            return Labels(self._traits, address, self._key, self._tuning.weights)
        return OpenAI(self._traits, f"{address}/v1", self._key, own=True)

    def _key(self) -> str | None:
        return self._server.key if self._server else None

    def _serving(self) -> Serving:
        """BadInput when something is missing, with what to do."""
        tuning = self._tuning
        stated = self._beside / Path(tuning.model).expanduser() if tuning.model else None
        return Serving(
            model=str(find_weights(stated, self._cache).absolute()),
            name=tuning.name,
            path=find_engine(self._cache),
            slots=tuning.slots,
            context=self._traits.context or CONTEXT,
            threads=tuning.threads or usual_threads(_processors()),
        )


def usual_threads(processors: int) -> int:
    """Half of them, as two often share one core; of a few, two."""
    return min(processors, max(2, processors // 2))


def _processors() -> int:
    """Those that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1
