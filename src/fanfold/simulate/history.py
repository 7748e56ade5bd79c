"""What a store has of members: how long their calls took, what went wrong, what gates said, and what they
replied. Only looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from fanfold.journal.answers import AttemptRecord, StepOutcome
from fanfold.journal.contract import StoreView
from fanfold.journal.questions import ReportQuestions
from fanfold.observe.amounts import count
from fanfold.price import dollars
from fanfold.simulate.behaviour import Behaviour, Fault, FaultRate, PastCall
from fanfold.work.ask import Usage
from fanfold.work.member import Traits

MOST_RUNS = 50
MOST_CALLS = 20_000
MOST_VALUES = 500  # replies of a step
OWN_WAIT, JITTER = (
    0.4,
    0.125,
)  # seconds after a refusal that says nothing; those that we add, on average
_GOOD = ("passed", "skipped", "unjudged")


@dataclass
class SeenCalls:
    """Of one member at one step. `first`, `later`: replies that their gate refused, and all."""

    good: list[PastCall] = field(default_factory=list)
    faults: dict[Fault, list[float]] = field(default_factory=lambda: defaultdict(list))
    waits: list[float] = field(default_factory=list)
    first: list[int] = field(default_factory=lambda: [0, 0])
    later: list[int] = field(default_factory=lambda: [0, 0])

    def behaviour(self, known: str, usage: bool = True) -> Behaviour:
        """`usage`: what calls took here says what they take there."""
        wrong = sum(map(len, self.faults.values()))
        whole = len(self.good) + wrong
        good = self.good if usage else [PastCall(one.seconds) for one in self.good]
        faults = {
            name: FaultRate(len(times) / whole, tuple(times)) for name, times in self.faults.items()
        }
        if self.waits and (refused := faults.get("refused")) is not None:
            faults["refused"] = FaultRate(refused.rate, refused.seconds, tuple(self.waits))
        said = f"{known}: {count(whole, 'call')}, {wrong / whole:.1%} without a reply"
        if kicked := _share(self.first):
            said += f", {kicked:.1%} of replies kicked back"
        return Behaviour(
            calls=tuple(good), faults=faults, kicked=kicked, known=said,
            kicked_again=_share(self.later) if self.later[1] else kicked,
        )  # fmt: skip

    def add(self, other: SeenCalls) -> None:
        self.good += other.good
        self.waits += other.waits
        for name, times in other.faults.items():
            self.faults[name] += times
        for mine, its in ((self.first, other.first), (self.later, other.later)):
            mine[:] = [a + b for a, b in zip(mine, its, strict=True)]


def _said_to_wait(seconds: float) -> float:
    """What a refusal said, by when the ask was sent again; short waits are our own."""
    return seconds - JITTER if seconds >= OWN_WAIT else 0.0


def _share(counted: list[int]) -> float:
    return counted[0] / counted[1] if counted[1] else 0.0


class CallRecords:
    """The newest calls of a store, by member and step, and what steps replied. `runs`: how many runs
    they are of."""

    def __init__(self, view: StoreView | None) -> None:
        self._seen: dict[tuple[str, str], SeenCalls] = defaultdict(SeenCalls)
        self.values: dict[str, list[Any]] = {}
        self._dearest: dict[str, PastCall] = {}
        self._read = None if view is None else view.read
        self.runs = 0
        if view is not None:
            self._collect(view.read)

    def behaviour(self, traits: Traits, step: str) -> Behaviour | None:
        """At this step, else at all others; None where nothing is on record of it, as it is now."""
        id, plain = traits.id, step.partition("#")[0]
        if not self.answered(traits):
            return None
        for name in (step, plain):
            if (found := self._seen.get((id, name))) is not None and found.good:
                return found.behaviour(f"on record at {name}")
        whole = SeenCalls()
        for (member, _), seen in self._seen.items():
            if member == id:
                whole.add(seen)
        return whole.behaviour("on record at other steps", usage=False) if whole.good else None

    def answered(self, traits: Traits) -> bool:
        """Whether it ever did, with the model that it is now."""
        read = self._read
        return read is not None and read.has_answered(traits.id, traits.answerer)

    def dearest(self, member: str) -> PastCall:
        """With as many tokens, of each kind, as any of its calls took for one item."""
        found = self._dearest.get(member)
        if found is None:
            calls = [
                one for (id, _), seen in self._seen.items() if id == member for one in seen.good
            ]
            usages = [(one.usage, one.items) for one in calls if one.usage is not None]
            names = Usage.__struct_fields__ if usages else ()
            most = [ceil(max(getattr(usage, name) / n for usage, n in usages)) for name in names]
            found = self._dearest[member] = PastCall(0.0, Usage(*most) if usages else None)
        return found

    def spent(self, member: str, month: str) -> int:
        """Nano-dollars of a member in a month."""
        return 0 if self._read is None else self._read.month_use(member, month).settled

    def _collect(self, read: ReportQuestions) -> None:
        calls = 0
        for run in reversed(read.runs()[-MOST_RUNS:]):
            if read.submissions(run.no):
                continue  # what goes through a batch says nothing of what calls take
            names = read.step_names(run.no)
            attempts = read.attempts(run.no, MOST_CALLS - calls)
            self._values(read, run.no, names)
            if not attempts:
                continue
            self.runs += 1
            self._count(read, run.no, names, attempts)
            calls += len(attempts)
            if calls >= MOST_CALLS:
                return

    def _count(
        self, read: ReportQuestions, run: int, names: list[str], attempts: Sequence[AttemptRecord]
    ) -> None:
        ids = dict.fromkeys(id for one in attempts for id in one.ids)
        ended = read.step_outcomes(run, ids)
        tries: dict[tuple[int, str], list[AttemptRecord]] = defaultdict(list)
        for one in attempts:
            if one.hedge_of is not None or one.lost in ("died", "cancelled", "unsent"):
                continue
            for id in one.ids:
                tries[one.step, id].append(one)
        noted = set[int]()
        for (step, id), tried in tries.items():
            self._judged(names[step], tried, ended.get((step, id)))
            for one in tried:
                if one.no not in noted:
                    noted.add(one.no)
                    self._note(
                        self._seen[one.member, names[step]], one, tried, ended.get((step, id))
                    )

    def _note(
        self, seen: SeenCalls, one: AttemptRecord, tried: list[AttemptRecord],
        ended: StepOutcome | None,
    ) -> None:  # fmt: skip
        seconds = max(one.took or 0.0, 0.0)
        if one.state == "ok":
            usage = None if one.usage == Usage() else one.usage
            seen.good.append(PastCall(seconds, usage, dollars(one.cost), max(1, len(one.ids))))
        elif one.state == "in_doubt":
            seen.faults["lost"].append(seconds)
        elif one.state == "error":
            only = len(tried) == 1 and ended is not None and ended.state == "failed"
            name: Fault = "rejected" if only else "refused" if one.lost else "error"
            seen.faults[name].append(seconds)
            after = next((two for two in tried if two.no > one.no), None)
            if name == "refused" and one.ended is not None and after is not None:
                seen.waits.append(_said_to_wait(after.started - one.ended))

    def _judged(self, step: str, tried: list[AttemptRecord], ended: StepOutcome | None) -> None:
        """All replies but the last were kicked back; that too, unless the item passed with it."""
        if ended is None:
            return
        replies, members = [one for one in tried if one.state == "ok"], set[str]()
        for n, one in enumerate(replies, 1):
            seen = self._seen[one.member, step]
            counted = seen.later if one.member in members else seen.first
            members.add(one.member)
            counted[0] += n < len(replies) or ended.state not in _GOOD
            counted[1] += 1

    def _values(self, read: ReportQuestions, run: int, names: list[str]) -> None:
        """Replies that passed, of the newest run that has some of a step."""
        batches = [no for no, _, _ in read.batches(run).values()]
        for step, name in enumerate(names):
            if name in self.values:
                continue
            found: list[Any] = []
            for batch in batches:
                for part in read.parts(run, batch, step):
                    found.append(part.value)
                    if len(found) >= MOST_VALUES:
                        break
            if found:
                self.values[name] = found
