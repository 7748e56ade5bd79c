"""A fleet as a plan of one graph, and a roster with one member for each worker.

Both are plain data, in the form in which plans and rosters are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from fanfold.fleet.preflight import Accounts
from fanfold.fleet.records import Fleet, Provider, WorkerSpec
from fanfold.work.document import Lines, Place

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
        paid = made["kind"] in (billed or {})
        made |= {"tier": "paid", "enabled": True} if paid else {"tier": "subscription"}
    roster: dict[str, Any] = {"members": members}
    if billed:
        roster["settings"] = {"allow_paid": True}
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
        "overrun": None if fleet.config.overrun == "reserve" else fleet.config.overrun,
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
