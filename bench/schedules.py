"""How good are the schedules of `graph`? Real workflows, their tasks as timed waits on a virtual clock.

    python bench/schedules.py [--data DIR] [--slots 2,8,32]

Each workflow goes through the whole engine, journal and all; only time is virtual. The ratio is its
makespan over what no schedule can beat: the longer of its critical path and its work over the slots.
DIR holds `workflows.jsonl`, or one JSON file per workflow with `tasks: [{id, parents, runtime_s}]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from fanfold.journal.opening import open_store
from fanfold.members.function import function
from fanfold.members.roster import RosterSettings
from fanfold.patterns.graph import graph
from fanfold.run.member_sources import GivenMembers
from fanfold.run.open import finish
from fanfold.run.record import start
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.work.dag import remaining
from fanfold.work.task import Budget

DATA = Path(__file__).parents[1] / "tests" / "data" / "dag_workflows"
SLOTS = (2, 8, 32)
MEDIAN, WORST = 1.05, 1.6


class Wait(NamedTuple):
    """A task that only takes time."""

    id: str
    depends_on: tuple[str, ...]
    weight: float


class Workflow(NamedTuple):
    name: str
    tasks: tuple[Wait, ...]

    def bound(self, slots: int) -> float:
        """No schedule is shorter than this."""
        work = sum(task.weight for task in self.tasks)
        return max(max(remaining(self.tasks).values(), default=0.0), work / slots)


class Span(NamedTuple):
    """When a task was under way."""

    id: str
    began: float
    ended: float


class Line(NamedTuple):
    workflow: str
    tasks: int
    slots: int
    ratio: float


def workflows(data: Path = DATA) -> Iterator[Workflow]:
    listed = data / "workflows.jsonl"
    if listed.exists():
        for text in listed.read_text(encoding="utf-8").splitlines():
            row = json.loads(text)
            tasks = [
                Wait(str(n), tuple(map(str, parents)), seconds)
                for n, (seconds, parents) in enumerate(row["tasks"])
            ]
            yield Workflow(row["workflow"], tuple(tasks))
        return
    for file in sorted(data.glob("*.json")):
        found = json.loads(file.read_text(encoding="utf-8"))["tasks"]
        tasks = [Wait(one["id"], tuple(one["parents"]), one["runtime_s"]) for one in found]
        yield Workflow(file.stem, tuple(tasks))


def played(store: Path, tasks: Iterable[Wait], slots: int, at_once: int = 1000) -> list[Span]:
    """What happens when: the tasks as a graph, on so many slots, by a member that takes so many."""
    stated = [
        {"id": task.id, "depends_on": task.depends_on, "weight": task.weight,
         "data": {"seconds": task.weight}}
        for task in tasks
    ]  # fmt: skip
    spans: list[Span] = []

    async def main(clock: VirtualClock) -> None:
        async def wait(data: dict[str, Any]) -> str:
            began = clock.monotonic()
            await asyncio.sleep(data["seconds"])
            spans.append(Span(data["id"], began, clock.monotonic()))
            return "done"

        journal = open_store(store, thread=False)
        try:
            record = await start(journal, "schedule", clock, Budget())
            at_most = RosterSettings(max_concurrency=1000)
            company = GivenMembers(function(wait, concurrency=at_once), settings=at_most)
            run = Run(journal, record, company, Settings(), clock)
            await graph(run, stated, concurrency=slots)
            await finish(journal, run)
        finally:
            journal.close()

    run_virtual(main)
    return spans


def measured(store: Path, workflow: Workflow, slots: int) -> Line:
    spans = played(store, workflow.tasks, slots)
    makespan = max(span.ended for span in spans)
    return Line(workflow.name, len(spans), slots, makespan / workflow.bound(slots))


def summary(lines: list[Line]) -> str:
    ratios = [line.ratio for line in lines]
    return (
        f"{len(lines)} schedules: median {median(ratios):.3f} (at most {MEDIAN}),"
        f" worst {max(ratios):.3f} (at most {WORST})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/schedules.py")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the workflows")
    parser.add_argument("--slots", default=",".join(map(str, SLOTS)), help="how many at once")
    options = parser.parse_args()
    lines = []
    print("| workflow | tasks | slots | ratio |\n|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as store:
        for workflow in workflows(options.data):
            for slots in map(int, options.slots.split(",")):
                lines.append(measured(Path(store), workflow, slots))
                print("| {} | {} | {} | {:.3f} |".format(*lines[-1]), flush=True)
    print(f"\n{summary(lines)}")


if __name__ == "__main__":
    main()
