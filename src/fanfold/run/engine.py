"""What a run is made of while it runs: the books, the limits, who may answer, and why it stops."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias

import msgspec

from fanfold.clock import Clock
from fanfold.errors import BadInput, RunStopped
from fanfold.journal.answers import KnownReply
from fanfold.journal.contract import Store
from fanfold.journal.facts import (
    DeclareCascade,
    DiscardReply,
    EndAttempt,
    EndItems,
    ItemEnding,
    NameStep,
    NewReply,
)
from fanfold.members.route import standing
from fanfold.run.aside import Aside, SetAside
from fanfold.run.dispatch import Dispatch
from fanfold.run.hedge import Hedging
from fanfold.run.judging import Judgings
from fanfold.run.ledger import Ledger, Sum
from fanfold.run.limits import Limits
from fanfold.run.months import Months
from fanfold.run.pulse import Pulse
from fanfold.run.receipt import Counts
from fanfold.run.want import Candidate, Step
from fanfold.work.ask import Takes
from fanfold.work.member import Member, Traits
from fanfold.work.outcome import STATES, Outcome, State
from fanfold.work.task import AskPower, Budget, Hedge, Place, Task, Terms, Who

Mark: TypeAlias = tuple[bytes, str]
"""What is under way: a key, and an answerer whose reply would serve."""


class Circle(msgspec.Struct, frozen=True):
    """Those who may answer a task, worked out once for each way of naming them.

    `private`: none of them leaves replies that serve other runs.
    """

    candidates: tuple[Candidate, ...]
    accept: tuple[str, ...]
    takes: tuple[Takes, ...]
    metered: bool
    private: bool
    lane: str

    @property
    def unrecorded(self) -> bool:
        """In a new run there is nothing of theirs on record: functions, and the like."""
        return self.private and not self.metered


class Stop(msgspec.Struct, frozen=True):
    """Why the run ends early. `rest` is the outcome of the items that were not reached."""

    status: str
    reason: str
    rest: State = "cancelled"


class Engine:
    """The state that carrying out tasks works on. One per open run."""

    def __init__(self, journal: Store, clock: Clock, ledger: Ledger, limits: Limits) -> None:
        self.journal, self.clock = journal, clock
        self.ledger, self.limits = ledger, limits
        self.dispatch = Dispatch(ledger, limits, clock.monotonic)
        self.months = Months(clock)
        self.counts = Counts()
        self.rng = random.Random(0)
        self.no = 0
        self.id = ""
        self.store = str(journal.files.absolute())
        self.session = ""
        self.fresh = False
        self.keep_prompts = False
        self.serving = False  # tasks stand alone: one that cannot be paid stops no other
        self.new = True  # nothing of this run was recorded before it was opened
        self.retry_in_doubt: frozenset[str] | None = frozenset()
        self.last_steps: dict[int, int] = {}
        self.on_record: dict[tuple[int, int], bytearray] = {}
        self.under_way: dict[Mark, asyncio.Future[None]] = {}
        self.held = 0
        self.planned: Callable[[], int] = lambda: 0
        self.aside = Aside()
        self.streams = 0  # that are open now
        self.stop: Stop | None = None
        self._stopping: asyncio.Future[None] | None = None
        self.gently: set[asyncio.Task[None]] = set()  # they end with the run; their calls go on
        self.steps = self.counts.steps
        self._numbers: dict[str, int] = {}
        self._budgets: dict[str, Budget] = {}
        self._spent: dict[int, Sum] = {}
        self._held: dict[int, Sum] = {}  # reserved for what was adopted, by step
        self.adopted: set[asyncio.Task[None]] = set()
        self.anew: frozenset[str] = frozenset()  # tasks that are carried out again, by their ids
        self.gone: dict[Mark, str] = {}  # what was adopted and brought nothing, and why
        self._circles: dict[Who, Circle] = {}
        self._hedging: dict[int, Hedging] = {}
        self.opened: set[str] = set()
        self._opening: dict[str, asyncio.Future[None]] = {}
        self.choose: Callable[[Who], tuple[Candidate, ...]] = _nobody
        self.accepts: Callable[[Who], tuple[Traits, ...]] = lambda who: ()
        self._better: dict[str, Circle] = {}
        self.ask_power: AskPower = _no_power
        self.judgings = Judgings(journal, 0, "", {})
        self.pulse = Pulse(journal, clock)

    def draw_on(self, other: Engine) -> None:
        """Budget, limits and members are those of the other; only the account is our own."""
        self.ledger, self.limits, self.dispatch = other.ledger, other.limits, other.dispatch
        self.months, self.choose, self.accepts = other.months, other.choose, other.accepts
        self.opened, self._opening = other.opened, other._opening

    # ── steps ──

    def open_step(self, terms: Terms) -> Step:
        """Steps are numbered in the order in which they are first used, and keep their numbers
        when the run is resumed, in whichever order they are used then."""
        step = self.steps.get(terms.step)
        if step is None:
            no = self._numbers.setdefault(terms.step, len(self._numbers))
            chain = self.ledger.chain(terms.step, terms.budget, self._spent.get(no, Sum()))
            chain[-1].reserve(self._held.pop(no, Sum()))
            step = self.steps[terms.step] = Step(no, terms.step, terms.concurrency, chain)
            self.journal.note(NameStep(self.no, no, terms.step))
            self._budgets[terms.step] = terms.budget
            self.check_prices(_whos(terms), terms.budget)
            step.past = self._past_of(terms, {})
            if terms.escalate:
                better = self.circle_of(terms.escalate[0]).candidates[0].traits
                self.journal.note(DeclareCascade(self.no, no, terms.escalate, better.price))
        return step

    def begin_step(self, terms: Terms) -> None:
        """A step that is open already may get others to ask, and another number at once. It has one
        account, so a second budget under its name is refused: which of them should hold?"""
        step = self.open_step(terms)
        stated = self._budgets[terms.step]
        if terms.budget not in (stated, Budget()):
            raise BadInput(
                f"two steps are named `{terms.step}`, with different budgets; give one of them"
                " another name"
            )
        step.concurrency = terms.concurrency
        step.past |= self._past_of(terms, step.past)
        self.check_prices(_whos(terms), stated)

    def known_before(self, steps: list[str], spent: dict[int, Sum]) -> None:
        """What earlier invocations of this run left: their steps, and what these took."""
        self._numbers = {name: no for no, name in enumerate(steps)}
        self._spent = spent

    def reopen(self, step: int, sum: Sum) -> None:
        """Before the steps are open: what an attempt counted as is reserved for it again."""
        self.ledger.run.reopen(sum)
        self._spent[step] = self._spent.get(step, Sum()) - sum
        self._held[step] = self._held.get(step, Sum()) + sum

    def close_again(self, step: int, reserved: Sum, actual: Sum) -> None:
        """Such an attempt is over."""
        self.ledger.run.settle(reserved, actual)
        opened = next((one for one in self.steps.values() if one.no == step), None)
        if opened is not None:
            opened.chain[-1].settle(reserved, actual)
        else:
            self._held[step] -= reserved
            self._spent[step] += actual
        self.dispatch.poke()

    def hedging_of(self, step: Step, stated: Hedge) -> Hedging:
        """What is usual at the step, learned from its calls in this run and in earlier ones."""
        hedging = self._hedging.get(step.no)
        if hedging is None:
            read = self.journal.read
            hedging = self._hedging[step.no] = Hedging(
                stated, lambda traits: read.latencies(traits.id, traits.answerer, step.name)
            )
        return hedging

    # ── who may answer ──

    def circle(self, who: Who) -> Circle:
        circle = self._circles.get(who)
        if circle is None:
            candidates = self.choose(who)
            traits = [candidate.member.traits for candidate in candidates]
            takes = tuple(dict.fromkeys(t.takes for t in traits))
            also = [t for t in self.accepts(who) if t.takes in takes]
            circle = self._circles[who] = Circle(
                candidates,
                tuple(dict.fromkeys(t.answerer for t in (*traits, *also))),
                takes,
                any(t.metered for t in traits),
                not any(t.shared for t in traits),
                ",".join(t.id for t in traits),
            )
        return circle

    def circle_of(self, member: str) -> Circle:
        """That of a member to which tasks escalate."""
        circle = self._better.get(member)
        if circle is None:
            plain = self.circle(Who(members=(member,)))
            ours = tuple(msgspec.structs.replace(c, why="escalated") for c in plain.candidates)
            circle = self._better[member] = msgspec.structs.replace(plain, candidates=ours)
        return circle

    def _past_of(self, terms: Terms, known: dict[str, Any]) -> dict[str, tuple[int, int]]:
        """How those did at such a step before between whom there is a choice; not those known."""
        candidates = self.circle(terms.who).candidates
        if terms.who.members or len(candidates) < 2:
            return {}
        read = self.journal.read
        return {
            t.id: standing(read.member_stats(t.id, t.answerer, terms.step))
            for t in (candidate.traits for candidate in candidates)
            if t.metered and t.id not in known
        }

    def check_prices(self, whos: Iterable[Who], budget: Budget = Budget()) -> None:
        """Under a dollar budget nobody is asked whose price is not known; a member's own budget of
        the month is one too. Those that nobody named are passed over, if others are left."""
        free = self.ledger.run.max_usd is None and budget.usd is None
        for who in whos:
            everyone = [candidate.traits for candidate in self.circle(who).candidates]
            unpriced = [t for t in everyone if (t.price is None or not t.bounded)
                        and not (free and t.budget_usd_month is None)]  # fmt: skip
            stated = [t for t in unpriced if t.id in (*who.members, *who.fallback)]
            if stated or len(unpriced) == len(everyone) > 0:
                raise BadInput(_unbounded((stated or unpriced)[0]))

    async def open_member(self, member: Member) -> None:
        """Before its first ask; several tasks may come here at once, it is opened once."""
        id = member.traits.id
        opening = self._opening.get(id)
        if opening is None:
            opening = self._opening[id] = asyncio.ensure_future(member.open())
        await asyncio.shield(opening)
        self.opened.add(id)

    async def close_members(self, members: Iterable[Member]) -> None:
        for member in members:
            if member.traits.id in self.opened:
                await member.close()

    # ── replies on record ──

    def recorded(self, keys: Iterable[bytes], circle: Circle) -> KnownReply | None:
        if self.new and circle.unrecorded:
            return None
        found = self.journal.read.known(keys, frozenset(circle.accept), self.no, self.fresh)
        return next(iter(found.values()), None)

    def recorded_at(
        self, batch: int, step: Step, positions: list[int]
    ) -> dict[int, tuple[bytes, KnownReply]]:
        return self.journal.read.known_at(self.no, batch, step.no, positions)

    def mark_under_way(self, marks: tuple[Mark, ...]) -> asyncio.Future[None]:
        mine = asyncio.get_running_loop().create_future()
        for mark in marks:
            self.under_way[mark] = mine
        return mine

    def unmark_under_way(self, marks: tuple[Mark, ...], mine: asyncio.Future[None]) -> None:
        for mark in marks:
            if self.under_way.get(mark) is mine:
                del self.under_way[mark]
        if not mine.done():
            mine.set_result(None)

    def may_repeat(self, ids: tuple[str, ...], terms: Terms, traits: Traits) -> bool:
        """May an attempt in doubt be repeated? As the step says; agents are held by default."""
        policy = terms.in_doubt or ("hold" if traits.agent else "retry")
        if policy == "retry" or self.retry_in_doubt is None:
            return True
        return all(id in self.retry_in_doubt for id in ids)

    def ask_anew(self, id: str, known: KnownReply) -> bool:
        """May a task whose recorded reply is damaged be asked again? Only if the operator said so:
        it was paid. Then that reply serves nobody any more."""
        if self.retry_in_doubt is not None and id not in self.retry_in_doubt:
            return False
        if known.row:
            self.journal.note(DiscardReply(known.row))
        return True

    @property
    def unasked(self) -> int:
        """How many calls planned items need at least that were not asked yet: one at each step."""
        under_way = self.dispatch.needed_in_flight
        left = max(0, self.planned() - self.counts.done - under_way)
        return left * len(self.steps) + len(self.steps) - 1

    def count(self, place: Place, step: Step, state: State) -> None:
        """An item counts once, where it leaves the flow."""
        if state != "passed" or self.last_steps.get(place.batch, step.no) == step.no:
            self.counts.states[state] += 1

    def is_on_record(self, place: Place, step: Step, state: State) -> bool:
        """An earlier invocation of this run wrote this very outcome down."""
        states = self.on_record.get((place.batch, step.no))
        return states is not None and states[place.position] == STATES.index(state) + 1

    def note_ending(self, ending: ItemEnding, kept: NewReply | None) -> None:
        if kept is None:
            self.journal.note(EndItems(self.no, (ending,)))
        else:
            self.journal.note(
                EndAttempt(run=self.no, at=self.clock.now(), landed=(kept,), endings=(ending,))
            )

    # ── stopping ──

    def item_failed(self, task: Task, reason: str) -> None:
        match task.terms.on_failure:
            case "skip":
                pass
            case "hold":
                self.held += 1
            case "abort":
                self.halt(Stop("aborted", f"{task.id}: {reason}"))

    def halt(self, stop: Stop) -> None:
        """No new call from here on. What is under way ends by itself. The first reason counts."""
        if self.stop is None:
            self.stop = stop
            self.dispatch.halt(self.stopped())
            if self._stopping is not None and not self._stopping.done():
                self._stopping.set_result(None)

    def pause(self, reason: str) -> NoReturn:
        """The run cannot continue here: it pauses, and whoever asked is told to stop."""
        self.halt(Stop("paused", reason))
        raise self.stopped()

    def set_aside(self, task: Task, gone: SetAside) -> None:
        """It cannot be paid; when no other can either, the run pauses at once."""
        self.aside.add(task.id, task.terms.step, gone)
        if gone.last:
            self.halt_if_short()

    def halt_if_short(self) -> None:
        """Some items were set aside, and nothing else is left to do: the run pauses."""
        if self.aside:
            self.halt(Stop("paused", self.aside.reason, "unfunded"))

    def stopped(self) -> RunStopped:
        stop = self.stop
        return RunStopped("stopped" if stop is None else f"{stop.status}: {stop.reason}")

    def raise_if_stopping(self) -> None:
        if self.stop is not None:
            raise self.stopped()

    async def rest(self, seconds: float | None) -> None:
        """Wait, but not longer than until the run stops. None: until then."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_future()
        if self.stop is None:
            await asyncio.wait((self._stopping,), timeout=seconds)


def _unbounded(traits: Traits) -> str:
    """Why nobody can say what an ask of this member may cost at most."""
    under = "so it cannot run under a dollar budget"
    if traits.price is None:
        such = ""
        if traits.kind == "command":
            such = ", such as `price: {call: 0}` for one that is free"
        elif traits.remote:
            such = ", or `tier: local` if its model runs on this machine"
        return f"member {traits.id} has no known price, {under}; give it a `price`{such}"
    return f"nothing bounds what member {traits.id} spends, {under}; give it a `max_budget_usd`"


def _whos(terms: Terms) -> list[Who]:
    return [terms.who, *(Who(members=(id,)) for id in terms.escalate)]


def _nobody(who: Who) -> tuple[Candidate, ...]:
    return ()


async def _no_power(task: Task) -> Outcome:
    raise RuntimeError("the run is not open")
