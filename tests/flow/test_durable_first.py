"""A gate of the user's may end the whole process. What was paid for is on record before it runs, and
a reply on which the process ended twice is not judged a third time.

A crash is an image of the store, taken from inside the gate: what is durable at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pydantic
import pytest

from fanfold.gates import checks
from fanfold.gates.checks import predicate, require
from fanfold.gates.combine import all_of, any_of
from fanfold.gates.judge import judge
from fanfold.journal import opening
from fanfold.journal.sqlite.folder import StoreFolder
from fanfold.patterns.ensemble import ensemble
from fanfold.patterns.fold import collect
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import PASS, STATES, Verdict
from fanfold.work.task import Task, nature_of
from tests.flow.simulation import Scene, copy_store, outcomes, play, words

BAD = "Say word 1"  # what the gates below do not survive
ONE_AT_A_TIME = {"concurrency": 1, "reduce": None}


class Crashes:
    """Takes an image at each crash, and goes on: the process of this test is still needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.store = folder / "store"
        self.images: list[Path] = []
        self.judged: list[str] = []

    def __call__(self, value: Any) -> bool:
        text = value if isinstance(value, str) else value["text"]
        self.judged.append(text)
        if text == BAD:
            self.images.append(self._folder / f"image-{len(self.images)}")
            copy_store(self.store, self.images[-1])
        return True


def echo(ask: Ask, n: int) -> Reply:
    return Reply(data={"text": ask.messages[0].content}, usage=Usage(1, 1))


async def async_gate(task: Task, reply: Reply, ask: Any) -> Verdict:
    return PASS


class Held:
    """A gate that is an object."""

    def __init__(self, see: Crashes) -> None:
        self._see = see

    def __call__(self, task: Task, reply: Reply, ask: Any) -> Verdict:
        self._see(reply.value)
        return PASS


def shape(see: Crashes) -> Any:
    class Shape(pydantic.BaseModel):
        text: str

        @pydantic.field_validator("text")
        @classmethod
        def look(cls, value: str) -> str:
            see(value)
            return value

    return Shape


def later(see: Crashes) -> Any:
    async def check(value: Any) -> bool:
        return see(value)

    return check


WAYS: dict[str, Callable[[Crashes], dict[str, Any]]] = {
    "predicate": lambda see: {"gate": predicate(see)},
    "async predicate": lambda see: {"gate": predicate(later(see))},
    "object": lambda see: {"gate": Held(see)},
    "pydantic": lambda see: {"gate": checks.shape(shape(see))},
    "all_of": lambda see: {"gate": all_of(require("text"), predicate(see))},
    "any_of": lambda see: {"gate": any_of(predicate(see), require("other"))},
    "filter": lambda see: {"keep": see},
    "shard": lambda see: {"gate": predicate(see), "shard": 2},
}


def scene(store: Path, member: Scripted, how: dict[str, Any], n: int = 3) -> Scene:
    return Scene(store, (member,), words(n), how={**ONE_AT_A_TIME, **how})


def texts(ask: Ask, n: int) -> Reply:
    """Alone or in a shard."""
    if len(ask.items) == 1:
        return echo(ask, n)
    found = [{"id": i.id, "answer": f"Say {i.data}"} for i in ask.items]
    return Reply(data={"answers": found}, usage=Usage(1, 1))


@pytest.mark.parametrize("free", [False, True], ids=["paid", "free"])
@pytest.mark.parametrize("way", WAYS)
def test_a_gate_that_ends_the_process_does_not_lose_the_reply(
    memory_path: Path, way: str, free: bool
) -> None:
    like = traits(metered=False, shared=False, takes="messages") if free else None
    crashes, member = Crashes(memory_path), Scripted(texts, like)
    play(scene(crashes.store, member, WAYS[way](crashes)))
    image = crashes.images[0]
    asked = len(member.asked)
    sent_by_then = sum("word 1" in text for text in member.asked)
    assert sent_by_then == 1
    crashes.store = image
    again = play(scene(image, member, WAYS[way](crashes)), resume=True)
    assert outcomes(again) == {"passed": 3}
    since = member.asked[asked:]
    assert not any("word 1" in text for text in since), "it was paid for and on record"


def ended(store: Path) -> dict[str, tuple[str, str]]:
    archive = opening.look(store)
    try:
        run = archive.read.find("scene")
        assert run is not None
        found = archive.read.endings(run.no, STATES)
        return {one.id: (one.state, " ".join(one.reasons)) for one in found}
    finally:
        archive.close()


@pytest.mark.parametrize("way", ["predicate", "pydantic", "filter", "shard"])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_reply_on_which_the_process_ended_twice_is_unjudged_and_only_that_one(
    memory_path: Path, way: str, concurrency: int
) -> None:
    crashes, member = Crashes(memory_path), Scripted(texts)
    how = {**WAYS[way](crashes), "concurrency": concurrency}
    play(scene(crashes.store, member, how, 12))
    for crash in range(2):
        crashes.store = crashes.images[crash]
        crashes.judged.clear()
        last = play(scene(crashes.store, member, how, 12), resume=True)
    assert len(crashes.images) == 2
    assert BAD not in crashes.judged
    assert outcomes(last) == {"passed": 11, "unjudged": 1}
    state, why = ended(crashes.store)["1"]
    assert state == "unjudged" and "ended twice" in why and "new run" in why


def test_a_new_run_judges_it_again(memory_path: Path) -> None:
    """With a gate that was put right, say. The reply is reused, and not asked for."""
    crashes, member = Crashes(memory_path), Scripted(texts)
    how = WAYS["predicate"](crashes)
    play(scene(crashes.store, member, how))
    crashes.store = crashes.images[-1]
    play(scene(crashes.store, member, how), resume=True)
    crashes.store = crashes.images[-1]
    assert outcomes(play(scene(crashes.store, member, how), resume=True))["unjudged"] == 1
    asked = len(member.asked)
    new = Scene(crashes.store, (member,), words(3), name="new", how={**how, **ONE_AT_A_TIME})
    assert outcomes(play(new)) == {"passed": 3}
    assert len(member.asked) == asked


def test_a_run_that_ends_in_good_order_suspects_no_gate(memory_path: Path) -> None:
    """However often it is interrupted: what was cancelled while it was judged is judged again."""
    crashes, member = Crashes(memory_path), Scripted(texts)
    play(scene(crashes.store, member, WAYS["predicate"](crashes)))
    archive = opening.look(crashes.store)
    try:
        marks = archive.read.gate_crashes(1)
    finally:
        archive.close()
    assert marks == {}


def test_a_vote_that_was_decided_by_a_function_goes_through_the_same_gate(
    memory_path: Path,
) -> None:
    """No single reply is judged there, but the gate is the user's too."""
    crashes, member = Crashes(memory_path), Scripted(lambda ask, n: Reply("yes", usage=Usage(1, 1)))

    async def work(run: Run) -> None:
        await ensemble(
            run, ["a"], prompt="Vote {{ item.text }}", members=["scripted"], samples=3,
            decide=lambda votes: {"text": BAD},
            gate=predicate(lambda value: value == "yes" or crashes(value)),
        )  # fmt: skip

    play(Scene(crashes.store, (member,), pattern=work))
    for _ in range(2):
        crashes.store = crashes.images[-1]
        last = play(Scene(crashes.store, (member,), pattern=work), resume=True)
    assert outcomes(last) == {"unjudged": 1}
    assert (len(crashes.images), len(member.asked)) == (2, 3)


# ── which gates are which ────────────────────────────────────────────────────────────────────


def test_a_gate_knows_what_it_does_and_so_do_those_made_of_gates() -> None:
    own, asks = predicate(bool), judge("Good?", member="m")
    assert nature_of(require("a")) == nature_of(all_of(require("a"), require("b"))) == "pure"
    assert nature_of(asks) == nature_of(all_of(require("a"), asks)) == "asks"
    assert nature_of(own) == nature_of(any_of(own, asks)) == nature_of(all_of(own)) == "foreign"
    assert nature_of(async_gate) == nature_of(checks.shape(shape(Crashes(Path())))) == "foreign"


def test_built_in_checks_stay_in_one_fact_with_the_outcome(memory_path: Path) -> None:
    """For speed: there is no commit in which the reply is on record and the outcome is not."""
    seen: list[tuple[int, int]] = []

    def look(commit: int) -> None:
        with closing(StoreFolder(memory_path / "store").look()) as db:
            count = "select (select count(*) from replies), (select count(*) from outcomes)"
            seen.append(db.execute(count).fetchone())

    how = {"gate": all_of(require("text")), "reduce": collect(), "concurrency": 1}
    play(Scene(memory_path / "store", (Scripted(echo),), words(3), how=how), after_commit=look)
    assert seen[-1] == (3, 3)
    assert all(replies == ends for replies, ends in seen)
