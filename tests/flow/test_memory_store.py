"""Whole runs in a store in memory: from Python and from a plan, and resumed within the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.journal import opening
from fanfold.work.task import Budget
from tests.faces.cli import fanfold


def test_map_reduce_pipeline_and_graph_run_in_memory(tmp_path: Path) -> None:
    asked: list[Any] = []

    def shout(item: Any) -> str:
        asked.append(item)
        return str(item["text"]).upper()

    async def main() -> list[Any]:
        items = [{"id": id, "text": id * 2} for id in "abc"]
        async with ff.open_run("all", members=[ff.function(shout)], store="memory:") as run:
            mapped = await ff.map_reduce(run, items, step="map", reduce=ff.concat(" "))
            piped = await ff.pipeline(
                run, items, ff.stage(step="one"), ff.stage(step="two"), reduce=ff.concat(" ")
            )
            tasks = [
                {"id": "x", "data": {"text": "x"}},
                {"id": "y", "data": {"text": "y"}, "depends_on": "x"},
            ]
            graphed = await ff.graph(run, tasks)
            return [mapped.value, piped.value, graphed.value]

    assert ff.run_sync(main()) == ["AA BB CC", "AA BB CC", {"x": "X", "y": "Y"}]
    assert len(asked) == 3 + 6 + 2
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_in_a_named_store_of_the_same_process() -> None:
    """What was answered before is not asked again."""
    place, asked = "memory:test_a_run_goes_on", []

    def echo(item: Any) -> str:
        asked.append(item["id"])
        return str(item["id"])

    async def main(calls: int) -> str:
        items = [{"id": f"i{n}"} for n in range(6)]
        async with ff.open_run(
            "again", members=[ff.function(echo)], store=place, budget=Budget(calls=calls)
        ) as run:
            await ff.map_reduce(run, items, reduce=ff.concat())
        return run.closing.status if run.closing else ""

    with pytest.raises(ff.RunStopped):
        ff.run_sync(main(4))
    assert ff.run_sync(main(20)) == "complete"
    assert sorted(asked) == [f"i{n}" for n in range(6)]
    seen = opening.look(place)
    assert seen.read.tally(1)["passed"] == 6


ROSTER = "members:\n  - {id: echo, kind: command, cmd: [cat], version: 1}\n"
PLAN = """\
name: numbers
roster: roster.yaml
input: {count: 3}
steps:
  - map: {name: first, prompt: "n{{ item.n }}"}
  - map: {name: second, prompt: "{{ steps.first }}!"}
  - reduce: concat
  - write: numbers.txt
"""


def test_a_plan_runs_in_memory_and_leaves_only_what_it_writes(tmp_path: Path) -> None:
    (tmp_path / "roster.yaml").write_text(ROSTER)
    (tmp_path / "plan.yaml").write_text(PLAN)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--store", "memory:", "--quiet", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert (ended.receipt["status"], ended.receipt["passed"]) == ("complete", 3)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == [
        "numbers.txt",
        "plan.yaml",
        "roster.yaml",
    ]
    assert not (tmp_path / ".fanfold").exists()


def test_nothing_can_be_launched_in_memory(tmp_path: Path) -> None:
    (tmp_path / "roster.yaml").write_text(ROSTER)
    (tmp_path / "plan.yaml").write_text(PLAN)
    ended = fanfold(tmp_path, "launch", "plan.yaml", "--store", "memory:")
    assert ended.code == 2
    assert "ends with this process" in ended.err


def test_a_later_command_finds_nothing_there_and_says_what_to_do(tmp_path: Path) -> None:
    ended = fanfold(tmp_path, "status", "--store", "memory:")
    assert (ended.code, ended.out, ended.err) == (
        2, "",
        "fanfold: memory: no such store; it ends with its process: to keep runs, use --store DIR\n",
    )  # fmt: skip
