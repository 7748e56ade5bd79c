"""Graph: tasks that depend on one another. Each starts when its own parents are done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Literal, TypeAlias, Unpack, cast

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.patterns.arguments import (
    Folded,
    PatternOptions,
    TaskHandler,
    ask_member,
    begin_handler,
    handler,
    pattern,
    terms_of,
)
from fanfold.patterns.graph_state import KeptOutcomes, Pace
from fanfold.patterns.prompt import Prompt, asked_with, prompt_of
from fanfold.run.planning import Batch
from fanfold.run.pool import Pool
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work import dag
from fanfold.work.arguments import public
from fanfold.work.ask import Ask
from fanfold.work.check import described, number, whole
from fanfold.work.item import Item
from fanfold.work.nearest import remedy
from fanfold.work.options import needed
from fanfold.work.outcome import UNTIL_RESUMED, Outcome, State
from fanfold.work.task import Place, Task, Terms, Who, asks_of
from fanfold.work.template import unshown

NAMES = frozenset({"id", "parents", "missing"})
_WHO = ("member", "members", "needs", "use")
_OF_ALL = ("step", "concurrency", "budget")
Partial: TypeAlias = bool | Literal["always"]
"""Whether a task can do without some of its parents: True needs one at least, `always` none."""


class GraphNode(msgspec.Struct, frozen=True):
    """One task of a graph.

    `partial`: it can do with the answers of some of its parents, or `always`. `weight` is about how long it
    takes, against the others. `stated` are the arguments it was made with, if by `node`: where they
    are silent, those of the graph hold. `sample` is part of the key: another number, another ask.
    """

    id: str
    prompt: Prompt
    terms: Terms
    depends_on: tuple[str, ...] = ()
    partial: Partial = False
    weight: float = 1.0
    data: Any = None
    by: TaskHandler = ask_member
    stated: PatternOptions | None = None
    sample: int = 0

    def fields(self) -> dict[str, Any]:
        """What its prompt knows by name, beside `parents`: the fields of its data, and its id."""
        data = {} if self.data is None else self.data
        return {**(data if isinstance(data, dict) else {"data": data}), "id": self.id}


@public
def node(
    id: str,
    prompt: str | None = None,
    *,
    depends_on: str | Sequence[str] = (),
    schema: dict[str, Any] | type | None = None,
    partial: Partial = False,
    weight: float = 1.0,
    data: Any = None,
    by: TaskHandler = ask_member,
    sample: int = 0,
    **how: Unpack[PatternOptions],
) -> GraphNode:
    """A task of a graph. In `prompt`, `parents.ID` is the answer of a parent (`parents["a-b"]` for
    an id that is no plain name) and the fields of `data` are names. A function member receives them
    all: `{**data, "id": ..., "parents": {...}, "missing": [...]}`.

    With `partial` it is asked also when some parents did not pass, with `partial="always"` also when
    none did; `missing` are their ids. Its prompt must then provide for that
    (`parents.a | default("-")`): a parent it cannot do without fails it.
    To ask the same once more instead of using a reply on record, give another `sample`.
    """
    for name in (name for name in _OF_ALL if name in how):
        raise BadInput(f"task `{id}` cannot have a `{name}` of its own; give it to the graph")
    parents = (depends_on,) if isinstance(depends_on, str) else _ids(id, depends_on)
    plain = GraphNode(
        id, Prompt(), _PLAIN, parents, partial, weight, data, handler(by), how, sample
    )
    _check_node(plain)
    made = prompt_of(prompt, schema, NAMES.union(plain.fields()), how)
    return msgspec.structs.replace(plain, prompt=made, terms=terms_of(how, made.schema, "graph"))


def _ids(id: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, Sequence):
        what = f"is an id or a list of them, not {described(given)}"
        raise BadInput(f"the `depends_on` of task `{id}` {what}")
    return tuple(dict.fromkeys(given))


_PLAIN = terms_of({}, None, "graph")


def _check_node(one: GraphNode) -> None:
    for id in (one.id, *one.depends_on):
        if not isinstance(id, str) or not id:
            raise BadInput(f"the id of a task is a text, not {id!r}")
    weight = one.weight
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < inf:
        raise BadInput(f"the `weight` of task `{one.id}` is a number from 0 on, not {weight!r}")
    if not isinstance(one.sample, int) or isinstance(one.sample, bool) or one.sample < 0:
        what = f"the `sample` of task `{one.id}` is a whole number from 0 on, not {one.sample!r}"
        raise BadInput(what)
    if one.partial not in (True, False, "always"):
        what = f"the `partial` of task `{one.id}` is True, False or 'always', not {one.partial!r}"
        raise BadInput(what)
    taken = {"parents", "missing"}.intersection(one.data if isinstance(one.data, dict) else ())
    for name in sorted(taken):
        raise BadInput(f"task `{one.id}`: `{name}` is not free as a name in `data`; rename it")


@pattern
async def graph(
    run: Run,
    tasks: Iterable[GraphNode | dict[str, Any]],
    *,
    delay: float = 0.0,
    **how: Unpack[PatternOptions],
) -> Folded:
    """Carry tasks out that depend on one another; the value is {id: answer} of those that passed.

    A task is made by `node`, or a dict with the same fields. It starts when its own parents are
    done; at most `concurrency` (8) are under way, and the one with the longest remaining path goes
    first. When a parent did not pass, its dependents end `failed` with the reason `parent`, unless
    they are `partial`. Between two starts there are at least `delay` seconds; a task whose reply is
    on record is no start. The other arguments hold for every task that does not state its own.
    """
    common = terms_of(how, None, "graph")
    nodes = [_with_defaults(_node_of(task, n), how) for n, task in enumerate(tasks)]
    first = nodes[0].terms if nodes else common
    walk = await _planned(run, nodes, common.concurrency, common.step, first, delay)
    value = await walk.carried_out()
    run.set_result(value)
    return Folded(value, run.receipt(), run, walk.batch, walk.common)


async def graph_batch(
    run: Run,
    nodes: Sequence[GraphNode],
    concurrency: int,
    step: str,
    delay: float = 0.0,
    batch: Batch | None = None,
) -> dict[str, Any]:
    """The same for nodes that are ready made: their terms hold, but for step and concurrency.
    `batch`: they are the items of it, in order."""
    if not nodes:
        return {}
    walk = await _planned(run, nodes, concurrency, step, nodes[0].terms, delay, batch)
    return await walk.carried_out()


# ── what was stated ──────────────────────────────────────────────────────────────────────────


def _node_of(task: GraphNode | dict[str, Any], position: int) -> GraphNode:
    if isinstance(task, GraphNode):
        return task
    if not isinstance(task, dict):
        raise BadInput(f"task {position} must be a node or a dict, not {type(task).__name__}")
    if "id" not in task:
        raise BadInput(f"task {position} needs the field `id`")
    return node(**task)


def _with_defaults(made: GraphNode, how: PatternOptions) -> GraphNode:
    """A task that says who answers says it whole: the graph's words on that are left out then."""
    if made.stated is None or not how:
        return made
    who = set(_WHO) if any(name in made.stated for name in _WHO[:3]) else set()
    behind = {name: value for name, value in how.items() if name not in who}
    options = cast(PatternOptions, {**behind, **made.stated})
    terms = terms_of(options, made.prompt.schema, "graph")
    prompt = asked_with(made.prompt, options, NAMES.union(made.fields()))
    return msgspec.structs.replace(made, terms=terms, prompt=prompt)


def check_reads(nodes: Iterable[GraphNode]) -> None:
    """A prompt that reads the answer of a task it does not depend on is BadInput."""
    for one in nodes:
        user = one.prompt.user
        reads = set() if user is None else user.fields("parents")
        for parent in sorted(reads.difference(one.depends_on)):
            hint = f"; {remedy(parent, one.depends_on)}" if one.depends_on else ""
            raise BadInput(
                f"the prompt of task `{one.id}` reads `parents.{parent}`, on which it does not"
                f" depend: add it to `depends_on`{hint}"
            )


def _check(nodes: Sequence[GraphNode], concurrency: int, delay: float) -> None:
    needed("concurrency", concurrency, whole(least=1))
    needed("delay", delay, number(least=0))
    dag.check(nodes)
    check_reads(nodes)
    if len({one.terms.budget for one in nodes}) > 1:
        raise BadInput("the tasks of a graph share one budget; give it to the graph")


# ── carrying it out ──────────────────────────────────────────────────────────────────────────


async def _planned(
    run: Run,
    nodes: Sequence[GraphNode],
    concurrency: int,
    step: str,
    common: Terms,
    delay: float,
    batch: Batch | None = None,
) -> _Walk:
    """Check it all, get everyone ready who may answer, and write the tasks down as planned items."""
    _check(nodes, concurrency, delay)
    same = {"step": step, "concurrency": concurrency}
    nodes = [
        msgspec.structs.replace(one, terms=msgspec.structs.replace(one.terms, **same))
        for one in nodes
    ]
    plain = {(n.terms.who, n.terms.escalate): n.terms for n in nodes if n.by is ask_member}
    for terms in plain.values():
        await run.begin(terms)
    for one in nodes:
        await _prepare(run, one)
    common = msgspec.structs.replace(next(iter(plain.values()), common), **same)
    if batch is None:
        rows = [Item(n.id, {"depends_on": list(n.depends_on), "data": n.data}) for n in nodes]
        batch = await run.plan(Rows(rows), common)
    run.recall(batch, common)
    return _Walk(run, batch, nodes, common, Pace(run.clock, delay))


async def _prepare(run: Run, one: GraphNode) -> None:
    """Nodes that share their members may still have gates and prompts of their own."""
    asked = [one.terms] if one.by is ask_member else asks_of(one.terms.gate)
    for terms in asked:
        await run.prepare(terms)
    await begin_handler(run, one.by, one.prompt, msgspec.structs.replace(one.terms, step=one.id))


def _is_of_agents(run: Run, one: GraphNode) -> bool:
    return one.by is ask_member and all(traits.agent for traits in run.traits(one.terms))


class _Walk:
    """One pass over a graph: what is under way, what has passed, how the others ended."""

    def __init__(
        self, run: Run, batch: Batch, nodes: Sequence[GraphNode], common: Terms, pace: Pace
    ) -> None:
        self.batch, self.common = batch, common
        self._run, self._pace = run, pace
        self._nodes = {one.id: one for one in nodes}
        self._positions = {one.id: position for position, one in enumerate(nodes)}
        kept = KeptOutcomes(
            run, batch, common, {one.id for one in nodes if _is_of_agents(run, one)}
        )
        self._schedule = dag.Schedule(kept.remaining(nodes))
        self._under_way: Counter[Who] = Counter()
        self._most = common.concurrency
        self._pool: Pool[GraphNode] = Pool(
            common.concurrency, self._do, self._next, lambda: run.stopping is not None
        )
        whos = {one.terms.who: one.terms for one in nodes if one.by is ask_member}
        rooms = {who: run.room(terms) for who, terms in whos.items()}
        self._narrow = {who: room for who, room in rooms.items() if room < common.concurrency}
        self._values, self._not_passed = kept.values, kept.not_passed

    async def carried_out(self) -> dict[str, Any]:
        """The answers that passed, in planned order. When the run stops, what is under way ends by
        itself and nothing new starts; then RunStopped goes on to whoever opened the run."""
        self._sift(self._schedule.ready())
        try:
            with self._run.resizing(self.common, self._resize):
                await self._pool.run()
        finally:
            self._pace.end()
        self._run.pause_if_unpaid()
        await self._run.flush()
        return {id: self._values[id] for id in self._nodes if id in self._values}

    def _resize(self, concurrency: int) -> None:
        """Fewer are for the limits of the run to see to."""
        self._most = max(self._most, concurrency)
        self._pool.grow(self._most)

    def _next(self) -> GraphNode | None:
        """The most urgent one that may start now.

        Those whose members have no slot left stay where they are: in a queue they would keep slots
        from others, and more urgent ones from going before them.
        """
        if self._pace.paused:
            return None
        for id in self._schedule.ready(None if self._narrow else 1):
            one = self._nodes[id]
            who = one.terms.who
            if self._under_way[who] < self._narrow.get(who, self._most):
                self._schedule.start(id)
                self._under_way[who] += 1
                self._pace.started(one.id, self._pool)
                return one
        return None

    async def _do(self, one: GraphNode) -> None:
        try:
            outcome = await self._carry(one)
        finally:
            self._under_way[one.terms.who] -= 1
        if one.by is ask_member and not outcome.calls:
            self._pace.asked_nobody(one.id)
        if outcome.state == "passed":
            self._values[one.id] = outcome.value
        else:
            self._not_passed[one.id] = outcome.state
        self._pool.wake(1 + self._sift(self._schedule.end(one.id)))

    async def _carry(self, one: GraphNode) -> Outcome:
        task = self._task(one)
        if one.by is ask_member or task.flaw is not None:
            return await self._run.do_one_of_many(task)
        return await one.by(self._run, task)

    def _task(self, one: GraphNode) -> Task:
        made = task_item(one.fields(), one.depends_on, self._values)
        place = Place(self.batch.no, self._positions[one.id])
        try:
            return Task(one.id, task_ask(one.prompt, made, one.sample), one.terms, place)
        except FanfoldError as error:
            return Task(one.id, Ask(items=(made,)), one.terms, place, str(error))

    def _sift(self, freed: list[str]) -> int:
        """These may start now, or have lost a parent they need: then they end too, and so do their
        dependents. But when the run was killed it was not for a parent that they were not reached.
        PatternOptions many may start."""
        stop, ready = self._run.stopping, 0
        while freed and (stop is None or stop.status != "killed"):
            one = self._nodes[freed.pop()]
            lost = [parent for parent in one.depends_on if parent in self._not_passed]
            if lost and not self._can_do_without(one, lost):
                self._schedule.start(one.id)
                self._fail(one, lost)
                freed += self._schedule.end(one.id)
            else:
                ready += 1
        return ready

    def _can_do_without(self, one: GraphNode, lost: list[str]) -> bool:
        """They will not come. One that only lacks money may, when the run is resumed."""
        enough = one.partial == "always" or (one.partial and len(lost) < len(one.depends_on))
        return enough and all(self._not_passed[id] != "unfunded" for id in lost)

    def _fail(self, one: GraphNode, lost: list[str]) -> None:
        """It has failed with its parents; while one of them may still be resumed, so may it, and
        what waits for one that lacks money lacks money too."""
        open_yet = {self._not_passed[id] for id in lost}.intersection(UNTIL_RESUMED)
        state: State = "failed"
        if open_yet:
            state = "unfunded" if "unfunded" in open_yet else "cancelled"
        reasons = tuple(f"parent: {id} {self._not_passed[id]}" for id in lost)
        task = Task(one.id, Ask(), one.terms, Place(self.batch.no, self._positions[one.id]))
        self._run.settle(task, Outcome(one.id, state, reasons=reasons, by_parent=True))
        self._not_passed[one.id] = state


def task_item(fields: dict[str, Any], depends_on: Sequence[str], values: Mapping[str, Any]) -> Item:
    """What a task's prompt reads: the answers of its parents that passed, and who is missing."""
    passed = {id: values[id] for id in depends_on if id in values}
    missing = [id for id in depends_on if id not in passed]
    return Item(fields["id"], {**fields, "parents": passed, "missing": missing})


def task_ask(prompt: Prompt, made: Item, sample: int) -> Ask:
    """Parents that are missing are named at its end where the prompt does not show them."""
    missing = ", ".join(made.data["missing"])
    named = f"There is no answer for: {missing}" if missing else ""
    ask = prompt.about(made, unshown(prompt.shows, (("missing",), lambda: named)))
    return msgspec.structs.replace(ask, sample=ask.sample + sample) if sample else ask
