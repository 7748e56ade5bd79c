"""What is waiting to be sent: an ask, who may take it, and what it would cost at worst."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple, Protocol

import msgspec

from fanfold.journal.shares import ALL, Portion
from fanfold.members.route import context_fits, joined
from fanfold.price import worst
from fanfold.run.breaker import GO, Closed, Go, Wait
from fanfold.run.limits import Gauge
from fanfold.work.ask import Ask, Takes
from fanfold.work.budget import NOTHING, ONE_CALL, Accounts, Amount
from fanfold.work.item import canonical
from fanfold.work.media_ask import for_member, kinds_in, untaken
from fanfold.work.member import Member, Request, Traits
from fanfold.work.split import estimate_tokens, message_tokens
from fanfold.work.task import ToolUser, Who

UNKNOWN = (0, 0)  # the past of a member that has none


class Candidate(msgspec.Struct, frozen=True):
    """One who may answer. `grade`: its class. Those of one class share the load. While it cannot take
    a call now, those of worse classes do up to the class `overflow`; any other only when all better
    ones are closed or have failed."""

    member: Member
    gauge: Gauge
    traits: Traits
    grade: int = 0
    why: str = "named"
    overflow: int = 0

    @property
    def holds(self) -> int:
        """Nobody of a class worse than this is asked while it is only busy."""
        return max(self.grade, self.overflow)


class Eligible(msgspec.Struct):
    """Those who may answer a task, worked out once for each way of naming them. When the members of
    the run change, `candidates` does; who waits looks again.

    `accept`: whose recorded replies serve as well. `private`: none of them leaves replies that serve
    other runs. `queue`: where demands for the same members wait. `tools`: theirs, where a step states
    none; `clash`: why they have none in common.
    """

    candidates: tuple[Candidate, ...]
    accept: tuple[str, ...]
    takes: tuple[Takes, ...]
    metered: bool
    private: bool
    queue: str
    tools: ToolUser | None = None
    clash: str = ""

    def sent_to(self, answerer: str, ask: Ask) -> Ask:
        """The ask as a member of this answerer is sent it."""
        traits = (one.traits for one in self.candidates if one.traits.answerer == answerer)
        found = next(traits, None)
        return ask if found is None else for_member(ask, found)

    @property
    def unrecorded(self) -> bool:
        """A new run has nothing of theirs on record: functions, and the like."""
        return self.private and not self.metered


def embeds(eligible: Eligible) -> bool:
    """Whether they make vectors, of many inputs in one request."""
    return all(one.traits.kind == "embedding" for one in eligible.candidates)


def expected_parts(candidates: tuple[Candidate, ...], at_once: int) -> dict[str, float]:
    """The part of the calls that each will take, going by slots: of so many at once the best class
    what it can, the next what is left, as far as they overflow. Those of one class get equal parts."""
    parts: dict[str, float] = {}
    left = at_once
    for grade, group in groupby(candidates, key=lambda one: one.grade):
        alike = list(group)
        slots = sum(one.gauge.most for one in alike) if grade <= candidates[0].holds else 0
        taken = min(left, slots)
        parts |= {one.traits.id: taken / len(alike) for one in alike}
        left -= taken
    whole = sum(parts.values())
    return {id: part / whole for id, part in parts.items() if part}


class StepState:
    """A step while it runs: how many of its calls are in flight, and which accounts pay for them.

    `past`: how members did at such a step before, lower is better (`route.standing`). `ahead`: calls
    that are claimed while they wait for a slot. `grow`: called when more may be at work at once.
    `free`: its calls cost nothing. `lines`: so many of its asks may be in batches. `dearest`: the most
    that was reserved for one of its calls. `who`: is asked there.
    """

    __slots__ = ("_most", "_portion", "accounts", "ahead", "calls", "concurrency", "dearest",
                 "dollars", "free", "grow", "in_flight", "lines", "name", "no", "past", "reused",
                 "who")  # fmt: skip

    def __init__(self, no: int, name: str, concurrency: int, accounts: Accounts) -> None:
        self.no, self.name, self.accounts = no, name, accounts
        self._portion, self._most = ALL, concurrency
        self.concurrency = concurrency
        self.grow: list[Callable[[int], None]] = []
        self.look_at_dollars()
        self.past: dict[str, tuple[int, int]] = {}
        self.in_flight = self.ahead = self.calls = self.reused = 0
        self.free = False
        self.lines = 0
        self.dearest = NOTHING
        self.who: Who | None = None

    @property
    def at_once(self) -> int:
        """Tasks under way: those in batches take no slots."""
        return max(self.concurrency, self.lines)

    @property
    def full(self) -> bool:
        return self.in_flight >= self.concurrency

    def look_at_dollars(self) -> None:
        """Who has no price is not asked where dollars are limited."""
        self.dollars = any(account.max_usd is not None for account in self.accounts)

    def resize(self, most: int) -> None:
        """So many of its calls at once, in all processes."""
        self._most = most
        self.take_portion(self._portion)

    def take_portion(self, portion: Portion) -> None:
        """So much of that is for this process."""
        self._portion = portion
        self.concurrency = portion.of(self._most)
        for grow in self.grow:
            grow(self.concurrency)

    @property
    def most(self) -> int:
        """Of its calls at once, in all processes."""
        return self._most


class Demand:
    """An ask that is to be sent, who may take it, and what each of them would cost at worst.

    A member whose context is too small may not take it, if another's is not. `avoid` was asked last,
    `failures` counts the failures by member. `claim_ahead`: it may be claimed before there is a slot;
    where there is a choice between members, that is made when there is one. Demands wait in a queue
    with those for the same members. `eligible`: where its candidates come from, if those may change.
    `not_before`: it was refused, and is to wait until then; it is claimed meanwhile, so that it is the
    first to go.
    """

    __slots__ = ("_ahead", "_made", "_queue", "ask", "avoid", "batch", "candidates", "claim_ahead",
                 "eligible", "failures", "not_before", "queue", "refusals", "refused", "seen", "sent",
                 "step")  # fmt: skip

    def __init__(
        self, ask: Ask, candidates: tuple[Candidate, ...], queue: str, step: StepState,
        claim_ahead: bool = False,
    ) -> None:  # fmt: skip
        self.ask, self.queue, self.step, self._ahead = ask, queue, step, claim_ahead
        self.candidates = self.seen = candidates
        self.claim_ahead = claim_ahead and len(candidates) == 1
        if len(candidates) > 1:
            self._take(candidates)
            if len(self.candidates) < len(candidates):
                self.queue = ",".join(one.traits.id for one in self.candidates)
        self._queue = self.queue
        self.eligible: Eligible | None = None
        self.avoid: str | None = None
        self.failures: dict[str, int] = {}
        self.refusals, self.not_before = 0, 0.0
        self.refused: dict[str, tuple[int, int]] = {}  # by account: the first call, and how often
        self.sent = False  # somebody may have seen it
        self.batch = False  # it goes to a batch service, and needs no slot
        self._made: dict[str, tuple[Request, Amount]] | None = None

    def _take(self, candidates: tuple[Candidate, ...]) -> None:
        self.seen = candidates
        self.candidates = _fitting(self.ask, candidates) if len(candidates) > 1 else candidates
        self.claim_ahead = self._ahead and len(candidates) == 1

    @property
    def outdated(self) -> bool:
        return self.eligible is not None and self.eligible.candidates is not self.seen

    def look_again(self) -> None:
        """The members of the run have changed since it was made."""
        assert self.eligible is not None
        self._take(self.eligible.candidates)
        self._made = None  # their prices may have

    def request(self, candidate: Candidate) -> tuple[Request, Amount]:
        """The ask made ready for this member, and its worst case; worked out once."""
        traits = candidate.traits
        if not traits.metered:
            return prepared(candidate.member, self.ask), ONE_CALL
        if self._made is None:
            self._made = {}
        made = self._made.get(traits.id)
        if made is None:
            request = prepared(candidate.member, self.ask)
            made = self._made[traits.id] = (request, worst_case(traits, request))
        return made

    def in_order(self, turn: int) -> tuple[Candidate, ...]:
        """Those that failed come last, the one asked last after the others of its class; then the
        least loaded, and who did better before; ties rotate with each turn."""
        many, failures, past = len(self.candidates), self.failures, self.step.past
        spread = [self.candidates[(n + turn) % many] for n in range(many)]
        spread.sort(key=lambda c: (
            failures.get(c.traits.id, 0), c.grade, c.traits.id == self.avoid,
            (c.gauge.in_flight + c.gauge.ahead) / c.gauge.most,
            past.get(c.traits.id, UNKNOWN),
        ))  # fmt: skip
        return tuple(spread)

    def failed(self, id: str) -> None:
        """This member brought nothing: all others come first, also those of worse classes."""
        self.avoid = id
        self.failures[id] = self.failures.get(id, 0) + 1
        if any(one.grade for one in self.candidates):
            self.queue = f"{self._queue} without {joined(sorted(self.failures))}"

    def refused_by(self, gauge: Gauge, order: int) -> str | None:
        """Its call with this number was refused (429). A reason, if it is this ask that is refused: the
        account answers others that were sent after it."""
        pool, throttle = gauge.pool, gauge.pool.throttle
        first, times = self.refused.get(pool.name, (order, 0))
        self.refused[pool.name] = first, times + 1
        self.refusals += 1
        if times + 1 < throttle.refusals.needed(first, throttle.sent - pool.in_flight):
            return None
        return f"refused {times + 1} times, while other calls were answered"

    @property
    def untried(self) -> bool:
        """There is somebody left who has not failed, and is not closed."""
        return any(
            one.traits.id not in self.failures and not broken(one.gauge) for one in self.candidates
        )

    def others_free(self, id: str, now: float) -> bool:
        """Another account could take it at once."""
        return any(one is GO for one in self._others(id, now))

    def others_open(self, id: str, now: float) -> bool:
        """Another account could take it, at once or later."""
        return not all(isinstance(one, Closed) for one in self._others(id, now))

    def _others(self, id: str, now: float) -> list[Go | Wait | Closed]:
        pool = next((one.gauge.pool for one in self.candidates if one.traits.id == id), None)
        others = (one.gauge for one in self.candidates if one.gauge.pool is not pool)
        return [gauge.check(now, 0) for gauge in others]


class Prepares(Protocol):
    """A member, as far as asks are made ready for it. It need not be open."""

    @property
    def traits(self) -> Traits: ...

    def prepare(self, ask: Ask) -> Request: ...


def prepared(member: Prepares, ask: Ask) -> Request:
    """Made ready for this member, with files as it takes them. Terminal: it does not take them."""
    return member.prepare(for_member(ask, member.traits))


def _fitting(ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Those who take its files; of these whose context is large enough, going by an estimate; all of
    them when none is."""
    if ask.shows_files:
        kinds = kinds_in(ask)
        takers = tuple([one for one in candidates if untaken(one.traits, kinds) is None])
        candidates = takers or candidates
    if all(one.traits.context is None for one in candidates):
        return candidates
    tokens = sum(map(message_tokens, ask.conversation()))
    if ask.schema is not None:
        tokens += estimate_tokens(canonical(ask.schema.definition).decode())
    most = ask.params.max_tokens
    return tuple([c for c in candidates if context_fits(c.traits, tokens, most)]) or candidates


def broken(gauge: Gauge) -> bool:
    """A breaker is open: nothing is sent there for now, or ever."""
    return gauge.breaker.state != "closed" or gauge.pool.breaker.state != "closed"


class NeededCall(NamedTuple):
    """`many` calls that are needed at a step and were not made yet; who may answer them, as far as that
    is known, and the most that was reserved for one there."""

    many: int
    candidates: tuple[Candidate, ...] = ()
    seen: Amount = NOTHING

    def if_by(self, id: str) -> NeededCall:
        """The same, if all are asked of this member; what was seen of others alone says nothing."""
        own = tuple([one for one in self.candidates if one.traits.id == id])
        return NeededCall(self.many, own, NOTHING if self.candidates and not own else self.seen)

    def amount(self, like: Amount, request: Request) -> Amount:
        """What one may take: no less than one `like` that of this request, nor than such a request
        to the dearest who may answer."""
        found = like.at_least(self.seen)
        for traits in (one.traits for one in self.candidates):
            if traits.price is not None and not traits.agent:
                usd = worst(traits.price, request.input_tokens, traits.max_tokens)
                found = found.at_least(Amount(usd, request.input_tokens + traits.max_tokens))
        return found


def worst_case(traits: Traits, request: Request) -> Amount:
    usd = request.most or 0
    if request.most is None and traits.price is not None:
        usd = worst(traits.price, request.input_tokens, request.output_tokens)
    return Amount(usd, request.input_tokens + request.output_tokens, 1)
