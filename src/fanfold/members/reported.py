"""What an API reports of a reply: its usage, read field by field, and why it ended.

A reply is worth reading also where its usage is not: what is no count of tokens makes the usage
unusable, not the reply unreadable.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fanfold.work.ask import Ask, Finish, Usage
from fanfold.work.usage import is_count

_UNUSABLE = "its usage is not in whole numbers"


class Reported(NamedTuple):
    """`usage` None: there is none, or none that can be used, and then `unusable` says why."""

    usage: Usage | None = None
    unusable: str = ""


class _NotACount(Exception):
    pass


def of_completions(found: Any) -> Reported:
    """Cached tokens are part of the prompt's. Some servers leave reasoning out of the completion's
    tokens, and have it only in the total: the larger figure is what is billed."""
    try:
        prompt, written = _count(found, "prompt_tokens"), _count(found, "completion_tokens")
        total = _count(found, "total_tokens") or 0
        cached = _count(_within(found, "prompt_tokens_details"), "cached_tokens") or 0
        thought = _count(_within(found, "completion_tokens_details"), "reasoning_tokens") or 0
    except _NotACount:
        return Reported(unusable=_UNUSABLE)
    if prompt is None or written is None:
        return Reported()
    if min(cached, thought) < 0 or cached > prompt:
        return Reported(unusable=f"it reports {cached} cached of {prompt} tokens")
    if thought > written:
        written += thought
    return Reported(Usage(prompt - cached, max(written, total - prompt), cache_read=cached))


def of_messages(found: Any) -> Reported:
    """Tokens read from a cache and written to one are counted apart from the others."""
    try:
        asked, written = _count(found, "input_tokens"), _count(found, "output_tokens")
        read = _count(found, "cache_read_input_tokens") or 0
        stored = _count(found, "cache_creation_input_tokens")
        kinds = _within(found, "cache_creation")
        split = [_count(kinds, f"ephemeral_{time}_input_tokens") or 0 for time in ("5m", "1h")]
    except _NotACount:
        return Reported(unusable=_UNUSABLE)
    if asked is None or written is None:
        return Reported()
    return Reported(Usage(asked, written, read, sum(split) if stored is None else stored))


def merged(earlier: Any, later: Any) -> Any:
    """Usage that is told in parts: the later figures hold."""
    if not isinstance(earlier, dict) or not isinstance(later, dict):
        return earlier if later is None else later
    return earlier | {name: value for name, value in later.items() if value is not None}


def _within(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, dict) else None


def _count(found: Any, name: str) -> int | None:
    """None where it is not told. A whole number may be written as 12.0."""
    if found is not None and not isinstance(found, dict):
        raise _NotACount
    value = None if found is None else found.get(name)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is not None and not is_count(value):
        raise _NotACount
    return value


# ── why it ended ─────────────────────────────────────────────────────────────────────────────
# Only a known good end is one: what is not listed here, or not told at all, may have been cut off.

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
