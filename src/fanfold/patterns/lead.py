"""One request to one who leads: who that is, and who is next when it fails."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.errand import Errand, Rules, fitting
from fanfold.patterns.orchestrate import Session, leading_gate
from fanfold.run.choose import Company
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work.ask import Ask, Message, Params, Schema
from fanfold.work.item import Item
from fanfold.work.member import Tell, Traits
from fanfold.work.outcome import Outcome
from fanfold.work.task import Place, Task, Terms, Who

STEP = "ask"
LAST_TRIES = 3  # for whoever is the last to be asked; before that one failure suffices


class Lead(msgspec.Struct, frozen=True):
    """Who is asked, one after the other. `direct`: nobody can orchestrate, so `turns` is one turn of
    all who can answer, and the router chooses; `unable` says why those cannot who would. `misfit`:
    nobody is good at what is needed."""

    turns: tuple[tuple[str, ...], ...]
    direct: bool = False
    misfit: bool = False
    unable: str = ""


def lead(members: Iterable[Traits], errand: Errand, rules: Rules, last: str | None = None) -> Lead:
    """Those who can orchestrate, beginning after `last`, the one who answered the last time. What
    the errand needs is a preference here: better an answer from somebody else than none.

    BadInput when nobody may answer at all.
    """
    known = list(members)
    if errand.member is not None and all(traits.id != errand.member for traits in known):
        there = ", ".join(traits.id for traits in known) or "nobody"
        raise BadInput(f"there is no member `{errand.member}`; there are: {there}")
    anyone = msgspec.structs.replace(errand, needs=())
    found = fitting(known, anyone, rules)
    if isinstance(found, str):
        raise BadInput(f"nobody can answer: {found}")
    able = [traits for traits in known if traits.id in found]
    leading = [traits for traits in able if traits.can_orchestrate]
    if errand.member is not None:
        return Lead((found,))
    fit = [traits for traits in leading or able if set(errand.tags) <= set(traits.good_at)]
    ids = tuple(traits.id for traits in fit or leading or able)
    if not leading:
        would = [one for one in known if one.can_orchestrate]
        unable = fitting(would, anyone, rules) if would else ""
        return Lead((ids,), direct=True, misfit=not fit, unable=str(unable))
    after = ids.index(last) + 1 if last is not None and last in ids else 0
    return Lead(tuple((id,) for id in ids[after:] + ids[:after]), misfit=not fit)


async def answer(
    run: Run, lead: Lead, errand: Errand, company: Company, tell: Tell | None = None
) -> Outcome:
    """Ask one after the other until an answer passes. One item of the run, however many are asked.

    Those who orchestrate and take tools get those of a desk. `tell` hears what is said meanwhile.
    Raises RunStopped when the run stops: for lack of money, say.
    """
    item = Item("ask", {"text": errand.prompt})
    schema = None if errand.schema is None else Schema.of(errand.schema)
    ask = Ask((Message("user", errand.prompt),), (item,), (), schema,
              Params(max_tokens=errand.max_tokens))  # fmt: skip
    terms = [
        Terms(
            STEP, leading_gate(schema), who, concurrency=1, needed=False,
            attempts=1 if number < len(lead.turns) else LAST_TRIES,
        )
        for number, who in enumerate(_whos(lead, errand), 1)
    ]  # fmt: skip
    batch = await run.plan(Rows([item]), terms[0])
    outcome = Outcome(item.id, "failed", reasons=("nobody was asked",))
    told: list[str] = []
    for one, turn in zip(terms, lead.turns, strict=True):
        outcome = await _turn(run, Task(item.id, ask, one), company, turn, tell)
        if outcome.state == "passed":
            break
        told.append("; ".join(outcome.reasons) or outcome.state)
    if outcome.state != "passed":
        outcome = msgspec.structs.replace(outcome, reasons=tuple(told))
    return run.settle(Task(item.id, ask, terms[0], Place(batch.no, 0)), outcome)


def _whos(lead: Lead, errand: Errand) -> list[Who]:
    """A named one, or whose turn it is; if nobody leads, whom the router chooses."""
    if lead.direct:
        needs = () if lead.misfit else errand.tags
        return [Who(needs=needs, among=turn) for turn in lead.turns]
    why = "its turn to lead" if errand.member is None else "named"
    return [Who(turn, why=why) for turn in lead.turns]


async def _turn(
    run: Run, task: Task, company: Company, turn: tuple[str, ...], tell: Tell | None
) -> Outcome:
    traits = company.traits[turn[0]]
    if len(turn) > 1 or not (traits.can_orchestrate and traits.takes_tools):
        return await run.do(task, tell)
    session = Session(run, company, traits.id, tell)
    return await session.answer(msgspec.structs.replace(task, ask=session.equipped(task.ask)))
