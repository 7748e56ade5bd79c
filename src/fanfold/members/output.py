"""What a command printed, read: plain text, or the JSON of an agent's command line.

The reply, its tokens and its cost stand in that JSON, and so does a failure that the exit code
alone does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from fanfold.errors import InvalidReply, MemberError, RateLimited, Terminal, Transient
from fanfold.work.ask import Finish, Usage

Parse = Literal["plain", "claude-json", "gemini-json"]
PARSES: tuple[Parse, ...] = get_args(Parse)

_LONGEST = 200
_NONE = Usage()


class Said(NamedTuple):
    """A reply as a program printed it. `data` is there when it answered by a schema of its own."""

    text: str
    data: Any = None
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str | None = None
    finish: Finish = "stop"


def read_output(parse: Parse, member: str, out: bytes, code: int) -> Said | None:
    """None when the output is not of this form. Raises a MemberError for a failure told in it.

    A failure that cost something is an InvalidReply: it was paid for.
    """
    read = _READERS.get(parse)
    if read is None:
        return None
    said = read(member, out)
    if said is not None and code and said.finish == "stop":
        raise InvalidReply(f"{member}: exit code {code} although there is a result")
    return said


# ── claude -p --output-format json (or stream-json) ──────────────────────────────────────────


def _claude(member: str, out: bytes) -> Said | None:
    """The last result counts: background agents give several. `is_error` goes before `subtype`."""
    result = next((one for one in _objects(out) if one.get("type") == "result"), None)
    if result is None or not isinstance(result.get("is_error"), bool):
        return None
    usage, cost = _claude_usage(result), _amount(result.get("total_cost_usd"))
    refused = result.get("stop_reason") == "refusal"
    text = result.get("result")
    if result["is_error"] and not refused:
        errors = result.get("errors")
        told = errors if isinstance(errors, list) else [text]
        why = " ".join(str(part) for part in told if part) or str(result.get("subtype"))
        paid = bool(cost) or usage.total > 0
        raise _failure(member, _status(result.get("api_error_status")), why, paid)
    return Said(
        text if isinstance(text, str) else "", result.get("structured_output"), usage, cost,
        _only(result.get("modelUsage")), "refusal" if refused else "stop",
    )  # fmt: skip


def _claude_usage(result: dict[str, Any]) -> Usage:
    """Of all models together: `usage` alone leaves subagents out."""
    by_model = result.get("modelUsage")
    if isinstance(by_model, dict) and by_model:
        named = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
        return sum((_usage(one, *named) for one in by_model.values()), _NONE)
    return _usage(
        result.get("usage"), "input_tokens", "output_tokens", "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )  # fmt: skip


# ── gemini -p … -o json ──────────────────────────────────────────────────────────────────────


def _gemini(member: str, out: bytes) -> Said | None:
    """Its prompt tokens hold the cached ones, and thoughts are billed as output."""
    known = ("response", "error")
    result = next((one for one in _objects(out) if any(name in one for name in known)), None)
    if result is None:
        return None
    stats = result.get("stats")
    models = stats.get("models") if isinstance(stats, dict) else None
    models = models if isinstance(models, dict) else {}
    usage = sum((_gemini_usage(one) for one in models.values()), _NONE)
    error = result.get("error")
    if error:
        told = error if isinstance(error, dict) else {"message": error}
        why = str(told.get("message") or told.get("type"))
        raise _failure(member, _status(told.get("code")), why, usage.total > 0)
    text = result.get("response")
    return Said(text if isinstance(text, str) else "", usage=usage, model=_only(models))


def _gemini_usage(model: Any) -> Usage:
    tokens = model.get("tokens") if isinstance(model, dict) else None
    found = _usage(tokens, "prompt", "candidates", "cached", "")
    thoughts = _usage(tokens, "thoughts", "", "", "").input
    return Usage(max(0, found.input - found.cache_read), found.output + thoughts, found.cache_read)


_READERS: dict[Parse, Callable[[str, bytes], Said | None]] = {
    "claude-json": _claude,
    "gemini-json": _gemini,
}


# ── common ───────────────────────────────────────────────────────────────────────────────────


def _objects(out: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of an output, the last first: one object, a list of them, or one a line.
    What else a program printed around them is passed over."""
    whole = _decoded(out)
    if whole is None:
        start = out.find(b"{\n")
        whole = _decoded(out[start:]) if start >= 0 else None
    if whole is None:
        whole = [_decoded(line) for line in out.splitlines() if line.lstrip().startswith(b"{")]
    found = whole if isinstance(whole, list) else [whole]
    return (one for one in reversed(found) if isinstance(one, dict))


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _usage(counted: Any, *named: str) -> Usage:
    if not isinstance(counted, dict):
        return _NONE
    return Usage(*(_count(counted.get(name)) for name in named))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _amount(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < float("inf") else None


def _status(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _only(models: Any) -> str | None:
    """The model, when it was one alone."""
    return next(iter(models)) if isinstance(models, dict) and len(models) == 1 else None


def _failure(member: str, status: int | None, why: str, paid: bool) -> MemberError:
    line = " ".join(why.split())
    line = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    text = f"{member}: {line}" if status is None else f"{member}: {line} ({status})"
    if paid:
        return InvalidReply(text)
    match status:
        case 429 | 529:
            return RateLimited(text)
        case 401 | 402 | 403:
            return Terminal(text, scope="pool")
        case 404:
            return Terminal(text, scope="member")
        case 400 | 413 | 422:
            return Terminal(text, scope="ask", too_long=status == 413)
        case _:
            return Transient(text)
