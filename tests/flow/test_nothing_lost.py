"""Promises 3 and 4. Only what passed reaches the reduce, and every planned item has one outcome.

The random plans are in tests/property; these are the single cases behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, InvalidReply, Terminal, TimedOut, Transient
from fanfold.gates.checks import require
from fanfold.gates.default import default
from fanfold.journal import opening
from fanfold.journal.opening import open_store
from fanfold.journal.sqlite.folder import StoreFolder
from fanfold.observe.script import open_run
from fanfold.patterns.map_reduce import map_reduce
from fanfold.run.member_sources import GivenMembers
from fanfold.run.open import finish
from fanfold.run.record import start
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.item import Item
from fanfold.work.outcome import PASS, STATES, Receipt, Verdict, fail, unjudged
from fanfold.work.task import Budget, Task, Terms
from tests.flow.simulation import (
    Camera,
    Meanwhile,
    Scene,
    cancel_at,
    outcomes,
    pause_at,
    play,
    words,
)
from tests.unit.journal.disks import mount, small_disk

FINE = Reply("fine", usage=Usage(10, 10))


def answered(ask: Ask) -> Reply:
    """`fine` for one item; for a shard, `fine` under each id."""
    if len(ask.items) < 2:
        return FINE
    answers = [{"id": item.id, "answer": "fine"} for item in ask.items]
    return Reply(data={"answers": answers}, usage=Usage(10, 10))


def fine(ask: Ask, n: int) -> Reply:
    return answered(ask)


def ended(store: Path, name: str = "scene") -> dict[str, str]:
    """Every planned id with its outcome, from the journal; more than one outcome is an error."""
    archive = opening.look(store)
    try:
        run = archive.read.find(name)
        assert run is not None
        found = [(ending.id, ending.state) for ending in archive.read.endings(run.no, STATES)]
    finally:
        archive.close()
    assert len(found) == len(dict(found))
    return dict(found)


# ── the gate ─────────────────────────────────────────────────────────────────────────────────


def test_of_five_the_one_without_evidence_is_kicked_back_once_and_passes(tmp_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply:
        thin = "word 3" in ask.messages[0].content and not ask.turns
        whole = {"claim": "c"} if thin else {"claim": "c", "evidence": "e"}
        return Reply(data=whole, usage=Usage(1, 1))

    seen: list[list[str]] = []

    def reduce(parts: Any) -> int:
        seen.append([part.id for part in parts if "evidence" in part.value])
        return len(seen[-1])

    member = Scripted(script)
    how = {"gate": require("claim", "evidence"), "reduce": reduce}
    receipt = play(Scene(tmp_path, (member,), words(5), how=how))
    assert (outcomes(receipt), receipt.calls) == ({"passed": 5}, 6)
    assert seen == [["0", "1", "2", "3", "4"]]
    kicked_back = member.asked[-1]
    assert "evidence" in kicked_back and "not accepted" in kicked_back


@pytest.mark.parametrize("finish", ["length", "refusal"])
def test_without_a_stated_gate_a_broken_off_reply_never_passes(tmp_path: Path, finish: Any) -> None:
    member = Scripted(lambda ask, n: Reply("half a sent", finish=finish, usage=Usage(1, 1)))
    receipt = play(Scene(tmp_path, (member,), ["a"]))
    assert (outcomes(receipt), receipt.result, receipt.status) == ({"kicked": 1}, [], "flagged")


def test_without_a_stated_gate_an_empty_reply_never_passes(tmp_path: Path) -> None:
    receipt = play(Scene(tmp_path, (Scripted(lambda ask, n: Reply(" \n")),), ["a"]))
    assert (outcomes(receipt), receipt.result) == ({"kicked": 1}, [])


def test_without_a_stated_gate_a_reply_that_is_not_json_never_passes_a_schema(
    tmp_path: Path,
) -> None:
    schema = {"type": "object", "required": ["a"]}

    def script(ask: Ask, n: int) -> Reply:
        bad = "word 1" in ask.messages[0].content
        return Reply("that is not JSON") if bad else Reply(data={"a": 1})

    scene = Scene(tmp_path, (Scripted(script),), words(3), how={"schema": schema, "revise": 0})
    receipt = play(scene)
    assert ended(tmp_path) == {"0": "passed", "1": "kicked", "2": "passed"}
    assert receipt.result == [{"id": "0", "value": {"a": 1}}, {"id": "2", "value": {"a": 1}}]


def raises(task: Task, reply: Reply, ask: Any) -> Verdict:
    raise ValueError("broken gate")


async def judges_later(task: Task, reply: Reply, ask: Any) -> Verdict:
    await asyncio.sleep(1.0)
    raise ConnectionError("the judge is dead")


@pytest.mark.parametrize(
    "gate", [raises, judges_later, lambda task, reply, ask: unjudged("cannot tell")]
)
def test_what_could_not_be_judged_is_neither_passed_nor_failed(tmp_path: Path, gate: Any) -> None:
    member = Scripted(fine)
    receipt = play(Scene(tmp_path, (member,), words(3), how={"gate": gate}))
    assert (outcomes(receipt), receipt.status, receipt.result) == ({"unjudged": 3}, "flagged", [])
    assert len(member.asked) == 3
    repaired = play(Scene(tmp_path, (member,), words(3)), resume=True)
    assert (outcomes(repaired), len(member.asked)) == ({"passed": 3}, 3)


def test_a_tightened_gate_judges_recorded_replies_anew(tmp_path: Path) -> None:
    """No call for what still passes, one kick-back for what does not."""

    def script(ask: Ask, n: int) -> Reply:
        return Reply(f"long answer {n}" if n % 2 or ask.turns else "short", usage=Usage(1, 1))

    member = Scripted(script)
    play(Scene(tmp_path, (member,), words(10)))

    def longer(task: Task, reply: Reply, ask: Any) -> Verdict:
        return PASS if len(reply.text) > 8 else fail("too short")

    receipt = play(Scene(tmp_path, (member,), words(10), name="tight", how={"gate": longer}))
    assert (outcomes(receipt), receipt.calls) == ({"passed": 10}, 5)
    assert len(member.asked) == 15
    assert all("too short" in prompt for prompt in member.asked[10:])


# ── isolated to its item ─────────────────────────────────────────────────────────────────────

TROUBLES: dict[str, Callable[[], Reply | Exception]] = {
    "raises": lambda: ZeroDivisionError("defect"),
    "refused": lambda: Terminal("400: too long", scope="ask", too_long=True),
    "always transient": lambda: Transient("503"),
    "always unreadable": lambda: InvalidReply("not JSON"),
    "always lost": lambda: TimedOut("no answer"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("shard", [None, 2])
def test_trouble_with_one_item_is_isolated_to_it(
    tmp_path: Path, trouble: str, shard: int | None
) -> None:
    """Also in a shard: the others are asked again without it."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        bad = "word 2" in ask.messages[0].content
        return TROUBLES[trouble]() if bad else answered(ask)

    how = {} if shard is None else {"shard": shard}
    receipt = play(Scene(tmp_path, (Scripted(script),), words(5), how=how))
    assert ended(tmp_path) == {str(n): "failed" if n == 2 else "passed" for n in range(5)}
    assert [part["id"] for part in receipt.result] == ["0", "1", "3", "4"]


def test_an_item_that_a_shards_reply_forgot_is_asked_again_alone(tmp_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply:
        whole = answered(ask)
        if len(ask.items) > 1:
            whole = Reply(data={"answers": whole.data["answers"][1:]}, usage=Usage(5, 5))
        return whole

    member = Scripted(script)
    receipt = play(Scene(tmp_path, (member,), words(6), how={"shard": 3, "concurrency": 1}))
    assert (outcomes(receipt), receipt.calls) == ({"passed": 6}, 4)


def test_content_that_two_shards_share_is_asked_once(tmp_path: Path) -> None:
    """The second shard waits for the first, then goes without what is known meanwhile."""
    member = Scripted(fine, latency=1.0)
    texts = ["a", "b", "c", "a", "d", "e"]
    receipt = play(Scene(tmp_path, (member,), texts, how={"shard": 3, "concurrency": 2}))
    assert outcomes(receipt) == {"passed": 6}
    asked = "\n".join(member.asked)
    assert [asked.count(f"Say {text}") for text in "abcde"] == [1, 1, 1, 1, 1]


def test_a_paid_member_whose_replies_stay_in_the_run_answers_the_same_content_once(
    tmp_path: Path,
) -> None:
    """A command without a version, say: its replies serve this run, also the first time round."""
    member = Scripted(fine, traits(shared=False), latency=1.0)
    receipt = play(Scene(tmp_path, (member,), ["same", "same", "same"]))
    assert (outcomes(receipt), len(member.asked)) == ({"passed": 3}, 1)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_a_reply_that_cannot_be_written_down_fails_only_its_item(tmp_path: Path, text: str) -> None:
    """Half a surrogate pair is a text in Python, but not one that can be stored."""

    def script(ask: Ask, n: int) -> Reply:
        return Reply(text if "word 1" in ask.messages[0].content else "fine", usage=Usage(1, 1))

    play(Scene(tmp_path, (Scripted(script),), words(3), how={"attempts": 1}))
    assert ended(tmp_path) == {"0": "passed", "1": "failed", "2": "passed"}


def test_a_number_too_large_to_store_loses_no_reply(tmp_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply:
        return Reply("fine", usage=Usage(2**70 if "word 1" in ask.messages[0].content else 1, 1))

    receipt = play(Scene(tmp_path, (Scripted(script),), words(3), how={"attempts": 1}))
    assert (outcomes(receipt), receipt.unusable_usage) == ({"passed": 3}, 1)


def test_an_id_that_cannot_be_written_down_is_refused_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    member = Scripted(fine)
    with pytest.raises(BadInput):
        play(Scene(tmp_path, (member,), [Item("ok", "a"), Item("\ud800", "b")]))
    assert member.asked == []


# ── planning ─────────────────────────────────────────────────────────────────────────────────


def test_a_duplicate_id_is_refused_and_the_repaired_input_is_not(tmp_path: Path) -> None:
    """The script is run again under the same name, with one of the two taken out."""

    async def run(items: list[Item]) -> Receipt:
        members = (Scripted(fine),)
        async with open_run("script", members=members, store=tmp_path) as run:
            return (await map_reduce(run, items, prompt="Say {{ item.text }}")).receipt

    twice = [Item("a", "1"), Item("b", "2"), Item("b", "3")]
    with pytest.raises(BadInput, match="duplicate id 'b'"):
        asyncio.run(run(twice))
    assert outcomes(asyncio.run(run(twice[:2]))) == {"passed": 2}


def test_a_crash_while_planning_leaves_nothing_behind_that_counts(memory_path: Path) -> None:
    """Planned in part, killed, and resumed with another, shorter input."""
    many = [Item(f"id {n}", "x") for n in range(6000)]
    scene = Scene(memory_path / "store", (Scripted(fine),), many, how={"reduce": None})
    camera = Camera(scene.store, memory_path / "images", lambda: planned(scene.store))
    camera.wanted = lambda commit: commit < 8
    play(scene, after_commit=camera)
    image = next(image for image, rows in camera.seen.items() if rows == 5000)
    few = [Item(f"id {n}", "y") for n in range(4995, 5000)]
    again = play(Scene(image, (Scripted(fine),), few), resume=True)
    assert (again.planned, outcomes(again)) == (5, {"passed": 5})


def planned(store: Path) -> int:
    with closing(StoreFolder(store).look()) as db:
        rows: int = db.execute("select count(*) from items").fetchone()[0]
        return rows


def test_a_changed_input_is_planned_anew_and_what_is_unchanged_is_not_asked(tmp_path: Path) -> None:
    member = Scripted(fine)
    play(Scene(tmp_path, (member,), words(10)), meanwhile=pause_at(0.0))
    play(Scene(tmp_path, (member,), words(10)), resume=True)
    member.asked.clear()
    changed = [*words(4), "new", *words(8)[5:]]
    receipt = play(Scene(tmp_path, (member,), changed), resume=True)
    assert (receipt.planned, outcomes(receipt), member.asked) == (8, {"passed": 8}, ["Say new"])


# ── stopping ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stop", [pause_at(2.5), cancel_at(2.5)])
def test_a_stopped_run_accounts_for_every_item_and_goes_on(tmp_path: Path, stop: Meanwhile) -> None:
    member = Scripted(fine, latency=1.0)
    scene = Scene(tmp_path, (member,), words(20), how={"concurrency": 4})
    receipt = play(scene, meanwhile=stop)
    assert receipt.planned == sum(outcomes(receipt).values()) == 20
    assert 0 < receipt.passed < 20
    durable = member.asked[: receipt.passed]
    again = play(scene, resume=True)
    assert (again.status, outcomes(again)) == ("complete", {"passed": 20})
    assert [member.asked.count(prompt) for prompt in durable] == [1] * len(durable)


def test_on_a_pause_what_is_under_way_ends_by_itself(tmp_path: Path) -> None:
    member = Scripted(fine, latency=1.0)
    scene = Scene(tmp_path, (member,), words(20), how={"concurrency": 4})
    receipt = play(scene, meanwhile=pause_at(2.5))
    assert (receipt.status, receipt.reason) == ("paused", "interrupted")
    assert outcomes(receipt) == {"passed": 12, "cancelled": 8}
    assert len(member.asked) == 12


def test_a_call_cancelled_under_way_counts_as_spent_and_its_repetition_is_told(
    tmp_path: Path,
) -> None:
    member = Scripted(fine, latency=1.0)
    scene = Scene(tmp_path, (member,), words(20), how={"concurrency": 4})
    stopped = play(scene, meanwhile=cancel_at(2.5))
    assert (stopped.status, stopped.passed) == ("killed", 8)
    worst = (1024 + len("Say word 0")) * 1e-6 + 100 * 5e-6
    settled = 8 * (10e-6 + 50e-6)
    assert stopped.cost_usd >= 4 * worst + settled - 1e-9
    again = play(scene, resume=True)
    assert (outcomes(again), again.maybe_paid_twice) == ({"passed": 20}, 4)


def test_a_task_cancelled_while_it_claims_its_key_can_be_asked_again(tmp_path: Path) -> None:
    """Nothing was sent yet, so the key must not stay claimed while the run goes on."""
    member = Scripted(fine)
    terms = Terms(step="ask", gate=default())
    task = Task("a", Ask((Message("user", "Say a"),)), terms)

    async def main(clock: VirtualClock) -> tuple[str, int, float]:
        journal = open_store(tmp_path, thread=False)
        try:
            record = await start(journal, "claims", clock, Budget())
            run = Run(journal, record, GivenMembers(member), Settings(), clock)
            await run.begin(terms)
            first = asyncio.ensure_future(run.do(task))
            await asyncio.sleep(0)  # now its claim is handed in, and not yet durable
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            assert member.asked == []
            async with asyncio.timeout(600):
                outcome = await run.do(task)
            receipt = await finish(journal, run)
            return outcome.state, len(member.asked), receipt.cost_usd
        finally:
            journal.close()

    assert run_virtual(main) == ("passed", 1, 60e-6)


# ── a full disk ──────────────────────────────────────────────────────────────────────────────


def test_a_full_disk_is_a_pause_and_nothing_on_record_is_asked_again(tmp_path: Path) -> None:
    """Replies of 40 KB on a disk of 6 MB; then there is room, and the run goes on."""

    def script(ask: Ask, n: int) -> Reply:
        return Reply(f"{ask.messages[0].content} " * 3000, usage=Usage(10, 10))

    member = Scripted(script, latency=1.0)
    with small_disk(tmp_path / "disk", "6m") as disk:
        scene = Scene(disk / "store", (member,), words(200), how={"reduce": None})
        receipt = play(scene)
        assert (receipt.status, sum(outcomes(receipt).values())) == ("paused", 200)
        assert receipt.reason is not None and "disk is full" in receipt.reason
        assert 10 < receipt.passed < 200
        asked = len(member.asked)
        assert asked == receipt.passed
        mount("-o", "remount,size=64m", str(disk))
        again = play(scene, resume=True)
        assert (again.status, outcomes(again)) == ("complete", {"passed": 200})
        assert len(member.asked) == 200
