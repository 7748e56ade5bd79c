"""Promises 2, 3 and 4 over random plans, failures, cancellations and crash points."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given

from fanfold.journal import opening
from fanfold.journal.answers import EndedItem
from fanfold.journal.opening import open_store
from fanfold.testing.member import Scripted, traits
from fanfold.work.item import Item
from fanfold.work.member import Traits
from fanfold.work.outcome import STATES, Receipt
from tests.examples import examples
from tests.flow.simulation import (
    Camera,
    Meanwhile,
    Scene,
    cancel_at,
    copy_store,
    outcomes,
    pause_at,
    play,
)
from tests.property.plans import ALLOWED, Answers, Asked, Plan, Subject, gate, kept, plans

UNANSWERED = {"failed", "in_doubt", "cancelled"}


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once; every example starts from a copy."""
    folder = tmp_path_factory.mktemp("empty")
    open_store(folder).close()
    return folder


def who(plan: Plan) -> Traits:
    """A paid model, or a function: free, keyed by the item, its replies serve only their run."""
    return traits(takes="items", shared=False, metered=False) if plan.free else traits()


def scene_of(store: Path, plan: Plan, answers: Answers) -> Scene:
    how = {"concurrency": plan.concurrency, "revise": plan.revise, "gate": gate, "keep": kept}
    if plan.shard:
        how["shard"] = plan.shard
    member = Scripted(answers, who(plan), plan.latency)
    return Scene(store, (member,), list(plan.items), how=how)


def stop_of(plan: Plan) -> Meanwhile | None:
    moment = plan.moment / 8
    return {"pause": pause_at(moment), "cancel": cancel_at(moment)}.get(plan.stop)


def endings(store: Path) -> list[EndedItem]:
    with closing(opening.look(store)) as archive:
        run = archive.read.find("scene")
        return [] if run is None else archive.read.endings(run.no, STATES)


def durable(store: Path) -> set[Asked]:
    """What has a reply on disk. Those of a paid member are found by anyone who asks the same,
    those of a function (kept with their outcome) by the item itself."""
    with closing(sqlite3.connect(store / "journal.db")) as db:
        filed = db.execute("select null, key from replies").fetchall()
        kept = db.execute(
            "select i.id, o.key from outcomes o join items i using (run, batch, position)"
            " where o.body is not null"
        ).fetchall()
    return {*filed, *kept}


def check_account(plan: Plan, receipt: Receipt, ended: list[EndedItem]) -> None:
    """Every planned item once, and the sums of the receipt are those of the journal."""
    if receipt.planned == 0:  # stopped before the items were planned
        assert ended == []
        return
    assert [ending.id for ending in ended] == [item.id for item in plan.items]
    assert receipt.planned == len(plan.items)
    assert outcomes(receipt) == dict(Counter(ending.state for ending in ended))
    for item, ending in zip(plan.items, ended, strict=True):
        allowed = ALLOWED[plan.subject(item.data).kind] | UNANSWERED
        assert ending.state in allowed, (item, ending)
    if receipt.result is not None:
        passed = [{"id": e.id, "value": "good"} for e in ended if e.state == "passed"]
        assert receipt.result == passed


def interrupted(base: Path, plan: Plan) -> Path:
    """Play the plan up to its stop; the store as it then is."""
    store = base / "store"
    scene = scene_of(store, plan, Answers(plan))
    camera = Camera(store, base / "images", lambda: None)
    camera.wanted = lambda commit: plan.stop == "crash"
    receipt = play(scene, after_commit=camera, meanwhile=stop_of(plan))
    check_account(plan, receipt, endings(store))
    if plan.stop != "crash":
        return store
    images = list(camera.seen)
    return images[plan.moment % len(images)]


def check_repaired(plan: Plan, store: Path) -> None:
    """With everything repaired the resumed run completes; nothing on record is asked again."""
    known = durable(store)
    answers = Answers(plan, repaired=True)
    scene = scene_of(store, plan, answers)
    how = {**scene.how, "revise": plan.revise + 1}
    del how["gate"], how["keep"]
    receipt = play(replace(scene, how=how), resume=True)
    assert (receipt.status, outcomes(receipt)) == ("complete", passed(plan))
    assert [part["id"] for part in receipt.result] == [item.id for item in plan.items]
    assert known.isdisjoint(answers.asked)
    assert known.isdisjoint({(None, key) for _, key in answers.asked})
    if not plan.free:
        keys = Counter(key for key in answers.calls)
        assert max(keys.values(), default=1) == 1


def passed(plan: Plan) -> dict[str, int]:
    return {"passed": len(plan.items)} if plan.items else {}


SHARED_BY_TWO_SHARDS = Plan(
    tuple(Subject(f"subject {n}", "good", ()) for n in range(3)),
    tuple(Item(str(n), f"subject {subject}") for n, subject in enumerate((0, 1, 0, 2))),
    2, 2, 0, False, 1.0, "never", 0,
)  # fmt: skip


@examples(150)
@given(plan=plans())
@example(plan=SHARED_BY_TWO_SHARDS)
def test_nothing_is_lost_nothing_ships_ungated_nothing_is_asked_twice(
    empty_store: Path, plan: Plan
) -> None:
    with tempfile.TemporaryDirectory(dir=shared_memory()) as folder:
        base = Path(folder)
        copy_store(empty_store, base / "store")
        check_repaired(plan, interrupted(base, plan))


def shared_memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
