"""Members for scripts, without a roster file: the same fields, checks and traits as an entry there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import msgspec

from fanfold.errors import BadInput
from fanfold.members.entry import Entry, read_entry
from fanfold.members.stated import (
    AGENTS,
    AgentFields,
    ApiFields,
    ClaudeFields,
    CodexFields,
    CommandFields,
    CommonFields,
    Short,
    refuse_pasted_keys,
    with_limits,
)
from fanfold.work.arguments import public
from fanfold.work.check import described
from fanfold.work.document import Node
from fanfold.work.member import Traits
from fanfold.work.nearest import remedy
from fanfold.work.options import plain


class ScriptedEntry(msgspec.Struct, frozen=True):
    """A member that a script states, for `open_run(members=[…])`. It is built when a run needs it,
    in the folder of then, like an entry of a roster file there."""

    entry: Entry

    @property
    def traits(self) -> Traits:
        return self.entry.traits


class ApiOptions(CommonFields, ApiFields, Short, total=False):
    """The fields of a model over HTTP."""


class CommandOptions(CommonFields, CommandFields, Short, total=False):
    """The fields of a command."""


class AgentOptions(CommonFields, AgentFields, ClaudeFields, CodexFields, Short, total=False):
    """The fields of an agent; some belong to one program only, which the check says."""


@public
def openai(model: str, **fields: Unpack[ApiOptions]) -> ScriptedEntry:
    """A model with an OpenAI-compatible API: `members=[ff.openai("gpt-5-mini")]`.

    The fields are those of a roster entry: `id` (the model's name by default), `key`
    (`env:OPENAI_API_KEY`), `base_url` for another server, `price`, `max_tokens`, `limits`, …
    """
    return _made("openai", {"model": model}, fields, model)


@public
def anthropic(model: str, **fields: Unpack[ApiOptions]) -> ScriptedEntry:
    """A model of the Messages API: `members=[ff.anthropic("claude-sonnet-5")]`. Fields as above; the
    key is `env:ANTHROPIC_API_KEY` by default."""
    return _made("anthropic", {"model": model}, fields, model)


@public
def command(cmd: Sequence[str], **fields: Unpack[CommandOptions]) -> ScriptedEntry:
    """A program that gets the prompt on stdin, or in place of `{prompt}`, and prints the answer:
    `members=[ff.command(["llm", "-m", "qwen"])]`. It runs in the current folder."""
    first = cmd[0] if isinstance(cmd, list | tuple) and cmd else ""
    return _made(
        "command", {"cmd": cmd}, fields, Path(first).name if isinstance(first, str) else ""
    )


@public
def agent(
    kind: Literal["claude", "codex", "gemini", "opencode"], **fields: Unpack[AgentOptions]
) -> ScriptedEntry:
    """An agent that works in the current folder: `members=[ff.agent("claude", type="read-only")]`.
    The login is the program's own."""
    if kind not in AGENTS:
        hint = remedy(kind, AGENTS) if isinstance(kind, str) else f"known: {', '.join(AGENTS)}"
        raise BadInput(f"agent() needs the kind of an agent, not {described(kind)}: {hint}")
    return _made(kind, {}, fields, kind)


def _made(kind: str, first: dict[str, Any], fields: Mapping[str, Any], name: str) -> ScriptedEntry:
    """By way of the roster's own reader. None is not stated."""
    node = Node(plain({"kind": kind, **first, "id": name or None, **with_limits(fields)}), "", {})
    refuse_pasted_keys(node)
    return ScriptedEntry(read_entry(node))
