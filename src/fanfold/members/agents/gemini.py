"""The dialect of Gemini's command line, `gemini -o stream-json`.

It has no option for a budget or a number of turns, and it asks a failing server again
silently for as long as it runs: only `timeout` and `silence` bound it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fanfold.errors import InvalidReply, MemberError, Terminal
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
from fanfold.members.printed import decoded, failure, said_by, usage_of
from fanfold.price import Price, cost
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Traits

if TYPE_CHECKING:
    from fanfold.members.agents.fields import AgentFields


class Gemini(Dialect):
    """Success is: exit code 0 and a last result of status `success`."""

    name = "gemini"

    def words(self, traits: Traits, fields: AgentFields, start: Start) -> CommandLine:
        model = () if traits.model is None else ("-m", traits.model)
        words = (
            fields.program or "gemini", "-o", "stream-json", *model, "--skip-trust",
            "--approval-mode", _approval(fields),
        )  # fmt: skip
        return CommandLine(words, start.ask.spoken().encode())

    def environment(
        self, around: Mapping[str, str], traits: Traits, fields: AgentFields
    ) -> dict[str, str]:
        keys = ("GEMINI_API_KEY", "GOOGLE_API_KEY") if traits.tier == "subscription" else ()
        kept = {name: value for name, value in around.items() if name not in keys}
        return kept | resolved(fields.env, around)

    def bounds(self, traits: Traits, fields: AgentFields) -> WorkerLimits:
        return WorkerLimits(seconds=traits.timeout or None, silence=fields.silence)

    def reader(
        self, price: Price | None, *, resumed: bool = False, call: CallSize | None = None
    ) -> GeminiReader:
        return GeminiReader(price)

    def outcome(
        self, member: str, reading: WorkerReading, exit: Exit, ask: Ask
    ) -> Reply | MemberError:
        """An exit code of 256 or more is cut to its lowest byte, so it is not the status it looks like."""
        well = reading.ended and not reading.error and exit.code == 0
        if not well and (ended := from_outside(member, reading, exit)):
            return ended
        if not reading.ended:
            return without_result(member, reading, exit)
        if "max session turns" in reading.error:
            return Terminal(said_by(member, "stopped at its limit of turns"), scope="ask")
        if reading.error:
            return failure(member, reading.status, reading.error)
        if exit.code:
            return InvalidReply(f"{member}: exit code {exit.code} although there is a result")
        return reply_of(reading)


def _approval(fields: AgentFields) -> str:
    """In the default mode it has no tools that would ask somebody; `auto_edit` adds those that write
    files, `yolo` all of them."""
    if may_run(fields.type):
        return "yolo"
    return "auto_edit" if may_write(fields.type) else "default"


class GeminiReader:
    """It tells its tokens at the very end only, and never a cost."""

    def __init__(self, price: Price | None) -> None:
        self._price = price
        self.reading = WorkerReading()

    def meter(self, line: bytes) -> None:
        """Nothing: the log tells what it spends."""

    def feed(self, line: bytes) -> tuple[EventLine, ...]:
        self.reading.lines += 1
        event = decoded(line)
        told = self._told(event) if isinstance(event, dict) else None
        if told is None:
            return ()
        one = EventLine(*told, moment(event.get("timestamp")), str(event.get("type")))
        self.reading.note_event(one, one_line(self.reading.text))
        return (one,)

    def _told(self, event: dict[str, Any]) -> tuple[Any, str] | None:
        reading = self.reading
        match event.get("type"):
            case "init":
                reading.session = str(event.get("session_id") or "")
                reading.model = str(event.get("model") or "") or None
                return "system", one_line(f"session {reading.session} of {reading.model}")
            case "message" if event.get("role") == "assistant":
                said = str(event.get("content") or "")
                reading.text = reading.text + said if event.get("delta") else said
                return "text", one_line(said)
            case "tool_use":
                reading.text = ""  # what it says before a tool is not the answer
                return "tool", tool_line(event.get("tool_name"), event.get("parameters"))
            case "tool_result":
                return "result", one_line(event.get("output") or event.get("status"))
            case "result":
                return self._result(event)
        return None

    def _result(self, event: dict[str, Any]) -> tuple[Any, str]:
        reading, error = self.reading, event.get("error")
        reading.ended, reading.exact = True, self._price is not None
        reading.subtype = str(event.get("status"))
        # `input` is without what was cached
        found = usage_of(event.get("stats"), "input", "output_tokens", "cached")
        reading.usage = Usage(found.input, found.output, found.cache_read)
        if self._price is not None:
            used = reading.usage
            reading.cost = cost(self._price, used.input, used.output, used.cache_read)
        if reading.subtype == "success":
            return "done", one_line(reading.text) or "done"
        told = error if isinstance(error, dict) else {}
        reading.error = str(told.get("message") or error or "it failed")
        code = re.search(r'"code":\s*(\d{3})\b', reading.error)
        reading.status = int(code[1]) if code else None
        return "failed", one_line(reading.error)
