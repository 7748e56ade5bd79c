"""From a fleet.json to a plan of one graph and a job that can be run, and the changes in it when a run
is resumed."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.fleet.load import load_fleet, outline
from fanfold.fleet.preflight import (
    Accounts,
    accounts,
    billing_notices,
    check_programs,
    check_worktrees,
    named_programs,
    wait_warnings,
    warnings_of,
)
from fanfold.fleet.records import FILE, Fleet, Provider, WorkerSpec
from fanfold.journal.answers import decoded
from fanfold.journal.facts import RunRecord
from fanfold.members.roster import Roster, load_roster, read_roster
from fanfold.plans import prepare
from fanfold.plans.load import check_plan, read_plan
from fanfold.plans.plan import Plan, without_places
from fanfold.plans.prepare import Job, Options, Stored, refuse_changed_plan
from fanfold.plans.steps.graph import Graph
from fanfold.work.budget import combined
from fanfold.work.document import Lines, Node, Place
from fanfold.work.files import resolved
from fanfold.work.task import Budget

STORE = ".fanfold"
_budget = msgspec.json.Decoder(Budget).decode
_BY_START = ("program", "tier", "enabled")
_STATED_AS = {
    "kind": "provider", "effort": "reasoning_effort", "silence": "silence_seconds",
    "timeout": "timeout_seconds",
}  # fmt: skip


class Changes(msgspec.Struct, frozen=True):
    """What was changed in the files of a fleet since its run was started. `prompts` are ids of
    workers, `workers` the fields of single ones, `budget` is `max_budget_fleet`; `settings`: anything
    else, which needs a new run."""

    settings: bool = False
    budget: bool = False
    workers: dict[str, tuple[str, ...]] = {}
    prompts: tuple[str, ...] = ()


def root_of(path: str | Path) -> Path:
    """The folder of a fleet, from that or from its file."""
    found = resolved(path)
    return found.parent if found.name == FILE and not found.is_dir() else found


def store_of(path: str | Path) -> str:
    """Where a fleet's runs are kept, unless the operator names another store."""
    return str(root_of(path) / STORE)


def prepare_fleet(
    path: str | Path, options: Options, environ: Mapping[str, str] = os.environ
) -> Job:
    """Read a fleet, check it and the programs it needs, and make a plan and a roster of it.

    With `options.roster`, members of that file replace the workers of the same name: a rehearsal.
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
    warnings = (*warnings_of(fleet), *wait_warnings(job), *billing_notices(fleet, billed))
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


def offered_by(path: str | Path, environ: Mapping[str, str] = os.environ) -> Roster:
    """The members that a worker offers which has a copy of a fleet.json: its workers, wherever the file
    says that they run. Prompts, files and repositories come with their asks."""
    fleet = outline(path)
    made = translate(fleet, named_programs(environ), accounts(fleet, environ))
    for member in made.roster["members"]:
        for field in ("at", "place", "folder", "isolation", "inputs", "remote", "session"):
            member.pop(field, None)
    made.roster["settings"] = {"allow_paid": True}
    return read_roster(Node(made.roster, fleet.file, made.roster_lines))


# ── resuming ─────────────────────────────────────────────────────────────────────────────────


def prepare_resume(name: str, options: Options) -> Job:
    """A run of a plan or of a fleet; files that say something else by now are refused. A total that
    the operator names goes before the one in the file."""
    return prepare.prepare_resume(
        name, options, lambda stored, record: refuse_changed(stored, record, options)
    )


def refuse_changed(stored: Stored, record: RunRecord, options: Options = Options()) -> None:
    """The error names the smallest step that suffices: what has passed is not to be paid again."""
    if stored.kind != "fleet":
        refuse_changed_plan(stored, record, options.store)
        return
    found, plan, name = changes(stored), stored.plan, record.name
    since = f"changed since {name} was started"
    if found.settings:
        raise BadInput(
            f"{plan.file} has {since}; start a new run with: fanfold launch {plan.folder} --force-relaunch"
        )
    if found.workers:
        raise BadInput(f"{plan.file}: {_changed_text(found.workers, since)} fanfold relaunch {name}"
                       f" {next(iter(found.workers))}")  # fmt: skip
    for worker in found.prompts:
        raise BadInput(
            f"workers/{worker}/prompt.md has {since}; to run it with the new one:"
            f" fanfold relaunch {name} {worker}"
        )
    if found.budget and options.budget is None:
        _refuse_budget(stored, record, since)


def _changed_text(workers: Mapping[str, tuple[str, ...]], since: str) -> str:
    fields = dict.fromkeys(f"`{name}`" for names in workers.values() for name in names)
    ids = [f"`{id}`" for id in workers]
    more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
    whose = f"worker {ids[0]}" if len(ids) == 1 else f"workers {', '.join(ids[:5])}{more}"
    again = "to run it with that:" if len(ids) == 1 else "to run them with that, one by one:"
    return f"{', '.join(fields)} of {whose} has {since}; {again}"


def _refuse_budget(stored: Stored, record: RunRecord, since: str) -> None:
    """Unless that is what it has by now: an operator has raised it before."""
    plan = stored.plan
    now = load_fleet(Path(plan.folder) / FILE, _prompts(stored)).config.max_budget_fleet
    if now and decoded(_budget, record.budget, f"the budget of run {record.name}").usd == now:
        return
    raise BadInput(
        f"{plan.file}: `max_budget_fleet` has {since}; to continue with a new total:"
        f" fanfold resume {plan.folder} --budget {f'{now:g}' if now else 'TOTAL'}"
    )


def changes(stored: Stored) -> Changes:
    """None where fleet.json was deleted; a prompt that was deleted is the same: the run has its own copy."""
    file = Path(stored.plan.folder) / FILE
    if not file.exists():
        return Changes()
    before = _prompts(stored)
    fleet = load_fleet(file, before)
    made = translate(fleet)
    now = _plan(fleet, made)
    prompts = [one.id for one in fleet.workers if before.get(one.id, one.prompt) != one.prompt]
    if _bare(stored.plan) != _bare(now):
        return Changes(settings=True, prompts=tuple(prompts))
    return Changes(
        budget=stored.plan.budget != now.budget,
        workers=_workers(stored, now, made.roster),
        prompts=tuple(prompts),
    )


def _prompts(stored: Stored) -> dict[str, str]:
    return {task.id: task.prompt or "" for task in _graph(stored.plan).tasks}


def _workers(stored: Stored, now: Plan, roster: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Fields of workers that are not as they were. Which program is started for them, and who pays,
    follows from the environment of the start."""
    found: dict[str, list[str]] = {}
    for before, after in zip(_graph(stored.plan).tasks, _graph(now).tasks, strict=True):
        found[before.id] = [] if before.partial == after.partial else ["partial"]
    then = roster if stored.members is None else stored.members
    for before, after in zip(_without_environment(then), _without_environment(roster), strict=True):
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        found[after["id"]] += [_STATED_AS.get(name, name) for name in names]
    return {id: tuple(names) for id, names in found.items() if names}


def _without_environment(roster: dict[str, Any]) -> Any:
    members = [{k: v for k, v in one.items() if k not in _BY_START} for one in roster["members"]]
    return msgspec.json.decode(msgspec.json.encode(members))


def _graph(plan: Plan) -> Graph:
    (step,) = plan.steps
    assert isinstance(step, Graph)
    return step


def _bare(plan: Plan) -> Plan:
    """Without budget, prompts and other fields of workers, which are looked at one by one, and without
    places in the file; nor with the samples by which a worker is run once more."""
    step = _graph(plan)
    same: dict[str, Any] = {"prompt": None, "verbatim": True, "partial": False, "sample": 0}
    tasks = tuple(msgspec.structs.replace(task, **same) for task in step.tasks)
    bare = msgspec.structs.replace(step, tasks=tasks)
    made = msgspec.structs.replace(plan, steps=(bare,), budget=Budget())
    return msgspec.json.decode(msgspec.json.encode(without_places(made)), type=Plan)


# ── a fleet as a plan, and a roster with one member for each worker ──────────────────────────

STEP = "fleet"
APART = 1000  # between the samples of workers with the same prompt; relaunching counts up by one


class Translated(msgspec.Struct, frozen=True):
    """The lines are those of the fleet.json, so that an error names the right one."""

    plan: dict[str, Any]
    roster: dict[str, Any]
    plan_lines: Lines = {}
    roster_lines: Lines = {}


def translate(
    fleet: Fleet, programs: Mapping[Provider, str] | None = None, billed: Accounts | None = None
) -> Translated:
    """`programs`: what to start for a provider, where it is not found by its own name. Workers of
    providers that are `billed` to a key are paid: starting the fleet allows that."""
    config = fleet.config
    graph: dict[str, Any] = {
        "name": STEP,
        "concurrency": config.max_concurrent,
        "delay": config.launch_delay_seconds,
        "revise": 0,
        "tasks": _tasks(fleet),
    }
    plan: dict[str, Any] = {"name": fleet.name, "steps": [{"graph": graph}]}
    if config.max_budget_fleet:
        plan["budget"] = {"usd": config.max_budget_fleet}
    members = [_member(fleet, one, programs or {}) for one in fleet.workers]
    for made in members:
        here = "at" not in made or config.billing == "api"
        paid = here and made["kind"] in (billed or {})
        made |= {"tier": "paid", "enabled": True} if paid else {"tier": "subscription"}
    roster: dict[str, Any] = {"members": members}
    settings: dict[str, Any] = {"allow_paid": True} if billed else {}
    if config.queue is not None:
        settings |= {"queue": config.queue}
    if settings:
        roster["settings"] = settings
    tasks = _lines(fleet, ("steps", 0, "graph", "tasks"), graph["tasks"])
    return Translated(plan, roster, tasks, _lines(fleet, ("members",), members))


def _lines(fleet: Fleet, place: Place, made: list[dict[str, Any]]) -> Lines:
    """Where each of the made ones comes from: the line of its worker, or of the field there."""
    found: Lines = {}
    for n, (worker, one) in enumerate(zip(fleet.workers, made, strict=True)):
        found[*place, n] = worker.line
        for field in one:
            found[*place, n, field] = worker.stated.get(field, worker.line)
    return found


def _tasks(fleet: Fleet) -> list[dict[str, Any]]:
    """Workers with the same prompt are different samples, or one reply would be used for all."""
    seen: Counter[str] = Counter()
    tasks = []
    for one in fleet.workers:
        task: dict[str, Any] = {
            "id": one.id,
            "prompt": one.prompt,
            "verbatim": "parents" if one.depends_on else True,
            "member": one.id,
            "depends_on": list(one.depends_on),
        }
        if one.partial:
            task["partial"] = one.partial
        if seen[one.prompt]:
            task["sample"] = APART * seen[one.prompt]
        seen[one.prompt] += 1
        tasks.append(task)
    return tasks


def _member(fleet: Fleet, one: WorkerSpec, programs: Mapping[Provider, str]) -> dict[str, Any]:
    codex = one.provider == "codex"
    stated = {
        "model": one.model,
        "fallback_model": one.fallback_model,
        "effort": one.reasoning_effort if codex else None,
        "max_turns": one.max_turns or None,
        "silence": one.silence_seconds or None,
        "timeout": one.timeout_seconds or None,
        "program": programs.get(one.provider),
        "session": one.session,
        "overrun": None if fleet.config.overrun == "reserve" else fleet.config.overrun,
        "at": None if one.at is None else msgspec.to_builtins(one.at),
        "inputs": list(one.inputs) or None,
        "remote": one.remote,
    }
    return {
        "id": one.id,
        "kind": one.provider,
        "type": one.type,
        "max_budget_usd": one.max_budget_usd,
        "place": f"workers/{one.id}",
        "folder": fleet.root,
        "isolation": one.isolation,
        "limits": {"concurrency": 1},
        **{name: value for name, value in stated.items() if value is not None},
    }
