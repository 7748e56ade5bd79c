"""What a run of claude has taken so far, from its events: live, and after each of its results.

A message comes in several events, each with the usage of its beginning (output tokens: 1), so it is
counted once, by its id. How much it wrote is told at its end (`message_delta`); until then, and in
logs without partial messages, it is estimated from the length of what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from fanfold.members.agents.dialect import SLACK, ConversationSize
from fanfold.members.agents.worker import CallSize
from fanfold.members.printed import amount, count, only, status_of, usage_of
from fanfold.members.reported import ReplyEnd, reply_end
from fanfold.price import Price, cost, lookup, nanos, worst
from fanfold.work.ask import Ask, Finish, Usage

BYTES_PER_TOKEN = 2.6  # measured on a run of the real service, thinking and tool calls included
CONTEXT, OUTPUT = 200_000, 32_000  # the most that one call takes in and gives out, unless told else
FIRST = 64_000  # tokens of its own instructions and tools, at most: the first call takes them
HOUR = 2  # a write to the cache for an hour is billed as twice as much input


class _Call(msgspec.Struct):
    """One message of the model. `hour`: how much of the cache writes were for an hour. `written`:
    bytes of the parts that came whole, `streamed` of those that came bit by bit. `thinks`: it wrote
    more than it shows."""

    model: str
    usage: Usage = Usage()
    hour: int = 0
    written: int = 0
    streamed: int = 0
    thinks: bool = False
    final: bool = False

    def spent(self) -> Usage:
        """Output is never less than reported; a final count is not estimated."""
        if self.final:
            return self.usage
        size = max(self.written, self.streamed)
        written = max(self.usage.output, round(size / BYTES_PER_TOKEN))
        return msgspec.structs.replace(self.usage, output=written)

    def unseen(self, most: int) -> int:
        """Tokens that it can have written beyond those counted, if it was cut off now. All that is
        written is streamed, except for what it thinks; a token is at least a byte."""
        if not self.thinks:
            size = max(self.written, self.streamed, self.usage.output)
            most = min(most, size + SLACK)
        return max(0, most - self.spent().output)


class ClaudeMeter:
    """`price`: what the roster states, which then prices every token, whatever claude says; without
    it the list price of each message's model serves while it runs, and claude's own figure is what
    counts in the end.

    `hours`: this claude bills cache writes for an hour at their own price (2.1.325 does, one of April
    2026 billed them like all others).
    """

    def __init__(self, price: Price | None, *, resumed: bool, call: CallSize | None = None) -> None:
        self.context = ConversationSize(call or CallSize(CONTEXT, OUTPUT), FIRST, resumed=resumed)
        self._models: set[str] = set()
        self._hourly = True  # writes to the cache may be for an hour; the first reply tells
        self._rates = None if price is None else msgspec.structs.replace(price, call=0.0)
        self._flat = 0 if price is None else nanos(price.call)
        self._resumed = resumed
        self._calls: dict[str, _Call] = {}
        self._settled = ClaudeSpending(Usage(), None)
        self._known = False  # the program's own figures cover all that is settled
        self._unpriced = False  # it took what neither its figures nor a list price tell
        self.hours = False
        self.streamed = False
        self.messages = 0

    # ── what is told of a message ──

    def begun(self, id: str, model: str, usage: Any) -> None:
        """The first word of it, or one of its later ones."""
        if id not in self._calls:
            self._calls[id] = _Call(model)
            self._models.add(model)
            self.messages += 1
        call = self._calls[id]
        if not call.final:
            call.usage, call.hour = tokens(usage), _hour(usage)
            self._hourly = call.hour > 0

    def wrote(self, id: str, size: int) -> None:
        self._calls[id].written += size

    def streams(self, id: str, size: int, thinks: bool) -> None:
        """A bit of a message that is being written."""
        call = self._calls.get(id)
        if call is not None:
            call.streamed += size
            call.thinks |= thinks

    def finished(self, id: str, usage: Any) -> None:
        """Its last word. Some servers tell only the output here."""
        call = self._calls.get(id)
        if call is None:
            return
        told = tokens(usage)
        if told.total == told.output:
            told = msgspec.structs.replace(call.usage, output=told.output)
        else:
            call.hour = _hour(usage)
        call.usage, call.final = told, True

    def add_to_context(self, id: str) -> None:
        """This message ends the conversation so far: what comes next is sent with all of it."""
        call = self._calls.get(id)
        if call is not None:
            more = 0 if call.final else max(call.written, call.streamed)
            self.context.replied(call.usage.total + more)

    # ── what it comes to ──

    @property
    def usage(self) -> Usage:
        return self._settled.usage + _sum(call.spent() for call in self._calls.values())

    @property
    def cost(self) -> int | None:
        """Nano-dollars; None while no price is known for anything, or not for all that is settled."""
        if self._unpriced:
            return None
        if not self._calls:
            return self._settled.cost
        open = self._priced(self._calls.values())
        settled = self._settled.cost
        if open is None:
            return settled
        return open + (self._flat if settled is None else settled)

    @property
    def exact(self) -> bool:
        """All of it by final counts or by the program's own figures."""
        settled = self._known or not self._settled.usage.total
        return settled and all(call.final for call in self._calls.values())

    def unknown(self, until: float | None) -> int:
        """The most that calls under way can have taken, beyond what they have told."""
        open = [call for call in self._calls.values() if not call.final] if self.streamed else []
        if not open:
            return self.whole_call(self.context.written(until))
        return sum(self._rest(call) for call in open)

    def _rest(self, call: _Call) -> int:
        rates = self._rates or _list_price(call.model)
        return 0 if rates is None else _cost(rates, Usage(0, call.unseen(self.context.output)))

    def whole_call(self, output: int | None = None) -> int:
        """The most that one more call can take, by the dearest of the models seen so far."""
        output = self.context.output if output is None else output
        listed = (_list_price(model) for model in self._models)
        prices = [rates for rates in ((self._rates,) if self._rates else listed) if rates]
        calls = (worst_call(one, self.context.tokens, output, hour=self._hourly) for one in prices)
        return max(calls, default=0)

    def starts_with(self, model: str) -> None:
        """The model that it will ask, by its first word."""
        self._models.add(model)

    def settle(self, result: Result) -> None:
        """Take the result's account for the messages since the last one. What was begun and cut off
        may be missing there, and is paid all the same."""
        part = self._part(result)
        calls = [*self._calls.values()] if self.streamed else []
        usage = _larger(part.usage, _sum(call.spent() for call in calls))
        if self._rates is None and part.cost is not None and part.is_possible:
            amount: int | None = part.cost + self._by_list(_beyond(usage, part.usage), result)
        else:
            amount = self._of_tokens([call for call in calls if call.final], usage, result)
            self._known = self._known and self._rates is not None
            self._unpriced = self._unpriced or amount is None
        before = self._flat if self._settled.cost is None else self._settled.cost
        self._settled = ClaudeSpending(self._settled.usage + usage, before + (amount or 0))
        self._calls.clear()

    def _part(self, result: Result) -> ClaudeSpending:
        """What this result adds. Figures of a whole session hold earlier runs of it too; an older
        claude tells nothing else, so then the tokens of the log are counted."""
        if result.since is not None:
            self._known = True
            return result.since
        if not self._resumed:
            self._known = True
            before = 0 if self._settled.cost is None else self._settled.cost
            cost = None if result.whole.cost is None else max(0, result.whole.cost - before)
            return ClaudeSpending(_beyond(result.whole.usage, self._settled.usage), cost)
        self._known = False
        return ClaudeSpending(
            _larger(result.own, _sum(call.spent() for call in self._calls.values())), None
        )

    def _of_tokens(self, calls: list[_Call], usage: Usage, result: Result) -> int | None:
        """Each call by itself, since a long one may cost more for each token; then what is not known
        by call. Where there is no price the session's whole figure counts: rather too much. None: there
        is neither."""
        rates = self._rates or self._listed(result)
        if rates is None:
            return result.whole.cost or None if usage.total else 0
        rest = _beyond(usage, _sum(call.usage for call in calls))
        return sum(self._call_cost(rates, call) for call in calls) + _cost(rates, rest)

    def _by_list(self, usage: Usage, result: Result) -> int:
        rates = self._listed(result)
        return 0 if rates is None or not usage.total else _cost(rates, usage)

    def _listed(self, result: Result) -> Price | None:
        """The list price of the result's model; where it names none, of the dearest that was asked."""
        named = (result.model,) if result.model else self._models
        found = [rates for rates in map(_list_price, named) if rates]
        return max(found, key=lambda rates: (rates.output, rates.input), default=None)

    def _priced(self, calls: Iterable[_Call]) -> int | None:
        amounts = [
            self._call_cost(rates, call)
            for call in calls
            if (rates := self._rates or _list_price(call.model)) is not None
        ]
        return sum(amounts) if amounts else None

    def _call_cost(self, rates: Price, call: _Call) -> int:
        usage, hour = call.spent(), min(call.hour, call.usage.cache_write) if self.hours else 0
        input, write = usage.input + HOUR * hour, usage.cache_write - hour
        return cost(rates, input, usage.output, usage.cache_read, write)


def worst_call(price: Price, context: int, output: int, *, hour: bool = True) -> int:
    """All of the context written to the cache (for an hour), and all the output there may be."""
    times = HOUR if hour else 1
    tiers = tuple(
        msgspec.structs.replace(tier, cache_write=max(tier.cache_write or 0.0, times * tier.input))
        for tier in price.tiers
    )
    write = max(price.cache_write or 0.0, times * price.input)
    rates = msgspec.structs.replace(price, call=0.0, cache_write=write, tiers=tiers)
    return worst(rates, context, output)


def _cost(rates: Price, usage: Usage) -> int:
    return cost(rates, usage.input, usage.output, usage.cache_read, usage.cache_write)


def _sum(usages: Iterable[Usage]) -> Usage:
    return sum(usages, Usage())


def _larger(one: Usage, other: Usage) -> Usage:
    """Of each kind of tokens the larger number."""
    return Usage(*map(max, astuple(one), astuple(other)))


def _beyond(whole: Usage, part: Usage) -> Usage:
    """What `whole` has that `part` has not."""
    pairs = zip(astuple(whole), astuple(part), strict=True)
    return Usage(*(max(0, all - some) for all, some in pairs))


def _hour(usage: Any) -> int:
    split = usage.get("cache_creation") if isinstance(usage, dict) else None
    return count(split.get("ephemeral_1h_input_tokens")) if isinstance(split, dict) else 0


@lru_cache(64)
def _list_price(model: str) -> Price | None:
    return lookup(model, "anthropic")


# ── the event that closes a run or a part of one: `{"type": "result", ...}` ──────────────────

_OF_MODEL = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_OF_CALL = (
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
)  # fmt: skip


class ClaudeSpending(NamedTuple):
    """Tokens, and nano-dollars by claude's own table of prices; None where it does not say."""

    usage: Usage
    cost: int | None

    @property
    def is_possible(self) -> bool:
        """It prices every token, those of models that it does not know too: nothing is no cost of them."""
        return self.cost is not None and (self.cost > 0 or not self.usage.total)


class Result(NamedTuple):
    """`whole` is of all models and of the session from its very beginning, also when it was resumed
    or forked; `since` covers what came after the last result (None: an older claude, which does not
    tell); `own` is this run's, without subagents, and short when a budget stopped it.
    """

    text: str
    data: Any
    is_error: bool
    refused: bool
    end: ReplyEnd
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
        return "refusal" if self.refused else self.end.finish


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
        end=_end(event),
        subtype=str(event.get("subtype") or ""),
        why=_why(event),
        status=status_of(event.get("api_error_status")),
        model=only(event.get("modelUsage")),
        denied=_denied(event.get("permission_denials")),
        whole=_whole(event),
        since=_of_models(event.get("model_usage_since_last_result")),
        own=tokens(event.get("usage")),
    )


def _end(event: dict[str, Any]) -> ReplyEnd:
    """Only a known good end is one. Older programs leave it out or null; an answer by a schema is given
    by the call of a tool."""
    stated = event.get("stop_reason")
    if stated is None or (stated == "tool_use" and event.get("structured_output") is not None):
        return ReplyEnd("stop")
    return reply_end(stated, Ask())


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
    if not dollars and models is not None and models.cost:
        return ClaudeSpending(usage, models.cost)
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
