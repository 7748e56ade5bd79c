"""Tools that models call, as members of their own kind: so a call of one is on record before it starts,
and its result when it ends, like those of any member.

Whatever goes wrong in a tool is its result, for the model to read: only what was never begun, or is not
known to have ended, is in doubt.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Protocol, get_type_hints

import msgspec
from msgspec import UNSET

from fanfold.members.process import run_program
from fanfold.members.target import resolve_target
from fanfold.price import FREE
from fanfold.work.ask import Ask, Reply, Tool
from fanfold.work.excerpt import as_text, excerpt
from fanfold.work.member import MemberLimits, Request, Tell, Traits
from fanfold.work.nesting import too_deep
from fanfold.work.started import MAX_BYTES
from fanfold.work.tool import StatedTool, ToolResult, check_tool_name

FAILED = "tool error"
"""`Reply.reason` of a result that is told as an error."""
AT_ONCE = 16  # calls of one tool
_SEEN = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
_encode = msgspec.json.Encoder(enc_hook=lambda value: _dumped(value)).encode

Use = Callable[[dict[str, Any]], Awaitable[ToolResult]]


class Closing(Protocol):
    """What a tool needs open: a server, say."""

    async def close(self) -> None: ...


class ToolFailure(Exception):
    """For the model to read."""


def told(error: BaseException) -> str:
    """An error for a model: nothing of this machine's files."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class ToolMember:
    """One tool. `tool` is what models read of it; `use` carries a call out."""

    def __init__(
        self, tool: Tool, stated: StatedTool, use: Use, *, effects: bool,
        server: Closing | None = None,
    ) -> None:  # fmt: skip
        self.tool, self.effects, self._use, self._server = tool, effects, use, server
        self.max_bytes, self._seconds = stated.fields.max_bytes, stated.fields.timeout
        self._traits = Traits(
            id=f"tool:{tool.name}", kind="tool", answerer=f"tool:{tool.name}@run", takes="both",
            shared=False, metered=True, price=FREE, limits=MemberLimits(AT_ONCE), keeps_time=True,
            timeout=self._seconds, pool=f"tool:{tool.name}",
        )  # fmt: skip

    @property
    def traits(self) -> Traits:
        return self._traits

    def known_as(self, id: str) -> None:
        """Where another tool has its name, in another step."""
        self._traits = msgspec.structs.replace(self._traits, id=id, pool=id)

    async def open(self) -> None:
        """It was opened to be listed."""

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    def prepare(self, ask: Ask) -> Request:
        return Request(ask)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        found = await self._result(request.ask.items[0].data["arguments"])
        text = found.text.encode("utf-8", "replace").decode() or "(no output)"
        if found.failed:
            told = _encode({"error": excerpt(text, self.max_bytes - 64)}).decode()
            return Reply(told, reason=FAILED)
        return Reply(excerpt(text, self.max_bytes))

    async def _result(self, given: Any) -> ToolResult:
        if not isinstance(given, dict):
            return ToolResult(f"the arguments must be a JSON object, not: {given}", failed=True)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._use(given)
        except TimeoutError:
            late = "; what it did until then stays done" if self.effects else ""
            return ToolResult(f"no result within {self._seconds:g} s{late}", failed=True)
        except ToolFailure as error:
            return ToolResult(str(error), failed=True)
        except Exception as error:
            return ToolResult(told(error), failed=True)


# ── functions ────────────────────────────────────────────────────────────────────────────────


def function_tool(stated: StatedTool) -> ToolMember:
    """Its signature is the schema of its arguments, its docstring the description."""
    fields = stated.fields
    target = stated.target
    if target is None:
        target = resolve_target(
            str(fields.function), stated.folder, file=stated.file, line=stated.line
        )
    name = fields.name if fields.name is not UNSET else str(getattr(target, "__name__", "tool"))
    try:
        check_tool_name(name)
        given = arguments_of(target)
        schema = _schema(given)
    except ValueError as error:
        raise stated.bad(f"tool {fields.function}: {error}") from None
    said = fields.description if fields.description is not UNSET else inspect.getdoc(target) or ""
    return ToolMember(
        Tool(name, said, schema), stated, partial(_call_function, target, given),
        effects=fields.effects is True,
    )  # fmt: skip


def arguments_of(target: Callable[..., Any]) -> type[msgspec.Struct]:
    """A record of what a function takes. ValueError: a model could not give that."""
    try:
        signature = inspect.signature(target)
        hints = get_type_hints(target, include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        raise ValueError(f"its signature cannot be read: {error}") from None
    made: list[Any] = []
    for one in signature.parameters.values():
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise ValueError(f"`{one}` cannot be given by name; state each argument")
        kind = hints.get(one.name, Any)
        made.append(
            (one.name, kind) if one.default is one.empty else (one.name, kind, _default(one))
        )
    return msgspec.defstruct("Arguments", made, kw_only=True, forbid_unknown_fields=True)


def _default(one: inspect.Parameter) -> Any:
    if isinstance(one.default, list | dict | set):
        return msgspec.field(default_factory=partial(_copied, one.default))
    return one.default


def _copied(value: Any) -> Any:
    return value.copy()


def _schema(given: type[msgspec.Struct]) -> dict[str, Any]:
    try:
        (_,), named = msgspec.json.schema_components([given], ref_template="#/$defs/{name}")
    except (TypeError, NotImplementedError) as error:
        raise ValueError(f"an argument has no JSON Schema: {error}") from None
    root: dict[str, Any] = named.pop("Arguments")
    root = {name: value for name, value in root.items() if name != "title"}
    return {**root, "$defs": named} if named else root


async def _call_function(
    target: Callable[..., Any], kind: type[msgspec.Struct], given: dict[str, Any]
) -> ToolResult:
    """A plain function runs in a thread: it may take its time, and cannot be interrupted."""
    try:
        read = msgspec.convert(given, kind, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ToolFailure(f"the arguments do not fit: {error}") from None
    named = {name: getattr(read, name) for name in kind.__struct_fields__}
    if inspect.iscoroutinefunction(target):
        found = await target(**named)
    else:
        found = await _in_thread(partial(target, **named))
        found = await found if hasattr(found, "__await__") else found
    if isinstance(found, str):
        return ToolResult(found)
    try:
        return ToolResult("" if found is None else _encode(found).decode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolFailure(f"it gave a {type(found).__name__}, which is not JSON: {error}") from None


async def _in_thread(call: Callable[[], Any]) -> Any:
    """In a thread of its own, which nobody waits for when its time is over, nor at the end of the run:
    those of asyncio would be waited for."""
    loop, context = asyncio.get_running_loop(), copy_context()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(found: Any, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(found)
        else:
            done.set_exception(error)

    def work() -> None:
        found: Any = None
        error: Exception | None = None
        try:
            found = context.run(call)
        except StopIteration as raised:  # no future can hold one
            error = RuntimeError(f"it raised StopIteration: {raised}")
        except Exception as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(settle, found, error)

    threading.Thread(target=work, daemon=True).start()
    return await done


def _dumped(value: Any) -> Any:
    """A pydantic model as plain data; everything else is not JSON."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a {type(value).__name__} has no JSON form")
    return dump(mode="json")


# ── commands ─────────────────────────────────────────────────────────────────────────────────


ANYTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


def command_tool(stated: StatedTool) -> ToolMember:
    """It gets the arguments as JSON on stdin, and what it prints is the result."""
    tool = stated_command(stated)
    words = list(stated.fields.command or ())
    seen = environment(stated.fields.env)
    use = partial(_run_command, words, Path(stated.folder), seen)
    return ToolMember(tool, stated, use, effects=stated.fields.effects is not False)


def stated_command(stated: StatedTool) -> Tool:
    """What a model reads of it is all stated."""
    given = stated.fields
    said = given.description if given.description is not UNSET else ""
    return Tool(str(given.name), said, ANYTHING if given.arguments is UNSET else given.arguments)


def environment(names: Sequence[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a program sees: the usual variables, and those that are named."""
    return {name: environ[name] for name in (*_SEEN, *names) if name in environ}


async def _run_command(
    words: list[str], folder: Path, env: Mapping[str, str], given: dict[str, Any]
) -> ToolResult:
    try:
        ended = await run_program(
            words, _encode(given), folder=folder, env=env, seconds=float("inf"), most=MAX_BYTES
        )
    except OSError as error:
        raise ToolFailure(f"cannot be started: {error.strerror or error}") from None
    if ended.full:
        raise ToolFailure(f"it printed more than {MAX_BYTES:,} bytes; ended")
    said = ended.out.decode(errors="replace").removesuffix("\n")
    if not ended.code:
        return ToolResult(said)
    how = f"exit code {ended.code}" if ended.code > 0 else f"ended by signal {-ended.code}"
    complained = ended.err.decode(errors="replace").strip()
    return ToolResult("\n".join(part for part in (how, complained, said) if part), failed=True)


def shown_value(value: Any) -> str:
    """A result that is no text, as one."""
    return "nested too deeply" if too_deep(value) else as_text(value)
