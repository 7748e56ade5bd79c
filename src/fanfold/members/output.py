"""What a command printed, read: plain text, or the JSON of an agent's command line.

The reply, its tokens and its cost are in that JSON, and so does a failure that the exit code
alone does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from fanfold.errors import InvalidReply, MemberError
from fanfold.members.agents.claude_meter import read_result
from fanfold.members.printed import decoded, failure, only, paid, said_by, status_of, usage_of
from fanfold.price import dollars
from fanfold.work.ask import Finish, Usage

Parse = Literal["plain", "claude-json", "gemini-json"]


class PrintedReply(NamedTuple):
    """A reply as a program printed it. `data` is there when it answered by a schema of its own."""

    text: str
    data: Any = None
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str | None = None
    finish: Finish = "stop"
    reason: str = ""


def read_output(parse: Parse, member: str, out: bytes, code: int) -> PrintedReply | None:
    """None when the output is not of this form. Raises a MemberError for a failure told in it.

    A failure that cost something is an InvalidReply: it was paid for.
    """
    read = _READERS.get(parse)
    if read is None:
        return None
    said = read(member, out)
    if said is not None and code and said.finish == "stop":
        error = InvalidReply(f"{member}: exit code {code} although there is a result")
        raise paid(error, said.usage, said.cost_usd)
    return said


# ── claude -p --output-format json (or stream-json) ──────────────────────────────────────────


def _claude(member: str, out: bytes) -> PrintedReply | None:
    """The last result counts: background agents give several."""
    found = (read_result(one) for one in _objects(out))
    result = next((one for one in found if one is not None), None)
    if result is None:
        return None
    usage, cost = result.whole
    told = None if cost is None or not result.whole.is_possible else dollars(cost)
    if result.is_error and not result.refused:
        raise _failed(member, result.status, result.why, usage, told)
    return PrintedReply(
        result.text, result.data, usage, told, result.model, result.finish, result.end.reason
    )


# ── gemini -p … -o json ──────────────────────────────────────────────────────────────────────


def _gemini(member: str, out: bytes) -> PrintedReply | None:
    """Its prompt tokens hold the cached ones, and thoughts are billed as output."""
    known = ("response", "error")
    result = next((one for one in _objects(out) if any(name in one for name in known)), None)
    if result is None:
        return None
    stats = result.get("stats")
    models = stats.get("models") if isinstance(stats, dict) else None
    models = models if isinstance(models, dict) else {}
    usage = sum((_gemini_usage(one) for one in models.values()), Usage())
    error = result.get("error")
    if error:
        told = error if isinstance(error, dict) else {"message": error}
        why = str(told.get("message") or told.get("type"))
        raise _failed(member, status_of(told.get("code")), why, usage)
    text = result.get("response")
    return PrintedReply(text if isinstance(text, str) else "", usage=usage, model=only(models))


def _gemini_usage(model: Any) -> Usage:
    tokens = model.get("tokens") if isinstance(model, dict) else None
    found = usage_of(tokens, "prompt", "candidates", "cached")
    thoughts = usage_of(tokens, "thoughts").input
    return Usage(max(0, found.input - found.cache_read), found.output + thoughts, found.cache_read)


_READERS: dict[Parse, Callable[[str, bytes], PrintedReply | None]] = {
    "claude-json": _claude,
    "gemini-json": _gemini,
}


# ── common ───────────────────────────────────────────────────────────────────────────────────


def _objects(out: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of an output, the last first: one object, a list of them, or one a line.
    What else a program printed around them is passed over."""
    whole = decoded(out)
    if whole is None:
        start = out.find(b"{\n")
        whole = decoded(out[start:]) if start >= 0 else None
    if whole is None:
        whole = [decoded(line) for line in out.splitlines() if line.lstrip().startswith(b"{")]
    found = whole if isinstance(whole, list) else [whole]
    return (one for one in reversed(found) if isinstance(one, dict))


def _failed(
    member: str, status: int | None, why: str, usage: Usage, cost_usd: float | None = None
) -> MemberError:
    if not (cost_usd or usage.total):
        return failure(member, status, why)
    return paid(InvalidReply(said_by(member, why, status)), usage, cost_usd)
