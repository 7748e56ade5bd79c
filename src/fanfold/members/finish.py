"""Why a reply ended, as an API says it. Only a known good end is one: what is not listed here, or
not told at all, may have been cut off."""

from __future__ import annotations

import re
from typing import NamedTuple

from fanfold.work.ask import Ask, Finish

_ENDS: dict[str, Finish] = {
    # OpenAI, and what other servers of the same form say
    "stop": "stop", "eos": "stop", "eos_token": "stop", "end": "stop", "complete": "stop",
    "completed": "stop",
    # Anthropic; some servers of OpenAI's form use its words
    "end_turn": "stop", "stop_sequence": "stop",
    "length": "length", "max_tokens": "length", "max_length": "length", "model_length": "length",
    "max_output_tokens": "length", "max_new_tokens": "length", "token_limit": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "refusal", "refusal": "refusal", "safety": "refusal",
}  # fmt: skip
_TOOLS = ("tool_calls", "function_call", "tool_use")
_is_word = re.compile(r"[a-z_ -]{1,32}").fullmatch


class ReplyEnd(NamedTuple):
    """`reason` is the server's own word where it is no known end."""

    finish: Finish
    reason: str = ""


def ended(reason: object, ask: Ask) -> ReplyEnd:
    """A call of a tool is a good end only where tools were offered."""
    word = reason.lower() if isinstance(reason, str) else ""
    finish = "stop" if word in _TOOLS and ask.tools is not None else _ENDS.get(word)
    if finish is not None:
        return ReplyEnd(finish)
    if word and not _is_word(word):  # nothing that a server makes up is repeated
        return ReplyEnd("other", "not a word")
    return ReplyEnd("other", word)
