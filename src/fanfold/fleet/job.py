"""From a fleet.json to a job that can be carried out, and back to it when a run goes on."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.fleet.billing import accounts, told
from fanfold.fleet.load import load_fleet
from fanfold.fleet.money import wait_warnings
from fanfold.fleet.programs import check_programs, check_worktrees, named_programs
from fanfold.fleet.records import FILE, Fleet
from fanfold.fleet.translate import Translated, translate
from fanfold.fleet.warn import warnings_of
from fanfold.journal.facts import RunRecord
from fanfold.members.roster import Roster, load_roster, read_roster
from fanfold.plans import execute
from fanfold.plans.execute import Job, Options, Stored, refuse_changed_plan
from fanfold.plans.load import check_plan, read_plan
from fanfold.plans.plan import Graph, Plan, combined, without_lines
from fanfold.work.document import Node

STORE = ".fanfold"
_BY_START = ("program", "tier", "enabled")


class Changes(msgspec.Struct, frozen=True):
    """What a fleet's files say by now that its run was not started with. `prompts` are ids of
    workers; `settings`: anything else."""

    settings: bool = False
    prompts: tuple[str, ...] = ()


def root_of(path: str | Path) -> Path:
    """The folder of a fleet, from that or from its file."""
    found = Path(path).resolve()
    return found.parent if found.name == FILE and not found.is_dir() else found


def store_of(path: str | Path) -> str:
    """Where a fleet's runs are kept, unless the operator says otherwise."""
    return str(root_of(path) / STORE)


def prepare_fleet(
    path: str | Path, options: Options, environ: Mapping[str, str] = os.environ
) -> Job:
    """Read a fleet, check it and the programs it needs, and make a plan and a roster of it.

    With `options.roster`, members of that file stand in for the workers of their name: a rehearsal.
    """
    fleet = load_fleet(path)
    if options.roster is None:
        check_programs(fleet, environ)
        check_worktrees(fleet)
    billed = accounts(fleet, environ)
    made = translate(fleet, named_programs(environ), billed)
    plan, roster = _plan(fleet, made), _roster(fleet, made, options)
    check_plan(plan, roster)
    stored = Stored(
        plan=plan,
        roster=None if options.roster is None else str(Path(options.roster).absolute()),
        spool=secrets.token_hex(8),
        allow_paid=options.allow_paid,
        fresh=options.fresh,
        members=made.roster if options.roster is None else None,
        kind="fleet",
    )
    job = Job(
        stored=stored, roster=roster, budget=combined(plan.budget, options.budget),
        options=options, name=options.name or fleet.name,
    )  # fmt: skip
    warnings = (*warnings_of(fleet), *wait_warnings(job), *told(fleet, billed))
    return msgspec.structs.replace(job, warnings=warnings)


def planned(fleet: Fleet) -> Plan:
    """The plan alone; for a fleet whose prompts were not read, with the tasks in their place."""
    workers = tuple(
        msgspec.structs.replace(one, prompt=one.prompt or one.task or one.id)
        for one in fleet.workers
    )
    fleet = msgspec.structs.replace(fleet, workers=workers)
    return _plan(fleet, translate(fleet))


def _plan(fleet: Fleet, made: Translated) -> Plan:
    return read_plan(Node(made.plan, fleet.file, made.plan_lines), Path(fleet.root))


def _roster(fleet: Fleet, made: Translated, options: Options) -> Roster:
    if options.roster is not None:
        return load_roster(options.roster)
    return read_roster(Node(made.roster, fleet.file, made.roster_lines))


# ── going on ─────────────────────────────────────────────────────────────────────────────────


def prepare_resume(name: str, options: Options) -> Job:
    """A run of a plan or of a fleet; files that say something else by now are refused."""
    return execute.prepare_resume(name, options, refuse_changed)


def refuse_changed(stored: Stored, record: RunRecord) -> None:
    if stored.kind != "fleet":
        refuse_changed_plan(stored, record)
        return
    found, root = changes(stored), stored.plan.folder
    if found.settings:
        raise BadInput(
            f"{stored.plan.file} has changed since {record.name} was started;"
            f" start anew with: fanfold launch {root} --force-relaunch"
        )
    for worker in found.prompts:
        raise BadInput(
            f"workers/{worker}/prompt.md has changed since {record.name} was started; to run it with"
            f" the new one: fanfold relaunch {record.name} {worker}"
        )


def changes(stored: Stored) -> Changes:
    """A fleet.json that is gone does no harm, nor does a prompt: the run has its own copy."""
    file = Path(stored.plan.folder) / FILE
    if not file.exists():
        return Changes()
    before = {task.id: task.prompt or "" for task in _graph(stored.plan).tasks}
    fleet = load_fleet(file, before)
    made = translate(fleet)
    then, now = _bare(stored.plan), _bare(_plan(fleet, made))
    prompts = [one.id for one in fleet.workers if before.get(one.id, one.prompt) != one.prompt]
    same = then == now and _members(stored.members, made.roster)
    return Changes(not same, tuple(prompts))


def _members(then: dict[str, Any] | None, now: dict[str, Any]) -> bool:
    """Are they the same? Which program is started for them, and who pays, follows from the
    environment of the start."""
    if then is None:
        return True
    return bool(_by_the_file(then) == _by_the_file(now))


def _by_the_file(roster: dict[str, Any]) -> Any:
    members = [{k: v for k, v in one.items() if k not in _BY_START} for one in roster["members"]]
    return msgspec.json.decode(msgspec.json.encode(members))


def _graph(plan: Plan) -> Graph:
    (step,) = plan.steps
    assert isinstance(step, Graph)
    return step


def _bare(plan: Plan) -> Plan:
    """Without prompts, which are looked at one by one, and without places in the file; nor with the
    samples by which a worker is carried out once more."""
    step = _graph(plan)
    tasks = tuple(
        msgspec.structs.replace(task, prompt=None, verbatim=True, sample=0) for task in step.tasks
    )
    bare = msgspec.structs.replace(step, tasks=tasks)
    made = msgspec.structs.replace(plan, file="", steps=(bare,))
    return msgspec.json.decode(msgspec.json.encode(without_lines(made)), type=Plan)
