"""The command line `codex`, as `codex exec --json` (made for 0.166.0)."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fanfold.errors import InvalidReply, MemberError, Terminal
from fanfold.members.agents.codex_meter import BEGUN, CONTEXT, LONG, OUTPUT
from fanfold.members.agents.codex_reader import CodexReader, CodexReading, failed
from fanfold.members.agents.dialect import (
    CommandLine,
    Dialect,
    Start,
    WorkerReading,
    from_outside,
    reply_of,
    without_result,
)
from fanfold.members.agents.logs import SESSION
from fanfold.members.agents.program_settings import (
    REFERENCE,
    codex_network,
    codex_sandbox,
    codex_web_search,
    resolved,
)
from fanfold.members.agents.worker import CallSize, Exit, Sandbox, WorkerLimits
from fanfold.members.printed import decoded
from fanfold.price import Price, nanos, worst
from fanfold.work.ask import Ask, Reply
from fanfold.work.member import Traits
from fanfold.work.nesting import decode_json

if TYPE_CHECKING:
    from fanfold.members.agents.fields import AgentFields


ANSWER, SCHEMA, OUTPUT_FOLDER = "last-message.txt", "schema.json", "output"
_KEYS = ("OPENAI_API_KEY", "CODEX_API_KEY")
_INSIDE = (
    "CODEX_VERSION", "CODEX_SESSION_ID", "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID", "CODEX_CI",
    "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
)  # fmt: skip
LAST = 64_000  # tokens of context that its last call may have, above its budget
_ROLLOUT = ("sessions", "*", "*", "*", f"rollout-*-{SESSION}.jsonl")

_encode = msgspec.json.Encoder().encode


class Codex(Dialect):
    """It has no limits of its own, neither for money nor for turns: the host carries them out, by
    the rollout file that codex keeps of each session."""

    name = "codex"

    def __init__(self, around: Mapping[str, str] = os.environ) -> None:
        self._around = around

    # ── the start ──

    def words(self, traits: Traits, fields: AgentFields, start: Start) -> CommandLine:
        schema = start.ask.schema
        words = (
            fields.program or "codex", "exec", "--json",
            *(() if traits.model is None else ("-m", traits.model)),
            "-s", _sandbox(fields), "-C", start.folder, "--skip-git-repo-check",
            "-o", str(Path(start.home, ANSWER)),
            *options(_settings(traits, fields, start)),
            *(() if schema is None else ("--output-schema", str(Path(start.home, SCHEMA)))),
            *(() if fields.session is None else ("resume", fields.session)),
            "-",
        )  # fmt: skip
        files = {} if schema is None else {SCHEMA: _encode(schema.definition)}
        return CommandLine(words, start.ask.spoken().encode(), files, self._meter(fields))

    def environment(
        self, around: Mapping[str, str], traits: Traits, fields: AgentFields
    ) -> dict[str, str]:
        """A subscription is not to be paid by a key that happens to lie around."""
        hidden = (*_INSIDE, *(_KEYS if traits.tier == "subscription" else ()))
        shown = {name: value for name, value in around.items() if name not in hidden}
        return shown | resolved(fields.env, around)

    def resume_command(self, program: str, session: str) -> tuple[str, ...]:
        return program, "resume", session

    def bounds(self, traits: Traits, fields: AgentFields) -> WorkerLimits:
        budget = fields.max_budget_usd
        kept = budget is not None and traits.price is not None
        return WorkerLimits(
            seconds=traits.timeout or None,
            silence=fields.silence,
            usd=nanos(budget or 0.0) if kept else None,
            turns=fields.max_turns,
            most=self.most(traits, fields) if kept and fields.overrun != "allow" else None,
        )

    def call(self, traits: Traits, fields: AgentFields) -> CallSize:
        return CallSize(traits.context or CONTEXT, OUTPUT)

    def most(self, traits: Traits, fields: AgentFields) -> int | None:
        """Its cap is looked at after each reply: that reply can go over it by a whole call, and the
        next call may have begun before the host has ended it."""
        price, budget = traits.price, fields.max_budget_usd
        if price is None or budget is None:
            return None
        if fields.overrun == "allow":
            return nanos(budget)
        context = traits.context or LAST
        return nanos(budget) + worst(price, context, LONG) + worst(price, context, BEGUN)

    def _meter(self, fields: AgentFields) -> str:
        """Where its rollout will be. The folder is no secret, so it may be in a record."""
        told = {name: value for name, value in fields.env.items() if name in ("CODEX_HOME", "HOME")}
        env = {**self._around, **resolved(told, self._around)}
        home = env.get("CODEX_HOME") or os.path.join(env.get("HOME") or str(Path.home()), ".codex")
        return os.path.join(glob.escape(os.path.abspath(home)), *_ROLLOUT)

    # ── the course, and the end ──

    def reader(
        self, price: Price | None, *, resumed: bool = False, call: CallSize | None = None
    ) -> CodexReader:
        return CodexReader(price, resumed=resumed, call=call)

    def outcome(
        self, member: str, reading: WorkerReading, exit: Exit, ask: Ask
    ) -> Reply | MemberError:
        """codex does not check the schema: what is no JSON stays text, for the gate."""
        if exit.code == 0 and reading.subtype == "turn.completed":
            reading.data = None if ask.schema is None else decoded(reading.text.encode())
            return reply_of(reading)
        if ended := from_outside(member, reading, exit):
            return ended
        if reading.subtype == "turn.failed":
            return failed(member, reading.error)
        if reading.subtype == "turn.completed":
            return InvalidReply(f"{member}: exit code {exit.code} although there is a result")
        return without_result(member, reading, exit)

    def unknown(self, reading: WorkerReading, exit: Exit) -> int:
        """One that was stopped at its budget was stopped as soon as its host looked, so the next call
        had only begun."""
        if isinstance(reading, CodexReading) and reading.under_way and exit.why == "budget":
            meter = reading.meter
            return meter.one_call(min(BEGUN, meter.context.written(exit.at)))
        return reading.unknown(exit.at)


def _sandbox(fields: AgentFields) -> Sandbox:
    return fields.sandbox or codex_sandbox(fields.type)


def _settings(traits: Traits, fields: AgentFields, start: Start) -> Iterator[str]:
    yield from ALWAYS
    if fields.effort is not None:
        yield f"model_reasoning_effort={toml(fields.effort)}"
    yield f"web_search={toml('live' if codex_web_search(fields.type) else 'disabled')}"
    if _sandbox(fields) == "workspace-write":
        network = codex_network(fields.type) if fields.network is None else fields.network
        yield f"sandbox_workspace_write.network_access={toml(network)}"
        output = Path(start.output or Path(start.home, OUTPUT_FOLDER))
        if not output.is_relative_to(start.folder) and output.is_dir():  # else no command runs
            yield f"sandbox_workspace_write.writable_roots={toml([str(output)])}"
    if fields.system is not None:
        yield f"developer_instructions={toml(fields.system)}"
    if fields.mcp is not None:
        yield from mcp_settings(traits.id, fields.mcp, Path(start.folder))


_NAME = re.compile(r"[A-Za-z0-9_-]+")

# Without these it speaks to its maker's servers and others before the first call of the model.
_QUIET = (
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    "features.plugins=false",
    "features.apps=false",
)
# Agents of its own, and goals that it pursues by itself, would escape the meter.
_BOUNDED = ("agents.enabled=false", "features.goals=false")
# Variables named like a key, a secret or a token are not shown to the commands that it runs.
_DISCREET = ("shell_environment_policy.ignore_default_excludes=false",)

ALWAYS = (*_QUIET, *_BOUNDED, *_DISCREET)

# It waits for servers only if they are required, and then for 10 seconds; there is nobody to ask; and
# what is delegated may take hours, not the usual 60 seconds.
_PATIENT = {
    "required": True, "default_tools_approval_mode": "approve", "startup_timeout_sec": 60,
    "tool_timeout_sec": 86_400,
}  # fmt: skip


def options(settings: Iterable[str]) -> Iterator[str]:
    for setting in settings:
        yield from ("-c", setting)


def toml(value: Any) -> str:
    """A value as TOML has it; JSON's strings and lists are written in the same way there."""
    if isinstance(value, Mapping):
        pairs = (f"{_text(name)}={toml(one)}" for name, one in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(toml(one) for one in value) + "]"
    return _text(value)


def _text(value: Any) -> str:
    return _encode(value).decode().replace("\x7f", "\\u007f")


# ── MCP servers ──────────────────────────────────────────────────────────────────────────────


def mcp_settings(member: str, stated: str, folder: Path) -> Iterator[str]:
    """From the form that claude and most others take: JSON, or a file that holds it.

    Their tools may be called without asking, and may take their time.
    """
    text = stated if stated.lstrip().startswith("{") else _read(member, folder / stated)
    try:
        servers = decode_json(text)["mcpServers"]
    except (ValueError, KeyError, TypeError):
        raise _bad(member, 'it must be JSON: {"mcpServers": {...}}') from None
    if not isinstance(servers, dict):
        raise _bad(member, "`mcpServers` must be a table of servers")
    for name, server in servers.items():
        if not _NAME.fullmatch(name) or not isinstance(server, dict):
            raise _bad(member, f"the server `{name}` cannot be read")
        table = _remote(server) if "url" in server else _local(member, name, server)
        yield f"mcp_servers.{name}={toml(table | _PATIENT)}"


def _read(member: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise _bad(member, f"the file {file} cannot be read: {why}") from None


def _local(member: str, name: str, server: dict[str, Any]) -> dict[str, Any]:
    if not server.get("command"):
        raise _bad(member, f"the server `{name}` needs a `command` or a `url`")
    table = {"command": server["command"], "args": server.get("args") or []}
    given = server.get("env") or {}
    passed = [key for key, value in given.items() if value == REFERENCE + key]
    plain = {key: value for key, value in given.items() if key not in passed}
    return table | ({"env": plain} if plain else {}) | ({"env_vars": passed} if passed else {})


def _remote(server: dict[str, Any]) -> dict[str, Any]:
    headers = server.get("headers")
    return {"url": server["url"]} | ({"http_headers": headers} if headers else {})


def _bad(member: str, why: str) -> Terminal:
    return Terminal(f"{member}: `mcp`: {why}", scope="member")
