"""What is waiting to be sent: an ask, who may take it, and what it would cost at worst."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fanfold.members.route import context_fits, joined
from fanfold.price import worst
from fanfold.run.limits import GO, Gauge
from fanfold.work.ask import Ask
from fanfold.work.budget import ONE_CALL, Accounts, Amount
from fanfold.work.item import canonical
from fanfold.work.member import Member, Request, Traits
from fanfold.work.split import estimate_tokens

UNKNOWN = (0, 0)  # the past of a member that has none


class Candidate(msgspec.Struct, frozen=True):
    """One who may answer. `grade`: its class. Those of one class share the load; a worse class is
    used only when all better ones are closed or have failed, not while one is merely busy."""

    member: Member
    gauge: Gauge
    traits: Traits
    grade: int = 0
    why: str = "named"


class StepState:
    """A step while it runs: how many of its calls are in flight, and which accounts pay for them.

    `past`: how members did at such a step before, lower is better (`route.standing`). `ahead`: calls
    that are claimed while they wait for a slot. `grow`: called when more may be at work at once.
    """

    __slots__ = ("accounts", "ahead", "calls", "concurrency", "dollars", "grow", "in_flight", "name",
                 "no", "past", "reused")  # fmt: skip

    def __init__(self, no: int, name: str, concurrency: int, accounts: Accounts) -> None:
        self.no, self.name, self.concurrency, self.accounts = no, name, concurrency, accounts
        self.grow: list[Callable[[int], None]] = []
        self.look_at_dollars()
        self.past: dict[str, tuple[int, int]] = {}
        self.in_flight = self.ahead = self.calls = self.reused = 0

    @property
    def full(self) -> bool:
        return self.in_flight >= self.concurrency

    def look_at_dollars(self) -> None:
        """Who has no price is not asked where dollars are limited."""
        self.dollars = any(account.max_usd is not None for account in self.accounts)

    def resize(self, concurrency: int) -> None:
        self.concurrency = concurrency
        for grow in self.grow:
            grow(concurrency)


class Demand:
    """An ask that is to be sent, who may take it, and what each of them would cost at worst.

    A member whose context is too small may not take it, if another's is not. `avoid` was asked last,
    `failures` counts the failures by member. `claim_ahead`: it may be claimed before there is a slot;
    where there is a choice between members, that is made when there is one. Demands wait in a queue
    with those for the same members.
    """

    __slots__ = ("_made", "_queue", "ask", "avoid", "candidates", "claim_ahead", "failures", "queue",
                 "refusals", "sent", "step")  # fmt: skip

    def __init__(
        self, ask: Ask, candidates: tuple[Candidate, ...], queue: str, step: StepState,
        claim_ahead: bool = False,
    ) -> None:  # fmt: skip
        self.ask, self.candidates, self.queue, self.step = ask, candidates, queue, step
        self.claim_ahead = claim_ahead and len(candidates) == 1
        if len(candidates) > 1:
            self.candidates = _fitting(ask, candidates)
            if len(self.candidates) < len(candidates):
                self.queue = ",".join(one.traits.id for one in self.candidates)
        self._queue = self.queue
        self.avoid: str | None = None
        self.failures: dict[str, int] = {}
        self.refusals = 0
        self.sent = False  # somebody may have seen it
        self._made: dict[str, tuple[Request, Amount]] | None = None

    def request(self, candidate: Candidate) -> tuple[Request, Amount]:
        """The ask made ready for this member, and its worst case; worked out once."""
        traits = candidate.traits
        if not traits.metered:
            return candidate.member.prepare(self.ask), ONE_CALL
        if self._made is None:
            self._made = {}
        made = self._made.get(traits.id)
        if made is None:
            request = candidate.member.prepare(self.ask)
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

    @property
    def untried(self) -> bool:
        """There is somebody left who has not failed, and is not closed."""
        return any(
            one.traits.id not in self.failures and not broken(one.gauge) for one in self.candidates
        )

    def others_free(self, id: str, now: float) -> bool:
        """Another account could take it at once."""
        pool = next((one.gauge.pool for one in self.candidates if one.traits.id == id), None)
        return any(
            one.gauge.pool is not pool and one.gauge.check(now, 0) is GO for one in self.candidates
        )


def _fitting(ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Those whose context is large enough, going by an estimate; all of them when none is."""
    if all(one.traits.context is None for one in candidates):
        return candidates
    tokens = sum(estimate_tokens(message.content) for message in ask.conversation())
    if ask.schema is not None:
        tokens += estimate_tokens(canonical(ask.schema.definition).decode())
    most = ask.params.max_tokens
    return tuple([c for c in candidates if context_fits(c.traits, tokens, most)]) or candidates


def broken(gauge: Gauge) -> bool:
    """A breaker is open: nothing is sent there for now, or ever."""
    return gauge.breaker.state != "closed" or gauge.pool.breaker.state != "closed"


def worst_case(traits: Traits, request: Request) -> Amount:
    usd = request.most or 0
    if request.most is None and traits.price is not None:
        usd = worst(traits.price, request.input_tokens, request.output_tokens)
    return Amount(usd, request.input_tokens + request.output_tokens, 1)
