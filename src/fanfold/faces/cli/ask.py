"""`fanfold ask`: one request to the best orchestrator, which may delegate parts of it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from fanfold.errors import BadInput, RunStopped
from fanfold.faces.cli.orchestrator import (
    Orchestrator,
    concurrency_option,
    leads_by_mcp,
    spent_below,
)
from fanfold.faces.cli.run import EXIT
from fanfold.faces.cli.store import store_option
from fanfold.faces.extra import missing_extra
from fanfold.journal import opening
from fanfold.observe.amounts import count, duration, usd
from fanfold.observe.closing import headline
from fanfold.observe.detail import receipt_json
from fanfold.patterns.delegate import RosterMembers, find_members, new_run
from fanfold.patterns.delegated_task import DelegatedTask, DelegationRules, delegated_task
from fanfold.patterns.orchestrate import LeadOrder, answer, lead_order
from fanfold.price import dollars
from fanfold.run.inherited import inherited
from fanfold.run.loop import on_ending_signals, run_sync
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.work.member import Event, Member, Tell
from fanfold.work.options import parse_budget
from fanfold.work.outcome import Outcome, Receipt
from fanfold.work.task import Budget

NAME = "ask"
_REMEMBERED = 20  # earlier runs that are looked at for whose turn it is


@click.command()
@click.argument("question")
@click.option("--needs", multiple=True, metavar="TAG", help="Prefer members that are good at this.")
@click.option("--member", metavar="ID", help="Only this member.")
@click.option("--local", is_flag=True, help="Only members on this machine.")
@click.option("--roster", metavar="FILE", help="The members to use.")
@click.option("--budget", metavar="USD", help="For the answer and all it delegates.")
@store_option
@click.option("--fresh", is_flag=True, help="Reuse no reply of an earlier run, delegates' too.")
@click.option("--allow-paid", is_flag=True, help="Members of tier paid may be used.")
@concurrency_option
@click.option("--json", "as_json", is_flag=True, help="Print the receipt as one JSON object.")
def ask(question: str, as_json: bool, **given: Any) -> int:
    """Ask the best orchestrator; QUESTION `-` is read from stdin."""
    if question == "-":
        question = sys.stdin.read()
    tags, member, local = given["needs"], given["member"], given["local"]
    errand = delegated_task(DelegatedTask(question, member, tags, local and member is None))
    staff = find_members(
        given["roster"], Path.cwd(), allow_paid=given["allow_paid"], at_once=given["concurrency"]
    )
    budget = Budget() if given["budget"] is None else parse_budget(given["budget"])
    settings = Settings(budget=budget, fresh=given["fresh"])
    view = AnswerView(None if as_json else _terminal())
    return run_sync(_ask(errand, AskMembers(staff, view), settings, given["store"], as_json))


async def _ask(
    errand: DelegatedTask, front: AskMembers, settings: Settings, store: str, as_json: bool
) -> int:
    rules = DelegationRules(
        front.settings.allow_paid, settings.budget.usd is not None, leading=True
    )
    who = lead_order(front.traits.values(), errand, rules, _last(store))
    if who.misfit and errand.tags:
        _say(f"nobody is good at {', '.join(errand.tags)}; another member answers")
    if who.direct:
        why = who.unable or "`can_orchestrate` in the roster"
        _say(f"nobody here can orchestrate ({why}): answered directly")
    who = _with_extra(who, front)
    # As Ctrl-C does: the orchestrator is ended too, and the books are closed
    main = asyncio.current_task()
    assert main is not None
    on_ending_signals(lambda number: main.cancel())
    outcome: Outcome | None = None
    async with new_run(NAME, front, settings, store, inherited().parent) as run:
        front.serve(run)
        try:
            outcome = await answer(run, who, errand, front, front.view.tell)
            run.set_result(outcome.value if outcome.state == "passed" else None)
        except RunStopped:
            if run.stopping is None:
                raise
        cost, _, calls = spent_below(run.store.read, run.record.no)
    assert run.closing is not None
    delegated = {"calls": calls, "cost_usd": dollars(cost)}
    if as_json:
        whole = msgspec.json.decode(receipt_json(run.closing))
        whole["member"] = None if outcome is None else outcome.member
        whole["delegated"] = delegated
        click.echo(msgspec.json.encode(whole))
    else:
        _print(run.closing, outcome, delegated, front.view)
    return EXIT[run.closing.status]


def _with_extra(who: LeadOrder, front: AskMembers) -> LeadOrder:
    """Without those who could not delegate, since the extra for it is missing. When nobody else leads
    it is refused: nothing is started, and nothing paid."""
    by_mcp = [turn for turn in who.turns if not who.direct and front.by_mcp(turn[0])]
    if not by_mcp or not (missing := missing_extra()):
        return who
    told = f"{', '.join(id for id, *_ in by_mcp)} would delegate over MCP: {missing}"
    if len(by_mcp) == len(who.turns):
        raise BadInput(told)
    _say(told)
    left = tuple(turn for turn in who.turns if turn not in by_mcp)
    return msgspec.structs.replace(who, turns=left)


def _say(line: str) -> None:
    click.echo(f"fanfold: {line}", err=True)


def _last(store: str) -> str | None:
    """Who answered the last time, in this store."""
    if not opening.exists(store):
        return None
    archive = opening.look(store)
    try:
        asks = [run.no for run in archive.read.runs() if run.name == NAME]
        for no in sorted(asks, reverse=True)[:_REMEMBERED]:
            for one in archive.read.endings(no, ("passed",), 1):
                return one.member
    finally:
        archive.close()
    return None


# ── those who are asked ──────────────────────────────────────────────────────────────────────


class AnswerView:
    """Shows an answer while it comes. It is a view only: what counts is the reply that passed."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream = stream
        self.shown = ""

    @property
    def tell(self) -> Tell | None:
        return None if self._stream is None else self._hear

    def _hear(self, event: Event) -> None:
        """A delta; or a note: tools are used, or somebody is asked, and then what another one began
        to say does not count any more."""
        if event.kind == "delta" and self._stream is not None:
            self.shown += event.text
            self._stream.write(event.text)
            self._stream.flush()
        elif event.kind == "note" and isinstance(event.data, dict):
            if "tools" in event.data:
                self.close()
                _say(event.text)
            elif "member" in event.data and self.shown:
                self.close()
                _say("that was not the answer; asking again")
            self.shown = ""

    def covers(self, text: str) -> bool:
        """The reader has seen this very text, where the answer is printed to."""
        return self._stream is sys.stdout and self.shown == text

    def close(self) -> None:
        if self.shown and self._stream is not None and not self.shown.endswith("\n"):
            self._stream.write("\n")
            self._stream.flush()


class AskMembers:
    """The members of a roster; agents that orchestrate, and commands with `delegate_args`,
    can delegate over MCP."""

    def __init__(self, staff: RosterMembers, view: AnswerView) -> None:
        self._staff, self.view = staff, view
        self.traits, self.settings, self.given = staff.traits, staff.settings, staff.given
        self._run: Run | None = None

    def serve(self, run: Run) -> None:
        self._run = run

    def by_mcp(self, id: str) -> bool:
        return leads_by_mcp(self._staff.roster.entry(id))

    def build(self, id: str) -> Member:
        entry = self._staff.roster.entry(id)
        if not self.by_mcp(id):
            return self._staff.build(id)
        leading = Orchestrator(self._staff, entry)
        leading.run = self._run
        return leading

    def missing(self, id: str) -> str:
        return self._staff.missing(id)

    def bad(self, id: str, what: str, field: str) -> BadInput:
        return self._staff.bad(id, what, field)


# ── what is printed ──────────────────────────────────────────────────────────────────────────


def _terminal() -> IO[str] | None:
    return next((one for one in (sys.stdout, sys.stderr) if one.isatty()), None)


def _print(
    receipt: Receipt, outcome: Outcome | None, delegated: dict[str, Any], view: AnswerView
) -> None:
    view.close()
    if outcome is None or outcome.state != "passed":
        reasons = () if outcome is None else outcome.reasons
        _say("; ".join(reasons) or headline(receipt.status, receipt))
        if spent := receipt.cost_usd + delegated["cost_usd"]:
            _say(f"spent: {usd(spent, at_most=receipt.cost_at_most)}")
        return
    value = outcome.value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if not view.covers(text):
        click.echo(text)
    parts = [outcome.member or "", usd(receipt.cost_usd + delegated["cost_usd"])]
    if delegated["calls"]:
        parts.append(f"{count(delegated['calls'], 'call')} delegated")
    parts.append("on record already" if outcome.reused else duration(receipt.seconds))
    _say(", ".join(parts))
