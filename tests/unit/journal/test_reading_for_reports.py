"""What the reader answers to those who report: endings, kick-backs, answers, attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.journal.answers import AnsweredItems, EndedItem, Spent, Unsettled
from fanfold.testing.clock import EPOCH
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from tests.unit.observe.runs import (
    answering,
    contracts,
    crashed,
    looked_at,
    out_of_money,
    ran,
    reviewed,
)  # fmt: skip

PAID = 500_000  # nano-dollars: 300 tokens in at $1, 40 out at $5 per million
LOST = 1_024_000 + 500_000 + 1000 * len("Review contract 4")


def test_endings_are_those_of_the_wanted_states_in_planned_order(tmp_path: Path) -> None:
    reviewed(tmp_path / "s", 12)
    with looked_at(tmp_path / "s") as (read, of):
        run = of("contract-review").run.no
        bad = {"severity": "medium", "clause": "a | b"}
        assert read.endings(run, ("kicked", "failed")) == [
            EndedItem("contract-002", "kicked", ("missing or empty: `evidence`",), "haiku", 2 * PAID, bad),
            EndedItem("contract-003", "failed",
                  ("503: overloaded | try\nagain `later` (after 4 attempts)",), None, 0),
        ]  # fmt: skip
        passed = read.endings(run, ("passed",), limit=2)
    assert [(one.id, one.state, one.reasons) for one in passed] == [
        ("contract-000", "passed", ()), ("contract-001", "passed", ()),
    ]  # fmt: skip


def test_endings_of_one_run_leave_other_runs_out(tmp_path: Path) -> None:
    ran(tmp_path / "s", "first", [answering()], contracts(3))
    ran(tmp_path / "s", "second", [answering()], contracts(2))
    with looked_at(tmp_path / "s") as (read, of):
        assert len(read.endings(of("second").run.no, ("passed",))) == 2
        assert read.endings(99, ("passed",)) == []


def test_items_that_passed_after_a_kick_back_are_told_from_those_tried_again(
    tmp_path: Path,
) -> None:
    """Contract 1 of each ten was kicked back and passed, 4 was lost and repeated."""
    reviewed(tmp_path / "s", 22)
    with looked_at(tmp_path / "s") as (read, of):
        assert read.revised(of("contract-review").run.no) == 3


@pytest.mark.parametrize("metered", [True, False])
def test_kick_backs_are_known_for_free_members_too(tmp_path: Path, metered: bool) -> None:
    def script(ask: Ask, n: int) -> Reply | Exception:
        """0 is fine, 1 needs a kick-back, 2 fails at first, 3 never passes."""
        which = ask.messages[0].content[-1]
        if which == "2" and not tried:
            tried.append(n)
            return OSError("once")
        empty = which == "3" or (which == "1" and not ask.turns)
        return Reply("" if empty else "fine", usage=Usage(1, 1))

    tried: list[int] = []
    member = Scripted(script, traits("rules", metered=metered, shared=metered))
    ran(tmp_path / "s", "free", [member], contracts(4))
    with looked_at(tmp_path / "s") as (read, of):
        assert read.revised(of("free").run.no) == 1


def test_answers_are_counted_by_step_and_member_and_whose_run_asked(tmp_path: Path) -> None:
    ran(tmp_path / "s", "first", [answering()], contracts(3))
    ran(tmp_path / "s", "second", [answering()], contracts(5))
    with looked_at(tmp_path / "s") as (read, of):
        assert read.answered_items(of("first").run.no) == {(0, "haiku"): AnsweredItems(3, 0, 3, 3)}
        assert read.answered_items(of("second").run.no) == {(0, "haiku"): AnsweredItems(2, 3, 2, 2)}


def test_items_without_an_answer_stand_under_no_member(tmp_path: Path) -> None:
    reviewed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        assert read.answered_items(of("contract-review").run.no) == {
            (0, ""): AnsweredItems(0, 0, 4), (0, "haiku"): AnsweredItems(9, 0, 12, 9),
        }  # fmt: skip


def test_what_members_spent_is_known_by_step(tmp_path: Path) -> None:
    reviewed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        assert read.by_member(of("contract-review").run.no) == {
            (0, "haiku"): Spent(
                16, 11 * PAID + LOST, Usage(3300, 440), 3740, errors=4, in_doubt=1, bounds=1
            )
        }


def test_the_newest_attempts_come_first(tmp_path: Path) -> None:
    reviewed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        run = of("contract-review").run.no
        found = read.newest(run, ("error", "in_doubt"), limit=3)
        doubt = read.newest(run, ("in_doubt",))
    assert [one.ids for one in found] == [("contract-003",)] * 3
    assert [one.no for one in found] == sorted((one.no for one in found), reverse=True)
    assert [(one.ids, one.cost, one.error) for one in doubt] == [
        (("contract-004",), LOST, "haiku: no answer within 60 s")
    ]


def test_what_is_not_settled_is_counted_by_state(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        run = of("nightly").run.no
        worst = [LOST, LOST, *[LOST + 1000] * 4]  # contracts 8 to 11, and two claimed ahead
        assert read.unsettled(run, "started") == Unsettled(6, sum(worst))
        assert read.unsettled(run, "in_doubt") == Unsettled(0, 0)


def test_a_session_begins_with_its_first_start(tmp_path: Path) -> None:
    out_of_money(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        run = of("too-dear").run
        assert read.session_began(run.no, run.session) == EPOCH
        assert read.session_began(run.no, "another") is None
