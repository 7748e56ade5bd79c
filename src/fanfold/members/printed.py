"""Numbers and failures as programs print them in JSON: read with care, since nobody vouches for them."""

from __future__ import annotations

from typing import Any

from fanfold.errors import MemberError, RateLimited, Terminal, Transient
from fanfold.price import nanos
from fanfold.work.ask import Reply, Usage
from fanfold.work.nesting import decode_json
from fanfold.work.usage import with_plausible_usage

_LONGEST = 200
_MOST_COUNTED, _MOST = 10**15, 1e15
"""More than can be, so that it is found out (`work/usage`), but nothing that cannot be calculated with."""
MAY_BE_BILLED = frozenset({408, 499, 502, 504, *range(520, 525)})
"""Statuses after which a reply may have been produced and billed, whoever gives them."""


def decoded(text: bytes) -> Any:
    """None for what is no JSON."""
    try:
        return decode_json(text)
    except ValueError:
        return None


def usage_of(counted: Any, *named: str) -> Usage:
    """Tokens under these names: input, output, read from and written to a cache."""
    if not isinstance(counted, dict):
        return Usage()
    return Usage(*(count(counted.get(name)) for name in named))


def count(value: Any) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return min(value, _MOST_COUNTED) if is_count else 0


def amount(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(min(value, _MOST)) if number and 0 <= value < float("inf") else None


def status_of(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def only(models: Any) -> str | None:
    """The model, when it was one alone."""
    return next(iter(models)) if isinstance(models, dict) and len(models) == 1 else None


def said_by(member: str, why: str, status: int | None = None) -> str:
    """One line for people: who, what, and the status if there is one."""
    line = " ".join(why.split())
    line = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    return f"{member}: {line}" if status is None else f"{member}: {line} ({status})"


def paid(error: MemberError, usage: Usage | None, cost_usd: float | None) -> MemberError:
    """The error, with what the call took all the same, as far as it was told and can be true."""
    told = with_plausible_usage(Reply(usage=usage, cost_usd=cost_usd))
    error.usage = told.usage
    error.cost = None if told.cost_usd is None else nanos(told.cost_usd)
    return error


def failure(member: str, status: int | None, why: str) -> MemberError:
    """What a server's refusal means when a program hands it on: by its status alone."""
    text = said_by(member, why, status)
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
            return Transient(text, lost=status in MAY_BE_BILLED)
