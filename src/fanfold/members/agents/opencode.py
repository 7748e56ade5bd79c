"""The dialect of `opencode run --format json`.

It has no option for a budget or a number of turns: `timeout` and `silence` bound it. What
it may do is a matter of its own configuration; `--auto` only spares it from asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fanfold.errors import InvalidReply, MemberError
from fanfold.members.agents.dialect import (
    CommandLine,
    Dialect,
    EventLine,
    Start,
    WorkerReading,
    from_outside,
    moment,
    one_line,
    reply_of,
    tool_line,
    without_result,
)
from fanfold.members.agents.program_settings import may_run, may_write, resolved
from fanfold.members.agents.worker import CallSize, Exit, WorkerLimits
from fanfold.members.printed import amount, count, decoded, failure, status_of
from fanfold.price import Price, cost, nanos
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Traits

if TYPE_CHECKING:
    from fanfold.members.agents.fields import AgentFields

CONFIG = "OPENCODE_CONFIG_CONTENT"


class Opencode(Dialect):
    """Success is: exit code 0 and a last step that ended with `stop`, with a text. A run whose tool
    was refused ends with exit code 0 all the same. Its host ends it above its budget, but by how much
    nothing bounds."""

    name = "opencode"

    def words(self, traits: Traits, fields: AgentFields, start: Start) -> CommandLine:
        """A title, else it asks the model for one; the prompt on stdin, where nothing is quoted."""
        model = () if traits.model is None else ("-m", traits.model)
        session = () if fields.session is None else ("--session", fields.session)
        words = (
            fields.program or "opencode", "run", "--format", "json", "--auto", "--title",
            start.label or traits.id, *model, *session,
        )  # fmt: skip
        return CommandLine(words, start.ask.spoken().encode())

    def environment(
        self, around: Mapping[str, str], traits: Traits, fields: AgentFields
    ) -> dict[str, str]:
        """What its type does not allow is denied in its configuration, whatever else is there."""
        made = {**around, **resolved(fields.env, around)}
        config = decoded(made.get(CONFIG, "{}").encode())
        config = config if isinstance(config, dict) else {}
        denied = {"bash": may_run(fields.type), "edit": may_write(fields.type)}
        rules = {tool: "allow" if allowed else "deny" for tool, allowed in denied.items()}
        stated = config.get("permission")
        config["permission"] = {**(stated if isinstance(stated, dict) else {}), **rules}
        return {**made, CONFIG: msgspec.json.encode(config).decode()}

    def bounds(self, traits: Traits, fields: AgentFields) -> WorkerLimits:
        usd = None if fields.max_budget_usd is None else nanos(fields.max_budget_usd)
        return WorkerLimits(
            seconds=traits.timeout or None, silence=fields.silence, usd=usd, turns=fields.max_turns
        )

    def reader(
        self, price: Price | None, *, resumed: bool = False, call: CallSize | None = None
    ) -> OpencodeReader:
        return OpencodeReader(price)

    def outcome(
        self, member: str, reading: WorkerReading, exit: Exit, ask: Ask
    ) -> Reply | MemberError:
        well = reading.ended and not reading.error and exit.code == 0
        if not well and (ended := from_outside(member, reading, exit)):
            return ended
        if reading.error:
            return failure(member, reading.status, reading.error)
        if exit.code or not reading.lines:
            return without_result(member, reading, exit)
        if reading.denied and not reading.text:
            return InvalidReply(f"{member}: it gave up, not allowed to use {reading.denied[-1]}")
        if not reading.ended:
            return InvalidReply(f"{member}: it ended in the middle of its work, without an answer")
        return reply_of(reading)


class OpencodeReader:
    """Each step tells its tokens, and a cost by the prices of its own configuration."""

    def __init__(self, price: Price | None) -> None:
        """A flat price is for the whole run, however many steps."""
        self._price = None if price is None else msgspec.structs.replace(price, call=0.0)
        self.reading = WorkerReading()
        self.reading.cost = None if price is None else nanos(price.call)

    def meter(self, line: bytes) -> None:
        """Nothing: the log tells what it spends."""

    def feed(self, line: bytes) -> tuple[EventLine, ...]:
        self.reading.lines += 1
        event = decoded(line)
        if not isinstance(event, dict):
            return ()
        self.reading.session = str(event.get("sessionID") or self.reading.session)
        part = event.get("part")
        told = self._told(event, part if isinstance(part, dict) else {})
        if told is None:
            return ()
        one = EventLine(*told, moment(event.get("timestamp")), str(event.get("type")))
        self.reading.note_event(one)
        return (one,)

    def _told(self, event: dict[str, Any], part: dict[str, Any]) -> tuple[Any, str] | None:
        reading = self.reading
        match event.get("type"):
            case "step_start":
                reading.ended, reading.text = False, ""
            case "text":
                reading.text = str(part.get("text") or "")
                return "text", one_line(reading.text)
            case "tool_use":
                return self._tool(part)
            case "step_finish":
                return self._step(part)
            case "error":
                return self._error(event.get("error"))
        return None

    def _tool(self, part: dict[str, Any]) -> tuple[Any, str]:
        state = part.get("state")
        state = state if isinstance(state, dict) else {}
        if state.get("status") == "error":
            if "rejected permission" in str(state.get("error")):
                self.reading.denied = (*self.reading.denied, str(part.get("tool")))
            return "result", one_line(f"{part.get('tool')}: {state.get('error')}")
        return "tool", tool_line(part.get("tool"), state.get("input"))

    def _step(self, part: dict[str, Any]) -> tuple[Any, str] | None:
        reading, used = self.reading, _usage(part.get("tokens"))
        reading.usage += used
        reading.turns += 1
        told = amount(part.get("cost"))
        added = None if told is None else nanos(told)
        if self._price is not None:
            added = cost(self._price, used.input, used.output, used.cache_read, used.cache_write)
        if added is not None:
            reading.cost, reading.exact = (reading.cost or 0) + added, True
        reading.subtype = str(part.get("reason"))
        reading.ended = reading.subtype != "tool-calls"
        return ("done", one_line(reading.text) or "done") if reading.ended else None

    def _error(self, error: Any) -> tuple[Any, str]:
        told = error if isinstance(error, dict) else {}
        data = told.get("data")
        data = data if isinstance(data, dict) else {}
        reading = self.reading
        reading.error = str(data.get("message") or told.get("name") or "it failed")
        reading.status = status_of(data.get("statusCode"))
        return "failed", one_line(reading.error)


def _usage(tokens: Any) -> Usage:
    """Reasoning is billed as output; input is without what was cached."""
    told = tokens if isinstance(tokens, dict) else {}
    cache = told.get("cache")
    cache = cache if isinstance(cache, dict) else {}
    output = count(told.get("output")) + count(told.get("reasoning"))
    return Usage(
        count(told.get("input")), output, count(cache.get("read")), count(cache.get("write"))
    )
