"""Scatter and gather: questions to several members at once, then one answer of what came back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Unpack

import msgspec

from fanfold.errors import BadInput, RunStopped
from fanfold.patterns.arguments import Folded, PatternOptions, pattern, prompt_for, terms_of
from fanfold.patterns.asked_reduce import (
    AskedReduce,
    begin_synthesis,
    expect_tree,
    named_after,
    synthesis,
)
from fanfold.patterns.prompt import (
    KNOWN_NAMES,
    Prompt,
    check_prompt,
    make_task,
    prompt_of,
    readable,
)
from fanfold.run.planning import Batch
from fanfold.run.pool import end_all
from fanfold.run.run import Run
from fanfold.run.sources import Rows, as_item
from fanfold.work.check import number, whole
from fanfold.work.item import Item, Source
from fanfold.work.options import option
from fanfold.work.outcome import Outcome
from fanfold.work.task import Place, Reducer, Task, Terms, Who, reads_of
from fanfold.work.template import Template

WHO = ("member", "members", "needs")
OF_ENTRY = (*WHO, "prompt")


class Question(msgspec.Struct, frozen=True):
    """One entry made ready: what is asked about which item, on whose terms, and where it stands."""

    position: int
    item: Item
    prompt: Prompt
    terms: Terms

    def task(self, run: Run, batch: Batch) -> Task:
        """Those who read no prompt get none: a function receives the item."""
        prompt = prompt_for(run, self.terms, self.prompt)
        return make_task(prompt, self.item, self.terms, Place(batch.no, self.position))


class Reach(msgspec.Struct, frozen=True):
    """What is gathered: all, the `first` so many that passed, what came `within` so many seconds."""

    first: int | None = None
    within: float | None = None

    def check(self, entries: int) -> None:
        first = option("first", self.first, whole(least=1))
        option("within", self.within, number(above=0))
        if first is not None and first > entries:
            raise BadInput(f"`first` is {first}, but there are only {entries} entries")


ALL = Reach()


@pattern
async def scatter_gather(
    run: Run,
    over: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    first: int | None = None,
    within: float | None = None,
    synthesise: Reducer | AskedReduce | None = None,
    **how: Unpack[PatternOptions],
) -> Folded:
    """Ask all entries at once, gather the answers, and make one of them.

    An entry is a dict with an `id`. Its own `member`, `members` or `needs` say who answers it, its
    own `prompt` what is asked; these four are not part of the item that a prompt shows or a
    function receives. Where they are data, give an `Item`, which is taken as it is.

    `first=3` ends with the third answer that passed: the others are skipped as not needed.
    `within=30` ends after so many seconds: who is late has failed. Trap: a call that is cut off
    then may have been carried out, so its reservation counts as spent.

    `synthesise` is a reducer of what passed, or `asked(...)`, which is told who is missing. Without
    it the value is a list of {"id", "value"}; either way in planned order.
    """
    made = prompt_of(prompt, schema, how=how)
    terms = terms_of(how, made.schema, "scatter")
    if first is not None:
        terms = msgspec.structs.replace(terms, claim_ahead=False)
    questions = questions_of(over, made, terms)
    reach = Reach(first, within)
    reach.check(len(questions))
    for own in {question.terms.who: question.terms for question in questions}.values():
        await run.begin(own)
    for question in questions:
        check_prompt(question.prompt, question.terms, run.traits(question.terms))
    synthesise = named_after(synthesise, terms.step)
    await begin_synthesis(run, synthesise)
    asked = questions[0].terms if questions else terms
    source = Rows([question.item for question in questions])
    prompts = [made for question in questions[:1] if question.prompt is made]
    batch = await run.plan(readable(source, prompts, reads_of(asked.gate)), asked)
    if isinstance(synthesise, AskedReduce):
        expect_tree(run, synthesise, batch.size)
    outcomes = await gather(run, batch, questions, reach)
    value = await synthesis(run, outcomes, synthesise)
    return Folded(value, run.receipt(), run, batch, asked)


# ── from entries to questions ────────────────────────────────────────────────────────────────


def questions_of(over: Source | Iterable[Any], prompt: Prompt, terms: Terms) -> list[Question]:
    """The entries made ready, with what they have of their own put in place of what is common."""
    if isinstance(over, Source):
        entries: Iterable[Any] = (item for _, item in over.walk())
    elif isinstance(over, str | bytes | Mapping) or not isinstance(over, Iterable):
        raise BadInput(f"`over` must be a list of entries, not {type(over).__name__}")
    else:
        entries = over
    return [_question(n, entry, prompt, terms) for n, entry in enumerate(entries)]


def _question(position: int, entry: Any, prompt: Prompt, terms: Terms) -> Question:
    if not isinstance(entry, dict):
        return Question(position, as_item(entry, position), prompt, terms)
    own = {field: entry[field] for field in OF_ENTRY if field in entry}
    data = {field: value for field, value in entry.items() if field not in own}
    item = as_item(data, position)
    if "prompt" in own:
        prompt = msgspec.structs.replace(prompt, user=_own_prompt(item.id, own.pop("prompt")))
    if own:
        terms = msgspec.structs.replace(terms, who=_own_who(item.id, own, terms.who.use))
    return Question(position, item, prompt, terms)


def _own_prompt(id: str, text: Any) -> Template:
    if not isinstance(text, str) or not text.strip():
        raise BadInput(f"entry `{id}`: its `prompt` must be a non-empty text")
    return Template(text, name=f"the prompt of entry `{id}`", known=KNOWN_NAMES)


def _own_who(id: str, own: dict[str, Any], use: int | None) -> Who:
    if len(own) > 1:
        raise BadInput(f"entry `{id}` has {' and '.join(own)}: only one of them can say who")
    ((field, given),) = own.items()
    names = [given] if isinstance(given, str) else given
    listed = isinstance(names, list | tuple) and all(isinstance(one, str) for one in names)
    if not listed or not names or (field == "member" and names is given):
        raise BadInput(f"entry `{id}`: `{field}` must name who answers, not {given!r}")
    return Who(needs=tuple(names)) if field == "needs" else Who(tuple(names), use=use)


# ── gather ───────────────────────────────────────────────────────────────────────────────────


async def gather(
    run: Run, batch: Batch, questions: Sequence[Question], reach: Reach = ALL
) -> list[Outcome]:
    """How each question ended, in planned order. The same can be read from the journal.

    Where entries have members of their own, one that is gone for good (a refused key) takes only
    its own entries with it; when nobody is left for any of them, the run pauses.
    """
    tasks = {question.item.id: question.task(run, batch) for question in questions}
    if not tasks:
        return []
    run.recall(batch, questions[0].terms)
    if reach == ALL and len({question.terms.who for question in questions}) == 1:
        ended = {outcome.id: outcome async for outcome in run.stream(tasks.values())}
    else:
        ended = await _Gathering(run, batch, tasks, reach).outcomes()
    await run.flush()
    return [ended[id] for id in tasks]


class _Gathering:
    """Not all may be needed, come in time or have somebody left to ask. So the asks have no place,
    and the outcomes are written down here, each once."""

    def __init__(self, run: Run, batch: Batch, tasks: dict[str, Task], reach: Reach) -> None:
        self._run, self._batch, self._tasks, self._reach = run, batch, tasks, reach
        self._ended: dict[str, Outcome] = {}
        self._gone: dict[str, Outcome] = {}
        self._unsettled: dict[str, Outcome] = {}  # did not pass, and may turn out not to be needed
        self._passed = 0

    async def outcomes(self) -> dict[str, Outcome]:
        run, tasks = self._run, self._tasks
        await _at_most(run, self._reach.within, _listen(run, self._turns(), self._land))
        if len(self._gone) == len(tasks):
            run.pause("; ".join(dict.fromkeys(next(iter(self._gone.values())).reasons)))
        _raise_if_stopping(run)
        for id, task in tasks.items():
            if id not in self._ended:
                self._ended[id] = run.settle(task, self._left(id))
                if self._enough:
                    run.forget_unpaid(task.terms)
        _raise_if_stopping(run)
        return self._ended

    @property
    def _enough(self) -> bool:
        return self._reach.first is not None and self._passed >= self._reach.first

    def _land(self, outcome: Outcome) -> bool:
        """True: that is enough."""
        if outcome.state == "cancelled":
            self._gone[outcome.id] = outcome
            return False
        if self._reach.first is not None and outcome.state in ("failed", "kicked", "unjudged"):
            self._unsettled[outcome.id] = outcome
            return False
        self._ended[outcome.id] = self._run.settle(self._tasks[outcome.id], outcome)
        self._passed += outcome.state == "passed"
        return self._enough

    def _left(self, id: str) -> Outcome:
        """Cases: not needed any more, or not needed though it did not pass; it did not pass; nobody
        is left who could answer; too late."""
        ended = self._unsettled.get(id)
        if self._enough:
            why = f"not needed: the first {self._reach.first} had answered"
            ended = ended or Outcome(id, "skipped")
            but = [f"{ended.state}: {reason}" for reason in ended.reasons]
            return msgspec.structs.replace(ended, state="skipped", reply=None, reasons=(why, *but))
        if ended is not None:
            return ended
        if id in self._gone:
            return Outcome(id, "failed", reasons=self._gone[id].reasons)
        return Outcome(id, "failed", reasons=(f"no answer within {self._reach.within or 0:g} s",))

    def _turns(self) -> list[list[Task]]:
        """Who is asked after whom. When only some are needed, what is on record comes first: those
        who were chosen before, then other replies, and new calls only if these do not suffice."""
        asks = self._asks()
        if self._reach.first is None:
            return [asks]
        chosen = set(self._run.behind(self._batch, asks[0].terms))
        known = {task.id for task in asks if task.flaw is None and self._run.known(task)}
        turns = [chosen & known, known - chosen, self._tasks.keys() - known]
        return [[task for task in asks if task.id in turn] for turn in turns]

    def _asks(self) -> list[Task]:
        """Whether a failure holds or aborts the run is up to the outcome, not to the ask."""
        replace = msgspec.structs.replace
        tasks = self._tasks.values()
        alike = len({task.terms.who for task in tasks}) == 1
        return [
            replace(task, place=None, terms=replace(task.terms, on_failure="skip", needed=alike))
            for task in tasks
        ]


async def _listen(run: Run, turns: list[list[Task]], heard: Callable[[Outcome], bool]) -> None:
    """Hand on each outcome as it lands, until `heard` has enough. What is under way is cancelled."""
    for tasks in turns:
        async with aclosing(run.stream(tasks)) as landing:
            async for outcome in landing:
                if heard(outcome):
                    return


async def _at_most(run: Run, seconds: float | None, work: Coroutine[Any, Any, None]) -> None:
    """Let the work go on to its end, or for so long on the run's clock."""
    if seconds is None:
        return await work
    busy = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(run.clock.sleep(seconds))
    try:
        await asyncio.wait((busy, timer), return_when=asyncio.FIRST_COMPLETED)
        if busy.done():
            busy.result()
    finally:
        await end_all((busy, timer))


def _raise_if_stopping(run: Run) -> None:
    """What is left open then is closed with the run, and goes on when the run does."""
    if run.stopping is not None:
        raise RunStopped(f"{run.stopping.status}: {run.stopping.reason}")
