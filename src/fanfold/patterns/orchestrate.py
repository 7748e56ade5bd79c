"""One request to a member that leads: who that is and who is next when it fails; and a model that
leads by tools.

It says which to use, they are used, it gets the results, until it answers. Every turn is an
ordinary ask of the run, so what is on record is not paid again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fanfold.errors import BadInput
from fanfold.gates.default import standard
from fanfold.patterns.delegate import Desk
from fanfold.patterns.delegate_tools import (
    ASKING,
    INSTRUCTIONS,
    delegation_tools,
    our_name,
    use_tool,
    without_load,
)
from fanfold.patterns.delegated_task import DelegatedTask, DelegationRules, eligible
from fanfold.run.member_sources import MemberSource
from fanfold.run.pool import in_order
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work.ask import Ask, Call, Message, Params, Reply, Schema, Tools
from fanfold.work.item import Item
from fanfold.work.member import Tell, Traits
from fanfold.work.outcome import Outcome
from fanfold.work.task import AskPower, Place, Task, Terms, ToolsUsed, Who

# ── a model that leads by tools ──────────────────────────────────────────────────────────────────


MOST_ROUNDS = 12  # times that tools are used for one answer; then it is due
MOST_CALLS = 32  # of tools in one reply
NAME = "delegates"
_encode = msgspec.json.Encoder().encode


class LeadSession:
    """One who leads, at one request: its tools are those of a desk. What it delegates is a run of its
    own below the attempt that first wanted it. Only what does not change is told to it, and calls of
    one reply are numbered in its order, so that the next time all asks are the same.
    """

    rounds = MOST_ROUNDS

    def __init__(self, run: Run, members: MemberSource, leading: str) -> None:
        self._run, self._members, self._leading = run, members, leading
        self._desk = Desk(run, members, without=(leading,))
        self._branch: Run | None = None

    def equipped(self, ask: Ask) -> Ask:
        """The ask with tools and with what they are for; as it is when nobody can be delegated to."""
        menu = self._desk.menu()
        if not menu:
            return ask
        messages = (Message("system", INSTRUCTIONS), *ask.messages)
        tools = Tools.of(delegation_tools(menu))
        return msgspec.structs.replace(ask, messages=messages, tools=tools)

    async def answer(self, task: Task, tell: Tell | None = None) -> Outcome:
        """In the loop of all who use tools; the branch of what was delegated is closed behind it."""
        terms = msgspec.structs.replace(task.terms, tools=self)
        try:
            return await self._run.do(msgspec.structs.replace(task, terms=terms), tell)
        finally:
            if self._branch is not None:
                await self._branch.close()

    async def use(self, task: Task, ask: Ask, reply: Reply, do: AskPower, run: str) -> ToolsUsed:
        calls = reply.calls[:MOST_CALLS]
        if self._branch is None and any(our_name(one.name) in ASKING for one in calls):
            self._branch = await self._run.branch(NAME, self._span())
            self._desk = Desk(self._branch, self._members, without=(self._leading,))
        done = await in_order(calls, self._one)
        refused = _as_json({"error": f"not done: at most {MOST_CALLS} calls in one reply"})
        return ToolsUsed((*done, *([refused] * (len(reply.calls) - len(calls)))))

    def _span(self) -> str:
        """The attempt that brought the last reply; the run, when none of this run did."""
        run = self._run.record
        attempts = self._run.store.read.newest(run.no, ("ok",), 1)
        return f"{run.id}:{attempts[0].no}" if attempts else run.id

    async def _one(self, call: Call) -> str:
        try:
            return _as_json(without_load(await use_tool(self._desk, call.name, call.given)))
        except BadInput as error:
            return _as_json({"error": str(error)})


def _as_json(found: object) -> str:
    return _encode(found).decode()


# ── who leads ────────────────────────────────────────────────────────────────────────────────────


STEP = "ask"
LAST_TRIES = 3  # for whoever is the last to be asked; before that one failure suffices


class LeadOrder(msgspec.Struct, frozen=True):
    """Who is asked, one after the other. `direct`: nobody can orchestrate, so `turns` is one turn of
    all who can answer, and the router chooses; `unable` says why those cannot who would. `misfit`:
    nobody is good at what is needed."""

    turns: tuple[tuple[str, ...], ...]
    direct: bool = False
    misfit: bool = False
    unable: str = ""


def lead_order(
    members: Iterable[Traits],
    task: DelegatedTask,
    rules: DelegationRules,
    last: str | None = None,
) -> LeadOrder:
    """Those who can orchestrate, beginning after `last`, the one who answered the last time. What
    the task needs is a preference here: better an answer from somebody else than none.

    BadInput when nobody may answer at all.
    """
    known = list(members)
    if task.member is not None and all(traits.id != task.member for traits in known):
        there = ", ".join(traits.id for traits in known) or "nobody"
        raise BadInput(f"there is no member `{task.member}`; there are: {there}")
    anyone = msgspec.structs.replace(task, needs=())
    found = eligible(known, anyone, rules)
    if isinstance(found, str):
        raise BadInput(f"nobody can answer: {found}")
    able = [traits for traits in known if traits.id in found]
    leading = [traits for traits in able if traits.can_orchestrate]
    if task.member is not None:
        return LeadOrder((found,))
    fit = [traits for traits in leading or able if set(task.tags) <= set(traits.good_at)]
    ids = tuple(traits.id for traits in fit or leading or able)
    if not leading:
        would = [one for one in known if one.can_orchestrate]
        unable = eligible(would, anyone, rules) if would else ""
        return LeadOrder((ids,), direct=True, misfit=not fit, unable=str(unable))
    after = ids.index(last) + 1 if last is not None and last in ids else 0
    return LeadOrder(tuple((id,) for id in ids[after:] + ids[:after]), misfit=not fit)


async def answer(
    run: Run,
    lead_order: LeadOrder,
    task: DelegatedTask,
    members: MemberSource,
    tell: Tell | None = None,
) -> Outcome:
    """Ask one after the other until an answer passes. One item of the run, however many are asked.

    Those who orchestrate and take tools get those of a desk. `tell` hears what is said meanwhile.
    Raises RunStopped when the run stops: for lack of money, say.
    """
    item = Item("ask", {"text": task.prompt})
    schema = None if task.schema is None else Schema.of(task.schema)
    ask = Ask((Message("user", task.prompt),), (item,), (), schema,
              Params(max_tokens=task.max_tokens))  # fmt: skip
    terms = [
        Terms(
            STEP, standard(None, schema), who, concurrency=1, needed=False,
            attempts=1 if number < len(lead_order.turns) else LAST_TRIES,
        )
        for number, who in enumerate(_whos(lead_order, task), 1)
    ]  # fmt: skip
    batch = await run.plan(Rows([item]), terms[0])
    outcome = Outcome(item.id, "failed", reasons=("nobody was asked",))
    failures: list[str] = []
    for one, turn in zip(terms, lead_order.turns, strict=True):
        outcome = await _turn(run, Task(item.id, ask, one), members, turn, tell)
        if outcome.state == "passed":
            break
        failures.append("; ".join(outcome.reasons) or outcome.state)
    if outcome.state != "passed":
        outcome = msgspec.structs.replace(outcome, reasons=tuple(failures))
    return run.settle(Task(item.id, ask, terms[0], Place(batch.no, 0)), outcome)


def _whos(lead_order: LeadOrder, task: DelegatedTask) -> list[Who]:
    """A named one, or whose turn it is; if nobody leads, whom the router chooses."""
    if lead_order.direct:
        needs = () if lead_order.misfit else task.tags
        return [Who(needs=needs, among=turn) for turn in lead_order.turns]
    why = "its turn to lead" if task.member is None else "named"
    return [Who(turn, why=why) for turn in lead_order.turns]


async def _turn(
    run: Run, task: Task, members: MemberSource, turn: tuple[str, ...], tell: Tell | None
) -> Outcome:
    traits = members.traits[turn[0]]
    if len(turn) > 1 or not (traits.can_orchestrate and traits.takes_tools):
        return await run.do(task, tell)
    return await LeadSession(run, members, traits.id).answer(task, tell)
