"""Ensembles, end to end: scored on recorded answers of real models; over HTTP; killed and resumed;
with a voter that dies half-way."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from bench.ensembles import DATA, Held, Recorded, hold, load, panels, weights
from fanfold.clock import RealClock
from fanfold.errors import Terminal, Transient
from fanfold.journal.opening import open_store
from fanfold.members.openai import OpenAI
from fanfold.patterns.ensemble import ensemble, judged
from fanfold.price import dollars
from fanfold.run.run import Run
from fanfold.testing.member import traits
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import Receipt
from tests.examples import points
from tests.flow.simulation import (
    PRICE,
    Camera,
    Provider,
    Said,
    Scene,
    cancel_at,
    carry_out,
    outcomes,
    play,
)

QUESTIONS = 12
USED = Usage(30, 10)
MEMBERS = ("a", "b", "c", "d", "e")
Around = Callable[[str, Ask, int], Said | None]


# ── scores on recorded answers ───────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def recorded() -> dict[str, Recorded]:
    return {one.name: one for one in load(DATA)}


def held(folder: Path, one: Recorded, members: list[str], **knobs: Any) -> Held:
    return asyncio.run(hold(folder, one.rows, members, **knobs))


@pytest.mark.slow
@pytest.mark.parametrize("panel", ["best", "small"])
def test_early_stop_keeps_the_majoritys_answer_and_saves_a_third_of_the_calls(
    memory_path: Path, recorded: dict[str, Recorded], panel: str
) -> None:
    """GSM, five voters: the same answer in every case, for at least 30 % fewer calls."""
    gsm = recorded["gsm"]
    members = panels(gsm)[panel]
    full = held(memory_path, gsm, members)
    early = held(memory_path, gsm, members, stop_early=True)
    assert (len(full.answers), full.calls) == (440, 440 * 5)
    assert early.answers == full.answers
    assert early.calls <= 0.7 * full.calls


def test_also_with_weights_and_where_voters_disagree_much(
    memory_path: Path, recorded: dict[str, Recorded]
) -> None:
    mmlu = Recorded("mmlu", 10, recorded["mmlu"].rows[:60])
    members = panels(recorded["mmlu"])["small"]
    fitted = {"decide": "weighted", "weights": weights(recorded["mmlu"], members)}
    for knobs in ({}, fitted, {"decide": "quorum", "quorum": 3}):
        full = held(memory_path, mmlu, members, **knobs)
        early = held(memory_path, mmlu, members, stop_early=True, **knobs)
        assert early.answers == full.answers
        assert early.calls < full.calls


@pytest.mark.slow
@pytest.mark.parametrize(("name", "panel"), [("gsm", "best"), ("gsm", "small"), ("mmlu", "best")])
def test_a_weighted_vote_beats_the_best_single_member_on_the_other_half(
    memory_path: Path, recorded: dict[str, Recorded], name: str, panel: str
) -> None:
    """Voters, their order and their weights are chosen on the first half. For the sake of time on
    800 questions of the other one at most; `bench/ensembles.py` takes them all."""
    one = recorded[name]
    other = Recorded(name, one.options, one.halves[1][:800])
    members = panels(one)[panel]
    single = held(memory_path, other, members[:1])
    voted = held(
        memory_path,
        other,
        members,
        decide="weighted",
        weights=weights(one, members),
        stop_early=True,
    )
    assert other.accuracy(other.rows, voted.answers) > other.accuracy(other.rows, single.answers)


# ── killed and resumed ───────────────────────────────────────────────────────────────────────


def number(ask: Ask) -> int:
    """Which question an ask is about, also the judge's."""
    found = re.search(r"What is q(\d+)\?", ask.messages[0].content)
    assert found is not None
    return int(found[1])


def provider(name: str, around: Around | None = None) -> Provider:
    """Voters agree on most questions, in their own words; the judge takes the answer `yes`."""

    def says(ask: Ask, n: int) -> Said:
        changed = around(name, ask, n) if around else None
        if changed is not None:
            return changed
        if name == "judge":
            shown = {one["value"]: one["label"] for one in ask.items[0].data["answers"]}
            reply = Reply(data={"choice": shown.get("yes", "A")}, usage=USED)
        else:
            agrees = Random(f"{name} {number(ask)}").random() < 0.7
            reply = Reply("yes" if agrees else f"{name} says no", usage=USED)
        return Said(reply, USED, 0.5 + Random(f"{name} {n}").random())

    return Provider(says, traits(name, price=PRICE, max_tokens=400))


def company(around: Around | None = None) -> tuple[Provider, ...]:
    return tuple(provider(name, around) for name in (*MEMBERS, "judge"))


class Voted:
    """The pattern of a scene; it keeps what came of it."""

    def __init__(self, **knobs: Any) -> None:
        self.knobs = {"prompt": "What is q{{ item.value }}?", "members": MEMBERS, **knobs}
        self.value: Any = None

    async def __call__(self, run: Run) -> None:
        folded = await ensemble(run, range(QUESTIONS), concurrency=3, **self.knobs)
        self.value = folded.value


WAYS: dict[str, dict[str, Any]] = {
    "plurality": {"decide": "plurality"},
    "early": {"decide": "plurality", "stop_early": True},
    "judge": {"decide": judged(member="judge")},
}


def attempts(store: Path) -> dict[str, set[tuple[str, str]]]:
    """Who was asked about what, by how that stands on disk."""
    found: dict[str, set[tuple[str, str]]] = {"ok": set(), "started": set()}
    with closing(sqlite3.connect(store / "journal.db")) as db:
        for member, ids, state in db.execute("select member, ids, state from attempts"):
            found[state].add((member, msgspec.json.decode(ids)[0]))
    return found


def sent(members: tuple[Provider, ...]) -> Counter[tuple[str, str]]:
    told = [(one.traits.id, prompt) for one in members for prompt in one.sent]
    return Counter((name, re.findall(r"What is q(\d+)\?", text)[0]) for name, text in told)


@pytest.mark.parametrize("many", points(5, 12))
@pytest.mark.parametrize("way", WAYS)
def test_killed_anywhere_and_resumed_no_vote_is_paid_twice(
    memory_path: Path, way: str, many: int
) -> None:
    first, whole = company(), Voted(**WAYS[way])
    scene = Scene(memory_path / "store", first, pattern=whole)
    camera = Camera(
        scene.store,
        memory_path / "images",
        lambda: (attempts(scene.store), sum(one.bill for one in first)),
    )
    play(scene, after_commit=camera)
    for image in Random(way).sample(sorted(camera.seen), many):
        known, billed = camera.seen[image]
        second, again = company(), Voted(**WAYS[way])
        receipt = play(replace(scene, store=image, members=second, pattern=again), resume=True)
        assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": QUESTIONS})
        assert again.value == whole.value
        asked = sent(second)
        assert asked.keys() & known["ok"] == set()
        assert set(asked.values()) <= {1}
        assert asked.keys() | known["ok"] == sent(first).keys()
        assert (
            receipt.maybe_paid_twice
            == len(known["started"])
            == len(asked.keys() & known["started"])
        )
        assert dollars(billed + sum(one.bill for one in second)) <= receipt.cost_usd + 1e-9


def test_interrupted_in_mid_call_the_rest_is_voted_on_when_resumed(memory_path: Path) -> None:
    """The operator does not wait for the calls under way: they are in doubt, and asked again."""
    members, voted = company(), Voted(stop_early=True)
    scene = Scene(memory_path, members, pattern=voted)
    receipt = play(scene, meanwhile=cancel_at(2.2))
    assert (receipt.status, receipt.planned) == ("killed", QUESTIONS)
    before = sent(members)
    receipt = play(scene, resume=True)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": QUESTIONS})
    assert receipt.maybe_paid_twice == sum(sent(members).values()) - len(sent(members)) > 0
    assert sum(before.values()) < sum(sent(members).values())


# ── a voter dies half-way ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [Transient("503"), Terminal("no credit", scope="pool")])
@pytest.mark.parametrize("way", WAYS)
def test_a_voter_that_dies_half_way_is_absent_from_then_on(
    memory_path: Path, way: str, error: Exception
) -> None:
    def dying(name: str, ask: Ask, n: int) -> Said | None:
        return Said(error, seconds=0.5) if name == "b" and n >= 4 else None

    members, voted = company(dying), Voted(**WAYS[way], attempts=1)
    receipt = play(Scene(memory_path, members, pattern=voted))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": QUESTIONS})
    absent = [one["absent"] for one in voted.value]
    assert [] in absent
    dead = [names for names in absent if names]
    assert {one["member"] for names in dead for one in names} == {"b"}
    assert all(str(error) in one["reason"] for names in dead for one in names)
    if isinstance(error, Terminal):
        assert len(members[1].sent) <= 4 + 3  # nothing is sent there once its account is known dead


def test_with_all_accounts_dead_the_run_pauses_and_goes_on_later(memory_path: Path) -> None:
    def dying(name: str, ask: Ask, n: int) -> Said | None:
        return Said(Terminal("no credit", scope="pool"), seconds=0.5) if n >= 4 else None

    members, voted = company(dying), Voted()
    scene = Scene(memory_path, members, pattern=voted)
    receipt = play(scene)
    assert receipt.status == "paused" and "no credit" in (receipt.reason or "")
    assert receipt.passed + receipt.cancelled == receipt.planned == QUESTIONS
    assert receipt.passed > 0
    healed = company()
    receipt = play(replace(scene, members=healed), resume=True)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": QUESTIONS})
    answered = sum(len(one.sent[:4]) for one in members)
    assert sum(len(one.sent) for one in healed) == QUESTIONS * len(MEMBERS) - answered


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────


def said(asked: Asked) -> Says:
    """What the model server says: two models write a number in two ways, the third is wrong."""
    if asked.model == "judge":
        return Says(data={"choice": "B"})
    return Says(text={"a": "18", "b": "$18.00", "c": "19"}[asked.model])


def over_http(url: str, store: Path, pattern: Voted, name: str) -> Receipt:
    members = tuple(
        OpenAI(
            traits(id, kind="openai", answerer=f"openai:{id}", model=id, price=PRICE, max_tokens=200),
            url,
            lambda: "key",
        )
        for id in ("a", "b", "c", "judge")
    )  # fmt: skip
    journal = open_store(store)

    async def main() -> Receipt:
        try:
            scene = Scene(store, members, name=name, pattern=pattern)
            return await carry_out(journal, scene, RealClock())
        finally:
            journal.close()

    return asyncio.run(main())


def test_over_the_wire(tmp_path: Path) -> None:
    """A vote, the same vote run again for nothing, and a judge over the recorded votes."""
    script = "tests.flow.test_ensemble:said"
    with threaded_server(tmp_path / "books.jsonl", script=script, price=PRICE) as server:
        voted = Voted(members=("a", "b", "c"))
        receipt = over_http(server.url, tmp_path / "store", voted, "first")
        assert (receipt.status, receipt.calls) == ("complete", 3 * QUESTIONS)
        assert {one["answer"] for one in voted.value} == {"18"}
        assert {one["dissent"][0]["answer"] for one in voted.value} == {"19"}
        assert receipt.cost_usd == dollars(server.books().bill)

        again = Voted(members=("a", "b", "c"))
        receipt = over_http(server.url, tmp_path / "store", again, "second")
        assert (again.value, receipt.calls, receipt.reused) == (voted.value, 0, 3 * QUESTIONS)

        court = Voted(members=("a", "b", "c"), decide=judged(member="judge"))
        receipt = over_http(server.url, tmp_path / "store", court, "third")
        assert (receipt.calls, receipt.reused) == (QUESTIONS, 3 * QUESTIONS)
        picked = Counter(one["answer"] for one in court.value)
        assert set(picked) == {"18", "$18.00", "19"}  # always B, and B is always another
        assert len(server.books().asked) == 4 * QUESTIONS
        prompts = [entry.prompt for entry in server.books().asked if "### Answer A" in entry.prompt]
        assert len(prompts) == QUESTIONS
