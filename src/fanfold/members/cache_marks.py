"""Where a request of the Messages API says what is to be kept: behind what all asks of a step share, and
in a conversation with tools, behind each ask. Pure. At most four marks, as the service takes."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from fanfold.members.media import KEEP, messages_turn
from fanfold.work.ask import Ask, Message
from fanfold.work.split import estimate_tokens

_SHORTEST = 1024  # tokens; the service keeps nothing shorter
_encode = msgspec.json.Encoder().encode


class TextBlock(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    text: str
    cache_control: dict[str, str] | None = None


def marked(
    ask: Ask, system: str, spoken: tuple[object, ...]
) -> tuple[str | list[TextBlock], tuple[object, ...]]:
    """With a mark where the part ends that is to be kept: behind the system text, or behind a turn,
    or within one; then a long system text has one too, which asks of other steps may begin with. What
    stands in the system text beside ours is the same in all asks of the step."""
    texts = ask.shared_texts()
    *_, last = ask.messages[: len(texts)]
    kept = [TextBlock("text", system, KEEP)]
    if last.role == "system":
        return kept, spoken
    at = sum(one.role != "system" for one in ask.messages[: len(texts)]) - 1
    turns = (*spoken[:at], messages_turn(last, len(texts[-1])), *spoken[at + 1 :])
    return kept if estimate_tokens(system) >= _SHORTEST else system, turns


def growing(spoken: tuple[object, ...], *, more: bool) -> tuple[tuple[object, ...], int]:
    """A conversation in which tools are used, with marks where the ask before ended and, where `more` may
    follow, where this one does: each reads what the one before it wrote. About how many tokens that is."""
    ends = [n for n, one in enumerate(spoken) if _role(one) == "user"]
    marked = {n: _kept(spoken[n]) for n in (ends[-2:] if more else ends[-2:-1])}
    before = spoken[: ends[-2] + 1] if len(ends) > 1 else ()
    turns = tuple([marked.get(n, one) for n, one in enumerate(spoken)])
    return turns, estimate_tokens(_encode(before).decode()) if before else 0


def _role(turn: object) -> str:
    return turn.role if isinstance(turn, Message) else str(cast(dict[str, Any], turn)["role"])


def _kept(turn: object) -> object:
    """With a mark on its last block."""
    shown = messages_turn(turn) if isinstance(turn, Message) else cast(dict[str, Any], turn)
    match shown["content"]:
        case [*first, dict() as last]:
            return {**shown, "content": [*first, {**last, "cache_control": KEEP}]}
    return turn
