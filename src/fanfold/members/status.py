"""What an answer other than 200 means: a table from status and words to a MemberError.

The table also says who pays. Only an error that the provider itself gives, in its own form, says
that nothing was produced; a gateway's says nothing of what happened behind it (docs/members.md).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite
from typing import Any, NamedTuple

import msgspec

from fanfold.errors import MemberError, RateLimited, Terminal, Transient
from fanfold.members.http import Answer
from fanfold.members.keys import scrubbed
from fanfold.members.printed import MAY_BE_BILLED

Header = Callable[[str], str | None]
_LONGEST = 200
_STEM = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_PHRASES = frozenset(one.phrase.lower() for one in HTTPStatus)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RESETS = [
    (f"x-ratelimit-reset-{what}", f"x-ratelimit-remaining-{what}")
    for what in ("requests", "tokens")
] + [("x-ratelimit-reset", "x-ratelimit-remaining")]
_RESETS += [
    (f"anthropic-ratelimit-{what}-reset", f"anthropic-ratelimit-{what}-remaining")
    for what in ("requests", "tokens", "input-tokens", "output-tokens")
]


class Refusal(NamedTuple):
    """`said` is the server's own message: one line, short, without the key."""

    member: str
    status: int
    said: str
    wait: float | None

    def text(self, what: str, remedy: str = "") -> str:
        said = f": {self.said}" if self.said else ""
        return f"{self.member}: {what} ({self.status}){said}" + (f"; {remedy}" if remedy else "")


class ErrorRow(NamedTuple):
    """Fits a status, and one of the words (None: whatever is said). `foreign`: only an answer that is
    not in the provider's own form."""

    statuses: frozenset[int]
    words: tuple[str, ...] | None
    make: Callable[[Refusal], MemberError]
    foreign: bool = False

    def fits(self, status: int, text: str, own: bool) -> bool:
        words = self.words
        if status not in self.statuses or (self.foreign and own):
            return False
        return words is None or any(word in text for word in words)


def table(
    *,
    quota: tuple[str, ...],
    too_long: tuple[str, ...],
    key: tuple[str, ...] = (),
    flagged: tuple[str, ...] = (),
    later: tuple[str, ...] = (),
) -> tuple[ErrorRow, ...]:
    """The rows of one wire, tried from the top. The words are how it says, in lower case, that the quota
    is gone, the request too long, the key not one (in a 400), the prompt not allowed (in a 403), and that
    what sounds like the quota is over in a moment.
    """
    return (
        ErrorRow(frozenset({402}), None, _quota),
        ErrorRow(frozenset({429}), later, _too_often),
        ErrorRow(frozenset({403}), flagged, _malformed),
        ErrorRow(frozenset({400, 403, 429}), quota, _quota),
        ErrorRow(frozenset({401, 403}), None, _key),
        ErrorRow(frozenset({400}), key, _key),
        ErrorRow(frozenset({404}), None, _model),
        ErrorRow(frozenset({413}), None, _too_long),
        ErrorRow(frozenset({400, 422}), too_long, _too_long),
        ErrorRow(frozenset({400, 422}), None, _malformed),
        ErrorRow(MAY_BE_BILLED, None, _doubt),
        ErrorRow(frozenset(range(500, 600)), None, _doubt, foreign=True),
        ErrorRow(frozenset({429, 498, 529}), None, _too_often),
        ErrorRow(frozenset({409, 425, *range(500, 600)}), None, _server),
        ErrorRow(frozenset(range(201, 300)), None, _unexpected),
        ErrorRow(frozenset(range(300, 400)), None, _elsewhere),
    )


def refused(member: str, answer: Answer, rows: tuple[ErrorRow, ...], key: str) -> MemberError:
    code, message = error_parts(answer.body)
    said = shortened(scrubbed(message or code, key))
    wait = retry_after(answer.header)
    refusal = Refusal(member, answer.status, said, _delay(answer.body) if wait is None else wait)
    text, own = f"{code} {message}".lower(), answer.whole and is_own(answer.body)
    for row in rows:
        if row.fits(answer.status, text, own):
            return row.make(refusal)
    return Terminal(refusal.text("unexpected response"), scope="member")


def _quota(refusal: Refusal) -> Terminal:
    text = refusal.text("quota or credit is exhausted", "add credit or raise the account's limit")
    return Terminal(text, scope="pool", reset_after=refusal.wait)


def _key(refusal: Refusal) -> Terminal:
    return Terminal(refusal.text("key refused"), scope="pool")


def _model(refusal: Refusal) -> Terminal:
    return Terminal(refusal.text("not found", "check model and base_url"), scope="member")


def _too_long(refusal: Refusal) -> Terminal:
    text = refusal.text("the request is too long", "use smaller shards or more context")
    return Terminal(text, scope="ask", too_long=True)


def _malformed(refusal: Refusal) -> Terminal:
    return Terminal(refusal.text("the request was refused"), scope="ask")


def _too_often(refusal: Refusal) -> RateLimited:
    what = "overloaded" if refusal.status == 529 else "rate limited"
    return RateLimited(refusal.text(what), retry_after=refusal.wait)


def _doubt(refusal: Refusal) -> Transient:
    return Transient(refusal.text("failed after sending", "it may have been billed"), lost=True)


def _unexpected(refusal: Refusal) -> Terminal:
    """A success without an answer: it may have been processed, and will be no better next time."""
    return Terminal(refusal.text("unexpected response"), scope="member", lost=True)


def _server(refusal: Refusal) -> Transient:
    return Transient(refusal.text("server error"))


def _elsewhere(refusal: Refusal) -> Terminal:
    return Terminal(refusal.text("redirected", "set base_url to the final address"), scope="member")


# ── what the server said ─────────────────────────────────────────────────────────────────────


def error_parts(body: bytes) -> tuple[str, str]:
    """Code and message of an error body, however it is shaped; the text as it is if it is none."""
    try:
        whole = _decoded(body)
    except (ValueError, RecursionError):
        return "", body.decode(errors="replace")
    error = whole.get("error", whole) if isinstance(whole, dict) else whole
    if not isinstance(error, dict):
        return "", _as_text(error)
    code = " ".join(str(error[name]) for name in ("type", "code") if error.get(name))
    message = error.get("message") or error.get("detail") or ""
    return code, _as_text(message)


def is_own(body: bytes) -> bool:
    """An error in the form of the providers: `{"error": {...}}`, `{"object": "error", ...}` or
    `{"message", "type", "code"}`. A gateway answers with a page, a line, or at most with a message, or
    with what the status is called."""
    try:
        whole = _decoded(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(whole, dict):
        return False
    error = whole.get("error")
    said = isinstance(error, str) and error.strip().lower() not in _PHRASES
    named = isinstance(error, dict) or said or whole.get("object") == "error"
    return named or {"message", "type", "code"} <= whole.keys()


def _decoded(body: bytes) -> Any:
    """Google has its errors in a list of one."""
    match msgspec.json.decode(body):
        case [dict() as one]:
            return one
        case whole:
            return whole


def _delay(body: bytes) -> float | None:
    """Seconds that an error itself says, as Google's do."""
    try:
        whole = _decoded(body)
        found = [one["retryDelay"] for one in whole["error"]["details"] if "retryDelay" in one]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return _number(found[0]) if found and isinstance(found[0], str) else None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


# ── how long to wait ─────────────────────────────────────────────────────────────────────────


def retry_after(header: Header) -> float | None:
    """Seconds, from the first that is there: retry-after-ms, retry-after, the reset of the limits
    that are used up, the nearest reset. Times are read by the server's own clock if it tells it.
    """
    millis = _wait(header("retry-after-ms"), header)
    if millis is not None:
        return millis / 1000
    seconds = _wait(header("retry-after"), header)
    if seconds is not None:
        return seconds
    resets = [(_wait(header(reset), header), header(left)) for reset, left in _RESETS]
    used_up = [wait for wait, left in resets if wait is not None and left == "0"]
    if used_up:
        return max(used_up)
    return min((wait for wait, _ in resets if wait is not None), default=None)


def _wait(value: str | None, header: Header) -> float | None:
    """Seconds from a number, a duration like 6m0s, or a point in time in any usual form."""
    value = (value or "").strip()
    if not value:
        return None
    number = _number(value)
    if number is None:
        when = _moment(value)
        return None if when is None else max(0.0, when - _now(header))
    if number > 1e9:  # a point in time, in seconds or milliseconds
        number = (number / 1000 if number > 1e12 else number) - _now(header)
    return max(0.0, number)


def _number(value: str) -> float | None:
    parts = _STEM.findall(value)
    if parts and "".join(count + unit for count, unit in parts) == value:
        return sum(float(count) * _SECONDS[unit] for count, unit in parts)
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _moment(value: str) -> float | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = parse(value)
        except (ValueError, OverflowError):  # a year of twenty digits
            continue
        return when.timestamp() if when.tzinfo else None
    return None


def _now(header: Header) -> float:
    date = header("date")
    now = _moment(date) if date else None
    return time.time() if now is None else now
