"""The tools over the Model Context Protocol, as the official SDK speaks it; and the server on stdio.
`http` has the other transport."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from fanfold.errors import FanfoldError
from fanfold.faces.mcp.tools import McpOptions, Toolset, open_toolset, tool_list
from fanfold.observe.metrics import metrics_of
from fanfold.patterns.delegate import Progress
from fanfold.patterns.delegate_tools import INSTRUCTIONS
from fanfold.run.loop import on_ending_signals
from fanfold.work.nesting import too_deep
from fanfold.work.outcome import Receipt

Figures = Callable[[], Awaitable[str]]
Transport = Callable[[Server[Any], asyncio.Event, Figures], Awaitable[None]]
"""Serves an SDK server until its client disconnects or the event is set."""

logging.getLogger("mcp").addHandler(logging.NullHandler())  # its clients are told, nobody else is
_CHUNK = 65_536
_MOST_WAITING = 64  # lines read ahead of the server


async def serve(options: McpOptions, folder: Path, transport: Transport) -> Receipt:
    """One run for one server. Ends when the client disconnects, on SIGTERM, SIGHUP and Ctrl-C."""
    stop = asyncio.Event()
    on_ending_signals(lambda number: stop.set(), signal.SIGINT)
    async with open_toolset(options, folder) as toolset:
        calls = _Calls(toolset)
        try:
            await transport(sdk_server(calls), stop, partial(metrics_of, toolset.run.store))
        finally:
            await calls.cancel_all()
    assert toolset.run.closing is not None
    return toolset.run.closing


class _Calls:
    """Tool calls under way, each a task of its own: what the SDK cancels is cancelled once, in order,
    and none remains when the run is closed."""

    def __init__(self, toolset: Toolset) -> None:
        self.toolset = toolset
        self._under_way: set[asyncio.Task[Any]] = set()

    async def call(self, tool: str, given: dict[str, Any], progress: Progress) -> Any:
        task = asyncio.create_task(self.toolset.call(tool, given, progress))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def cancel_all(self) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


def sdk_server(calls: _Calls) -> Server[Any]:
    """The SDK's server with our tools. We check the arguments: the messages are for a model."""

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema)
                for tool in tool_list(calls.toolset.desk.menu(), orders=calls.toolset.takes_orders)
            ]
        )

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def progress(done: int, all: int) -> None:
            """A client that does not listen any more is no reason to stop."""
            with suppress(Exception):
                await context.session.report_progress(done, all, f"{done} of {all} tasks done")

        try:
            found = await calls.call(params.name, params.arguments or {}, progress)
        except FanfoldError as error:
            return _result(str(error), is_error=True)
        return _result(found)

    return Server(
        "fanfold", version=version("fanfold"), instructions=INSTRUCTIONS,
        on_list_tools=list_tools, on_call_tool=call_tool,
    )  # fmt: skip


def _result(found: Any, *, is_error: bool = False) -> types.CallToolResult:
    """A text for the model, and the same as data for programs, unless it is nested more deeply than
    the SDK can write."""
    text = found if isinstance(found, str) else msgspec.json.encode(found).decode()
    structured = isinstance(found, dict) and not too_deep(found)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=found if structured else None,
        is_error=is_error,
    )


# ── stdio ────────────────────────────────────────────────────────────────────────────────────


async def on_stdio(server: Server[Any], stop: asyncio.Event, figures: Figures) -> None:
    """Until stdin ends, or nobody reads stdout. Only the protocol goes to stdout: the SDK sends what
    else this process prints to stderr."""
    lines = StdinLines(asyncio.get_running_loop())
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(lambda done: lines.end())
    sys.stdout.flush()
    try:
        async with stdio_server(lines) as (reading, writing):  # type: ignore[arg-type]
            await server.run(reading, writing, server.create_initialization_options())
            sys.stdout.flush()
    except* BrokenPipeError:
        """The client has exited."""
    finally:
        stopping.cancel()


class StdinLines:
    """Lines of stdin, as an async iterator. `end` ends it, also while nothing comes.

    A thread reads: the loop cannot wait for every kind of stdin. The SDK's own reader cannot be
    stopped while it waits for a line.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, handle: int | None = None) -> None:
        self._loop = loop
        self._handle = sys.stdin.fileno() if handle is None else handle
        self._lines: deque[str] = deque()
        self._capacity = threading.Semaphore(_MOST_WAITING)
        self._changed = asyncio.Event()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def __aiter__(self) -> StdinLines:
        return self

    async def __anext__(self) -> str:
        while not self._lines:
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        self._capacity.release()
        return self._lines.popleft()

    def end(self) -> None:
        self._ended = True
        self._lines.clear()
        self._changed.set()

    def _add(self, line: str | None) -> None:
        if line is None:
            self._ended = True
        elif not self._ended:
            self._lines.append(line)
        self._changed.set()

    def _read(self) -> None:
        """Unbuffered: a thread that holds a buffer's lock would block the interpreter's exit."""
        rest = b""
        with suppress(OSError, RuntimeError):  # stdin is closed, or the loop is
            while chunk := os.read(self._handle, _CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    self._capacity.acquire()
                    text = line.decode("utf-8", "replace")
                    self._loop.call_soon_threadsafe(self._add, text)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._add, None)
