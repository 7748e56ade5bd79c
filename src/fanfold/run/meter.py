"""From asks to a forecast: what each will take at worst, and what all together are expected to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil

import msgspec

from fanfold.journal.answers import CallHistory
from fanfold.price import dollars
from fanfold.run.demand import Prepares, prepared, worst_case
from fanfold.run.forecast import (
    BYTES_PER_TOKEN,
    PART_OF_MOST,
    ExpectedCalls,
    Forecast,
    Note,
    Share,
    expected_calls,
)
from fanfold.run.prompt_cache import FIRST_WAIT
from fanfold.run.remaining import RemainingAsks
from fanfold.run.throttle import HEADROOM
from fanfold.work.ask import REPLY_BYTES, WHY_BYTES, Ask, kicked_bytes
from fanfold.work.budget import ONE_CALL, Amount
from fanfold.work.media import Attachment, count_files
from fanfold.work.member import Request, Traits
from fanfold.work.split import estimate_tokens, message_tokens

REASONS_BYTES = WHY_BYTES + 512  # of what a gate says against a reply, and the words around it


class StepMembers(msgspec.Struct, frozen=True):
    """Who may answer the asks of a step, under which terms, and what is on record of them, by id.

    `votes`: each question is asked several times, so more replies than questions on record are no
    kick-backs. `extra`: the share of calls that hedging may add. `parts`: the part of the calls that
    each member will take; those without one are asked only when the others cannot be.
    """

    step: str
    members: tuple[Prepares, ...]
    escalate: tuple[Prepares, ...] = ()
    concurrency: int = 8
    past: Mapping[str, CallHistory | None] = {}
    votes: bool = False
    extra: float = 0.0
    parts: Mapping[str, float] = {}

    @property
    def everyone(self) -> tuple[Traits, ...]:
        return tuple(one.traits for one in (*self.members, *self.escalate))

    @property
    def metered(self) -> bool:
        return any(traits.metered for traits in self.everyone)


def forecast(lefts: Iterable[RemainingAsks], cast: StepMembers) -> Forecast:
    """Of all that is left to ask, one at a time: nothing is kept but sums."""
    meter = Meter(cast)
    for left in lefts:
        meter.add(left)
    return meter.forecast()


class Meter:
    """Adds up, task by task.

    Trap: a kick-back is counted with `REPLY_BYTES` for each token of the reply in it. Where the ask
    itself states no `max_tokens`, replies of longer tokens (rows of dashes, say) can make the ledger
    reserve more than that, up to `KICKED_BYTES`.
    """

    def __init__(self, cast: StepMembers, *, keeps: bool = True) -> None:
        """`keeps`: see `Share`."""
        self._cast, self._keeps = cast, keeps
        self._shares = {t.id: Share(t, cast.past.get(t.id), keeps) for t in cast.everyone}
        kicks = [past.kicks for one in cast.members if (past := cast.past.get(one.traits.id))]
        self._again = 0.0 if cast.votes or not kicks else min(1.0, sum(kicks) / len(kicks))
        self._tasks = self._reused = 0
        self._usd = self._tokens = self._calls = 0
        self._dearest = self._longest = 0
        self._files: list[Attachment] = []
        self._sharing = self._shared = self._whole = 0  # asks that begin alike, and their tokens
        self._more = None if cast.votes or not kicks else sum(kicks) / len(kicks)
        self._tool_calls, self._with_tools = 0, ""

    def add(self, left: RemainingAsks) -> None:
        self._reused += left.reused
        if left.ask is None:
            return
        first = _ready(self._cast.members, left.ask) if left.kicks >= 0 else []
        better = _ready(self._cast.escalate, left.first)
        self._bound(left, first, better)
        if left.asks:
            self._tasks += 1
            self._share(left.ask, left.typical)
            if files := left.ask.attachments():
                self._files.extend(files)
            self._expect(left, first, better)

    def _share(self, ask: Ask, more: int) -> None:
        if ask.shared > 0:
            self._sharing += 1
            self._shared += sum(map(estimate_tokens, ask.shared_texts()))
            self._whole += sum(map(message_tokens, ask.messages))
            self._whole += more // BYTES_PER_TOKEN

    def add_shard(self, lefts: Sequence[RemainingAsks], ask: Ask) -> None:
        """Several tasks in one ask. At worst it brings nothing, and each is asked alone."""
        typical, most = (sum(getattr(one, name) for one in lefts) for name in ("typical", "most"))
        self.add(RemainingAsks(ask, ask, 0, typical=typical, most=most))
        self._tasks += len(lefts) - 1
        for one in lefts:
            one.likely = False
            self.add(one)

    def _bound(self, left: RemainingAsks, first: list[_Ready], better: list[_Ready]) -> None:
        """Each time the dearest of those who may answer."""
        longest = max((request.output_tokens for _, request in first), default=0)
        turn = kicked_bytes(longest) + REASONS_BYTES
        rounds = _rounds(left.ask)
        grown, more = left.most, _round_bytes(left.ask, longest)
        for number in range(rounds + left.kicks + 1) if first else ():
            if number or not left.answered:
                self._reserve([_worst(one, grown) for one in first])
            grown += more if number < rounds else turn
        for one in better:
            for number in range(_rounds(left.first) + 1):
                size = number * _round_bytes(left.first, one[1].output_tokens)
                self._reserve([_worst(one, left.most + size)])
        asked = left.ask.tools if left.ask is not None else None
        if asked is not None and asked.bounds is not None:
            loops = (1 if first else 0) + len(better)
            self._tool_calls += loops * rounds * asked.bounds.calls
            self._with_tools = f"{asked.bounds.rounds} rounds of {asked.bounds.calls} calls"

    def _reserve(self, either: list[Amount]) -> None:
        usd, tokens = max(one.usd for one in either), max(one.tokens for one in either)
        self._usd, self._dearest = self._usd + usd, max(self._dearest, usd)
        self._tokens, self._longest = self._tokens + tokens, max(self._longest, tokens)
        self._calls += 1

    def _expect(self, left: RemainingAsks, first: list[_Ready], better: list[_Ready]) -> None:
        """The call, and the share of it that will be kicked back and escalated, going by the past."""
        weight = 1.0
        typical, again = left.typical, self._again
        if rounds := _rounds(
            left.ask
        ):  # those on record were in such loops too, kick-backs and all
            again = rounds / PART_OF_MOST if self._more is None else self._more
            grown = _round_bytes(left.ask, first[0][1].output_tokens if first else 0)
            typical += round(grown / PART_OF_MOST)
        parts = {one[0].id: self._cast.parts.get(one[0].id, 0.0) for one in first}
        whole = sum(parts.values())
        for number in range(2 if rounds else left.kicks + 1):
            for traits, request in first:
                part = parts[traits.id] / whole if whole else 1 / len(first)
                if part:
                    more = typical if number else left.typical
                    self._shares[traits.id].add(request, more, weight * part)
            weight *= again
        weight = 0.0 if rounds else weight
        for traits, request in better if weight else ():
            self._shares[traits.id].add(request, left.typical, weight)
            weight *= self._again

    def forecast(self) -> Forecast:
        cast = self._cast
        shares = [share for share in self._shares.values() if share.calls]
        likely = [expected_calls(share) for share in shares]
        unpriced = [t.id for t in cast.everyone if t.metered and t.price is None and self._calls]
        unbounded = [share.traits.id for share in shares if share.unbounded]
        notes = [Note(one.note, cast.step) for one in likely if one.note]
        notes += [Note(f"{id} has no known price: its cost cannot be told") for id in unpriced]
        notes += [
            Note(f"nothing bounds what {id} spends: give it max_budget_usd or max_turns")
            for id in unbounded
        ]
        notes += self._sharing_notes(shares)
        if self._files:
            notes.append(Note(f"{{}}: {count_files(self._files)}", cast.step))
        if self._with_tools:
            what = f"{{}}: tools may be used in {self._with_tools} for each ask"
            notes.append(Note(f"{what}, the worst case; each call counts as one", cast.step))
        caches = [share.cached for share in shares if self._keeps]
        seconds, at_least = _time(cast, likely)
        hedges = int(cast.extra * self._calls + 1e-9)
        worst = self._usd + hedges * self._dearest
        return Forecast(
            step=cast.step, tasks=self._tasks, reused=self._reused, notes=tuple(notes),
            calls=round(sum(one.calls for one in likely)),
            input=round(sum(one.input for one in likely)),
            output=round(sum(one.output for one in likely)),
            p50=None if unpriced or unbounded else min(worst, round(sum(x.cost for x in likely))),
            variance=0.0 if unpriced else sum(one.variance for one in likely),
            worst=None if unpriced or unbounded else worst,
            most_calls=self._calls + hedges + self._tool_calls,
            most_tokens=self._tokens + hedges * self._longest, seconds=seconds, at_least=at_least,
            untold=any(one.untold for one in likely),
            cache_read=round(sum(one.read for one in caches)),
            cache_write=round(sum(one.written for one in caches)),
            saved=round(self.would_save) if self._keeps else 0,
            measured=all(share.past is not None for share in shares if share.traits.metered),
        )  # fmt: skip

    @property
    def would_save(self) -> float:
        """What caches save, where one ask goes first."""
        return sum(_saved(share) for share in self._shares.values() if share.calls)

    def _sharing_notes(self, shares: Sequence[Share]) -> Iterator[Note]:
        if not self._sharing:
            return
        step, n = self._cast.step, self._sharing
        each = f"{self._shared // n:,} of {self._whole // n:,} tokens"
        yield Note(f"{{}}: shared {each} of a prompt", step)
        for share in shares if self._keeps else ():
            read, written, many = share.cached
            if many:
                yield Note(
                    f"{{}}: {share.traits.id} keeps what is shared: {written:,.0f} tokens written,"
                    f" {read:,.0f} read, which saves {_usd(_saved(share))}; one ask goes first, the"
                    f" others wait until its reply begins, {FIRST_WAIT:g} s at most",
                    step,
                )


def _saved(share: Share) -> float:
    return share.priced(share.output, caches=False) - share.priced(share.output, caches=True)


def _usd(amount: float) -> str:
    return f"${dollars(round(amount)):,.2f}"


# ── at worst ─────────────────────────────────────────────────────────────────────────────────

_Ready = tuple[Traits, Request]


def _ready(members: Sequence[Prepares], ask: Ask) -> list[_Ready]:
    """The ask made ready for each; who cannot make a request of it will not be asked."""
    found: list[_Ready] = []
    for one in members:
        traits = one.traits
        if not traits.metered:
            found.append((traits, Request(ask)))
            continue
        try:
            found.append((traits, prepared(one, ask)))
        except Exception:
            continue
    return found


def _rounds(ask: Ask | None) -> int:
    """In which tools may be used before the answer is due."""
    return 0 if ask is None or ask.tools is None else ask.tools.rounds_left


def _round_bytes(ask: Ask | None, longest: int) -> int:
    """That one of them adds to the ask: what the model said, arguments escaped twice, and results."""
    if ask is None or ask.tools is None or ask.tools.bounds is None:
        return 0
    return 2 * REPLY_BYTES * longest + ask.tools.bounds.round_bytes


def _worst(one: _Ready, more: int) -> Amount:
    traits, request = one
    if not traits.metered:
        return ONE_CALL
    if request.input_tokens and more:
        request = msgspec.structs.replace(request, input_tokens=request.input_tokens + more)
    return worst_case(traits, request)


# ── time ─────────────────────────────────────────────────────────────────────────────────────


def _time(cast: StepMembers, likely: Sequence[ExpectedCalls]) -> tuple[float | None, bool]:
    """Waves of calls at the usual latency, but not faster than the stated rates allow. Where no
    latency is known, the rates alone say how long it takes at least."""
    calls = sum(one.calls for one in likely)
    if not calls:
        return 0.0, False
    rated = max((seconds for one in likely for seconds in _rated(one)), default=None)
    timed = [(one.calls, one.latency) for one in likely if one.latency is not None]
    if len(timed) < len(likely):
        return rated, True
    able = [t for t in cast.everyone if t.id in cast.parts] or cast.everyone
    slots = min(cast.concurrency, sum(t.limits.concurrency for t in able))
    usual = sum(n * latency for n, latency in timed) / calls
    return max(ceil(calls / slots) * usual, rated or 0.0), False


def _rated(one: ExpectedCalls) -> Iterator[float]:
    limits = one.traits.limits
    if limits.rpm:
        yield one.calls * 60.0 / (limits.rpm * HEADROOM)
    if limits.tpm:
        yield (one.input + one.output) * 60.0 / (limits.tpm * HEADROOM)
