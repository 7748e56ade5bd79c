"""A fleet as a plan and a roster: plain data in our own formats."""

from __future__ import annotations

from pathlib import Path

from fanfold.fleet.job import translate
from fanfold.fleet.load import load_fleet
from fanfold.members.roster import read_roster
from fanfold.plans.load import check_plan, read_plan
from fanfold.work.document import Node
from fanfold.work.task import Budget
from tests.unit.fleet.fleets import worker, write_fleet, write_prompt

CONFIG = {
    "max_concurrent": 2, "launch_delay_seconds": 0, "max_budget_fleet": 2.5,
    "reasoning_effort": "high", "silence_seconds": 90,
}  # fmt: skip
WORKERS = [
    worker("a", type="read-only", max_turns=9, timeout_seconds=60),
    worker("b", type="read-only", isolation="worktree"),
    worker("c", "a", "b", provider="codex", model="gpt-5.4", max_budget_usd=0.5),
]


def test_a_plan_of_one_graph_and_a_member_for_each_worker(tmp_path: Path) -> None:
    root = write_fleet(tmp_path, WORKERS, fleet_name="night", config=CONFIG)
    write_prompt(root, "a", "{{ same }}")
    write_prompt(root, "b", "{{ same }}")
    made = translate(load_fleet(root), {"codex": "my-codex"})
    here = str(tmp_path.resolve())
    save = f"Save ALL output files to {here}/workers/c/output/ — use absolute paths."
    assert made.plan == {
        "name": "night",
        "budget": {"usd": 2.5},
        "steps": [{"graph": {
            "name": "fleet", "concurrency": 2, "delay": 0.0, "revise": 0,
            "tasks": [
                {"id": "a", "prompt": "{{ same }}", "verbatim": True, "member": "a",
                 "depends_on": []},
                {"id": "b", "prompt": "{{ same }}", "verbatim": True, "member": "b",
                 "depends_on": [], "sample": 1000},
                {"id": "c", "prompt": f"Do c.\n{save}\n", "verbatim": "parents", "member": "c",
                 "depends_on": ["a", "b"]},
            ],
        }}],
    }  # fmt: skip
    common = {"folder": here, "tier": "subscription", "limits": {"concurrency": 1}, "silence": 90.0}
    claude = {**common, "kind": "claude", "type": "read-only", "model": "sonnet",
              "fallback_model": "haiku", "max_budget_usd": 1.0}  # fmt: skip
    assert made.roster == {"members": [
        {**claude, "id": "a", "place": "workers/a", "isolation": "none", "max_turns": 9,
         "timeout": 60.0},
        {**claude, "id": "b", "place": "workers/b", "isolation": "worktree"},
        {**common, "id": "c", "kind": "codex", "type": "write", "model": "gpt-5.4",
         "effort": "high", "max_budget_usd": 0.5, "place": "workers/c", "isolation": "none",
         "program": "my-codex"},
    ]}  # fmt: skip


def test_the_ordinary_readers_take_both(tmp_path: Path) -> None:
    root = write_fleet(tmp_path, WORKERS, config=CONFIG)
    fleet = load_fleet(root)
    made = translate(fleet)
    plan = read_plan(Node(made.plan, fleet.file, made.plan_lines), root)
    roster = read_roster(Node(made.roster, fleet.file, made.roster_lines))
    check_plan(plan, roster)
    assert (plan.name, plan.budget, plan.file) == ("fleet", Budget(usd=2.5), fleet.file)
    (graph,) = plan.steps
    assert [task.line for task in graph.tasks] == [4, 5, 6]  # type: ignore[union-attr]
    assert list(roster.entries) == ["a", "b", "c"]
    traits = roster.entries["c"].traits
    assert (traits.kind, traits.model, traits.tier, traits.limits.concurrency) == (
        "codex", "gpt-5.4", "subscription", 1,
    )  # fmt: skip


def test_without_a_budget_there_is_none(tmp_path: Path) -> None:
    made = translate(load_fleet(write_fleet(tmp_path, [worker("a")])))
    assert "budget" not in made.plan
    assert made.plan["steps"][0]["graph"]["concurrency"] == 5
    assert made.plan["steps"][0]["graph"]["delay"] == 3.0
