"""How a worker ended, where that is the same for every program, and events as lines for people: one
line each, short, and safe to print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from fanfold.errors import MemberError, Terminal
from fanfold.members.agents.dialect import WorkerReading
from fanfold.members.agents.worker import Exit
from fanfold.members.printed import amount
from fanfold.price import dollars
from fanfold.work.ask import Reply

_ENDED = {
    "killed": "killed by the operator",
    "cancelled": "cancelled",
    "time": "ended at its time limit",
    "silence": "ended after its limit of silence",
    "budget": "ended at its budget",
    "turns": "ended at its limit of turns",
    "servers": "ended because an MCP server did not start",
}
_REQUIRED = re.compile(r"required MCP servers failed to initialize: ([\w-]+): (.*)")


def from_outside(member: str, reading: WorkerReading, exit: Exit) -> MemberError | None:
    """None: it ended by itself."""
    if exit.why == "":
        return None
    text = f"{member}: {exit.said or _ENDED[exit.why]}{_session(reading)}"
    if exit.why == "cancelled":
        return MemberError(text, lost=True)
    return Terminal(text, scope="member" if exit.why == "servers" else "ask")


def without_servers(member: str, reading: WorkerReading) -> Terminal | None:
    """What it answered without the tools that it was to have is not what was asked for."""
    if not reading.missing:
        return None
    return Terminal(f"{member}: {not_started(reading.missing)}", scope="member")


def not_started(servers: Sequence[str], why: str = "") -> str:
    names = ", ".join(f"`{name}`" for name in servers)
    which = f"its MCP server {names}" if len(servers) == 1 else f"its MCP servers {names}"
    told = f": {why}" if why else ", so it has not the tools it needs; start it by hand to see why"
    return f"{which} did not start{told}"


def required_servers(member: str, complaint: str) -> Terminal | None:
    """As codex says it on stderr, before its first event."""
    found = _REQUIRED.search(complaint)
    if found is None:
        return None
    why = one_line(found[2].partition(" Error: ")[0].removesuffix(" (code -32603)"))
    return Terminal(f"{member}: {not_started((found[1],), why)}", scope="member")


def _session(reading: WorkerReading) -> str:
    return f"; its session is {reading.session}" if reading.session else ""


def without_result(member: str, reading: WorkerReading, exit: Exit) -> MemberError:
    """It gave no result. Without a single event it never began (wrong words, a session in use): then
    only its errors say why. After that, what it did and took is in doubt."""
    if reading.lines == 0 and exit.code > 0:
        text = f"{member}: exit code {exit.code} without output"
        return Terminal(text, scope="ask")
    how = f"signal {-exit.code}" if exit.code < 0 else f"exit code {exit.code}"
    return MemberError(f"{member}: ended by {how} without a result{_session(reading)}", lost=True)


def with_cost(error: MemberError, reading: WorkerReading, more: int = 0) -> MemberError:
    """What it took all the same: as far as it reported, and what a call under way may have taken."""
    error.usage, error.cost = reading.usage, reading.cost
    if more:
        error.cost, error.bound = (reading.cost or 0) + more, True
    return error


def reply_of(reading: WorkerReading) -> Reply:
    return Reply(
        reading.text, reading.data, reading.usage, reading.finish, reading.model,
        None if reading.cost is None else dollars(reading.cost),
    )  # fmt: skip


LONGEST = 200
_TELLING = (
    "file_path", "path", "filePath", "notebook_path", "command", "pattern", "url", "query",
    "description", "prompt",
)  # fmt: skip


def one_line(text: Any) -> str:
    """The first line that says something, without what would move a cursor."""
    lines = str(text).splitlines() if text is not None else []
    line = next((line for line in lines if line.strip()), "")
    line = "".join(sign for sign in " ".join(line.split()) if sign.isprintable())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def tool_line(name: Any, given: Any, folder: str = "") -> str:
    """`Write output/finding.md`: the tool, and what of its input tells most."""
    given = given if isinstance(given, dict) else {}
    said = next((given[key] for key in _TELLING if isinstance(given.get(key), str)), "")
    inside = folder.rstrip("/") + "/"
    if folder and said.startswith(inside):
        said = said[len(inside) :]
    return one_line(f"{name} {one_line(said)}")


def moment(value: Any) -> float | None:
    """Seconds since 1970, from an ISO time or a number of milliseconds."""
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            return None
        return when.timestamp() if when.tzinfo else None
    millis = amount(value)
    return None if millis is None else millis / 1000


def blocks(message: Any) -> Iterator[dict[str, Any]]:
    """The parts of a message's content; a plain text is one of them."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (part for part in content if isinstance(part, dict))
