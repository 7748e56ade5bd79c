"""The dialect of Claude Code's command line, `claude -p`.

Its words are an allow-list: `--tools` takes every other tool away, and under `dontAsk` what is not
allowed is denied without asking anybody. The prompt goes to stdin, never into the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fanfold.errors import InvalidReply, MemberError, Terminal
from fanfold.members.agents.claude_events import ClaudeReader, ClaudeReading
from fanfold.members.agents.claude_meter import CONTEXT, worst_call
from fanfold.members.agents.dialect import (
    CommandLine,
    Dialect,
    Start,
    WorkerReading,
    from_outside,
    reply_of,
    without_result,
    without_servers,
)
from fanfold.members.agents.program_settings import claude_tools, pricing_model, resolved
from fanfold.members.agents.worker import CallSize, Exit, WorkerLimits
from fanfold.members.printed import decoded, failure, said_by
from fanfold.price import Price, lookup, nanos
from fanfold.work.ask import Ask, Reply
from fanfold.work.member import Traits

if TYPE_CHECKING:
    from fanfold.members.agents.fields import AgentFields

MCP = "mcp.json"
LAST = 64_000  # tokens of context that its last call may have, above its budget, unless stated else
INSIDE = frozenset({
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_SESSION_KIND",
    "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN", "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_TASK_LIST_ID", "CLAUDE_PID", "CLAUDE_JOB_DIR", "CLAUDE_PROJECT_DIR",
    "CLAUDE_ENV_FILE", "CLAUDE_EFFORT", "CLAUDE_CODE_SIMPLE", "AI_AGENT",
})  # fmt: skip
"""By these a claude thinks that it runs inside another one's session, or that it is `--bare`."""
ACCOUNTS = frozenset({
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
})  # fmt: skip
"""With these it bills another account than the login's own."""
_SMALL = ("ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
_OTHERS = (*_SMALL, "CLAUDE_CODE_SUBAGENT_MODEL")
"""Variables that name further models."""


class Claude(Dialect):
    """Success is: exit code 0, a last result that is no error, and data where a schema was asked for."""

    name = "claude"

    def words(self, traits: Traits, fields: AgentFields, start: Start) -> CommandLine:
        """Raises a Terminal for an `mcp` that cannot be read."""
        mcp = _Mcp.of(fields.mcp, start)
        words = [
            fields.program or "claude", "-p", "--input-format", "stream-json",
            "--replay-user-messages", "--output-format", "stream-json", "--verbose",
            "--include-partial-messages", "--permission-mode", "dontAsk",
            *_tools(fields, mcp.servers), *_options(traits, fields, start), "--strict-mcp-config",
            *(("--mcp-config", mcp.file) if mcp.file else ()),
        ]  # fmt: skip
        return CommandLine(tuple(words), start.ask.spoken().encode(), mcp.files, listens=True)

    def environment(
        self, around: Mapping[str, str], traits: Traits, fields: AgentFields
    ) -> dict[str, str]:
        """A subscription's worker gets no API key, unless the roster states one."""
        without = INSIDE | (ACCOUNTS if traits.tier == "subscription" else frozenset())
        kept = {name: value for name, value in around.items() if name not in without}
        bounds = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(traits.max_tokens)}
        if (traits.context or CONTEXT) <= CONTEXT:
            bounds["CLAUDE_CODE_DISABLE_1M_CONTEXT"] = "1"
        return {**kept, "DISABLE_AUTOUPDATER": "1", **bounds, **resolved(fields.env, around)}

    def resume_command(self, program: str, session: str) -> tuple[str, ...]:
        return program, "--resume", session

    def bounds(self, traits: Traits, fields: AgentFields) -> WorkerLimits:
        """It sees to its turns and its budget itself, the latter by its own table of prices: where
        the roster states others, the host counts too. Under a budget the host also sees to it that
        no call of a large context takes more than is reserved for the last one. The turns are for the host
        of one that was given a message: it begins to count anew then."""
        cap = None if fields.max_budget_usd is None else nanos(fields.max_budget_usd)
        usd = None if self.rates(traits) is None else cap
        most = None if cap is None or fields.overrun == "allow" else self.most(traits, fields)
        return WorkerLimits(
            seconds=traits.timeout or None, silence=fields.silence, usd=usd, most=most,
            turns=fields.max_turns,
        )  # fmt: skip

    def rates(self, traits: Traits) -> Price | None:
        """A price that the roster states goes before claude's own figures. One that was looked up
        does not: each call is billed by the model that answered it, which may be a fallback."""
        return None if traits.price == _listed(traits.model) else traits.price

    def call(self, traits: Traits, fields: AgentFields) -> CallSize:
        return CallSize(traits.context or CONTEXT, traits.max_tokens)

    def reader(
        self, price: Price | None, *, resumed: bool = False, call: CallSize | None = None
    ) -> ClaudeReader:
        return ClaudeReader(price, resumed=resumed, call=call)

    def outcome(
        self, member: str, reading: WorkerReading, exit: Exit, ask: Ask
    ) -> Reply | MemberError:
        well = reading.ended and not reading.error and exit.code == 0
        if not well and (ended := from_outside(member, reading, exit)):
            return ended
        if missing := without_servers(member, reading):
            return missing
        if not reading.ended:
            return without_result(member, reading, exit)
        if reading.finish == "refusal":
            return reply_of(reading)
        if reading.error:
            return _failed(member, reading, exit)
        if exit.code:
            return InvalidReply(f"{member}: exit code {exit.code} although there is a result")
        if ask.schema is not None and reading.data is None:
            return InvalidReply(f"{member}: it never gave the data that the schema asks for")
        return reply_of(reading)

    def most(self, traits: Traits, fields: AgentFields) -> int | None:
        """It looks at its budget after each call, so one call more is possible."""
        prices = _prices(self.rates(traits), traits, fields)
        if prices is None:
            return None
        flat = 0 if traits.price is None else nanos(traits.price.call)
        if fields.max_budget_usd is not None:
            room = traits.context or LAST
            last = 0 if fields.overrun == "allow" else _worst(prices, room, traits.max_tokens)
            return flat + nanos(fields.max_budget_usd) + last
        if fields.max_turns is None:
            return None
        return flat + fields.max_turns * _worst(
            prices, traits.context or CONTEXT, traits.max_tokens
        )


# ── words ────────────────────────────────────────────────────────────────────────────────────


class _Mcp(msgspec.Struct, frozen=True):
    """Servers by name, the file that states them, and that file if it is still to be written: what
    the roster states itself may hold secrets, so it is never among the arguments."""

    servers: tuple[str, ...] = ()
    file: str = ""
    files: dict[str, bytes] = {}

    @staticmethod
    def of(stated: str | None, start: Start) -> _Mcp:
        if not stated:
            return _Mcp()
        if stated.lstrip().startswith("{"):
            text, file = stated.encode(), str(Path(start.home, MCP))
            return _Mcp(_servers(text, "mcp"), file, {MCP: text})
        path = Path(start.folder, stated).absolute()
        try:
            return _Mcp(_servers(path.read_bytes(), str(path)), str(path))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise Terminal(f"mcp: cannot read {path}: {why}", scope="member") from None


def _servers(text: bytes, where: str) -> tuple[str, ...]:
    stated = decoded(text)
    servers = stated.get("mcpServers") if isinstance(stated, dict) else None
    if not isinstance(servers, dict):
        raise Terminal(f'{where}: not of the form {{"mcpServers": {{...}}}}', scope="member")
    return tuple(servers)


def _tools(fields: AgentFields, servers: tuple[str, ...]) -> Iterator[str]:
    """Those there are, and those it may use: `Bash(git *)` is the tool Bash, for git alone."""
    tools = claude_tools(fields.type) if fields.tools is None else fields.tools
    there = dict.fromkeys(tool.partition("(")[0] for tool in tools if not tool.startswith("mcp__"))
    allowed = (*tools, *(f"mcp__{server}" for server in servers))
    yield from ("--tools", ",".join(there))
    if allowed:
        yield from ("--allowed-tools", *allowed)


def _options(traits: Traits, fields: AgentFields, start: Start) -> Iterator[str]:
    budget, schema = fields.max_budget_usd, start.ask.schema
    fallback = fields.fallback_model if fields.fallback_model != traits.model else None
    stated: dict[str, Any] = {
        "--model": traits.model,
        "--fallback-model": fallback,
        "--effort": fields.effort,
        "--max-turns": fields.max_turns,
        "--max-budget-usd": None if budget is None else _plain(budget),
        "--resume": fields.session,
        "--session-id": None if fields.session else start.session,
        "--name": start.label,
        "--append-system-prompt": fields.system,
        "--json-schema": schema and msgspec.json.encode(schema.definition).decode(),
    }
    for option, value in stated.items():
        if value:
            yield from (option, str(value))


def _plain(amount: float) -> str:
    """As one writes it: 0.5 and 2, never 1e-05."""
    return f"{amount:.9f}".rstrip("0").rstrip(".")


# ── money ────────────────────────────────────────────────────────────────────────────────────


def _listed(model: str | None) -> Price | None:
    return lookup(pricing_model("claude", model), "anthropic")


def _models(traits: Traits, fields: AgentFields) -> Iterator[str | None]:
    """All that it may ask: its own, those that take over, the small one it uses in the background,
    and that of its subagents where one is stated."""
    yield traits.model
    yield from filter(None, (fields.fallback_model or "").split(","))
    yield from filter(None, (fields.env.get(name) for name in _OTHERS))
    if not any(name in fields.env for name in _SMALL):
        yield "haiku"


def _prices(stated: Price | None, traits: Traits, fields: AgentFields) -> list[Price] | None:
    """Of all the models that it may use. None: one of them has no known price."""
    if stated is not None:
        return [stated]
    found = [_listed(model) for model in _models(traits, fields)]
    return None if None in found else [price for price in found if price]


def _worst(prices: list[Price], context: int, output: int) -> int:
    return max(worst_call(price, context, output) for price in prices)


# ── how it ended ─────────────────────────────────────────────────────────────────────────────


def _failed(member: str, reading: WorkerReading, exit: Exit) -> MemberError:
    """`success` is among the subtypes of failure: an API error is one."""
    why = reading.error
    match reading.subtype:
        case "error_max_budget_usd":
            return Terminal(f"{member}: stopped at its budget{_limit(why)}", scope="ask")
        case "error_max_turns":
            return Terminal(f"{member}: stopped at its limit of turns{_limit(why)}", scope="ask")
        case "error_max_structured_output_retries":
            return InvalidReply(said_by(member, why))
        case "success":
            return _api_error(member, reading, exit)
    return Terminal(said_by(member, why), scope="ask")


def _api_error(member: str, reading: WorkerReading, exit: Exit) -> MemberError:
    why, text = reading.error, said_by(member, reading.error, reading.status)
    if isinstance(reading, ClaudeReading):
        if reading.reset_at is not None:
            wait = max(0.0, reading.reset_at - exit.at)
            return Terminal(text, scope="pool", reset_after=wait)
        if reading.cut:
            text = f"{member}: a reply was longer than one call may be; raise its max_tokens"
            return Terminal(text, scope="ask")
    if "prompt is too long" in why.lower():
        return Terminal(text, scope="ask", too_long=True)
    return failure(member, reading.status, why)


def _limit(why: str) -> str:
    """`: 2` or ` of $0.5`, from `Reached maximum number of turns (2)` or `... budget ($0.5)`."""
    found = re.search(r"\((\$?)([\d.]+)\)", why)
    if found is None:
        return ""
    return f" of ${found[2]}" if found[1] else f": {found[2]}"
