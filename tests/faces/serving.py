"""The endpoint in this process, with members made by hand, and the official client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from fanfold.faces.connections import Bounds
from fanfold.faces.serve.app import ServeEndpoint
from fanfold.faces.serve.service import Service, ready
from fanfold.faces.web import listen
from fanfold.members.roster import RosterEnsemble
from fanfold.patterns.delegate import new_run
from fanfold.run.member_sources import GivenMembers
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Event, Member, Request, Tell
from fanfold.work.task import Budget
from tests.faces.cli import Program, started
from tests.waiting import LONG

KEY = "ff-test"
USED = Usage(input=10, output=5)


def plain() -> DefaultAsyncHttpxClient:
    """It does not read the certificates of the machine first, which takes longer than most requests."""
    return DefaultAsyncHttpxClient(verify=False)


def reply(text: str, **more: Any) -> Reply:
    return Reply(text, usage=USED, **more)


class Speaker(Scripted):
    """Speaks piece by piece: `speech(ask, n, say)` says pieces and gives the whole reply."""

    def __init__(
        self, speech: Callable[[Ask, int, Callable[[str], None]], Awaitable[Reply]]
    ) -> None:
        super().__init__(lambda ask, n: reply(""), traits("m"))
        self._speech = speech

    async def ask(self, request: Request, tell: Tell) -> Reply:
        number = len(self.asked)
        self.asked.append(request.ask.conversation()[-1].content)
        return await self._speech(request.ask, number, lambda text: tell(Event("delta", text)))


class Endpoint(NamedTuple):
    client: AsyncOpenAI
    run: Run
    url: str

    async def said(self, content: str, model: str = "m", **more: Any) -> Any:
        """The whole answer to one message."""
        return await self.client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": content}], **more
        )

    async def streamed(self, content: str, model: str = "m", **more: Any) -> list[Any]:
        return [chunk async for chunk in await self.said(content, model, stream=True, **more)]


def text_of(chunks: list[Any]) -> str:
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


@asynccontextmanager
async def endpoint(
    folder: Path,
    *members: Member,
    budget: Budget = Budget(),
    ensembles: Mapping[str, RosterEnsemble] | None = None,
    most: int = 1000,
    bounds: Bounds = Bounds(),
) -> AsyncIterator[Endpoint]:
    company = GivenMembers(*members)
    settings = Settings(budget=budget, serving=True)
    async with new_run("serve", company, settings, folder / ".fanfold") as run:
        votes = {name: ready(one) for name, one in (ensembles or {}).items()}
        server = ServeEndpoint(Service(run, company, votes, most=most), KEY, run.clock.now, bounds)
        with listen(0) as door:
            server.start(door)
            url = f"http://127.0.0.1:{door.getsockname()[1]}/v1"
            try:
                async with AsyncOpenAI(base_url=url, api_key=KEY, http_client=plain()) as client:
                    yield Endpoint(client, run, url)
            finally:
                await server.stop()


class Serving(NamedTuple):
    """`fanfold serve` in a process of its own."""

    program: Program
    url: str


@contextmanager
def serving(folder: Path, *words: str, **env: str) -> Iterator[Serving]:
    """Any free port, the key of these tests."""
    env = {"ENDPOINT_KEY": KEY, **env}
    options = ("--port", "0", "--key", "env:ENDPOINT_KEY")
    with started(folder, "serve", *options, *words, **env) as program:
        program.until(lambda: program.shown.endswith("/v1\n"))
        yield Serving(program, program.shown.strip())


def without(package: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`fanfold WORDS` where a package is not installed, as far as Python can tell."""
    start = "from fanfold.faces.cli.main import main; main()"
    block = f"import sys; sys.modules['{package}'] = None; {start}"
    return subprocess.run(
        [sys.executable, "-c", block, *words], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=LONG, check=False,
    )  # fmt: skip
