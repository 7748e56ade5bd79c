"""What must be true, whatever happens: checked from the books of the services and the journal alone.

The journal is read as rows, not by the questions of the store, which are part of what is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from fanfold.journal.facts import AnswerOrder, CloseRun, EndAttempt, Fact, ReopenRun, StartAttempt
from fanfold.price import nanos
from fanfold.run.run import Run
from fanfold.testing.simulation.disk import PowerLoss
from fanfold.testing.simulation.machine import SimulatedProcess
from fanfold.testing.simulation.services import BAD, Books, SentCall
from fanfold.testing.simulation.storage import SharedStore
from fanfold.testing.simulation.world import World, WorldJob
from fanfold.work.outcome import STATES
from fanfold.work.task import Budget

_budget = msgspec.json.Decoder(Budget).decode
_decode = msgspec.json.decode
HAPPENED = "state <> 'error' or cost > 0"  # an attempt that counts as a call
REFUSED = ("429", "429_after", "500", "refused", "quota")
WELL = ("ok", "bad", "empty", "half")
HELD = (
    "map",
    "one",
    "two",
    "graph",
    "divide",
    "scatter",
    "conduct",
)  # steps with all options of a job
_TWICE = (
    "select i.id, count(o.state) from items i join batches b on b.run = i.run and b.no = i.batch"
    " left join outcomes o on o.run = i.run and o.batch = i.batch and o.position = i.position"
    " and (o.step = b.last_step or o.state <> 'passed') where i.run = ?"
    " group by i.batch, i.position having count(o.state) <> 1"
)
_STEPS = (
    "select s.name, sum(a.cost) from attempts a join steps s on s.run = a.run and s.no = a.step"
    " where a.run = ? group by a.step"
)
_PASSED = (
    "select i.id, r.reply, o.body from outcomes o left join replies r on r.no = o.reply"
    " join batches b on b.run = o.run and b.no = o.batch"
    " join items i on i.run = o.run and i.batch = o.batch and i.position = o.position"
    " where o.run = ? and o.step = b.last_step and o.state = 'passed' order by o.batch, o.position"
)


class Violation(AssertionError):
    """A promise is broken."""


class Invariants:
    """`more`: how many times its budgets a job has by now."""

    def __init__(self, world: World, store: SharedStore, books: Books) -> None:
        self._world, self._store, self._books = world, store, books
        self.damaged = False  # a bit of the store has flipped: rows may be anything
        self._broken: str | None = None
        self._jumps = any(fault.kind == "jump" for fault in world.faults)
        self._limits = {one.name: one for one in world.services}
        self._jobs = {job.name: job for job in reversed(world.jobs)}
        self._answered: Counter[int] = Counter()
        self._queued: set[str] = set()  # spans of what was put into the queue
        self._untold: set[str] = set()  # of these, those that a disk may have lost the facts of
        self._durable: dict[tuple[bytes, str], int] = {}  # replies, each since which step
        self._spent: Counter[int] = Counter()  # by run, settled and reserved when last looked at
        self.more: Counter[int] = Counter()

    def _ask(self, question: str, given: Any = ()) -> Any:
        return self._store.db.execute(question, given)

    def lost_power(self, kind: PowerLoss) -> None:
        """What a disk that lies has lost cannot be known by anybody."""
        self.damaged = self.damaged or kind == "flip"
        if kind != "power":
            self._answered.clear()
            self._spent.clear()
            self._untold |= self._queued
            for call in self._books.calls:
                call.forgotten = True

    def broken(self, what: str) -> None:
        """What is found within a process is raised outside of it."""
        self._broken = self._broken or what

    def raise_if_broken(self) -> None:
        if self._broken is not None:
            raise Violation(self._broken)

    # ── a call arrives at a service ──

    def arrived(self, call: SentCall) -> None:
        if call.kind == "free" or self.damaged:  # nothing is on record before
            return
        if f"{call.run}:{call.attempt}" in self._untold:  # the queue is not on the disk that lied
            call.forgotten = True
            return
        row = self._ask(
            "select a.state, a.session, a.hedge_of, r.id, r.no, r.name, a.ids, s.name from attempts a"
            " join runs r on r.no = a.run join steps s on s.run = a.run and s.no = a.step"
            " where a.no = ?", (call.attempt,),
        ).fetchone()  # fmt: skip
        given_up = call.kind == "workers" and row is not None and row[0] in ("in_doubt", "late")
        if row is None or (row[0] != "started" and not given_up) or row[3] != call.run:
            self.broken(f"a call without a fact: attempt {call.attempt}, {row and row[0]}")
            return
        if call.kind != "workers" and self._store.sessions.get(row[1]) is not call.process:
            self.broken(
                f"attempt {call.attempt} is sent by another process than the one that claimed it"
            )
        self._not_answered(call, row[2])
        self._not_twice(call, row[2], row[7] in HELD)
        self._planned(call, row)
        self._gated(call, self._jobs[row[5]])

    def _not_answered(self, call: SentCall, hedge_of: int | None) -> None:
        """Of a hedged ask, one may be with a worker already when the other is answered."""
        at = self._durable.get((call.key, f"simulated:{call.service}"))
        if at is not None and self._books.taken.get(f"{call.run}:{call.attempt}", at + 1) <= at:
            pairs = "select 1 from attempts where hedge_of = ?"
            if hedge_of is not None or self._ask(pairs, (call.attempt,)).fetchone():
                return
        known = "select 1 from replies where key8 = ? and key = ? and answerer = ? and not private"
        given = (
            int.from_bytes(call.key[:8], "big", signed=True),
            call.key,
            f"simulated:{call.service}",
        )
        if self._ask(known, given).fetchone():
            self.broken(f"asked again although its reply is durable: {call.prompt!r}")

    def _not_twice(self, call: SentCall, hedge_of: int | None, held: bool) -> None:
        """Nobody else asks the same just now; what is in doubt is repeated on record. A hedge is on record
        as one: it may leave a queue before the attempt that it follows, or when that has ended in doubt."""
        busy = 0
        for other in self._books.calls:
            if other is call or other.forgotten or other.kind == "free":
                continue
            if other.attempt == call.attempt:
                self.broken(f"two calls for attempt {call.attempt}")
            mine = other.process is call.process and other.service == call.service
            mine = mine and other.kind == call.kind == "api"
            if call.kind in ("agent", "free") and other.run != call.run:
                continue
            busy += mine and not other.done
            if other.key != call.key or other.service != call.service:
                continue
            state, again, follows = self._ask(
                "select state, again, hedge_of from attempts where no = ?", (other.attempt,)
            ).fetchone()
            paired = hedge_of == other.attempt or follows == call.attempt
            open = not other.done and other.process.alive and not other.process.disturbed
            if open and not paired and state == "started":
                self.broken(f"asked twice at once: attempts {other.attempt} and {call.attempt}")
            if state == "in_doubt" and not again and not paired:
                self.broken(f"attempt {other.attempt} is in doubt and is repeated in silence")
            if state == "in_doubt" and not call.process.may_repeat and held:
                self.broken(f"attempt {other.attempt} is in doubt and held, but repeated")
        most = self._limits[call.service].concurrency
        if busy >= most and not any(job.hedge for job in self._world.jobs):
            self.broken(f"{call.service} has {busy + 1} calls at once, of {most}")

    def _planned(self, call: SentCall, row: Any) -> None:
        """Every item is on record before anything is asked about it. What is in a queue may leave it just
        when the next process of its run plans items anew that have changed."""
        if call.prompt.startswith("Say ") and self._jobs[row[5]].pattern != "divide":
            there = {id for (id,) in self._ask("select id from items where run = ?", (row[4],))}
            missing = set(_decode(row[6])) - there
            if missing and not (call.kind == "workers" and self._planned_anew(row[4])):
                self.broken(f"asked about an item that is not planned: {min(missing)}")

    def _planned_anew(self, run: int) -> bool:
        """A process that resumed it has dropped the batch that is planned first, and not planned it yet."""
        if self._ask("select 1 from batches where run = ? and no = 0", (run,)).fetchone():
            return False
        (session,) = self._ask("select session from runs where no = ?", (run,)).fetchone()
        process = self._store.sessions.get(session)
        return process is None or (process.run is not None and process.run.record.resumed)

    def _gated(self, call: SentCall, job: WorldJob) -> None:
        """A reply that is not good goes nowhere but to its judge, and back."""
        shown = not call.prompt.startswith(("Is ", "That reply"))
        if shown and BAD in call.prompt and job.gate != "standard":
            self.broken(f"a reply that did not pass is in a prompt: {call.prompt!r}")

    # ── a commit ──

    def committed(
        self, process: SimulatedProcess, facts: Sequence[Fact], answers: Sequence[Any]
    ) -> None:
        if self.damaged:
            self._told_truly(facts)
            return
        runs = set()
        for fact, answer in zip(facts, answers, strict=True):
            match fact:
                case StartAttempt() | EndAttempt():
                    runs.add(fact.run)
                    for one in fact.landed if isinstance(fact, EndAttempt) else ():
                        self._durable.setdefault((one.key, one.answerer), process.machine.steps)
                    if isinstance(fact, StartAttempt) and fact.queue and answer.attempt:
                        self._queued.add(f"{self._id_of(fact.run)}:{answer.attempt}")
                case AnswerOrder():
                    self._answered[fact.order] += answer is True
                    if self._answered[fact.order] > 1:
                        self.broken(f"order {fact.order} is carried out twice")
                case ReopenRun() if answer is True:
                    before = self._store.sessions.get(fact.before)
                    if before is not None and before.alive and not self._store.lost(before):
                        self.broken(f"run {fact.run} is taken over from a process that lives")
                case CloseRun() if answer is True:
                    self._closing(fact)
        for run in runs:
            self._within_budget(run)
        if runs and not self._jumps:
            self._within_month()

    def _id_of(self, run: int) -> str:
        return str(self._ask("select id from runs where no = ?", (run,)).fetchone()[0])

    def _told_truly(self, facts: Sequence[Fact]) -> None:
        """Whatever the disk has done to the store: no text is in a result that nobody said."""
        said = {text for call in self._books.calls for text in call.texts}
        for fact in facts:
            if isinstance(fact, CloseRun) and fact.status == "complete" and fact.result is not None:
                parts = _decode(fact.result)
                for part in parts if isinstance(parts, list) else ():
                    value = part.get("value") if isinstance(part, dict) else None
                    if isinstance(value, str) and value not in said:
                        self.broken(f"nobody said {value!r}, but it is in the result")

    def _within_budget(self, run: int) -> None:
        """A run that is opened again may state a budget below what it has spent by then, of one that an
        operator had raised: it spends no more."""
        name, written = self._ask("select name, budget from runs where no = ?", (run,)).fetchone()
        spent, calls = self._ask(
            f"select coalesce(sum(cost), 0), coalesce(sum({HAPPENED}), 0) from attempts where run = ?",
            (run,),
        ).fetchone()
        budget, excess = _budget(written), self._excess()
        grew, self._spent[run] = spent > self._spent[run], spent
        if budget.usd is not None and grew and spent > nanos(budget.usd) + excess:
            self.broken(f"{spent} of {nanos(budget.usd)} nano-dollars are settled or reserved")
        if budget.calls is not None and calls > budget.calls:
            self.broken(f"{calls} calls of {budget.calls}")
        job = self._jobs[name]
        if job.step_usd is not None:
            most = nanos(job.step_usd * self._most(name)) + excess
            for step, cost in self._ask(_STEPS, (run,)):
                if step in HELD and cost > most:
                    self.broken(f"step {step}: {cost} of {most} nano-dollars")

    def _within_month(self) -> None:
        for one in self._world.services:
            if one.monthly is not None:
                (spent,) = self._ask(
                    "select coalesce(sum(cost), 0) from attempts where member = ?", (one.name,)
                ).fetchone()
                most = nanos(one.monthly * max(self._most(job.name) for job in self._world.jobs))
                if spent > most + self._excess():
                    self.broken(f"{one.name}: {spent} of {most} nano-dollars of the month")

    def _excess(self) -> int:
        """What services took beyond what their own price allows; that is reported as an overrun."""
        return sum(call.excess for call in self._books.calls)

    def _most(self, name: str) -> int:
        return max(1 << self.more[n] for n, job in enumerate(self._world.jobs) if job.name == name)

    def _closing(self, fact: CloseRun) -> None:
        """Every planned item has exactly one outcome, and the result is made of what passed."""
        if found := self._ask(_TWICE, (fact.run,)).fetchone():
            self.broken(f"item {found[0]} has {found[1]} outcomes when its run closes")
        (name,) = self._ask("select name from runs where no = ?", (fact.run,)).fetchone()
        job = self._jobs[name]
        over = fact.status in ("complete", "flagged") and fact.result is not None
        if over and job.gate != "standard" and BAD.encode() in (fact.result or b""):
            self.broken(f"a reply that did not pass is in the result: {fact.result!r}")
        if fact.status == "complete" and job.pattern in ("map", "pipeline") and not job.asked:
            parts = [
                {"id": id, "value": _decode(reply or body).get("text")}
                for id, reply, body in self._ask(_PASSED, (fact.run,))
            ]
            if _decode(fact.result or b"null") != parts:
                self.broken(f"the result is {fact.result!r}, but {parts} passed")

    # ── the end ──

    def closed(self, job: WorldJob, run: Run) -> None:
        receipt = run.closing
        if receipt is not None and receipt.planned != sum(getattr(receipt, one) for one in STATES):
            self.broken(f"the outcomes do not add up: {receipt}")

    def at_end(self, over: dict[int, str]) -> None:
        self.raise_if_broken()
        for slot, job in enumerate(self._world.jobs):
            if slot not in over:
                raise Violation(f"job {slot} ({job.name}) never ended")
        if self.damaged:
            return
        sent = {
            call.attempt: call
            for call in self._books.calls
            if call.kind != "free" and not call.forgotten
        }
        lost = {call.attempt for call in self._books.calls if call.forgotten}
        known = {number for (number,) in self._ask("select no from attempts")}
        if gone := sent.keys() - known:
            self.broken(f"nothing is on record of attempt {min(gone)}, which was sent")
        traced = {int(span.partition(":")[2]) for span in self._books.agents}
        for number, state, cost, queue in self._ask("select no, state, cost, queue from attempts"):
            perhaps = queue or number in traced or number in lost  # nobody can tell
            if number in sent or not perhaps:
                self._account(sent.get(number), number, state, cost)
        self.raise_if_broken()

    def _account(self, call: SentCall | None, number: int, state: str, cost: int) -> None:
        """No call costs less on record than its service bills, and none more than it must."""
        here = f"attempt {number} ({state}, {call.did if call else 'never sent'})"
        if state == "started":
            if not self._store.leases:
                self.broken(f"{here} is under way for ever")
        elif call is None:
            if cost and not self._store.leases and not self._store.before_power:
                self.broken(f"{here} costs {cost}")
        elif cost < call.nanos:
            self.broken(f"{here} costs {cost} on record, but {call.nanos} are billed")
        elif call.did in REFUSED and state == "error" and cost:
            self.broken(f"{here} was refused, and costs {cost} all the same")
        elif call.did in WELL and state == "ok" and cost != call.nanos:
            self.broken(f"{here} costs {cost} on record; {call.nanos} are billed, and reported")
