"""An agent's events in a line each, for people: one line, short, and safe to print."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from fanfold.members.printed import amount

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
