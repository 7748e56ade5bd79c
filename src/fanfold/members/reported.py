"""What an API says of a reply: why it ended, and what it took.

Only a known good end is one: what is not listed here, or not told at all, may have been cut off. Usage
is read field by field. A reply is worth reading also where its usage is not: what is no count of tokens
makes the usage unusable, not the reply unreadable.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fanfold.work.ask import Ask, Finish, Usage

# ── its end ──────────────────────────────────────────────────────────────────────────────────

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


def reply_end(reason: object, ask: Ask) -> ReplyEnd:
    """A call of a tool is a good end only where tools were offered."""
    word = reason.lower() if isinstance(reason, str) else ""
    finish = "stop" if word in _TOOLS and ask.tools is not None else _ENDS.get(word)
    if finish is not None:
        return ReplyEnd(finish)
    if word and not _is_word(word):  # nothing that a server makes up is repeated
        return ReplyEnd("other", "not a word")
    return ReplyEnd("other", word)


# ── its usage ────────────────────────────────────────────────────────────────────────────────

_UNUSABLE = "its usage is not in whole numbers"


class Reported(NamedTuple):
    """`usage` None: there is none, or none that can be used, and then `unusable` says why."""

    usage: Usage | None = None
    unusable: str = ""


class _NotACount(Exception):
    pass


def of_completions(found: Any) -> Reported:
    """Cached tokens are part of the prompt's. Some servers leave reasoning out of the completion's
    tokens, and have it only in the total: the larger figure is what is billed. DeepSeek has another name
    for the cached ones."""
    try:
        prompt, written, total, hit = _counts(
            found, "prompt_tokens", "completion_tokens", "total_tokens", "prompt_cache_hit_tokens"
        )
        if prompt is None or written is None:
            return Reported()
        details, more = found.get("prompt_tokens_details"), found.get("completion_tokens_details")
        cached = _counts(details, "cached_tokens")[0]
        cached = (hit or 0) if cached is None else cached
        thought = 0 if more is None else _counts(more, "reasoning_tokens")[0] or 0
    except _NotACount:
        return Reported(unusable=_UNUSABLE)
    if cached > prompt:
        return Reported(unusable=f"it reports {cached} cached of {prompt} tokens")
    if thought > written:
        written += thought
    return Reported(Usage(prompt - cached, max(written, (total or 0) - prompt), cache_read=cached))


def of_messages(found: Any) -> Reported:
    """Tokens read from a cache and written to one are counted apart from the others."""
    try:
        asked, written, read, stored = _counts(
            found, "input_tokens", "output_tokens", "cache_read_input_tokens",
            "cache_creation_input_tokens",
        )  # fmt: skip
        kinds = found.get("cache_creation") if isinstance(found, dict) else None
        split = _counts(kinds, "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
    except _NotACount:
        return Reported(unusable=_UNUSABLE)
    if asked is None or written is None:
        return Reported()
    if stored is None:
        stored = sum(one or 0 for one in split)
    return Reported(Usage(asked, written, read or 0, stored))


def of_embeddings(found: Any) -> Reported:
    """Nothing is written, so all tokens are the inputs'. The larger figure is what is billed."""
    try:
        prompt, total = _counts(found, "prompt_tokens", "total_tokens")
    except _NotACount:
        return Reported(unusable=_UNUSABLE)
    told = [tokens for tokens in (prompt, total) if tokens is not None]
    return Reported(Usage(max(told), 0)) if told else Reported()


def merged(earlier: Any, later: Any) -> Any:
    """Usage that is told in parts: the later figures hold."""
    if not isinstance(earlier, dict) or not isinstance(later, dict):
        return earlier if later is None else later
    return earlier | {name: value for name, value in later.items() if value is not None}


def _counts(found: Any, *names: str) -> list[int | None]:
    """None where it is not told. A whole number may be written as 12.0."""
    if found is None:
        return [None] * len(names)
    if not isinstance(found, dict):
        raise _NotACount
    counts: list[int | None] = []
    for name in names:
        value = found.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None and (type(value) is not int or value < 0):
            raise _NotACount
        counts.append(value)
    return counts
