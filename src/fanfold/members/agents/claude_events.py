"""The log of `claude -p --output-format stream-json --verbose --include-partial-messages`, read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from fanfold.members.agents.claude_meter import ClaudeMeter, Result, read_result
from fanfold.members.agents.dialect import (
    EventLine,
    WorkerReading,
    blocks,
    moment,
    one_line,
    tool_line,
)
from fanfold.members.agents.worker import CallSize
from fanfold.members.printed import amount, decoded
from fanfold.price import Price

_DELTA = b'{"type":"stream_event","event":{"type":"content_block_delta"'
_SYNTHETIC = "<synthetic>"  # a message of the program's own, for an error: not the model's
_PLAIN_HOURS = (2, 1, 197)  # up to this version, cache writes for an hour were billed like others
_encode = msgspec.json.Encoder().encode


class _Bit(msgspec.Struct, frozen=True):
    text: str = ""
    thinking: str | None = None
    partial_json: str = ""


class _BitEvent(msgspec.Struct, frozen=True):
    delta: _Bit = _Bit()


class _BitLine(msgspec.Struct, frozen=True):
    """What is read of a delta: most lines of a log are one, so it is quick."""

    event: _BitEvent = _BitEvent()
    parent_tool_use_id: str | None = None


_bit = msgspec.json.Decoder(_BitLine).decode


class ClaudeReading(WorkerReading):
    """`under_way`: at its last word the model was being asked. `again`: its last reply wants tools
    used, so it will be asked once more. `cut`: a reply was longer than one call may be."""

    def __init__(self, meter: ClaudeMeter) -> None:
        super().__init__()
        self._meter = meter
        self.under_way = False
        self.again = False
        self.cut = False

    def unknown(self, until: float | None) -> int:
        return self._meter.unknown(until) if self.under_way else 0

    def next_call(self) -> int:
        return self._meter.whole_call() if self.again else 0


class ClaudeReader:
    """Follows one run. Figures are worked out when somebody looks at them."""

    def __init__(
        self, price: Price | None, *, resumed: bool = False, call: CallSize | None = None
    ) -> None:
        self._meter = ClaudeMeter(price, resumed=resumed, call=call)
        self._reading = ClaudeReading(self._meter)
        self._stale = False
        self._folder = ""
        self._has_task = False
        self._streams: dict[str, str] = {}  # by who speaks: the message that is coming in
        self._ways: dict[str, Callable[[dict[str, Any]], Iterator[EventLine]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "stream_event": self._stream,
            "rate_limit_event": self._rate_limit,
            "result": self._result,
        }

    @property
    def reading(self) -> ClaudeReading:
        reading, meter = self._reading, self._meter
        if self._stale:
            reading.usage, reading.cost = meter.usage, meter.cost
            self._stale = False
        reading.exact = meter.exact and not reading.under_way
        return reading

    def feed(self, line: bytes) -> tuple[EventLine, ...]:
        self._reading.lines += 1
        if line.startswith(_DELTA):  # what these bring comes again, whole
            self._bit(line)
            return ()
        event = decoded(line)
        if not isinstance(event, dict):
            return ()
        way = self._ways.get(str(event.get("type")))
        if way is None:
            return ()
        self._reading.session = str(event.get("session_id") or self._reading.session)
        told = tuple(_named(event, one) for one in way(event))
        for one in told:
            self._reading.note_event(one)
        return told

    def meter(self, line: bytes) -> None:
        """Nothing: the log tells what it spends."""

    def _bit(self, line: bytes) -> None:
        try:
            told = _bit(line)
        except msgspec.DecodeError:
            return
        bit, id = told.event.delta, self._streams.get(told.parent_tool_use_id or "")
        if id is not None:
            size = len(line) if bit.thinking else len((bit.text + bit.partial_json).encode())
            self._meter.streams(id, size, bit.thinking is not None)
            self._stale = True

    # ── one way for each type of event ──

    def _system(self, event: dict[str, Any]) -> Iterator[EventLine]:
        reading = self._reading
        match event.get("subtype"):
            case "init":
                reading.model = str(event.get("model") or "") or reading.model
                reading.under_way = True
                self._meter.starts_with(reading.model or "")
                self._folder = str(event.get("cwd") or "")
                self._meter.hours = _version(event) > _PLAIN_HOURS
                reading.missing = tuple(_not_there(event.get("mcp_servers")))
                yield EventLine("system", one_line(f"session {reading.session} of {reading.model}"))
            case "status":
                reading.under_way |= event.get("status") == "requesting"
            case "api_retry":
                reading.retries += 1
                yield EventLine("retry", _retry(event))
            case "permission_denied":
                yield EventLine("system", one_line(f"denied: {event.get('tool_name')}"))
            case "model_fallback":
                yield EventLine(
                    "system", one_line(event.get("content") or "another model takes over")
                )
            case "model_refusal_no_fallback":
                yield EventLine("system", "the model refused")

    def _assistant(self, event: dict[str, Any]) -> Iterator[EventLine]:
        message = event.get("message")
        message = message if isinstance(message, dict) else {}
        parts = list(blocks(message))
        if message.get("model") == _SYNTHETIC:
            self._reading.cut = event.get("api_error") == "max_output_tokens"
            for part in parts:
                yield EventLine("system", one_line(part.get("text")))
            return
        if isinstance(message.get("id"), str):
            self._count(event, message)
            size = sum(len(_written(part)) for part in parts)
            self._meter.wrote(message["id"], size)
            if not event.get("parent_tool_use_id"):
                self._meter.add_to_context(message["id"])
        for part in parts:
            yield from self._said(part)

    def _count(self, event: dict[str, Any], message: dict[str, Any]) -> None:
        before = self._meter.messages
        self._meter.begun(message["id"], str(message.get("model")), message.get("usage"))
        if not event.get("parent_tool_use_id"):
            self._reading.turns += self._meter.messages - before
        self._reading.model = self._reading.model or str(message.get("model"))
        self._stale = True

    def _said(self, part: dict[str, Any]) -> Iterator[EventLine]:
        match part.get("type"):
            case "text" if one_line(part.get("text")):
                yield EventLine("text", one_line(part.get("text")))
            case "thinking" if one_line(part.get("thinking")):
                yield EventLine("thought", one_line(part.get("thinking")))
            case "tool_use" | "server_tool_use":
                yield EventLine(
                    "tool", tool_line(part.get("name"), part.get("input"), self._folder)
                )

    def _user(self, event: dict[str, Any]) -> Iterator[EventLine]:
        """What its tools gave back. After it the model is asked again. Or a message that it has read: its
        task, then what an operator said meanwhile."""
        if event.get("isReplay"):
            yield from self._heard(event.get("message"))
            return
        self._reading.under_way = True
        self._meter.context.asked(moment(event.get("timestamp")))
        for part in blocks(event.get("message")):
            self._meter.context.grew(len(_encode(part)))
            if part.get("type") == "tool_result":
                said = "; ".join(one_line(one.get("text")) for one in blocks(part))
                yield EventLine(
                    "result", one_line(f"error: {said}" if part.get("is_error") else said)
                )

    def _heard(self, message: Any) -> Iterator[EventLine]:
        first, self._has_task = not self._has_task, True
        for part in () if first else blocks(message):
            self._reading.under_way = True
            self._meter.context.grew(len(_encode(part)))
            yield EventLine("system", one_line(f"told: {one_line(part.get('text'))}"))

    def _stream(self, event: dict[str, Any]) -> Iterator[EventLine]:
        """The beginning and the end of a message: the exact counts."""
        inner = event.get("event")
        inner = inner if isinstance(inner, dict) else {}
        who = str(event.get("parent_tool_use_id") or "")
        self._meter.streamed = True
        match inner.get("type"):
            case "message_start":
                message = inner.get("message")
                if isinstance(message, dict) and isinstance(message.get("id"), str):
                    self._streams[who] = message["id"]
                    self._count(event, message)
                    self._reading.under_way, self._reading.again = True, False
            case "message_delta" if who in self._streams and _stopped(inner):
                self._meter.finished(self._streams[who], inner.get("usage"))
                self._stale = True
                if not who:
                    self._meter.add_to_context(self._streams[who])
                    self._reading.again = inner["delta"]["stop_reason"] != "end_turn"
            case "message_stop":
                self._reading.under_way = self._reading.under_way and bool(who)
        yield from ()

    def _rate_limit(self, event: dict[str, Any]) -> Iterator[EventLine]:
        """Of a subscription: `allowed`, `allowed_warning` or `rejected`."""
        info = event.get("rate_limit_info")
        info = info if isinstance(info, dict) else {}
        status, until = info.get("status"), amount(info.get("resetsAt"))
        self._reading.reset_at = until if status == "rejected" else None
        if status != "allowed":
            what = f"rate limit {info.get('rateLimitType')}: {status}"
            yield EventLine(
                "system", one_line(what if until is None else f"{what} until {_utc(until)}")
            )

    def _result(self, event: dict[str, Any]) -> Iterator[EventLine]:
        result = read_result(event)
        if result is None:
            return
        self._meter.settle(result)
        self._stale = True
        self._take(result)
        if result.is_error:
            yield EventLine("failed", one_line(result.why))
        else:
            yield EventLine("done", one_line(result.text) or "done")

    def _take(self, result: Result) -> None:
        reading = self._reading
        reading.ended, reading.under_way, reading.again = True, False, False
        reading.text, reading.data = result.text, result.data
        reading.error = result.why if result.is_error else ""
        reading.finish, reading.reason = result.finish, result.end.reason
        reading.subtype, reading.status = result.subtype, result.status
        reading.denied = tuple(dict.fromkeys((*reading.denied, *result.denied)))
        reading.model = result.model or reading.model


# ── of single events ─────────────────────────────────────────────────────────────────────────


def _named(event: dict[str, Any], told: EventLine) -> EventLine:
    subtype = event.get("subtype")
    name = f"{event['type']}/{subtype}" if subtype else str(event["type"])
    return msgspec.structs.replace(told, name=name, at=moment(event.get("timestamp")))


def _stopped(delta: dict[str, Any]) -> bool:
    """False for a message that the program gave up: it closes those itself, without the count."""
    change = delta.get("delta")
    return isinstance(change, dict) and change.get("stop_reason") is not None


def _written(part: dict[str, Any]) -> bytes:
    """What the model wrote of a part, for an estimate of its tokens."""
    match part.get("type"):
        case "text" | "thinking" as kind:
            return str(part.get(kind) or "").encode()
        case "tool_use":
            return str(part.get("name")).encode() + _encode(part.get("input"))
    return b""


def _retry(event: dict[str, Any]) -> str:
    status, wait = event.get("error_status"), amount(event.get("retry_delay_ms"))
    why = f"{event.get('error')} ({status})" if status else str(event.get("error"))
    after = "" if wait is None else f" in {wait / 1000:.1f} s"
    return one_line(f"retry {event.get('attempt')} of {event.get('max_retries')}{after}: {why}")


def _not_there(servers: Any) -> Iterator[str]:
    """Servers that did not start. One that is still pending may be there later."""
    for one in servers if isinstance(servers, list) else ():
        if isinstance(one, dict) and one.get("status") not in ("connected", "pending", None):
            yield one_line(one.get("name"))


def _version(event: dict[str, Any]) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d{1,9}", str(event.get("claude_code_version")))[:3])


def _utc(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):
        return "an unknown time"
