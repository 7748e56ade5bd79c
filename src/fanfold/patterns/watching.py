"""A sample of what a step answers is checked while it works; answers that are right too seldom flag the
run, or pause it.

Which items are checked goes by a hash of their ids, and what was asked for it is on record: a resumed run
counts the same checks again and asks for none twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

import msgspec

from fanfold.errors import RunStopped
from fanfold.patterns.arguments import prompt_for
from fanfold.patterns.prompt import Prompt, check_prompt, make_task
from fanfold.run.planning import Batch
from fanfold.run.pool import end_all
from fanfold.run.run import Run
from fanfold.work.ask import Reply
from fanfold.work.drift import DriftTest, in_sample
from fanfold.work.fields import MISSING, leaves, path_of
from fanfold.work.outcome import Outcome, StopCause
from fanfold.work.task import AnswerWatch, Task, Terms, Who
from fanfold.work.vote import ballot

NO_BUDGET = "its budget is used up"


def watch_terms(terms: Terms, watch: AnswerWatch) -> Terms:
    """On which terms checks are asked: by the one whose answers are taken as right, if there is one."""
    name, _, number = terms.step.partition("#")
    step = f"{name}.watch#{number}" if number else f"{name}.watch"
    who = Who(members=(watch.truth.name,)) if watch.truth.kind == "member" else terms.who
    return msgspec.structs.replace(
        terms, step=step, called="", who=who, budget=watch.budget, gate=watch.gate or terms.gate,
        escalate=(), hedge=None, batch=None, keep=None, route=None, watch=None, on_failure="skip",
        needed=False, optional=True,
    )  # fmt: skip


def watched(terms: Terms, watch: AnswerWatch | None, field: str | None) -> Terms:
    """The field that is voted on is the one that is compared, unless the watch states another."""
    if watch is not None and not watch.field and field:
        watch = msgspec.structs.replace(watch, field=field)
    return terms if watch is None else msgspec.structs.replace(terms, watch=watch)


@asynccontextmanager
async def watching(run: Run, batch: Batch, terms: Terms, prompt: Prompt) -> AsyncIterator[Watching]:
    """Checks that are under way at the end are waited for, also when the run stops by itself."""
    watcher = Watching(run, batch, terms, prompt)
    await watcher.begin()
    try:
        yield watcher
    except BaseException:
        if run.stopping is None or run.stopping.status == "killed":
            await end_all(tuple(watcher.checks))
        raise
    finally:
        await watcher.end()


class Watching:
    """What `watch` says of a step's answers, as they land. Without a watch nothing happens."""

    def __init__(self, run: Run, batch: Batch, terms: Terms, prompt: Prompt) -> None:
        self._run, self._watch, self._step = run, terms.watch, terms.step
        self._sample: dict[str, Task] = {}
        self.checks: set[asyncio.Task[None]] = set()
        self._unpaid = self._unknown = 0
        self._drifted = False
        self._error: Exception | None = None
        self._done: bytes | bytearray = b""
        if self._watch is not None:
            self._terms = watch_terms(terms, self._watch)
            self._path = path_of(self._watch.field or None)
            self._prompt, self._test = prompt, DriftTest(self._watch.target)
            cause = run.record.cause
            if run.record.resumed and cause is not None and cause.kind == "drift":
                self._done = bytes(run.recall(batch, terms))  # the operator has seen these

    async def begin(self) -> None:
        if self._watch is not None and self._watch.truth.kind == "member":
            await self._run.prepare(self._terms)
            check_prompt(self._prompt, self._terms, self._run.traits(self._terms))
            self._prompt = prompt_for(self._run, self._terms, self._prompt)

    def seen(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """The tasks as they are; those of the sample are kept until they land."""
        for task in tasks:
            if self._watch is not None and task.flaw is None and self._checked(task):
                self._sample[task.id] = task
            yield task

    def _checked(self, task: Task) -> bool:
        assert self._watch is not None
        place = -1 if task.place is None else task.place.position
        before = 0 <= place < len(self._done) and self._done[place]
        return not before and in_sample(task.id, self._watch.rate)

    async def landed(self, outcome: Outcome) -> None:
        """One of them has its outcome. Not more checks at once than the step has calls."""
        task = self._sample.pop(outcome.id, None)
        if task is None:
            return
        while len(self.checks) >= self._terms.concurrency:
            await asyncio.wait(self.checks, return_when=asyncio.FIRST_COMPLETED)
        check = asyncio.create_task(self._check(task, outcome))
        self.checks.add(check)
        check.add_done_callback(self.checks.discard)

    async def end(self) -> None:
        """The last checks, and what came of all."""
        while self.checks:
            await asyncio.wait(self.checks)
        if self._watch is None:
            return
        self._run.note_step(self._terms.step, self.describe())
        if self._drifted and self._watch.on_drift == "warn":
            self._run.flawed(f"{self._step}: {self.describe()}")
        if self._error is not None and self._run.stopping is None:
            raise self._error

    # ── one check ──

    async def _check(self, task: Task, outcome: Outcome) -> None:
        try:
            right = await self._right(task, outcome)
        except RunStopped:
            return
        except Exception as error:
            self._error = self._error or error
            return
        if right is None:
            self._unknown += 1
            return
        self._test.add(right)
        if self._test.drifted and not self._drifted and self._watch is not None:
            self._drifted = True
            self._run.note_step(self._terms.step, self.describe())
            if self._watch.on_drift == "pause":
                why = f"{self._step}: {self.describe()}"
                self._run.pause(why, StopCause("drift", step=self._step))

    async def _right(self, task: Task, outcome: Outcome) -> bool | None:
        """None: that cannot be said. An item whose reply never passed its gate is not right."""
        watch = self._watch
        assert watch is not None
        truth = watch.truth
        if outcome.state == "kicked":
            return False
        if outcome.state not in ("passed", "skipped") or outcome.reply is None:
            return None
        if watch.gate is not None:
            return await self._judged(task, outcome.reply)
        if truth.kind == "gate":
            return True
        right = truth.of(task.ask.items[0])
        if truth.kind == "member":
            asked = make_task(self._prompt, task.ask.items[0], self._terms, None)
            right = self._answer(await self._ask(asked))
        return None if right is None else self._said(outcome) == right

    async def _judged(self, task: Task, reply: Reply) -> bool | None:
        own = msgspec.structs.replace(task, terms=self._terms, place=None)
        state, _ = await self._run.judge(own, reply, self._ask)
        return None if state == "unjudged" else state == "passed"

    async def _ask(self, task: Task) -> Outcome:
        """Whoever a check asks is paid from the watch's own account."""
        terms = msgspec.structs.replace(
            task.terms,
            step=self._terms.step,
            budget=self._terms.budget,
            needed=False,
            optional=True,
        )
        outcome = await self._run.do(msgspec.structs.replace(task, terms=terms))
        self._unpaid += outcome.state == "unfunded"
        return outcome

    def _answer(self, outcome: Outcome) -> str | None:
        return self._said(outcome) if outcome.state == "passed" else None

    def _said(self, outcome: Outcome) -> str | None:
        value = next((leaf for _, leaf in leaves(outcome.value, self._path)), MISSING)
        return None if value is MISSING else ballot(value)

    # ── words ──

    def describe(self) -> str:
        """`45 of 50 checked were right (90.0%, wanted 95.0%): too few`."""
        assert self._watch is not None
        test = self._test
        told = f"{test.right:,} of {test.checked:,} checked were right"
        share = f" ({test.share:.1%}, wanted {test.target:.1%})" if test.checked else ""
        drift = ": fewer than chance explains" if self._drifted else ""
        unknown = f"; {self._unknown:,} could not be checked" if self._unknown else ""
        return f"{told}{share}{drift}{unknown}{f' ({NO_BUDGET})' if self._unpaid else ''}"
