"""The events of `codex exec --json`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fanfold.errors import MemberError, Terminal
from fanfold.members.agents.codex_meter import LONG, CodexMeter, tokens
from fanfold.members.agents.dialect import EventLine, WorkerReading, one_line
from fanfold.members.agents.worker import CallSize
from fanfold.members.printed import decoded, failure, said_by
from fanfold.price import Price

_RETRYING = "Reconnecting"
_CUT, _UNSENT = "stream disconnected", "error sending request"


class CodexReading(WorkerReading):
    """`under_way`: the model was being asked, as far as we know, so what that took is not in `cost`;
    `meter` knows what it can have taken."""

    def __init__(self, meter: CodexMeter) -> None:
        super().__init__()
        self.meter, self.under_way = meter, False

    def unknown(self, until: float | None) -> int:
        meter = self.meter
        return meter.one_call(meter.context.written(until)) if self.under_way else 0

    def next_call(self) -> int:
        due = self.meter.again and not self.ended
        return self.meter.one_call(LONG) if due else 0


class CodexReader:
    """An item of type `error` is a warning, and an `error` while it reconnects is not final: only
    `turn.failed` is a failure. Usage comes from the meter; the log has it at the very end only."""

    def __init__(self, price: Price | None, *, resumed: bool, call: CallSize | None = None) -> None:
        self._meter = CodexMeter(price, resumed=resumed, call=call)
        self._reading = CodexReading(self._meter)
        self._asks = False  # its turn has begun
        self._heard = False  # its model has answered
        self._torn = False  # it gave up on a call that was sent, and may have been processed
        self._whole = True  # no reply was lost on the way, so the tokens told are all there were
        self._take()

    @property
    def reading(self) -> CodexReading:
        return self._reading

    def feed(self, line: bytes) -> tuple[EventLine, ...]:
        event = decoded(line)
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str):
            return ()
        self._reading.lines += 1
        read = _READ.get(kind)
        told = None if read is None else read(self, event)
        if told is None:
            return ()
        self._reading.note_event(told)
        return (told,)

    def meter(self, line: bytes) -> None:
        self._meter.feed(line)
        self._take()

    def _take(self) -> None:
        reading, meter = self._reading, self._meter
        reading.usage, reading.cost, reading.model = meter.usage, meter.cost, meter.model
        reading.untold = self._heard and bool(reading.error) and not meter.replies
        if reading.untold:  # nothing is no cost of what it wrote
            reading.cost = None
        reading.turns = max(meter.replies, int(reading.subtype == "turn.completed"))
        reading.exact = reading.ended and meter.sure and self._whole and not reading.untold
        reading.under_way = self._torn or (self._asks and not reading.ended and meter.asking)

    # ── one event each ──

    def _thread(self, event: dict[str, Any]) -> EventLine:
        self._reading.session = _text(event.get("thread_id"))
        text = one_line(f"session {self._reading.session}")
        return EventLine("system", text, name="thread.started")

    def _turn(self, event: dict[str, Any]) -> None:
        self._asks = True
        self._take()

    def _started(self, event: dict[str, Any]) -> EventLine | None:
        item, self._heard = _table(event.get("item")), True
        say = _BEGUN.get(_text(item.get("type")))
        return None if say is None else EventLine("tool", one_line(say(item)), name="item.started")

    def _completed(self, event: dict[str, Any]) -> EventLine | None:
        item, name = _table(event.get("item")), "item.completed"
        self._heard = self._heard or item.get("type") != "error"
        match item.get("type"):
            case "agent_message":
                self._reading.text = _text(item.get("text"))
                return EventLine("text", one_line(self._reading.text), name=name)
            case "reasoning":
                return EventLine("thought", one_line(_text(item.get("text"))), name=name)
            case "error":
                return EventLine("system", one_line(_text(item.get("message"))), name=name)
            case kind:
                say = _ENDED.get(_text(kind))
                return None if say is None else EventLine("result", one_line(say(item)), name=name)

    def _error(self, event: dict[str, Any]) -> EventLine:
        said = _text(event.get("message"))
        if not said.startswith(_RETRYING):
            self._reading.error = said
            return EventLine("system", one_line(said), name="error")
        self._reading.retries += 1
        self._whole = self._whole and _CUT not in said
        return EventLine("retry", one_line(said), name="error")

    def _failed(self, event: dict[str, Any]) -> EventLine:
        reading = self._reading
        reading.error = _text(_table(event.get("error")).get("message")) or "it failed"
        reading.ended, reading.subtype = True, "turn.failed"
        self._whole = self._whole and _CUT not in reading.error
        self._torn = _CUT in reading.error and _UNSENT not in reading.error
        self._take()
        return EventLine("failed", one_line(reading.error), name="turn.failed")

    def _done(self, event: dict[str, Any]) -> EventLine:
        reading = self._reading
        reading.ended, reading.subtype, reading.error = True, "turn.completed", ""
        self._meter.close(tokens(event.get("usage")))
        self._take()
        return EventLine("done", "done", name="turn.completed")


_READ: dict[str, Callable[[CodexReader, dict[str, Any]], EventLine | None]] = {
    "thread.started": CodexReader._thread,
    "turn.started": CodexReader._turn,
    "item.started": CodexReader._started,
    "item.completed": CodexReader._completed,
    "error": CodexReader._error,
    "turn.failed": CodexReader._failed,
    "turn.completed": CodexReader._done,
}


# ── items, in a line for people ──────────────────────────────────────────────────────────────


def _command(item: dict[str, Any]) -> str:
    return f"$ {_text(item.get('command'))}"


def _command_ended(item: dict[str, Any]) -> str:
    code, output = item.get("exit_code"), _text(item.get("aggregated_output")).strip()
    return f"exit {code}: {output}" if output else f"exit {code}"


def _changes(item: dict[str, Any]) -> str:
    changes = item.get("changes")
    each = [_table(one) for one in changes] if isinstance(changes, list) else []
    files = ", ".join(f"{one.get('kind')} {one.get('path')}" for one in each)
    return f"{files} ({item.get('status')})"


def _mcp(item: dict[str, Any]) -> str:
    return f"{item.get('server')}.{item.get('tool')} {item.get('arguments')}"


def _mcp_ended(item: dict[str, Any]) -> str:
    error = _text(_table(item.get("error")).get("message"))
    return f"{item.get('server')}.{item.get('tool')}: {error or item.get('status')}"


def _search(item: dict[str, Any]) -> str:
    return f"search: {_text(item.get('query'))}"


_BEGUN: dict[str, Callable[[dict[str, Any]], str]] = {
    "command_execution": _command,
    "mcp_tool_call": _mcp,
    "web_search": _search,
}
_ENDED: dict[str, Callable[[dict[str, Any]], str]] = {
    "command_execution": _command_ended,
    "file_change": _changes,
    "mcp_tool_call": _mcp_ended,
    "web_search": _search,
}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_STATUS = re.compile(r"(?:unexpected|last) status:? (\d{3})")
_QUOTA = re.compile(r"quota exceeded|insufficient_quota|usage limit|out of credits|spend cap", re.I)
_KEY = re.compile(r"missing environment variable|not logged in|log ?in again|refresh token", re.I)
_MODEL = re.compile(r"\bmodel\b.*(does not exist|not found|not supported|no access)", re.I | re.S)
_LONG = re.compile(r"context_length_exceeded|context window|input is too long", re.I)
_CUT_OFF = re.compile(r"incomplete response returned, reason: (\w+)", re.I)
_BUSY = re.compile(r"high demand|overloaded|stream disconnected|error sending request", re.I)


def failed(member: str, words: str) -> MemberError:
    """From the text of `turn.failed`."""
    words, code = _opened(words)
    text = said_by(member, words)
    status = _STATUS.search(words)
    if _LONG.search(words) or code == "context_length_exceeded":
        return Terminal(text, scope="ask", too_long=True)
    if _QUOTA.search(words) or _KEY.search(words) or code == "insufficient_quota":
        return Terminal(text, scope="pool")
    if status is not None:
        return failure(member, int(status[1]), words)
    if _CUT_OFF.search(words):
        return Terminal(text, scope="ask")
    if not _BUSY.search(words) and (_MODEL.search(words) or code == "model_not_found"):
        return Terminal(text, scope="member")
    if code is not None:
        return Terminal(text, scope="ask")
    return failure(member, None, words)


def _opened(words: str) -> tuple[str, str | None]:
    """The message and the code of an error body that is there as it came; the code is None for
    plain words, and empty when the body states none."""
    body: Any = decoded(words.encode()) if words.lstrip().startswith("{") else None
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return words, None
    return str(error.get("message") or words), str(error.get("code") or "")
