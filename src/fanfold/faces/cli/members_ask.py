"""`fanfold members --check --ask`: one cheap call of each member, after saying what that costs at most."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.gates.default import standard
from fanfold.members.roster import Roster
from fanfold.price import dollars
from fanfold.run.demand import worst_case
from fanfold.run.open import open_quietly
from fanfold.run.pool import in_order
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work.ask import Ask, Message, Params
from fanfold.work.budget import NOTHING, Amount
from fanfold.work.item import Item
from fanfold.work.outcome import Outcome
from fanfold.work.task import Budget, Place, Task, Terms, Who
from fanfold.work.tool import StatedTools

QUESTION = "Reply with the one word: ok"
MOST_TOKENS = 64
NAME = "members-check"
_NOT_ASKED = ("function", "replay", "extractive")


class CheckedMember(msgspec.Struct, frozen=True):
    """Whether a member answers. `error` None: it does."""

    id: str
    reply: str = ""
    seconds: float = 0.0
    cost_usd: float = 0.0
    error: str | None = None
    skipped: str = ""

    @property
    def line(self) -> str:
        if self.skipped:
            return f"{self.id}: not asked: {self.skipped}"
        took = f"{self.seconds:.1f} s, ${self.cost_usd:.6f}"
        if self.error is not None:
            return f"{self.id}: no answer ({took}): {self.error}"
        return f"{self.id}: answers ({took}): {self.reply}"


def skipped(roster: Roster, trouble: Mapping[str, str | None]) -> dict[str, str]:
    """Who is not asked, and why."""
    found: dict[str, str] = {}
    for id, entry in roster.entries.items():
        traits = entry.traits
        if not traits.enabled:
            found[id] = "it is switched off"
        elif trouble.get(id) is not None:
            found[id] = "it is not ready"
        elif traits.agent:
            found[id] = "it is an agent, whose every start costs; try it with: fanfold ask --member"
        elif traits.kind in _NOT_ASKED:
            found[id] = f"kind {traits.kind} runs here, and needs an item"
    return found


def the_ask() -> Ask:
    item = Item("ok", {"text": QUESTION})
    return Ask((Message("user", QUESTION),), (item,), params=Params(max_tokens=MOST_TOKENS))


def most(roster: Roster, ids: list[str], folder: Path) -> tuple[Amount, list[str]]:
    """What one call of each takes at most, and whose price nobody knows."""
    whole, unpriced = NOTHING, []
    for id in ids:
        member = roster.build(id, folder=folder)
        if member.traits.price is None:
            unpriced.append(id)
        whole += worst_case(member.traits, member.prepare(the_ask()))
    return whole, unpriced


def agree(whole: Amount, unpriced: list[str], many: int, yes: bool) -> None:
    """Asks at a terminal; elsewhere `--yes` is needed."""
    dear = f"at most ${dollars(whole.usd):.6f}"
    if unpriced:
        dear += f", and {', '.join(unpriced)} at a price that is not known"
    what = f"{many} {'call' if many == 1 else 'calls'} of one short question: {dear}"
    if yes:
        return click.echo(what, err=True)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(f"{what}; approve it with --yes")
    click.confirm(f"{what}. Ask?", abort=True, err=True)
    return None


async def ask_all(roster: Roster, ids: list[str], store: str, whole: Amount) -> list[CheckedMember]:
    """In a run of its own: on record, within the budgets of the month; and each is really asked."""
    priced = all(roster.entries[id].traits.price is not None for id in ids)
    usd = dollars(whole.usd + 1) if priced and whole.usd else None
    budget = Budget(usd=usd, calls=len(ids))
    opened = open_quietly(
        NAME, roster=roster, store=store, budget=budget, allow_paid=True, fresh=True, serving=True
    )
    async with opened as run:
        items = [Item(id, {"text": QUESTION}) for id in ids]
        batch = await run.plan(Rows(items), _terms(ids[0]))

        async def one(position: int) -> CheckedMember:
            return await _asked(run, ids[position], Place(batch.no, position))

        return await in_order(list(range(len(ids))), one)


def _terms(id: str) -> Terms:
    """Without tools, tries or kick-backs: one call."""
    return Terms(
        "check", standard(None, None), Who((id,)), revise=0, attempts=1, tools=StatedTools(),
        in_doubt="hold",
    )  # fmt: skip


async def _asked(run: Run, id: str, place: Place) -> CheckedMember:
    clock = run.clock
    began = clock.monotonic()
    try:
        outcome: Outcome = await run.do(Task(id, the_ask(), _terms(id), place))
    except FanfoldError as error:
        return CheckedMember(id, seconds=clock.monotonic() - began, error=str(error))
    took, cost = clock.monotonic() - began, dollars(outcome.cost)
    if outcome.state == "passed" and outcome.reply is not None:
        return CheckedMember(id, " ".join(str(outcome.reply.value).split())[:60], took, cost)
    why = "; ".join(outcome.reasons) or outcome.state
    return CheckedMember(id, "", took, cost, why)
