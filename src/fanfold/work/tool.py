"""Tools that a model may call, as a plan, a roster or a script states them; and how a call of one is
asked for and answered. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypedDict, Unpack

import msgspec
from msgspec import UNSET, Meta

from fanfold.errors import BadInput
from fanfold.work.arguments import public
from fanfold.work.ask import Ask, Call, Message
from fanfold.work.check import described
from fanfold.work.item import Item, canonical, digest
from fanfold.work.reader import (
    Count,
    Misfit,
    Positive,
    Stated,
    Text,
    Texts,
    Word,
    listed,
    read_options,
)

ROUNDS = 8
CALLS = 8
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KINDS = ("function", "command", "mcp")

RoundsField = Annotated[
    Count, Meta(description="How often tools may be used for one reply; then it is due.")
]
CallsField = Annotated[Count, Meta(description="Calls of tools in one reply; more are refused.")]


class ToolFields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One of `function` (`module:function`), `command` (its words) and `mcp` (the words that start a
    server, or its URL).

    `effects`: a call changes something, so one that was under way at a crash is never repeated
    silently. By default functions have none; commands do, and tools of a server that does not mark
    them read-only. `env`: variables that a program sees beside the usual ones. `only`: of a server's
    tools these. `key`: sent to a server behind a URL. `max_bytes`: of a result that a model sees.
    """

    called: ClassVar[str] = "a tool"
    function: Annotated[Stated[Text], Meta(description="module:function, from the folder.")] = UNSET
    command: Annotated[
        Stated[tuple[Text, ...]],
        Meta(
            description="A program and its arguments; it gets those of the call as JSON on stdin.",
            extra={"expected": "a list of words, such as [python3, count.py]; no shell reads it"},
        ),
    ] = UNSET
    mcp: Annotated[
        Stated[Word | tuple[Text, ...]],
        Meta(
            description="An MCP server: the words that start it, or its URL.",
            extra={"expected": "a URL, or the list of words that start the server"},
        ),
    ] = UNSET
    name: Annotated[Stated[Text], Meta(description="By which the model calls it.")] = UNSET
    description: Annotated[Stated[Text], Meta(description="What the model reads of it.")] = UNSET
    arguments: Annotated[
        Stated[dict[str, Any]], Meta(description="The JSON Schema of its arguments, an object.")
    ] = UNSET
    effects: Annotated[Stated[bool], Meta(description="Whether a call changes anything.")] = UNSET
    timeout: Annotated[Positive, Meta(description="Seconds for one call.")] = 30.0
    max_bytes: Annotated[Count, Meta(description="Of a result; its middle is left out.")] = 16_384
    env: Annotated[Texts, Meta(description="Variables that the program may see.")] = ()
    only: Annotated[Texts, Meta(description="Of the server's tools, these.")] = ()
    key: Annotated[Stated[Text], Meta(description="env:NAME or file:PATH, for a URL.")] = UNSET

    def __post_init__(self) -> None:
        said = [kind for kind in _KINDS if getattr(self, kind) is not UNSET]
        if len(said) != 1:
            what = f"not both `{said[0]}` and `{said[1]}`" if said else "it has none of them"
            raise Misfit(f"a tool is one of {', '.join(_KINDS)}: {what}", *said[1:2])
        for field in ("env", "only"):
            msgspec.structs.force_setattr(self, field, listed(getattr(self, field)))
        self._check_belonging(said[0])
        if self.key is not UNSET and not _KEY.fullmatch(self.key):
            raise Misfit("`key` must be env:NAME or file:PATH, never the key itself", "key")
        for name in self.env:
            if not _VARIABLE.fullmatch(name):
                raise Misfit(f"`{name}` is not the name of an environment variable", "env")
        if self.name is not UNSET:
            check_tool_name(self.name)
        self._check_kind(said[0])

    def _check_belonging(self, kind: str) -> None:
        fits = {
            "function": ("name", "description"), "command": ("name", "description", "arguments", "env"),
            "mcp": ("env", "only", "key"),
        }[kind]  # fmt: skip
        for field in ("name", "description", "arguments", "env", "only", "key"):
            given = getattr(self, field)
            if given is not UNSET and given != () and field not in fits:
                raise Misfit(f"`{field}` is not for a tool by `{kind}`", field)

    def _check_kind(self, kind: str) -> None:
        if kind == "command":
            if not self.command:
                raise Misfit("`command` is empty; give the program and its arguments", "command")
            if self.name is UNSET:
                raise Misfit(
                    "a tool by `command` needs a `name`, by which the model calls it", "command"
                )
            if self.arguments is not UNSET and self.arguments.get("type") != "object":
                raise Misfit("`arguments` must be a JSON Schema with `type: object`", "arguments")
        elif kind == "mcp" and isinstance(self.mcp, str):
            if not self.mcp.startswith(("http://", "https://")):
                what = f"must be a URL or a list of words, not `{self.mcp}`"
                raise Misfit(
                    f"`mcp` {what}; no shell reads it: [{', '.join(self.mcp.split())}]", "mcp"
                )
            if self.env:
                raise Misfit("`env` is for a server that is started, not for a URL", "env")
        elif kind == "mcp":
            if not self.mcp:
                raise Misfit(
                    "`mcp` is empty; give the words that start the server, or a URL", "mcp"
                )
            if self.key is not UNSET:
                raise Misfit(
                    "`key` is for a URL; a server that is started gets variables by `env`", "key"
                )

    @property
    def kind(self) -> str:
        return next(kind for kind in _KINDS if getattr(self, kind) is not UNSET)


ToolField = Word | ToolFields
"""`module:function` alone is short for `{function: …}`."""


def check_tool_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Misfit(f"`{name}` is no name of a tool: up to 64 letters, digits, _ and -", "name")


class StatedTool(msgspec.Struct, frozen=True):
    """A tool, and where it is from: `folder` is where functions are imported and programs run; `target` a
    function that a script gives itself."""

    fields: ToolFields
    folder: str = "."
    file: str | None = None
    line: int | None = None
    target: Any = None

    def bad(self, what: str) -> BadInput:
        return BadInput(what, file=self.file, line=self.line)

    @property
    def shown(self) -> str:
        """For people, before anything is imported or started."""
        given = self.fields
        if given.name is not UNSET:
            return given.name
        match given.kind:
            case "function":
                name = getattr(self.target, "__name__", None) or str(given.function)
                return str(name).rpartition(":")[2].rpartition(".")[2]
            case _ if isinstance(given.mcp, str):
                return f"mcp {given.mcp}"
        return f"mcp {Path(given.mcp[-1]).name if given.mcp else ''}"

    def mark(self) -> bytes:
        """The same tool has the same, so that two steps share a server."""
        own = f"{id(self.target)}" if self.target is not None else ""
        return digest(canonical([msgspec.to_builtins(self.fields), self.folder, own]))


class StatedTools(msgspec.Struct, frozen=True):
    """What a step or a member states of tools. With none of them nobody has any, whatever a member's
    own are."""

    tools: tuple[StatedTool, ...] = ()
    rounds: int = ROUNDS
    calls: int = CALLS

    def placed(self, file: str, lines: Sequence[int]) -> StatedTools:
        """With where each is written."""
        known = zip(self.tools, lines, strict=True)
        found = tuple(msgspec.structs.replace(one, file=file, line=line) for one, line in known)
        return StatedTools(found, self.rounds, self.calls)

    def describe(self) -> str:
        """In a few words, for a picture."""
        if not self.tools:
            return "no tools"
        return f"tools {', '.join(one.shown for one in self.tools)} (at most {self.rounds} rounds)"

    def mark(self) -> bytes:
        return digest(
            canonical([self.rounds, self.calls, *(one.mark().hex() for one in self.tools)])
        )


def as_fields(given: str | ToolFields) -> ToolFields:
    """In either way of writing it."""
    if isinstance(given, ToolFields):
        return given
    if ":" not in given:
        raise BadInput(f"a tool is module:function or a mapping, not `{given}`")
    return ToolFields(function=given)


def refuse_same_names(tools: Sequence[StatedTool]) -> None:
    """As far as names are known before anything is imported or started."""
    seen: set[str] = set()
    for one in tools:
        if one.shown in seen:
            raise one.bad(f"two tools are called `{one.shown}`; give one another `name`")
        seen.add(one.shown)


def one_of_all(found: Iterable[tuple[str, StatedTools | None]]) -> StatedTools | str | None:
    """The tools of those who may answer the same ask. They read the same, so these are the same; a text
    says why they are not."""
    (first, tools), *rest = list(found) or [("", None)]
    mark = None if tools is None else tools.mark()
    for id, other in rest:
        if (None if other is None else other.mark()) != mark:
            return (
                f"members {first} and {id} may answer the same ask, but have different tools; state"
                " `tools` at the step (`tools: []` for none), or name one of them"
            )
    return tools


# ── in scripts ───────────────────────────────────────────────────────────────────────────────


class ToolOptions(TypedDict, total=False):
    """The fields of a tool, see `ToolFields`."""

    command: Sequence[str]
    mcp: str | Sequence[str]
    name: str
    description: str
    arguments: dict[str, Any]
    effects: bool
    timeout: float
    max_bytes: int
    env: str | Sequence[str]
    only: str | Sequence[str]
    key: str


@public
def tool(
    target: Callable[..., Any] | str | None = None, **fields: Unpack[ToolOptions]
) -> StatedTool:
    """A tool for `tools=[…]`: a function (`ff.tool(look_up, effects=True)`), a program
    (`ff.tool(command=["wc"], name="count")`) or an MCP server (`ff.tool(mcp=["server"])`)."""
    given: dict[str, Any] = dict(fields)
    if isinstance(target, str):
        given["function"] = target
    elif target is not None:
        if not callable(target):
            raise BadInput(f"tool() needs a function, not {described(target)}")
        name = str(getattr(target, "__name__", ""))
        where = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', name)}"
        given["function"] = where
    read = read_options(given, ToolFields)
    return StatedTool(read, target=target if callable(target) else None)


def script_tools(given: Any) -> tuple[StatedTool, ...]:
    """`tools=` of a Python call: functions, texts, mappings, what `tool()` gives."""
    if isinstance(given, str | dict) or callable(given) or not isinstance(given, Sequence):
        raise BadInput(f"`tools` must be a list, not {described(given)}: tools=[…]")
    found = []
    for one in given:
        if isinstance(one, StatedTool):
            found.append(one)
        elif isinstance(one, dict):
            found.append(tool(**one))
        elif isinstance(one, str) or callable(one):
            found.append(tool(one))
        else:
            raise BadInput(f"`tools` must hold functions or ff.tool(…), not {described(one)}")
    refuse_same_names(found)
    return tuple(found)


# ── one call ─────────────────────────────────────────────────────────────────────────────────


class ToolResult(NamedTuple):
    """What a model gets to read. `failed`: it is told as an error."""

    text: str
    failed: bool = False


def call_ask(ask: Ask, call: Call, number: int, whose: Sequence[str]) -> Ask:
    """A call of a tool as an ask of it. Its key is that of the conversation so far and of the call: a
    tool may say something else each time, but what it said at this point stays. `whose`: the run and,
    where the call has effects, the item that it is for; items with the same prompt share the others."""
    point = canonical([ask.key("messages").hex(), number, call.id, call.name, list(whose)])
    place = Message("user", digest(point).hex())
    return Ask((place,), (Item(call.name, {"arguments": call.given}),))
