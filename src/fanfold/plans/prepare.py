"""What is read and checked before a run starts: a plan file, or what an earlier run was started with."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from fanfold.errors import BadInput
from fanfold.journal import opening
from fanfold.journal.answers import decoded
from fanfold.journal.damage import damage_is_named
from fanfold.journal.facts import RunRecord
from fanfold.journal.questions import ReportQuestions
from fanfold.members.roster import DEFAULT_ROSTER, Roster, find_roster, load_roster, read_roster
from fanfold.plans.header import Overrides, run_command
from fanfold.plans.inputs import is_stream, open_input
from fanfold.plans.load import check_plan, load_plan, with_commands
from fanfold.plans.plan import Plan, budget_names, comparable
from fanfold.plans.schema_words import schema_warnings
from fanfold.price import dollars, nanos
from fanfold.run.inherited import USUAL, store_words
from fanfold.run.settings import Govern
from fanfold.work.budget import combined
from fanfold.work.document import Node, read
from fanfold.work.nearest import remedy
from fanfold.work.task import Budget


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line may add to a plan. `step_budgets`: for single steps, by name.
    `parent`: the span in whose process it is run. `notify`: the hook of the run, see `observe/notify`.
    `tags`: besides those of the plan. `shares`: so many processes of this machine carry it out together;
    None: one, which nobody may join. `taken_over`: it goes on because the process that led it has died.

    Of an earlier run: `anew` are items whose outcomes are dropped, and with `only` just these are
    carried out while all others stay as they are.
    """

    store: str = ".fanfold"
    parent: str | None = None
    roster: str | None = None
    budget: Budget | None = None
    step_budgets: dict[str, Budget] = {}
    name: str | None = None
    fresh: bool = False
    allow_paid: bool = False
    allow_outside: bool = False
    retry_in_doubt: frozenset[str] | None = frozenset()
    yes: bool = False
    max_tasks: int | None = None
    approve_over: float | None = None
    cap: int | None = None
    anew: frozenset[str] = frozenset()
    only: bool = False
    overrides: Overrides = Overrides()
    notify: str | None = None
    tags: tuple[str, ...] = ()
    shares: int | None = None
    taken_over: bool = False

    def taking_over(self) -> Options:
        """What was said of the budget and of items to be done anew was for the start."""
        return msgspec.structs.replace(
            self, budget=None, step_budgets={}, anew=frozenset(), only=False, taken_over=True
        )

    def governing(self, stated: Govern) -> Govern:
        """What the command line says of stages that nobody could foresee goes before the plan."""
        said = {name: getattr(self, name) for name in ("max_tasks", "approve_over", "cap")}
        said = {name: amount for name, amount in said.items() if amount is not None}
        governing: Govern = msgspec.structs.replace(stated, yes=self.yes, **said)
        return governing


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was started with; `resume` uses this, not the files of now. `roster` is None for
    fanfold's own, wherever it is installed then. `members`: the roster itself, for what brings its
    own along, such as a fleet."""

    plan: Plan
    roster: str | None
    spool: str
    allow_paid: bool = False
    fresh: bool = False
    members: dict[str, Any] | None = None
    kind: Literal["plan", "fleet"] = "plan"


_ROUND = re.compile(r"#\d+")
_stored = msgspec.json.Decoder(Stored).decode
_budget = msgspec.json.Decoder(Budget).decode


def stored_with(record: RunRecord) -> Stored:
    """What a run of a plan was started with. StoreError: it cannot be read; of a script there is none."""
    return decoded(_stored, record.plan, f"what run {record.name} was started with")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Everything is read and checked: it can start. `record` is the earlier run of a resume;
    `warnings` are for the operator, before anything is paid for."""

    stored: Stored
    roster: Roster
    budget: Budget
    options: Options
    name: str
    record: RunRecord | None = None
    warnings: tuple[str, ...] = ()


Unchanged: TypeAlias = Callable[[Stored, RunRecord], None]
"""Refuses a run whose files say something else by now than when it was started."""


def prepare(path: str, options: Options) -> Job:
    """Read the plan and its roster, and check one against the other."""
    plan = load_plan(path, allow_outside=options.allow_outside, overrides=options.overrides)
    found = find_roster(options.roster, plan.roster, plan.folder)
    if plan.roster and not options.roster and not found.exists():
        raise read(path).child("roster").bad(f"`roster` {plan.roster}: no such file")
    roster = with_commands(plan, load_roster(found))
    check_plan(plan, roster)
    stored = Stored(
        plan=plan,
        roster=None if found == DEFAULT_ROSTER else str(found.absolute()),
        spool=secrets.token_hex(8),
        allow_paid=options.allow_paid,
        fresh=options.fresh,
    )
    stored = _allowing(stored, options.step_budgets)
    budget = combined(plan.budget, options.budget)
    return Job(
        stored=stored, roster=roster, budget=budget, options=options,
        name=options.name or _usual_name(plan), warnings=schema_warnings(plan),
    )  # fmt: skip


def _usual_name(plan: Plan) -> str:
    """A run over the first items only is known as that."""
    limit = plan.overrides.limit
    return plan.name if limit is None else f"{plan.name}-first-{limit}"


def refuse_changed_plan(stored: Stored, record: RunRecord, store: str = USUAL) -> None:
    """A plan file that is gone does no harm: the run has its own copy. `store`: for the command."""
    plan, words = stored.plan, store_words(store)
    file = Path(plan.folder) / Path(plan.file).name
    if file.exists() and comparable(_read_again(file, plan)) != comparable(plan):
        raise BadInput(
            f"{plan.file} has changed since {record.name} was started;"
            f" start a new run with: {run_command(plan)}{words} (it reuses what is unchanged)"
        )


def _read_again(file: Path, plan: Plan) -> Plan:
    return load_plan(file, allow_outside=plan.allow_outside, overrides=plan.overrides)


def prepare_resume(name: str, options: Options, unchanged: Unchanged = refuse_changed_plan) -> Job:
    """Find the run, and make sure that what it was started with still holds."""
    archive = opening.look(options.store)
    try:
        with damage_is_named(archive):
            record = archive.read.find(name)
            if record is None:
                see = f"fanfold status{store_words(options.store)}"
                raise BadInput(f"no run {name!r} in {options.store}; see: {see}")
            spent = _spent(archive.read, record)
            _refuse_unknown_ids(archive.read, record, options)
    finally:
        archive.close()
    if not record.plan:
        raise BadInput(f"{name} was started by a script; run the script again to continue")
    stored = stored_with(record)
    unchanged(stored, record)
    roster = with_commands(stored.plan, stored_roster(stored, options))
    check_plan(stored.plan, roster)
    stored = _allowing(stored, options.step_budgets)
    for step, allowed in options.step_budgets.items():
        _refuse_less_than_spent(allowed, _most_spent(spent, step, stored.plan), f"{step}.usd=")
    before = decoded(_budget, record.budget, f"the budget of run {record.name}")
    budget = combined(before, options.budget)
    if options.budget is not None:
        _refuse_less_than_spent(options.budget, sum(spent.values()))
    return Job(
        stored=stored, roster=roster, budget=budget, options=options, name=record.name,
        record=record,
    )  # fmt: skip


def revised(job: Job, stored: Stored) -> Job:
    """The same, but what the run was started with is changed, at the operator's word."""
    roster = with_commands(stored.plan, stored_roster(stored, job.options))
    check_plan(stored.plan, roster)
    return msgspec.structs.replace(job, stored=stored, roster=roster)


def stored_roster(stored: Stored, options: Options) -> Roster:
    if options.roster is None and stored.members is not None:
        return read_roster(Node(stored.members, stored.plan.file, {}))
    return load_roster(options.roster or stored.roster or DEFAULT_ROSTER)


def _refuse_unknown_ids(read: ReportQuestions, record: RunRecord, options: Options) -> None:
    """Only what is in doubt can be repeated; a slip of the pen must not pass for a decision."""
    if ids := options.retry_in_doubt:
        store = store_words(options.store)
        doubtful = {one.id for one in read.endings(record.no, ("in_doubt",), limit=1_000_000)}
        for id in sorted(ids - doubtful):
            raise BadInput(
                f"item {id!r} of {record.name} is not in doubt; see: fanfold status {record.id}{store} -v"
            )


def drop_spool(spool: Path) -> None:
    """Of a run that was refused: nobody will read it again."""
    shutil.rmtree(spool, ignore_errors=True)


def keep_input(job: Job) -> None:
    """Items on stdin are read now: the process that carries the run out has another one."""
    plan = job.stored.plan
    if job.record is None and plan.input is not None and is_stream(plan.input):
        spool = opening.spool(job.options.store) / job.stored.spool
        try:
            open_input(plan.input, plan.folder, spool=spool)
        except BadInput:
            drop_spool(spool)
            raise


def _spent(read: ReportQuestions, record: RunRecord) -> dict[str, int]:
    """Nano-dollars, by step."""
    names = read.step_names(record.no)
    return {names[no]: spent.cost for no, spent in read.spent(record.no).items()}


def _most_spent(spent: dict[str, int], step: str, plan: Plan) -> int:
    """By what has this budget: each round of a repeat, the votes, and to whom questions were escalated."""
    names = budget_names(plan)
    return max((cost for name, cost in spent.items() if _stated_as(name, names) == step), default=0)


def _stated_as(name: str, names: list[str]) -> str:
    """`vote` for `vote#2.escalate`, as far as that has no budget of its own."""
    name = _ROUND.sub("", name)
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name


def _refuse_less_than_spent(budget: Budget, spent: int, name: str = "") -> None:
    if budget.usd is not None and nanos(budget.usd) < spent:
        raise BadInput(
            f"--budget {name}{budget.usd:g} is below what is spent already (${dollars(spent):.6f});"
            " it is the new total, so give more than that"
        )


def _allowing(stored: Stored, budgets: dict[str, Budget]) -> Stored:
    """With other budgets for some of its steps."""
    if not budgets:
        return stored
    names = budget_names(stored.plan)
    for name in budgets:
        if name not in names:
            raise BadInput(
                f"--budget: no step `{name}` in {stored.plan.file}: {remedy(name, names)}"
            )
    before = stored.plan.step_budgets
    allowed = {name: combined(before.get(name, Budget()), more) for name, more in budgets.items()}
    plan = msgspec.structs.replace(stored.plan, step_budgets={**before, **allowed})
    return msgspec.structs.replace(stored, plan=plan)
