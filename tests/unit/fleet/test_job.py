"""A fleet carried out and gone on with, with stand-in programs as its workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.errors import BadInput
from fanfold.fleet.job import (
    Changes,
    changes,
    planned,
    prepare_fleet,
    prepare_resume,
    refuse_changed,
    root_of,
    store_of,
)
from fanfold.fleet.load import outline
from fanfold.journal import opening
from fanfold.journal.facts import RunRecord
from fanfold.members.agents.fields import AgentFields
from fanfold.plans.prepare import Options, Stored, prepare
from fanfold.work.task import Budget
from tests.flow.small_plans import executed
from tests.unit.fleet.fleets import worker, write_fleet, write_prompt

WORKERS = [worker("a"), worker("b"), worker("c", "a", "b")]
QUICK = {"launch_delay_seconds": 0}
STAND_INS = """\
members:
  - {id: a, kind: command, cmd: [cat], price: {call: 0}}
  - {id: b, kind: command, cmd: [sh, "-c", "cat >/dev/null; test -e ok && echo b done"], price: {call: 0}}
  - {id: c, kind: command, cmd: [cat], price: {call: 0}}
"""
NOBODY = {"PATH": ""}


def written(root: Path, **top: Any) -> Path:
    write_fleet(root, WORKERS, **{"fleet_name": "night", "config": QUICK, **top})
    (root / "stand-ins.yaml").write_text(STAND_INS)
    return root


def rehearsal(root: Path, **more: Any) -> Options:
    return Options(store=store_of(root), roster=str(root / "stand-ins.yaml"), **more)


def stored(root: Path) -> Stored:
    archive = opening.look(store_of(root))
    try:
        record = archive.read.find("night")
        assert record is not None
        return msgspec.json.decode(record.plan, type=Stored)
    finally:
        archive.close()


def test_it_runs_as_a_graph_and_leaves_its_runs_beside_it(tmp_path: Path) -> None:
    root = written(tmp_path / "f")
    (root / "ok").touch()
    receipt = executed(prepare_fleet(root, rehearsal(root)))
    assert (receipt.name, receipt.status, receipt.planned, receipt.passed) == (
        "night", "complete", 3, 3,
    )  # fmt: skip
    here = root.resolve()
    told = f"Do a.\nSave ALL output files to {here}/workers/a/output/ — use absolute paths.\n"
    assert receipt.result["a"] == told.rstrip("\n")
    assert [step.name for step in receipt.steps] == ["fleet"]
    assert stored(root).kind == "fleet"
    assert (root / "fleet.json").read_text() == (written(tmp_path / "g") / "fleet.json").read_text()


def test_a_failed_parent_fails_what_depends_on_it(tmp_path: Path) -> None:
    receipt = executed(prepare_fleet(written(tmp_path), rehearsal(tmp_path)))
    assert (receipt.status, receipt.passed, receipt.failed) == ("flagged", 1, 2)
    assert sorted(receipt.result) == ["a"]


def test_a_stopped_one_goes_on_with_what_it_was_started_with(tmp_path: Path) -> None:
    root = written(tmp_path)
    (root / "ok").touch()
    first = executed(prepare_fleet(root, rehearsal(root, budget=Budget(calls=1))))
    assert (first.status, first.passed, first.unfunded) == ("paused", 1, 2)
    options = Options(store=store_of(root), budget=Budget(calls=9))
    again = executed(prepare_resume("night", options))
    assert (again.status, again.passed, again.calls) == ("complete", 3, 2)


# ── the workers themselves ───────────────────────────────────────────────────────────────────


def installed(folder: Path, *names: str) -> dict[str, str]:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


def test_a_job_holds_plan_and_roster_so_that_it_can_be_stored(tmp_path: Path) -> None:
    root = written(tmp_path / "f", config={**QUICK, "max_budget_fleet": 9, "record": True})
    environ = installed(tmp_path / "bin", "claude")
    job = prepare_fleet(root / "fleet.json", Options(budget=Budget(calls=7), name="x"), environ)
    assert (job.name, job.budget) == ("x", Budget(usd=9.0, calls=7))
    assert job.warnings == ("`record` is ignored: every worker's log is kept, see `fanfold view`",)
    kept = msgspec.json.decode(msgspec.json.encode(job.stored), type=Stored)
    assert (kept.kind, kept.roster, kept.plan) == ("fleet", None, job.stored.plan)
    assert kept.members is not None
    assert [(one["id"], one["kind"], one["place"]) for one in kept.members["members"]] == [
        ("a", "claude", "workers/a"), ("b", "claude", "workers/b"), ("c", "claude", "workers/c"),
    ]  # fmt: skip
    assert list(job.roster.entries) == ["a", "b", "c"]


def test_a_program_that_is_not_there_is_refused_and_nothing_touched(tmp_path: Path) -> None:
    root = written(tmp_path)
    before = sorted(root.rglob("*"))
    with pytest.raises(BadInput, match="worker `a` needs the program claude"):
        prepare_fleet(root, Options(store=store_of(root)), NOBODY)
    assert sorted(root.rglob("*")) == before


def test_a_stand_in_that_is_not_there_is_refused(tmp_path: Path) -> None:
    root = written(tmp_path)
    (root / "stand-ins.yaml").write_text(STAND_INS.replace("id: c", "id: d"))
    with pytest.raises(BadInput) as raised:
        prepare_fleet(root, rehearsal(root))
    assert str(raised.value) == (
        f"{root}/fleet.json:7: there is no member `c` in the roster: known: a, b, d"
    )


def test_the_shape_alone_as_a_plan(tmp_path: Path) -> None:
    root = written(tmp_path)
    plan = planned(outline(root))
    assert [task.id for task in plan.steps[0].tasks] == ["a", "b", "c"]  # type: ignore[union-attr]


def test_where_a_fleet_is(tmp_path: Path) -> None:
    root = written(tmp_path / "f")
    assert root_of(root) == root_of(root / "fleet.json") == root.resolve()
    assert store_of(root / "fleet.json") == str(root.resolve() / ".fanfold")


# ── what changed since ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def paused(tmp_path: Path) -> Path:
    """A run that is not over: one worker is done."""
    root = written(tmp_path)
    executed(prepare_fleet(root, rehearsal(root, budget=Budget(calls=1))))
    return root


def refused(root: Path) -> str:
    with pytest.raises(BadInput) as raised:
        prepare_resume("night", Options(store=store_of(root)))
    return str(raised.value)


def test_nothing_changed_when_only_the_form_did(paused: Path) -> None:
    """Spaces, and what the original writes back."""
    file = paused / "fleet.json"
    told = msgspec.json.decode(file.read_bytes())
    told["status"], told["workers"][0]["status"] = "running", "running"
    file.write_text(msgspec.json.format(msgspec.json.encode(told), indent=4).decode())
    assert changes(stored(paused)) == Changes()
    prepare_resume("night", Options(store=store_of(paused)))


def test_a_changed_fleet_is_refused(paused: Path) -> None:
    file = paused / "fleet.json"
    file.write_text(file.read_text().replace('"launch_delay_seconds": 0', '"max_concurrent": 1'))
    assert changes(stored(paused)) == Changes(settings=True)
    assert refused(paused) == (
        f"{file} has changed since night was started;"
        f" start a new run with: fanfold launch {paused.resolve()} --force-relaunch"
    )


def test_a_changed_prompt_is_refused_with_the_way_to_run_it(paused: Path) -> None:
    write_prompt(paused, "c", "Do something else.")
    assert changes(stored(paused)) == Changes(prompts=("c",))
    assert refused(paused) == (
        "workers/c/prompt.md has changed since night was started; to run it with the new one:"
        " fanfold relaunch night c"
    )


def test_another_sample_is_no_change(paused: Path) -> None:
    """A worker that was carried out once more."""
    kept = stored(paused)
    (step,) = kept.plan.steps
    tasks = [msgspec.structs.replace(task, sample=3) for task in step.tasks]  # type: ignore[union-attr]
    plan = msgspec.structs.replace(
        kept.plan, steps=(msgspec.structs.replace(step, tasks=tuple(tasks)),)
    )
    assert changes(msgspec.structs.replace(kept, plan=plan)) == Changes()


def test_a_run_of_an_earlier_version_whose_prompts_had_no_places_is_no_change(paused: Path) -> None:
    """Its dependents were sent their prompts as they stand, and still are."""
    kept = stored(paused)
    (step,) = kept.plan.steps
    tasks = [msgspec.structs.replace(task, verbatim=True) for task in step.tasks]  # type: ignore[union-attr]
    plan = msgspec.structs.replace(
        kept.plan, steps=(msgspec.structs.replace(step, tasks=tuple(tasks)),)
    )
    assert plan != kept.plan
    assert changes(msgspec.structs.replace(kept, plan=plan)) == Changes()


def test_changed_members_are_a_change_but_not_which_program_they_are(tmp_path: Path) -> None:
    root = written(tmp_path / "f")
    environ = installed(tmp_path / "bin", "claude")
    environ["FANFOLD_CLAUDE"] = str(tmp_path / "bin" / "claude")
    job = prepare_fleet(root, Options(), environ)
    fields = job.roster.entries["a"].fields
    assert isinstance(fields, AgentFields)
    assert fields.program == environ["FANFOLD_CLAUDE"]
    assert changes(job.stored) == Changes()
    file = root / "fleet.json"
    file.write_text(file.read_text().replace('"type": "write"', '"type": "research"', 1))
    assert changes(job.stored) == Changes(workers={"a": ("type",)})


def test_a_changed_cap_of_a_worker_is_refused_with_the_way_to_run_just_that(tmp_path: Path) -> None:
    root = written(tmp_path / "f")
    job = prepare_fleet(root, Options(), installed(tmp_path / "bin", "claude"))
    file = root / "fleet.json"
    told = msgspec.json.decode(file.read_bytes())
    told["workers"][0]["max_budget_usd"] = 4
    file.write_bytes(msgspec.json.encode(told))
    record = RunRecord(no=1, id="R", name="night", created=0.0)
    with pytest.raises(BadInput) as raised:
        refuse_changed(job.stored, record)
    assert str(raised.value) == (
        f"{file}: `max_budget_usd` of worker `a` has changed since night was started; to run it with"
        " that: fanfold relaunch night a"
    )
    told["config"]["silence_seconds"] = 9
    file.write_bytes(msgspec.json.encode(told))
    with pytest.raises(
        BadInput, match=r"of workers `a`, `b`, `c` has changed.*them with that, one by"
    ):
        refuse_changed(job.stored, record)


def test_a_changed_total_is_refused_until_the_operator_names_one(paused: Path) -> None:
    file = paused / "fleet.json"
    told = msgspec.json.decode(file.read_bytes())
    told["config"]["max_budget_fleet"] = 7.5
    file.write_bytes(msgspec.json.encode(told))
    assert changes(stored(paused)) == Changes(budget=True)
    assert refused(paused) == (
        f"{file}: `max_budget_fleet` has changed since night was started; to continue with a new total:"
        f" fanfold resume {paused.resolve()} --budget 7.5"
    )
    job = prepare_resume("night", Options(store=store_of(paused), budget=Budget(usd=7.5)))
    assert job.budget.usd == 7.5


def test_a_fleet_that_is_gone_does_no_harm(paused: Path) -> None:
    (paused / "fleet.json").unlink()
    assert changes(stored(paused)) == Changes()
    prepare_resume("night", Options(store=store_of(paused)))


def test_a_plan_is_still_held_against_its_own_file(tmp_path: Path) -> None:
    file, root = tmp_path / "p.yaml", written(tmp_path)
    file.write_text("name: night\nsteps: [{ask: {prompt: x, member: a}}]\n")
    executed(prepare(str(file), rehearsal(root)))
    assert prepare_resume("night", Options(store=store_of(root))).stored.kind == "plan"
    file.write_text(file.read_text().replace("prompt: x", "prompt: y"))
    assert refused(root).startswith(
        f"{file} has changed since night was started; start a new run with:"
    )
