"""Is reported usage plausible? What is not counts as not reported, so the worst case is charged.

No honest report is refused: a token is rarely longer than 16 characters, and the longest that real
vocabularies have (runs of one character aside, which count once here) is about 41. A prompt that
was read from a cache counts with its cached tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any

import msgspec

from fanfold.price import nanos
from fanfold.work.ask import Call, Reply, Usage

MOST_TOKENS = 10**9  # of one kind in one call; the longest sessions of agents stay far below
MOST_USD = 1_000_000.0
LONGEST_TOKEN = 32  # characters, on average over a whole text
SLACK = 64  # characters that may be one or two odd tokens

_encode = msgspec.json.Encoder().encode
_spaces = re.compile(r"\s+")
_runs = re.compile(r"(.)\1+", re.DOTALL)


def with_plausible_usage(reply: Reply, sent: Sequence[str] | None = None) -> Reply:
    """The reply without usage and cost that cannot be true; `unusable` says what was wrong.

    `sent`: the texts that went to a model word for word, so that counts can be compared with them
    and with the reply. None: a program of the user's, which may shorten a prompt or answer by itself.
    """
    wrong = reply.unusable or (_wrong_usage(reply, sent) if reply.usage is not None else "")
    wrong_cost = "" if reply.cost_usd is None else _wrong_cost(reply.cost_usd)
    if not (wrong or wrong_cost):
        return reply
    doubted = wrong_cost or (wrong and not reply.cost_usd)  # no cost at all is as doubtful
    return msgspec.structs.replace(
        reply,
        usage=None,
        cost_usd=None if doubted else reply.cost_usd,
        unusable=wrong or wrong_cost,
    )


def is_possible(cost: int) -> bool:
    """Nano-dollars that one call can have taken."""
    return 0 <= cost <= nanos(MOST_USD)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong_usage(reply: Reply, sent: Sequence[str] | None) -> str:
    usage = reply.usage
    assert usage is not None
    for name in Usage.__struct_fields__:
        count = getattr(usage, name)
        if type(count) is not int or not 0 <= count <= MOST_TOKENS:
            return f"it reports {_short(count)} tokens of {name.replace('_', ' ')}"
    if sent is None:
        return ""
    said = (reply.text, *map(_arguments, reply.calls)) if reply.calls else (reply.text,)
    size = sum(map(len, said))
    longer = size > usage.output * LONGEST_TOKEN
    if (longer and exceeds(said, usage.output)) or (reply.calls and not usage.output):
        return f"it reports {usage.output} tokens for a reply of {size:,} characters"
    taken = usage.total - usage.output
    size = sum(map(len, sent))
    if size > taken * LONGEST_TOKEN and exceeds(sent, taken):
        return f"it reports {taken} tokens for a prompt of {size:,} characters"
    return ""


def _arguments(call: Call) -> str:
    """As the model wrote them, or shorter."""
    return call.given if isinstance(call.given, str) else _encode(call.given).decode()


def _wrong_cost(cost: Any) -> str:
    number = isinstance(cost, int | float) and not isinstance(cost, bool)
    if number and isfinite(cost) and 0 <= cost <= MOST_USD:
        return ""
    return f"it reports a cost of {_short(cost)} dollars"


def exceeds(texts: Sequence[str], tokens: int) -> bool:
    """No tokenizer has so much text in so few tokens. Runs of one character, and of white space,
    count once: a single token may hold more than a hundred of those."""
    most = tokens * LONGEST_TOKEN + SLACK if tokens else 0
    if sum(map(len, texts)) <= most:
        return False
    return sum(len(_runs.sub(r"\1", _spaces.sub(" ", text))) for text in texts) > most


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else text[:23] + "…"
