"""A worker that has not started says why: never a blank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.fleet.look import WorkerReader
from fanfold.testing.clock import EPOCH
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage
from tests.unit.fleet.talk import line, said


class Waiting:
    """A fleet, and why each of its pending workers waits."""

    def __init__(self, root: Path, *workers: dict[str, Any], **config: Any) -> None:
        usual = {"launch_delay_seconds": 0, "model": "sonnet"}
        self.stage = Stage(root, list(workers), **(usual | config))

    def works(self, id: str, at: float = 0.0, reserved: float = 0.5) -> int:
        attempt = self.stage.starts(id, at, reserved)
        self.stage.works(id, attempt, said("at it"), at=at)
        self.stage.hosted(id, alive=True)
        return attempt

    def why(self, after: float = 30.0) -> dict[str, str]:
        archive, record = self.stage.look()
        found = WorkerReader().read(archive, record, EPOCH + after)
        archive.close()
        self.stage.close()
        pending = [one for one in found if one.state == "PENDING"]
        assert [one.last for one in pending] == [one.waits for one in pending]
        return {one.id: one.waits for one in pending}


def test_for_a_slot(tmp_path: Path) -> None:
    fleet = Waiting(tmp_path, worker("a"), worker("b"), worker("c"), max_concurrent=2)
    fleet.works("a")
    fleet.works("b")
    assert fleet.why() == {"c": "waits for a slot: 2 of 2 are at work"}


def test_for_money_and_behind_those_who_wait_for_it(tmp_path: Path) -> None:
    fleet = Waiting(
        tmp_path, worker("a"), worker("b"), worker("c", max_budget_usd=0.02),
        max_concurrent=2, max_budget_fleet=2, overrun="allow",
    )  # fmt: skip
    fleet.works("a", reserved=1.5)
    assert fleet.why() == {
        "b": "waits for budget: it may cost $1.00, $0.50 is free",
        "c": "waits for a slot: others before it wait for budget (b)",
    }


def test_for_the_pause_between_two_starts(tmp_path: Path) -> None:
    fleet = Waiting(tmp_path, worker("a"), worker("b"), launch_delay_seconds=60)
    fleet.works("a", at=10)
    assert fleet.why(after=30) == {"b": "waits for its turn: 1m 00s between two starts"}


@pytest.mark.parametrize(
    ("stated", "why"),
    [({}, "waits for bad (killed), late"), ({"partial": True}, "waits for late")],
)
def test_for_parents_and_one_that_ended_badly_says_how(
    tmp_path: Path, stated: dict[str, Any], why: str
) -> None:
    fleet = Waiting(tmp_path, worker("bad"), worker("late"), worker("c", "bad", "late", **stated))
    attempt = fleet.works("bad")
    fleet.works("late")
    fleet.stage.exits("bad", -15, 8, "killed", "killed by the operator")
    fleet.stage.ends("bad", attempt, 8, 0.02, "bad: killed by the operator")
    assert fleet.why() == {"c": why}


def test_for_a_rate_limit_of_the_same_program_only(tmp_path: Path) -> None:
    codex = worker("c", provider="codex", model="gpt-5.4")
    fleet = Waiting(tmp_path, worker("a"), worker("b"), codex)
    attempt = fleet.stage.starts("a", 0)
    info = {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": EPOCH + 3600}
    fleet.stage.works("a", attempt, line(type="rate_limit_event", rate_limit_info=info))
    fleet.stage.exits("a", 1, 5)
    fleet.stage.ends("a", attempt, 5, 0.0, "a: out of quota")
    assert fleet.why() == {
        "b": "waits for the rate limit of claude, until 16:06 UTC",
        "c": "is about to start",
    }


def test_for_another_try(tmp_path: Path) -> None:
    """Its attempt failed, but it has no outcome and its run goes on."""
    fleet = Waiting(tmp_path, worker("a"))
    attempt = fleet.stage.starts("a", 0)
    fleet.stage.fails(attempt, 5, "a: overloaded (529)")
    assert fleet.why() == {"a": "waits for a retry: overloaded (529)"}


def test_for_a_resume(tmp_path: Path) -> None:
    crashed = Waiting(tmp_path / "crashed", worker("a"), worker("b", "a"))
    crashed.stage.crashes()
    told = "waits for a resume: the process of the run died"
    assert crashed.why() == {"a": told, "b": told}
    paused = Waiting(tmp_path / "paused", worker("a"))
    paused.stage.closes("paused", 9, "ended by SIGTERM")
    assert paused.why() == {"a": "waits for a resume: the run is paused: ended by SIGTERM"}
