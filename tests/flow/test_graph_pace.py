"""Graph with a pause between starts, with samples and with prompts that are no templates."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.patterns.graph import GraphNode, graph, node
from fanfold.patterns.prompt import Prompt, Verbatim
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply
from fanfold.work.member import MemberLimits
from tests.flow.simulation import Scene, outcomes, pause_at, play

Tasks = list[GraphNode | dict[str, Any]]


class Timed:
    """A member that notes when it was asked what, and takes its time."""

    def __init__(self, seconds: float = 10.0, like: Any = None) -> None:
        self.at: list[tuple[float, str]] = []
        self._seconds = seconds
        self.member = Scripted(self._says, like)

    async def _says(self, ask: Ask, n: int) -> Reply:
        text = ask.messages[0].content
        self.at.append((round(asyncio.get_running_loop().time(), 3), text))
        await asyncio.sleep(self._seconds)
        return Reply(f"{text}!")


def scene(store: Path, timed: Timed, tasks: Tasks, **how: Any) -> Scene:
    return Scene(store, (timed.member,), pattern=lambda run: graph(run, tasks, **how))


def plain(*ids: str, **more: Any) -> Tasks:
    return [node(id, id, **more) for id in ids]


def test_starts_are_so_far_apart_and_the_most_urgent_goes_first(memory_path: Path) -> None:
    """`c` has a long way to go; what becomes ready meanwhile waits for its turn as well."""
    timed = Timed(4.0)
    tasks = [*plain("a", "b", "c"), node("d", "d", depends_on="c", weight=5)]
    receipt = play(scene(memory_path, timed, tasks, delay=3))
    assert timed.at == [(0.0, "c"), (3.0, "a"), (6.0, "d"), (9.0, "b")]
    assert outcomes(receipt) == {"passed": 4}


def test_a_free_slot_is_needed_as_well(memory_path: Path) -> None:
    timed = Timed(10.0)
    play(scene(memory_path, timed, plain("a", "b", "c"), delay=3, concurrency=2))
    assert timed.at == [(0.0, "a"), (3.0, "b"), (10.0, "c")]


def test_a_member_with_one_slot_sets_the_pace_when_it_is_slower(memory_path: Path) -> None:
    timed = Timed(10.0, traits(limits=MemberLimits(concurrency=1)))
    play(scene(memory_path, timed, plain("a", "b"), delay=3))
    assert timed.at == [(0.0, "a"), (10.0, "b")]


def test_when_all_have_ended_before_the_pause_is_over_the_next_still_waits(
    memory_path: Path,
) -> None:
    timed = Timed(1.0)
    play(scene(memory_path, timed, plain("a", "b"), delay=5))
    assert timed.at == [(0.0, "a"), (5.0, "b")]


def test_without_a_delay_all_start_at_once(memory_path: Path) -> None:
    timed = Timed()
    play(scene(memory_path, timed, plain("a", "b", "c")))
    assert [at for at, _ in timed.at] == [0.0, 0.0, 0.0]


def test_what_is_on_record_is_no_start(memory_path: Path) -> None:
    """A second run has all but one reply: that one is asked at once."""
    first, again = Timed(), Timed()
    play(scene(memory_path, first, plain("a", "b", "c"), delay=3))
    receipt = play(scene(memory_path, again, plain("a", "b", "c", "d"), delay=3))
    assert again.at == [(0.0, "d")]
    assert (receipt.reused, outcomes(receipt)) == (3, {"passed": 4})


def test_a_stopped_run_starts_nothing_more_after_the_pause(memory_path: Path) -> None:
    timed = Timed(1.0)
    receipt = play(
        scene(memory_path, timed, plain("a", "b", "c"), delay=20), meanwhile=pause_at(2.0)
    )
    assert timed.at == [(0.0, "a")]
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 1, "cancelled": 2})


@pytest.mark.parametrize("delay", [-1, True, "3", float("inf"), float("nan")])
def test_a_delay_that_is_none_is_refused(memory_path: Path, delay: Any) -> None:
    with pytest.raises(BadInput, match="`delay` must be"):
        play(scene(memory_path, Timed(), plain("a"), delay=delay))


# ── samples ──────────────────────────────────────────────────────────────────────────────────


def test_another_sample_is_another_ask(memory_path: Path) -> None:
    timed = Timed()
    tasks: Tasks = [node("a", "same"), node("b", "same", sample=1), node("c", "same", sample=1)]
    receipt = play(scene(memory_path, timed, tasks))
    assert [text for _, text in timed.at] == ["same", "same"]
    assert (receipt.calls, outcomes(receipt)) == (2, {"passed": 3})


def test_with_another_sample_a_reply_on_record_is_not_used_again(memory_path: Path) -> None:
    timed = Timed()
    play(scene(memory_path, timed, plain("a", "b")))
    play(scene(memory_path, timed, [node("a", "a", sample=1), node("b", "b")]))
    assert sorted(text for _, text in timed.at) == ["a", "a", "b"]


@pytest.mark.parametrize("sample", [-1, 1.5, True])
def test_a_sample_that_is_none_is_refused(sample: Any) -> None:
    with pytest.raises(BadInput, match="the `sample` of task `a` is a whole number from 0 on"):
        node("a", "a", sample=sample)


# ── as it stands ─────────────────────────────────────────────────────────────────────────────


def test_a_verbatim_prompt_is_sent_as_it_stands_also_where_a_parent_is_missing(
    memory_path: Path,
) -> None:
    text = "{{ parents.a }} {% not a tag %} steps {#"
    one = node("b", depends_on="a", partial="always")
    made = GraphNode(one.id, Prompt(Verbatim(text)), one.terms, one.depends_on, partial="always")
    timed = Timed()
    bad = node("a", "a", gate=lambda task, reply, ask: 1 / 0)
    receipt = play(scene(memory_path, timed, [bad, made]))
    assert [said for _, said in timed.at] == ["a", text]
    assert outcomes(receipt) == {"unjudged": 1, "passed": 1}
