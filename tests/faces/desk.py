"""An MCP client for the tests, and a roster of members at a model server for it to use."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import httpx2
import msgspec
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server

from fanfold.faces.connections import Bounds
from fanfold.faces.mcp.http import on_http
from tests.faces.cli import MCP, environment
from tests.waiting import LONG

MEMBER = """\
  - id: {id}
    kind: openai
    model: {id}-model
    base_url: {url}/v1
    price: {{input: 1000, output: 1000}}
    max_tokens: 50
    good_at: [{tag}]
    {more}
"""
TAGS = {"alba": "summaries", "bruno": "legal", "carla": "maths"}


def write_roster(folder: Path, url: str, more: str = "", **of: str) -> None:
    """Three members, each good at one thing; `of` adds fields to one of them."""
    members = [
        MEMBER.format(id=id, tag=tag, url=url, more=of.get(id, "enabled: true"))
        for id, tag in TAGS.items()
    ]
    (folder / "roster.yaml").write_text("members:\n" + "".join(members) + more)


HANDSHAKE = "legacy"  # protocol versions that begin with `initialize`
MODERN = "2026-07-28"  # those in which each request stands for itself
Act = Callable[[Client], Awaitable[Any]]


STARTED = [sys.executable, "-m", "fanfold"]


def over_stdio(
    folder: Path, act: Act, *words: str, mode: str = HANDSHAKE, started: bool = False, **env: str
) -> Any:
    """`fanfold mcp WORDS` as an MCP client has it: act, and disconnect. `started`: as it starts it, too;
    else it is forked from a Python that has imported the SDK already."""

    async def main() -> Any:
        program, *before = STARTED if started else MCP.command
        server = StdioServerParameters(
            command=program, args=[*before, "mcp", *words], cwd=folder,
            env=environment(folder, env),
        )  # fmt: skip
        with (folder / "mcp.err").open("w") as errors:
            async with Client(stdio_client(server, errors), mode=mode) as client:
                return await act(client)

    return asyncio.run(main())


def over_http(url: str, token: str, act: Act, *, mode: str = HANDSHAKE) -> Any:
    async def main() -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=LONG, verify=False) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            return await act(client)

    return asyncio.run(main())


async def call(client: Client, tool: str, **given: Any) -> Any:
    """The data of a tool's answer, which stands there as text too."""
    answer = await client.call_tool(tool, given)
    (text,) = answer.content
    assert not answer.is_error, text
    assert answer.structured_content == msgspec.json.decode(text.text)
    return answer.structured_content


async def trouble(client: Client, tool: str, **given: Any) -> str:
    """What a tool says of arguments it does not take."""
    answer = await client.call_tool(tool, given)
    assert answer.is_error, answer
    return str(answer.content[0].text)


# ── in this process ──────────────────────────────────────────────────────────────────────────

TOKEN = "ff-test"


@asynccontextmanager
async def mcp_endpoint(limits: Bounds = Bounds()) -> AsyncIterator[str]:
    """The address of the server over HTTP, in this process and without tools."""
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    by = on_http(0, TOKEN, lambda line: url.set_result(line.split()[-1]), limits)
    served = asyncio.ensure_future(by(Server("test"), stop, partial(asyncio.sleep, 0, "up 1\n")))
    try:
        yield await url
    finally:
        stop.set()
        await served


INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
               "clientInfo": {"name": "test", "version": "0"}},
}  # fmt: skip
HEADERS = {"authorization": f"Bearer {TOKEN}", "accept": "application/json, text/event-stream"}


async def posted(url: str, **said: Any) -> httpx.Response:
    async with httpx.AsyncClient(headers=HEADERS, timeout=LONG, verify=False) as client:
        return await client.post(url, **said)
