"""`missing` in an asked reduce: the planned items below it that have no answer, in every node of a
tree; the last one knows of all. Why a call failed is not in it, so a resumed run asks the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import Terminal
from fanfold.gates.checks import predicate
from fanfold.patterns.asked_reduce import asked
from fanfold.patterns.map_reduce import map_reduce
from fanfold.patterns.pipeline import pipeline, stage
from fanfold.run.run import Run
from fanfold.testing.member import Scripted
from fanfold.work.ask import Ask, Reply, Usage
from tests.flow.simulation import Scene, outcomes, play, words

SHOWN = "Sum of {{ parts | map(attribute='ids') | list }} without {{ missing }}"
FAILED = '{"id": "%d", "reasons": [], "state": "failed"}'


def answering(*bad: int, why: Callable[[int], str] = lambda n: "refused") -> Scripted:
    """Asks about these items fail."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        text = ask.messages[0].content
        if text.startswith("Say") and any(text == f"Say word {one}" for one in bad):
            return Terminal(why(n), scope="ask")
        return Reply("fine" if text.startswith("Say") else "a sum", usage=Usage(1, 1))

    return Scripted(script)


def sums(member: Scripted) -> list[str]:
    return [text for text in member.asked if text.startswith("Sum")]


def scene(store: Path, member: Scripted, n: int, **how: Any) -> Scene:
    given = {"reduce": asked(SHOWN, fan_in=4), "revise": 0, **how}
    return Scene(store, (member,), words(n), how=given)


def test_a_maps_asked_reduce_knows_who_is_missing(memory_path: Path) -> None:
    member = answering(1)
    receipt = play(scene(memory_path, member, 3))
    assert outcomes(receipt) == {"passed": 2, "failed": 1}
    assert sums(member) == [f'Sum of [["0"], ["2"]] without [{FAILED % 1}]']


def test_each_node_of_a_tree_knows_of_its_own_and_the_last_one_of_all(memory_path: Path) -> None:
    member = answering(1, 9)
    play(scene(memory_path, member, 12))
    *nodes, last = [text.partition(" without ")[2] for text in sums(member)]
    assert sorted(nodes) == ["[]", f"[{FAILED % 1}]", f"[{FAILED % 9}]"]
    assert last == f"[{FAILED % 1}, {FAILED % 9}]"


def test_it_is_appended_where_the_prompt_does_not_show_it(memory_path: Path) -> None:
    member = answering(1)
    play(scene(memory_path, member, 3, reduce=asked("Sum up.")))
    (told,) = sums(member)
    assert told.endswith("There is no answer for: 1 (failed)")


def test_what_a_gate_said_is_told_and_what_a_filter_left_out_is_not_missing(
    memory_path: Path,
) -> None:
    member = Scripted(lambda ask, n: Reply(ask.messages[0].content, usage=Usage(1, 1)))
    gate = predicate(lambda value: "word 1" not in value or "too odd")
    play(scene(memory_path, member, 3, gate=gate, keep=lambda value: "word 2" not in value))
    assert [text.partition(" without ")[2] for text in sums(member)] == [
        '[{"id": "1", "reasons": ["too odd"], "state": "kicked"}]'
    ]


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_items_that_left_at_an_earlier_stage_are_missing_too(memory_path: Path, mode: Any) -> None:
    member = answering(1)

    async def work(run: Run) -> None:
        stages = (
            stage("Say {{ item.text }}", revise=0),
            stage("Now {{ steps.stage1 }} {{ item.id }}"),
        )
        await pipeline(run, words(3), *stages, mode=mode, reduce=asked(SHOWN))

    play(Scene(memory_path, (member,), pattern=work))
    assert sums(member) == [f'Sum of [["0"], ["2"]] without [{FAILED % 1}]']


def test_a_resumed_run_does_not_pay_for_the_reduce_again(memory_path: Path) -> None:
    """The item is tried again and fails with other words: the reduce is asked the same as before."""
    member = answering(1, why=lambda n: f"refused, the {n}th time")
    how = {"on_failure": "hold"}
    assert play(scene(memory_path, member, 6, **how)).status == "paused"
    paid, tried = sums(member), len(member.asked)
    again = play(scene(memory_path, member, 6, **how), resume=True)
    assert outcomes(again) == {"passed": 5, "failed": 1}
    assert (member.asked[tried:], sums(member)) == (["Say word 1"], paid)


def test_when_the_missing_one_has_passed_only_what_is_above_it_is_asked_again(
    memory_path: Path,
) -> None:
    member = answering(1)
    play(scene(memory_path, member, 12, on_failure="hold"))
    good = answering()
    again = play(scene(memory_path, good, 12, on_failure="hold"), resume=True)
    assert outcomes(again) == {"passed": 12}
    assert [text.partition(" without ")[2] for text in sums(good)] == ["[]", "[]"]
    assert len(good.asked) == 3


def test_a_function_receives_them(memory_path: Path) -> None:
    member = answering(1)
    seen: list[Any] = []

    async def work(run: Run) -> None:
        async def by(run: Run, task: Any) -> Any:
            seen.append(task.ask.items[0].data)
            return await run.do(task)

        await map_reduce(
            run, words(3), prompt="Say {{ item.text }}", revise=0, reduce=asked(SHOWN, by=by)
        )

    play(Scene(memory_path, (member,), pattern=work))
    (given,) = seen
    assert given["missing"] == [{"id": "1", "state": "failed", "reasons": []}]
