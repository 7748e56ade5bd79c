"""How good the schedules of a graph are, through the whole engine on a virtual clock."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.schedules import MEDIAN, SLOTS, WORST, Wait, measured, played, summary, workflows
from fanfold.work.dag import remaining
from tests.examples import examples


@pytest.mark.sweep
def test_real_workflows_come_close_to_what_no_schedule_can_beat(memory_path: Path) -> None:
    """38 of them on 2, 8 and 32 slots, against the longer of critical path and work over slots."""
    lines = [measured(memory_path, one, slots) for one in workflows() for slots in SLOTS]
    ratios = [line.ratio for line in lines]
    assert (len(lines), len({line.workflow for line in lines})) == (114, 38)
    assert min(ratios) >= 1.0 - 1e-9
    assert median(ratios) <= MEDIAN, summary(lines)
    assert max(ratios) <= WORST, summary(lines)


@st.composite
def acyclic(draw: st.DrawFn) -> list[Wait]:
    """Up to ten tasks, each behind any of those before it, planned in any order."""
    found = []
    for n in range(draw(st.integers(1, 10))):
        parents = draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set()
        seconds = float(draw(st.integers(1, 9)))
        found.append(Wait(f"t{n}", tuple(f"t{p}" for p in sorted(parents)), seconds))
    return draw(st.permutations(found))


@given(acyclic(), st.integers(1, 4))
@examples(60)
def test_any_graph_runs_in_order_within_its_slots_and_never_idle(
    tasks: list[Wait], slots: int
) -> None:
    with tempfile.TemporaryDirectory() as store:
        spans = {span.id: span for span in played(Path(store), tasks, slots)}
    assert set(spans) == {task.id for task in tasks}
    free_at = {
        task.id: max((spans[p].ended for p in task.depends_on), default=0.0) for task in tasks
    }
    assert all(spans[id].began >= free for id, free in free_at.items())
    for now in {span.began for span in spans.values()}:
        busy = sum(span.began <= now < span.ended for span in spans.values())
        waiting = [id for id, free in free_at.items() if free <= now < spans[id].began]
        assert busy <= slots
        assert busy == slots or not waiting
    work, path = sum(task.weight for task in tasks), max(remaining(tasks).values())
    assert max(span.ended for span in spans.values()) <= path + work / slots + 1e-6


def test_scarce_slots_go_to_the_longest_remaining_path(memory_path: Path) -> None:
    """One slot: the chain's tasks go before the short ones that were planned first."""
    tasks = [
        Wait("short", (), 1.0),
        Wait("head", (), 1.0),
        Wait("tail", ("head",), 5.0),
        Wait("other", (), 2.0),
    ]
    order = [span.id for span in played(memory_path, tasks, 1)]
    assert order == ["head", "tail", "other", "short"]


def test_a_task_does_not_wait_for_its_layer(memory_path: Path) -> None:
    """The second task of the quick chain runs while the first of the slow one still does."""
    tasks = [
        Wait("slow1", (), 10.0),
        Wait("slow2", ("slow1",), 1.0),
        Wait("quick1", (), 1.0),
        Wait("quick2", ("quick1",), 1.0),
    ]
    spans = {span.id: (span.began, span.ended) for span in played(memory_path, tasks, 2)}
    rounded = {id: (round(b, 3), round(e, 3)) for id, (b, e) in spans.items()}
    assert rounded == {
        "slow1": (0.0, 10.0), "quick1": (0.0, 1.0), "quick2": (1.0, 2.0), "slow2": (10.0, 11.0),
    }  # fmt: skip


def test_a_chain_longer_than_python_recurses(memory_path: Path) -> None:
    """No recursion, and no more time than its tasks take."""
    chain = [Wait(str(n), (str(n - 1),) if n else (), 1.0) for n in range(1100)]
    spans = played(memory_path, chain, 8)
    assert [span.id for span in spans] == [str(n) for n in range(1100)]
    assert round(spans[-1].ended, 3) == 1100.0
