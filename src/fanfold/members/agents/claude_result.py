"""The event that closes a run of claude, or a part of one: `{"type": "result", ...}`."""

from __future__ import annotations

from typing import Any, NamedTuple

from fanfold.members.printed import amount, only, status_of, usage_of
from fanfold.price import nanos
from fanfold.work.ask import Finish, Usage

_OF_MODEL = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_OF_CALL = (
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
)  # fmt: skip
_CUT = ("max_tokens", "model_context_window_exceeded")


class ClaudeSpending(NamedTuple):
    """Tokens, and nano-dollars by claude's own table of prices; None where it does not say."""

    usage: Usage
    cost: int | None


class Result(NamedTuple):
    """`whole` is of all models and of the session from its very beginning, also when it was resumed
    or forked; `since` covers what came after the last result (None: an older claude, which does not
    tell); `own` is this run's, without subagents, and short when a budget stopped it.
    """

    text: str
    data: Any
    is_error: bool
    refused: bool
    cut: bool
    subtype: str
    why: str
    status: int | None
    model: str | None
    denied: tuple[str, ...]
    whole: ClaudeSpending
    since: ClaudeSpending | None
    own: Usage

    @property
    def finish(self) -> Finish:
        return "refusal" if self.refused else "length" if self.cut else "stop"


def read_result(event: dict[str, Any]) -> Result | None:
    """None when it is no result. `is_error` goes before `subtype`: an API error is a `success`."""
    if event.get("type") != "result" or not isinstance(event.get("is_error"), bool):
        return None
    text = event.get("result")
    return Result(
        text=text if isinstance(text, str) else "",
        data=event.get("structured_output"),
        is_error=event["is_error"],
        refused=event.get("stop_reason") == "refusal",
        cut=event.get("stop_reason") in _CUT,
        subtype=str(event.get("subtype") or ""),
        why=_why(event),
        status=status_of(event.get("api_error_status")),
        model=only(event.get("modelUsage")),
        denied=_denied(event.get("permission_denials")),
        whole=_whole(event),
        since=_of_models(event.get("model_usage_since_last_result")),
        own=tokens(event.get("usage")),
    )


def tokens(usage: Any) -> Usage:
    """Of one call, as the Messages API counts them; both kinds of writes to a cache are writes."""
    return usage_of(usage, *_OF_CALL)


def _why(event: dict[str, Any]) -> str:
    errors = event.get("errors")
    told = errors if isinstance(errors, list) else [event.get("result")]
    return " ".join(str(part) for part in told if part) or str(event.get("subtype"))


def _denied(denials: Any) -> tuple[str, ...]:
    found = denials if isinstance(denials, list) else []
    names = (str(one.get("tool_name")) for one in found if isinstance(one, dict))
    return tuple(dict.fromkeys(names))


def _whole(event: dict[str, Any]) -> ClaudeSpending:
    """`usage` alone leaves subagents out."""
    dollars = amount(event.get("total_cost_usd"))
    models = _of_models(event.get("modelUsage"))
    usage = models.usage if models and models.usage.total else tokens(event.get("usage"))
    return ClaudeSpending(usage, None if dollars is None else nanos(dollars))


def _of_models(models: Any) -> ClaudeSpending | None:
    """An empty account is one too: nothing was spent."""
    if not isinstance(models, dict):
        return None
    each = [one for one in models.values() if isinstance(one, dict)]
    usage = sum((usage_of(one, *_OF_MODEL) for one in each), Usage())
    costs = [amount(one.get("costUSD")) for one in each]
    known = None if None in costs else nanos(sum(cost or 0.0 for cost in costs))
    return ClaudeSpending(usage, known)
