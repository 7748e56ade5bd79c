"""Where a run stands, by the journal alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fanfold.journal.answers import Unsettled
from fanfold.observe.status import (
    DONE,
    MemberAccount,
    RunSummary,
    accounts,
    by_member,
    may_resume,
    whole_receipt,
)  # fmt: skip
from fanfold.run.run import Run
from fanfold.testing.clock import VirtualClock
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import Receipt, State
from tests.unit.observe.runs import (
    answering,
    contracts,
    crashed,
    looked_at,
    out_of_money,
    ran,
    reviewed,
)

WORST = 1_024_000 + 500_000  # of a call in these runs, and 1,000 for each byte of the prompt


def test_a_closed_run_stands_as_its_receipt_says(tmp_path: Path) -> None:
    closed = reviewed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (_, of):
        now = of("contract-review")
    assert (now.status, now.done, now.pending) == ("flagged", 10, 0)
    assert now.seconds == pytest.approx(closed.seconds, abs=0.001)
    assert now.under_way == Unsettled()
    assert now.in_doubt == Unsettled(1, WORST + 1000 * len("Review contract 4"))


def test_a_run_whose_process_died_is_crashed_and_its_calls_are_in_doubt(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        now = of("nightly")
        assert read.unsettled(now.run.no, "in_doubt") == Unsettled()
    in_doubt = sum(WORST + 1000 * len(f"Review contract {n}") for n in (8, 9, 10, 11))
    assert (now.status, now.done, now.pending, now.resumable) == ("crashed", 8, 32, True)
    assert (now.under_way, now.in_doubt) == (Unsettled(), Unsettled(4, in_doubt))
    assert now.seconds == 2.0  # the last sign of life


def test_a_call_that_serves_several_items_counts_once_as_in_the_receipt(tmp_path: Path) -> None:
    member = Scripted(
        lambda ask, n: Reply("fine"), traits("rules", metered=False, shared=True, price=None)
    )
    items = [{**contracts(1)[0], "id": str(n)} for n in range(200)]
    receipt = ran(tmp_path / "s", "free", [member], items, concurrency=4)
    with looked_at(tmp_path / "s") as (read, of):
        summary = of("free")
        whole = whole_receipt(summary, accounts(read, summary.run))
    assert (receipt.passed, len(member.asked) < 200) == (200, True)
    assert whole.calls == receipt.calls == len(member.asked)


def test_a_run_whose_process_lives_is_running(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    with looked_at(tmp_path / "s", alive=True, after=2.75) as (_, of):
        now = of("nightly")
    assert (now.status, now.resumable) == ("running", False)
    assert (now.under_way.attempts, now.in_doubt) == (4, Unsettled())
    assert now.seconds == pytest.approx(2.75, abs=0.001)


def test_active_time_leaves_out_the_pause(tmp_path: Path) -> None:
    first = out_of_money(tmp_path / "s")
    seen: list[RunSummary] = []

    async def look(run: Run, clock: VirtualClock) -> None:
        await clock.sleep(1.5)
        shutil.copytree(tmp_path / "s", tmp_path / "copy")

    ran(tmp_path / "s", "too-dear", [answering()], contracts(40), look, resume=True,
        prompt="Rate {{ item.text }}")  # fmt: skip
    with looked_at(tmp_path / "copy", alive=True, after=1.5) as (_, of):
        seen.append(of("too-dear"))
    with looked_at(tmp_path / "copy", alive=False) as (_, of):
        seen.append(of("too-dear"))
    assert [s.status for s in seen] == ["running", "crashed"]
    assert [round(s.seconds - first.seconds, 2) for s in seen] == [1.5, 1.0]


@pytest.mark.parametrize(
    ("status", "state", "may"),
    [
        ("complete", "passed", False), ("running", "passed", False), ("paused", "passed", True),
        ("killed", "passed", True), ("aborted", "passed", True), ("flagged", "kicked", False),
        ("flagged", "failed", True), ("flagged", "unjudged", True), ("flagged", "in_doubt", True),
    ],
)  # fmt: skip
def test_resuming_is_offered_where_it_does_something(status: str, state: State, may: bool) -> None:
    receipt = Receipt("01", "r", status, planned=1, **{state: 1})  # type: ignore[arg-type]
    assert may_resume(receipt) is may


def test_done_and_pending_add_up(tmp_path: Path) -> None:
    receipt = out_of_money(tmp_path / "s")
    with looked_at(tmp_path / "s") as (_, of):
        now = of("too-dear")
    assert now.done == sum(getattr(receipt, state) for state in DONE) == receipt.passed
    assert (now.pending, now.done + now.pending) == (receipt.unfunded, 40)


# ── who did what ──


def test_the_members_accounts_add_up_to_the_receipt(tmp_path: Path) -> None:
    closed = reviewed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        now = of("contract-review")
        found = accounts(read, now.run)
    assert found == [
        MemberAccount(0, "haiku", 16, 9, 0, 4, Usage(3300, 440), closed.cost_usd, True)
    ]  # fmt: skip
    assert whole_receipt(now, found).calls == closed.calls


def test_replies_of_earlier_runs_count_as_reused(tmp_path: Path) -> None:
    ran(tmp_path / "s", "first", [answering()], contracts(3))
    ran(tmp_path / "s", "second", [answering()], contracts(5))
    with looked_at(tmp_path / "s") as (read, of):
        now = of("second")
        found = accounts(read, now.run)
    assert found == [MemberAccount(0, "haiku", 2, 5, 3, 0, Usage(600, 80), 0.001)]
    whole = whole_receipt(now, found)
    assert (whole.calls, whole.reused, whole.steps[0].calls, whole.steps[0].reused) == (2, 3, 2, 3)


def test_calls_of_a_free_function_are_counted_though_it_has_no_attempts(tmp_path: Path) -> None:
    """Contract 1 is kicked back once, contract 2 raises each time it is asked."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        text = ask.messages[0].content
        if text.endswith("2"):
            return ValueError("no")
        return Reply("" if text.endswith("1") and not ask.turns else "fine")

    rules = Scripted(script, traits("rules", metered=False, shared=False, price=None))
    receipt = ran(tmp_path / "s", "free", [rules], contracts(4))
    with looked_at(tmp_path / "s") as (read, of):
        found = accounts(read, of("free").run)
    assert found == [MemberAccount(0, "rules", receipt.calls, 3, 0, len(rules.asked) - 4)]
    assert receipt.calls == len(rules.asked) > 4


def test_members_of_several_steps_are_added_the_dearest_first() -> None:
    steps = [
        MemberAccount(0, "a", 1, 2, 3, 4, Usage(1, 1), 0.5), MemberAccount(0, "b", 1, cost_usd=9.0),
        MemberAccount(1, "a", 1, 2, 3, 4, Usage(1, 1), 0.5),
    ]  # fmt: skip
    assert by_member(steps) == [
        MemberAccount(0, "b", 1, cost_usd=9.0), MemberAccount(0, "a", 2, 4, 6, 8, Usage(2, 2), 1.0),
    ]  # fmt: skip
