"""What asks will take before they are made: calls, tokens, money, time.

The expected cost of n calls is n × mean, and its 90th percentile n × mean + 1.2816 × √n × deviation:
calls vary independently of one another, and a sum of many is nearly normal. So variances add, and
forecasts can be added. Without calls on record the mean itself is an assumption, whose error does
not average out: the deviation is then that of the whole sum.

The worst case is what the ledger would reserve if every call went its dearest way: each reply is as
long as it may be, is kicked back as often as the terms allow, then escalated. Not in it are attempts
that are repeated because they are in doubt, or because a paid reply could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, sqrt
from typing import NamedTuple

import msgspec

from fanfold.journal.answers import CallHistory
from fanfold.price import FREE, cost
from fanfold.work.member import Request, Traits
from fanfold.work.task import Budget

Z90 = 1.2816
OVERHEAD = 1024  # tokens that a worst case has on top of its bytes
BYTES_PER_TOKEN = 4  # of a usual text
PART_OF_MOST = (
    4  # without calls on record, a reply takes a quarter of what it may; so does an agent
)
UNLIKE = 2.0  # prompts that are so many times as long as those on record are of another sort

_ADDED = (
    "tasks", "calls", "reused", "input", "output", "variance", "most_calls", "most_tokens",
    "cache_read", "cache_write", "saved",
)  # fmt: skip
_COUNTED = tuple(name for name in _ADDED if name != "variance")


class Note(msgspec.Struct, frozen=True):
    """Something that was assumed. `what` has `{}` where the step is named: `{}: so and so`."""

    what: str
    step: str = ""


def in_words(notes: Iterable[Note]) -> list[str]:
    """The same assumption about several steps is said once."""
    steps: dict[str, list[str]] = {}
    for note in notes:
        steps.setdefault(note.what, []).append(note.step)
    return [what.replace("{}", ", ".join(dict.fromkeys(named))) for what, named in steps.items()]


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What some asks will take. Money is in nano-dollars, or None when a price is not known.

    `tasks` are those that have something to ask, `reused` the asks that the journal answers.
    `calls`, `input`, `output` and `seconds` are expected, as `p50` is; `worst`, `most_calls` and
    `most_tokens` are bounds. `at_least`: only a part of the time is known. `measured`: all of it
    rests on calls on record. `untold`: not in `input` and `output` is what agents take that were
    never asked before. `notes` say what was assumed. `cache_read` and `cache_write` are the part of
    `input` that is expected to be read from caches and written to them, which `saved` so much.
    """

    step: str = ""
    tasks: int = 0
    calls: int = 0
    reused: int = 0
    input: int = 0
    output: int = 0
    p50: int | None = 0
    variance: float = 0.0
    worst: int | None = 0
    most_calls: int = 0
    most_tokens: int = 0
    seconds: float | None = None
    at_least: bool = False
    measured: bool = True
    untold: bool = False
    notes: tuple[Note, ...] = ()
    cache_read: int = 0
    cache_write: int = 0
    saved: int = 0

    @property
    def p90(self) -> int | None:
        """Never above the worst case."""
        if self.p50 is None:
            return None
        high = round(self.p50 + Z90 * sqrt(self.variance))
        return high if self.worst is None else min(high, self.worst)

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def __add__(self, other: Forecast) -> Forecast:
        """Both, one after the other."""
        return Forecast(
            step=self.step or other.step,
            p50=_both(self.p50, other.p50),
            worst=_both(self.worst, other.worst),
            seconds=_known_sum(self.seconds, other.seconds),
            at_least=self.at_least or other.at_least,
            measured=self.measured and other.measured,
            untold=self.untold or other.untold,
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
            **{name: getattr(self, name) + getattr(other, name) for name in _ADDED},
        )

    def scaled(self, times: float) -> Forecast:
        """So many times as much of the same: what a sample says of the whole."""
        money = {name: getattr(self, name) for name in ("p50", "worst")}
        return msgspec.structs.replace(
            self,
            variance=self.variance * (times if self.measured else times * times),
            seconds=None if self.seconds is None else self.seconds * times,
            **{name: ceil(getattr(self, name) * times) for name in _COUNTED},
            **{name: None if v is None else ceil(v * times) for name, v in money.items()},
        )


def _both(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _known_sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def in_turn(forecasts: Iterable[Forecast]) -> Forecast:
    """Of steps that come one after the other."""
    return sum(forecasts, Forecast())


def at_once(forecasts: Iterable[Forecast]) -> Forecast:
    """Of steps that go on side by side: all that they take, in the time of the slowest."""
    found = list(forecasts)
    known = [one.seconds for one in found if one.seconds is not None]
    return msgspec.structs.replace(in_turn(found), seconds=max(known, default=None))


class StepPreview(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a preview. `tasks` None: how many there will be shows only on the way; `most` is
    then a bound, where there is one, and the forecast has nothing but bounds.

    `watched`: the governor looks at it before it begins.
    """

    name: str
    kind: str
    who: tuple[str, ...] = ()
    tasks: int | None = 0
    most: int | None = None
    forecast: Forecast = Forecast()
    watched: bool = False


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan will do and take, as far as one can tell before it starts."""

    name: str
    steps: tuple[StepPreview, ...]
    total: Forecast
    budget: Budget = Budget()
    notes: tuple[Note, ...] = ()

    @property
    def sized(self) -> bool:
        """Whether the size of every step is known."""
        return all(step.tasks is not None for step in self.steps)


# ── what calls are expected to take: by what is on record of their like, else by their sizes ──


class CachedTokens(NamedTuple):
    """Tokens that are read from caches, and written there, of so many prefixes."""

    read: float = 0.0
    written: float = 0.0
    prefixes: int = 0


class Share:
    """One member's part of the calls, and what these would take by their sizes alone. `most` is what
    agents may spend; `unbounded`: nobody knows. `keeps`: one ask writes what it shares and the others read
    it, as no batch service promises."""

    def __init__(self, traits: Traits, past: CallHistory | None, keeps: bool = True) -> None:
        self.traits, self.past, self.keeps = traits, past, keeps
        self.calls = self.input = self.output = self.most = 0.0
        self.unbounded = False
        self._shared: dict[str, tuple[int, float]] = {}

    def add(self, request: Request, more: int, weight: float) -> None:
        self.calls += weight
        if self.traits.agent:
            self.most += weight * (request.most or 0)
            self.unbounded |= request.most is None and self.traits.price is not None
            return
        if request.input_tokens:
            size = request.input_tokens - OVERHEAD + more
            if files := request.ask.attachments():
                size = len(request.body) + more + BYTES_PER_TOKEN * sum(f.estimate for f in files)
            self.input += weight * max(0, size) / BYTES_PER_TOKEN
        if request.prefix:
            _, so_far = self._shared.get(request.prefix, (0, 0.0))
            self._shared[request.prefix] = (request.shared, so_far + weight)
        self.output += weight * request.output_tokens / PART_OF_MOST

    @property
    def cached(self) -> CachedTokens:
        """One ask writes what it shares, the others read it."""
        many = [(tokens, calls) for tokens, calls in self._shared.values() if calls > 1]
        return CachedTokens(
            sum(tokens * (calls - 1) for tokens, calls in many), sum(n for n, _ in many), len(many)
        )

    @property
    def uncertain(self) -> bool:
        """Calls on record may have read from caches, and these may not."""
        return bool(self._shared) and not self.keeps

    def priced(self, output: float, *, caches: bool | None = None) -> float:
        """What all calls take by their sizes."""
        price, n = self.traits.price or FREE, self.calls
        keeps = self.keeps if caches is None else caches
        read, written, _ = self.cached if keeps else CachedTokens()
        plain = max(0.0, self.input - read - written)
        return n * cost(price, ceil(plain / n), ceil(output / n), ceil(read / n), ceil(written / n))


class ExpectedCalls(msgspec.Struct, frozen=True):
    """What one member's part is expected to take; `cost` is 0 when its price is not known. `untold`:
    how many tokens, nobody can tell."""

    traits: Traits
    calls: float
    input: float = 0.0
    output: float = 0.0
    cost: float = 0.0
    variance: float = 0.0
    latency: float | None = None
    note: str = ""
    untold: bool = False


def expected_calls(share: Share) -> ExpectedCalls:
    """Cases: it costs nothing; nothing is on record of it; of other prompts; of this step."""
    past, id, n = share.past, share.traits.id, share.calls
    if not share.traits.metered:
        return ExpectedCalls(share.traits, n)
    if share.traits.agent:
        return _of_agent(share)
    if past is None:
        return _assumed(share)
    known = past.input > 0 or past.output > 0
    alike = share.input <= UNLIKE * n * past.input and n * past.input <= UNLIKE * share.input
    if past.step is not None and past.cost > 0 and (alike or not known) and not share.uncertain:
        return ExpectedCalls(
            share.traits, n, n * past.input, n * past.output, n * past.cost,
            n * past.cost_variance, past.latency,
        )  # fmt: skip
    note = f"no history for {id} at {{}}: replies as long as its {past.calls:,} at other steps"
    if past.step is not None:
        note = f"{{}}: the prompts are not like those on record for {id}; counted by their size"
    output = n * past.output if known else share.output
    spent = share.priced(output) if known else n * past.cost
    ratio = spent / (n * past.cost) if past.cost else 0.0
    return ExpectedCalls(
        share.traits, n, share.input, output, spent, n * past.cost_variance * ratio * ratio,
        past.latency, note if output else "",
    )  # fmt: skip


def _assumed(share: Share) -> ExpectedCalls:
    """A quarter of the longest reply; a half of it is taken for the 90th percentile."""
    spent = share.priced(share.output)
    deviation = (share.priced(2 * share.output) - spent) / Z90
    note = f"no history for {share.traits.id} at {{}}: output taken as a quarter of max_tokens"
    return ExpectedCalls(
        share.traits, share.calls, share.input, share.output, spent, deviation * deviation,
        None, note if share.output else "",
    )  # fmt: skip


def _of_agent(share: Share) -> ExpectedCalls:
    """What it takes does not follow from the length of its prompt: as on record, at other steps too;
    else a quarter of what it may take, and a half of that for the 90th percentile."""
    past, n, traits = share.past, share.calls, share.traits
    if past is not None and past.cost > 0:
        note = f"no history for {traits.id} at {{}}: as its {past.calls:,} at other steps"
        return ExpectedCalls(
            traits, n, n * past.input, n * past.output, n * past.cost, n * past.cost_variance,
            past.latency, "" if past.step is not None else note,
        )  # fmt: skip
    spent = share.most / PART_OF_MOST
    note = "{}: agents without a history there are taken to spend a quarter of what they may"
    deviation = spent / Z90
    return ExpectedCalls(
        traits, n, cost=spent, variance=deviation * deviation, note=note if spent else "",
        untold=True,
    )  # fmt: skip
