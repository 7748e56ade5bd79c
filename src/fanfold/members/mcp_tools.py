"""Tools of MCP servers, spoken to by the official SDK: a program that is started, or a URL."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from msgspec import UNSET

from fanfold.errors import BadInput, FanfoldError
from fanfold.members.keys import fetcher, scrubbed
from fanfold.members.mcp_http import bounded_client
from fanfold.members.mcp_stdio import started
from fanfold.members.tools import ToolFailure, ToolMember, environment, shown_value, told
from fanfold.work.ask import Tool
from fanfold.work.nearest import remedy
from fanfold.work.raised import singly
from fanfold.work.started import MAX_BYTES
from fanfold.work.tool import StatedTool, ToolResult

_PAGES = 100  # of a list of tools, at most
_GRACE = 10.0  # seconds for a session to end by itself
logging.getLogger("mcp").addHandler(logging.NullHandler())


async def server_tools(stated: StatedTool) -> tuple[ToolMember, ...]:
    """All its tools, or those that `only` names."""
    server = McpServer(stated)
    try:
        listed = await server.listed()
        only = stated.fields.only
        names = [one.name for one in listed]
        for name in only:
            if name not in names:
                raise BadInput(f"{stated.shown}: it has no tool `{name}`: {remedy(name, names)}")
        chosen = [one for one in listed if not only or one.name in only]
        if not chosen:
            raise BadInput(f"{stated.shown}: the server has no tools")
    except BaseException:
        await server.close()
        raise
    return tuple(_member(stated, server, one) for one in chosen)


def _member(stated: StatedTool, server: McpServer, one: types.Tool) -> ToolMember:
    """It has effects unless the plan, or the server's own hint, says otherwise."""
    hint = one.annotations is not None and one.annotations.read_only_hint is True
    effects = not hint if stated.fields.effects is UNSET else stated.fields.effects
    tool = Tool(one.name, one.description or "", dict(one.input_schema))
    use = partial(server.call, one.name)
    return ToolMember(tool, stated, use, effects=bool(effects), server=server)


class McpServer:
    """One server for all calls of a run. A session in which a call did not end in time takes no more
    calls, and is ended when those under way have; the next call starts a new one."""

    def __init__(self, stated: StatedTool) -> None:
        self._stated = stated
        self._session: _Session | None = None
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()

    async def listed(self) -> list[types.Tool]:
        """BadInput when it cannot be started or reached."""
        shown, seconds = self._stated.shown, self._stated.fields.timeout
        try:
            async with asyncio.timeout(seconds):
                session = await self._ready()
                return await session.tools()
        except TimeoutError:
            raise BadInput(f"{shown}: no answer within {seconds:g} s") from None
        except (ToolFailure, FanfoldError) as error:
            raise BadInput(f"{shown}: {error}") from None

    async def call(self, name: str, given: dict[str, Any]) -> ToolResult:
        session = await self._ready()
        try:
            return await session.call(name, given)
        except asyncio.CancelledError:  # its time is over, or the run ends
            self._give_up(session)
            raise
        except ToolFailure:
            if session.ended:
                self._give_up(session)
            raise

    async def _ready(self) -> _Session:
        async with self._starting:
            if self._session is None or self._session.ended:
                self._session = await _Session.start(self._stated)
            return self._session

    def _give_up(self, session: _Session) -> None:
        if self._session is session:
            self._session = None
            task = asyncio.create_task(session.end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """All its processes are gone when this returns."""
        if self._session is not None:
            self._give_up(self._session)
        while self._ending:
            await asyncio.wait(self._ending)


class _Session:
    """One connection, held by a task of its own: whoever calls may be cancelled, it is not."""

    def __init__(self, stated: StatedTool) -> None:
        self._stated = stated
        self._stop = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._calls = 0
        self.ended = False  # it takes no more calls
        self._client: ClientSession | None = None
        self._log = cast(TextIO, tempfile.TemporaryFile("w+", errors="replace"))  # noqa: SIM115
        self._holding: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, stated: StatedTool) -> _Session:
        made = cls(stated)
        ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        made._holding = asyncio.create_task(made._hold(ready))
        try:
            made._client = await asyncio.shield(ready)
        except BaseException:  # it could not be started, or nobody waits for it any more
            await made.end()
            raise
        return made

    async def _hold(self, ready: asyncio.Future[ClientSession]) -> None:
        """The SDK's scopes are entered and left in one task."""
        try:
            async with AsyncExitStack() as stack:
                read, write = await stack.enter_async_context(self._transport())
                client = await stack.enter_async_context(ClientSession(read, write))
                starting = asyncio.ensure_future(client.initialize())
                stopped = asyncio.ensure_future(self._stop.wait())
                try:
                    await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
                    if starting.done():
                        starting.result()
                        ready.set_result(client)
                        await stopped
                finally:
                    for one in (starting, stopped):
                        one.cancel()
        except Exception as error:
            if not ready.done():
                ready.set_exception(ToolFailure(self._why(error)))
        finally:
            if not ready.done():
                ready.cancel()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        fields = self._stated.fields
        if isinstance(fields.mcp, str):
            async with (
                bounded_client(self._headers()) as http,
                streamable_http_client(
                    fields.mcp, http_client=http, max_sse_event_size=MAX_BYTES
                ) as streams,
            ):
                yield streams
            return
        words, folder = list(fields.mcp or ()), self._stated.folder
        async with started(words, folder, environment(fields.env), self._log) as streams:
            yield streams

    def _headers(self) -> dict[str, str]:
        key = self._key()
        return {"authorization": f"Bearer {key}"} if key else {}

    def _key(self) -> str:
        stated = self._stated
        if stated.fields.key is UNSET:
            return ""
        return (fetcher(stated.shown, stated.fields.key, Path(stated.folder))() or "").strip()

    def _why(self, error: BaseException) -> str:
        """In one line; what a program printed last says more than how its pipe ended."""
        error = singly(error)[0]
        if isinstance(error, MCPError):
            error = ConnectionError(error.message)
        said = ""
        if not isinstance(self._stated.fields.mcp, str):
            self._log.seek(0)
            lines = [line.strip() for line in self._log.read()[-4000:].splitlines() if line.strip()]
            said = f": {lines[-1][:200]}" if lines else ""
        return scrubbed(f"{told(error)}{said}", self._key())

    async def tools(self) -> list[types.Tool]:
        assert self._client is not None
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._told(self._client.list_tools(params=params))
            found += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    async def call(self, name: str, given: dict[str, Any]) -> ToolResult:
        assert self._client is not None
        self._calls += 1
        self._idle.clear()
        try:
            result = await self._told(self._client.call_tool(name, given))
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()
        return ToolResult(_text(result), failed=result.is_error)

    async def _told(self, asked: Any) -> Any:
        """What the SDK raises, for the model to read; and the end of the session, which it does not
        always tell those who wait."""
        assert self._holding is not None
        asking = asyncio.ensure_future(asked)
        try:
            await asyncio.wait((asking, self._holding), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            self.ended = True
            raise ToolFailure(self._why(ConnectionError("the server ended")))
        except asyncio.CancelledError:
            raise
        except ToolFailure:
            raise
        except MCPError as error:
            self.ended = error.code == types.CONNECTION_CLOSED
            raise ToolFailure(self._why(error)) from None
        except Exception as error:
            self.ended = True
            raise ToolFailure(self._why(error)) from None
        finally:
            if not asking.done():
                asking.cancel()

    async def end(self) -> None:
        """When no call is under way. The SDK ends the program with all its children."""
        await self._idle.wait()
        self._stop.set()
        if self._holding is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await asyncio.wait((self._holding,))
            if not self._holding.done():
                self._holding.cancel()
                await asyncio.wait((self._holding,))
        self._log.close()


def _text(result: types.CallToolResult) -> str:
    """The texts of a result; what is none is named."""
    parts = []
    for one in result.content:
        if isinstance(one, types.TextContent):
            parts.append(one.text)
        elif isinstance(one, types.EmbeddedResource) and hasattr(one.resource, "text"):
            parts.append(one.resource.text)
        else:
            kind = getattr(one, "mime_type", None) or one.type
            parts.append(f"[{kind} left out: only texts are passed on]")
    if not parts and result.structured_content is not None:
        return shown_value(result.structured_content)
    return "\n".join(parts)
