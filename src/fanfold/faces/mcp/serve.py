"""The tools over the Model Context Protocol, and the server on stdio; `http` has the other one.

The official SDK speaks the protocol; it is the extra `mcp`, imported when a server is started.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.faces.extra import missing_extra
from fanfold.faces.mcp.office import Office, Posting, open_office
from fanfold.faces.mcp.stdio import Lines, protocol_output
from fanfold.faces.mcp.tools import tools
from fanfold.patterns.delegate import Progress
from fanfold.patterns.tools import INSTRUCTIONS
from fanfold.run.loop import on_ending_signals
from fanfold.work.nesting import too_deep
from fanfold.work.outcome import Receipt

Say = Callable[[str], None]
Serve = Callable[[Any, asyncio.Event], Awaitable[None]]
"""Serves an SDK server until its client leaves or the event is set."""


async def serve(posting: Posting, folder: Path, by: Serve) -> Receipt:
    """One run for one server. Ends when the client leaves, on SIGTERM, SIGHUP and on Ctrl-C."""
    if missing := missing_extra():
        raise BadInput(missing)
    stop = asyncio.Event()
    on_ending_signals(lambda number: stop.set(), signal.SIGINT)
    async with open_office(posting, folder) as office:
        work = _Work(office)
        try:
            await by(_server(work), stop)
        finally:
            await work.end()
    assert office.run.closing is not None
    return office.run.closing


class _Work:
    """Calls under way, each a task of its own: what the SDK cancels is cancelled once, in order,
    and nothing is left when the books are closed."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self._under_way: set[asyncio.Task[Any]] = set()

    async def call(self, tool: str, given: dict[str, Any], progress: Progress | None = None) -> Any:
        task = asyncio.create_task(self.office.call(tool, given, progress))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def end(self) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


def _server(work: _Work) -> Any:
    """The SDK's server with our tools. Arguments are checked by us: the texts are for a model."""
    from mcp import types
    from mcp.server.lowlevel import Server

    async def listed(request: types.ListToolsRequest) -> Any:
        made = [
            types.Tool(name=tool.name, description=tool.description, inputSchema=tool.schema)
            for tool in tools(work.office.desk.menu())
        ]
        return types.ServerResult(types.ListToolsResult(tools=made))

    async def called(request: types.CallToolRequest) -> Any:
        params, progress = request.params, _progress(server.request_context)
        try:
            found = await work.call(params.name, params.arguments or {}, progress)
        except FanfoldError as error:
            return _answer(types, str(error), wrong=True)
        return _answer(types, found)

    server: Any = Server("fanfold", version=version("fanfold"), instructions=INSTRUCTIONS)
    server.request_handlers[types.ListToolsRequest] = listed
    server.request_handlers[types.CallToolRequest] = called
    return server


def _progress(context: Any) -> Progress | None:
    """Tells a client how far a call is, if it gave a token for that. A client that does not listen
    any more is no reason to stop."""
    token = context.meta.progressToken if context.meta else None
    if token is None:
        return None

    async def tell(done: int, all: int) -> None:
        with suppress(Exception):
            await context.session.send_progress_notification(
                token, done, all, f"{done} of {all} tasks done", str(context.request_id)
            )

    return tell


def _answer(types: Any, found: Any, *, wrong: bool = False) -> Any:
    """A text for the model; data stands beside it for programs, unless it is nested more deeply than
    the SDK can write."""
    plain = isinstance(found, dict) and not too_deep(found)
    text = found if isinstance(found, str) else msgspec.json.encode(found).decode()
    return types.ServerResult(
        types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structuredContent=found if plain else None,
            isError=wrong,
        )
    )


# ── stdio ────────────────────────────────────────────────────────────────────────────────────


async def on_stdio(server: Any, stop: asyncio.Event) -> None:
    """Until stdin ends. Nothing but the protocol gets to stdout: what else is printed goes to
    stderr."""
    from mcp.server.stdio import stdio_server

    lines = Lines(asyncio.get_running_loop())
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(lambda done: lines.end())
    with protocol_output(lines.end) as output:
        async with stdio_server(lines, output) as (reading, writing):  # type: ignore[arg-type]
            await server.run(reading, writing, server.create_initialization_options())
    stopping.cancel()
