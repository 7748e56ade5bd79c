"""Delegation: whoever leads hands parts of its work to the members of a run, and folds the results.

A `Desk` knows no transport. What it delegates is planned as items of its run, so the receipt
accounts for every task; the budget is the run's, never the caller's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from fanfold.clock import RealClock
from fanfold.errors import BadInput, FanfoldError, RunStopped, StoreError
from fanfold.gates.default import standard
from fanfold.journal.opening import open_store
from fanfold.members.roster import DEFAULT_ROSTER, Roster, find_roster, load_roster
from fanfold.patterns import fold
from fanfold.patterns.delegated_task import (
    DelegatedResult,
    DelegatedTask,
    DelegationRules,
    delegated_result,
    delegated_task,
    eligible,
    reduce_by_asking,
    reduce_options,
)
from fanfold.price import Price
from fanfold.run.member_sources import ListedMembers, MemberSource
from fanfold.run.open import finish
from fanfold.run.planning import Batch
from fanfold.run.record import Launch, start
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.run.sources import Rows
from fanfold.work.ask import Ask, Message, Params, Schema
from fanfold.work.item import Item
from fanfold.work.member import Member
from fanfold.work.outcome import Outcome, Part
from fanfold.work.raised import error_text
from fanfold.work.task import Budget, Place, Task, Terms, Who

MOST_TASKS = 1000
MOST_VALUES = 10_000
REDUCES = (*(kind for kind in fold.KINDS if kind != "python"), "ask")
_YOURSELF = "Do this one yourself"

Progress: TypeAlias = Callable[[int, int], Awaitable[None]]
"""Hears how many tasks of a call have ended, of how many."""

NO_RESULT = DelegatedResult(status="error", message="it was not carried out")


class Desk:
    """`delegate` one task or `delegate_many`; `reduce` what came back; `menu` says who is there.

    Only members that may be delegated to are asked, never those named in `without` (who lead), and
    whoever is asked gets no tools of this desk. `concurrency` is for all calls together; without it
    the run's and the members' own limits hold. A call can only lower it. `members` must be those
    the run was opened with.
    """

    def __init__(
        self,
        run: Run,
        members: MemberSource,
        *,
        concurrency: int | None = None,
        without: Iterable[str] = (),
    ) -> None:
        self._run, self._members = run, members
        self._concurrency = concurrency or members.settings.max_concurrency
        self._without = frozenset(without)
        self._ready: dict[str, str] = {}  # who was made ready, and what went wrong with it ("")
        self._calls: list[tuple[Batch, Terms] | None] = []

    def menu(self) -> list[dict[str, Any]]:
        """Who may be delegated to: good at what, tier, price, context, and the load of now."""
        rules, load = self._rules(), self._run.load()
        anything = DelegatedTask("?", max_tokens=1)
        return [
            {
                "id": t.id, "good_at": list(t.good_at), "tier": t.tier, "model": t.model,
                "price": _price(t.price), **({"cost": t.cost_text} if t.cost_text else {}),
                "context": t.context, "busy": load.get(t.id, 0), "at_once": t.limits.concurrency,
            }
            for t in self._members.traits.values()
            if t.can_delegate and not isinstance(eligible([t], anything, rules), str)
        ]  # fmt: skip

    async def delegate(
        self,
        prompt: str,
        *,
        member: str | None = None,
        needs: Iterable[str] = (),
        local: bool = False,
        max_tokens: int | None = None,
        schema: dict[str, Any] | None = None,
    ) -> DelegatedResult:
        """One task. `member` goes before `needs`, and `needs` before `local`; else anyone."""
        tags = needs if isinstance(needs, str) else tuple(needs)
        task = DelegatedTask(prompt, member, tags, local, max_tokens, schema)
        return (await self.delegate_many([task]))[0]

    async def delegate_many(
        self, tasks: list[Any], concurrency: int | None = None, progress: Progress | None = None
    ) -> list[DelegatedResult]:
        """Results in input order, whatever happens to single tasks. A task is a DelegatedTask, an object
        with its fields, or just a prompt. BadInput only for what concerns the call as a whole.

        Calls are numbered in the order in which they are made, and ids go by these numbers."""
        at_once = self._at_once(concurrency)
        if not isinstance(tasks, list | tuple):
            raise BadInput(f"`tasks` is a list of tasks, not {type(tasks).__name__}")
        if len(tasks) > MOST_TASKS:
            raise BadInput(
                f"{len(tasks):,} tasks are too many for one call: at most {MOST_TASKS:,};"
                " send them in parts, or write a plan for them"
            )
        self._calls.append(None)
        call = len(self._calls)
        results, ready = await self._sorted_out(tasks, at_once)
        if ready:
            async for index, outcome in self._carried_out(call, ready):
                results[index] = delegated_result(index, outcome)
                if progress is not None:
                    await progress(len(results), len(tasks))
        return [results.get(index, self._not_reached(index)) for index in range(len(tasks))]

    def _at_once(self, wanted: int | None) -> int:
        if wanted is None:
            return self._concurrency
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
            raise BadInput(f"`concurrency` is a whole number of at least 1, not {wanted!r}")
        return min(wanted, self._concurrency)

    # ── one call ──

    async def _sorted_out(
        self, tasks: Iterable[Any], at_once: int
    ) -> tuple[dict[int, DelegatedResult], dict[int, tuple[DelegatedTask, Terms]]]:
        """Those that cannot go, with their results, and those that can, with their terms."""
        results: dict[int, DelegatedResult] = {}
        ready: dict[int, tuple[DelegatedTask, Terms]] = {}
        for index, given in enumerate(tasks):
            try:
                task = delegated_task(given)
                terms = await self._terms(task, "delegate", at_once)
            except BadInput as error:
                results[index] = DelegatedResult(index=index, status="error", message=str(error))
                continue
            if isinstance(terms, str):
                message = f"No member fits: {terms}. {_YOURSELF}."
                results[index] = DelegatedResult(index=index, status="no_fit", message=message)
            else:
                ready[index] = task, terms
        return results, ready

    async def _carried_out(
        self, call: int, ready: Mapping[int, tuple[DelegatedTask, Terms]]
    ) -> AsyncIterator[tuple[int, Outcome]]:
        indexes = list(ready)
        items = [Item(f"{call}.{index}", {"text": ready[index][0].prompt}) for index in indexes]
        first = ready[indexes[0]][1]
        whole = msgspec.structs.replace(first, concurrency=self._concurrency)
        batch = await self._run.plan(Rows(items), whole, name=f"delegate {call}")
        self._calls[call - 1] = msgspec.structs.replace(batch, source=Rows(())), first
        tasks = [
            Task(item.id, _ask(*ready[index], item), ready[index][1], Place(batch.no, position))
            for position, (index, item) in enumerate(zip(indexes, items, strict=True))
        ]
        try:
            async with aclosing(self._run.stream(tasks, do=self._run.do)) as landing:
                async for outcome in landing:
                    yield indexes[outcome.position], outcome
        except RunStopped:
            if self._run.stopping is None:
                raise

    def _not_reached(self, index: int) -> DelegatedResult:
        stop = self._run.stopping
        if stop is None:
            return msgspec.structs.replace(NO_RESULT, index=index)
        status = "unfunded" if stop.rest == "unfunded" else "error"
        message = f"Not done: {stop.reason}. {_YOURSELF}, or leave it."
        return DelegatedResult(index=index, status=status, message=message)  # type: ignore[arg-type]

    # ── who takes it, and how ──

    async def _terms(self, task: DelegatedTask, step: str, at_once: int) -> Terms | str:
        """The terms of a task; a text says why no member is eligible."""
        if task.member is not None and task.member not in self._members.traits:
            known = ", ".join(one["id"] for one in self.menu()) or "nobody"
            raise BadInput(f"there is no member `{task.member}`; there are: {known}")
        schema = None if task.schema is None else Schema.of(task.schema)
        gate = standard(None, schema)
        while True:
            found = eligible(self._members.traits.values(), task, self._rules())
            if isinstance(found, str):
                return found
            if all([await self._made_ready(id) for id in found]):
                break
        who = Who(found) if task.member is not None else Who(needs=task.tags, among=found)
        terms = Terms(step, gate, who, concurrency=self._concurrency, needed=False)
        await self._run.begin(terms)
        return msgspec.structs.replace(terms, concurrency=at_once)

    async def _made_ready(self, id: str) -> bool:
        """Built and opened once. One that cannot be is left out from then on; others may fit."""
        if id not in self._ready:
            try:
                await self._run.begin_with((id,))
                self._ready[id] = ""
            except StoreError:
                raise
            except Exception as error:
                text = str(error) if isinstance(error, FanfoldError) else repr(error)
                self._ready[id] = " ".join(text.split())[:300]
        return not self._ready[id]

    def _rules(self) -> DelegationRules:
        broken = {id: why for id, why in self._ready.items() if why}
        priced = self._run.settings.budget.usd is not None
        return DelegationRules(self._members.settings.allow_paid, priced, self._without, broken)

    # ── folding ──

    async def reduce(
        self,
        kind: str,
        values: list[Any] | None = None,
        *,
        ids: list[str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> DelegatedResult:
        """Many results into one: by a pure kind, or `ask` (a member writes it; options `prompt`,
        `fan_in` and who, as for a task). Of `values`, or of the passed results that `ids` name."""
        given = dict(options or {})
        parts = await self._parts(values, ids)
        if kind == "ask":
            return await self._reduce_by_asking(parts, given)
        if kind not in REDUCES:
            raise BadInput(f"there is no reduce `{kind}`; there are: {', '.join(REDUCES)}")
        value = fold.from_plan(kind, given, _nothing)(parts)
        return DelegatedResult(
            status="ok", **({"text": value} if isinstance(value, str) else {"data": value})
        )

    async def _parts(self, values: list[Any] | None, ids: list[str] | None) -> list[Part]:
        if (values is None) == (ids is None):
            raise BadInput("a reduce needs either `values` or `ids`")
        given = values if ids is None else ids
        if not isinstance(given, list | tuple):
            name = "values" if ids is None else "ids"
            raise BadInput(f"`{name}` is a list, not {type(given).__name__}")
        if len(given) > MOST_VALUES:
            raise BadInput(f"{len(given):,} values are too many: at most {MOST_VALUES:,}")
        if ids is None:
            return [Part(str(n), n, value) for n, value in enumerate(given)]
        found = await self._passed({str(id) for id in ids})
        lacking = [str(id) for id in ids if str(id) not in found]
        if lacking:
            raise BadInput(f"no result that passed has the id {', '.join(lacking[:10])}")
        return [Part(str(id), n, found[str(id)]) for n, id in enumerate(ids)]

    async def _passed(self, ids: set[str]) -> dict[str, Any]:
        """From the journal: only what passed its gate goes into a reduce."""
        await self._run.flush()
        numbers = {id.partition(".")[0] for id in ids}
        calls = [call for n, call in enumerate(self._calls, 1) if call and str(n) in numbers]
        return {
            part.id: part.value
            for batch, terms in calls
            for part in self._run.passed(batch, terms)
            if part.id in ids
        }

    async def _reduce_by_asking(self, parts: list[Part], given: dict[str, Any]) -> DelegatedResult:
        task, fan_in = reduce_options(given)
        terms = await self._terms(task, "reduce", self._concurrency)
        if isinstance(terms, str):
            return DelegatedResult(
                status="no_fit", message=f"No member fits: {terms}. {_YOURSELF}."
            )
        try:
            return await reduce_by_asking(self._run, parts, task, terms, fan_in)
        except RunStopped:
            if self._run.stopping is None:
                raise
            return self._not_reached(0)


def _ask(task: DelegatedTask, terms: Terms, item: Item) -> Ask:
    """The prompt as it is: no template is made of it."""
    schema = None if task.schema is None else Schema.of(task.schema)
    params = Params(max_tokens=task.max_tokens)
    return Ask((Message("user", task.prompt),), (item,), (), schema, params)


def _price(price: Price | None) -> dict[str, float] | None:
    """Dollars per million tokens, and per call; None is unknown, not free."""
    if price is None:
        return None
    return {"input": price.input, "output": price.output, "call": price.call}


def _nothing(target: str) -> Any:
    raise BadInput("functions cannot be named here")


@asynccontextmanager
async def new_run(
    name: str,
    members: MemberSource,
    settings: Settings,
    store: str | Path,
    parent: str | None = None,
) -> AsyncIterator[Run]:
    """A run of its own for one session, whatever ran under that name before; closed at the end.

    `parent` is the span it belongs to. What is raised inside goes on, after the books were closed.
    """
    journal, clock = open_store(store), RealClock()
    try:
        record = await start(journal, name, clock, settings.budget, Launch(parent=parent))
        run = Run(journal, record, members, settings, clock)
        try:
            yield run
        except BaseException as error:
            if run.stopping is None:
                run.kill(error_text(error))
            raise
        finally:
            await finish(journal, run)
    finally:
        journal.close()


# ── a run, and its members, for a session that has no plan ───────────────────────────────────────


class RosterMembers(ListedMembers):
    """Functions are imported from the roster's folder; programs are started in `folder`."""

    def __init__(
        self, roster: Roster, folder: Path, *, allow_paid: bool = False, at_once: int | None = None
    ) -> None:
        super().__init__(roster, folder, allow_paid=allow_paid, at_once=at_once)
        self.roster, self.folder = roster, folder
        file = None if roster.file in (None, str(DEFAULT_ROSTER)) else roster.file
        self._home = folder if file is None else Path(file).absolute().parent

    def build(self, id: str) -> Member:
        self.roster.check_ready(id, folder=self.folder)
        function = self.roster.entry(id).traits.kind == "function"
        return self.roster.build(id, folder=self._home if function else self.folder)


def find_members(
    roster: str | None, folder: Path, *, allow_paid: bool = False, at_once: int | None = None
) -> RosterMembers:
    """Those of the roster that counts: the one named, or the one that is found from `folder`."""
    found = load_roster(find_roster(roster, None, folder))
    return RosterMembers(found, folder, allow_paid=allow_paid, at_once=at_once)


def budget_words(budget: Budget) -> list[str]:
    """A budget as the command line takes it; nothing where there is no limit."""
    amounts = {name: getattr(budget, name) for name in budget.__struct_fields__}
    said = ",".join(f"{name}={amount}" for name, amount in amounts.items() if amount is not None)
    return ["--budget", said] if said else []
