"""One run in detail, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from fanfold.journal.answers import AttemptRecord
from fanfold.observe.amounts import clock_time, duration, local_time
from fanfold.observe.detail import detail, detail_json, ids_text, receipt_json
from fanfold.testing.clock import EPOCH
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Reply, Usage
from fanfold.work.outcome import ReasonCount, Receipt, StepAccount
from tests.unit.observe.runs import (
    STUMBLED,
    answering,
    contracts,
    crashed,
    looked_at,
    number,
    out_of_money,
    ran,
    reviewed,
    with_id,
)  # fmt: skip

STARTED = local_time(EPOCH)


def test_a_flagged_run_tells_its_account_its_errors_and_how_to_go_on(tmp_path: Path) -> None:
    seconds = reviewed(tmp_path / "s").seconds
    with looked_at(tmp_path / "s") as (read, of):
        now = of("contract-review")
        lines = detail(read, with_id(now, "01J"), width=200).splitlines()
        errors = read.newest(now.run.no, ("error", "in_doubt"), limit=9)
    assert lines[:16] == [
        "run         contract-review (01J)",
        "status      flagged: 3 of 10 items did not pass",
        "items       10 of 10 done: 7 passed, 1 kicked, 1 failed, 1 unjudged",
        "why         contract-002: missing or empty: `evidence`",
        "why         contract-003: 503: overloaded | try again `later` (after 4 attempts)",
        f"why         contract-005: {STUMBLED}",
        "cost        ≤$0.0070 of $5.00",
        "calls       16 calls, 5 without a reply",
        "tokens      3,300 input, 440 output",
        "in doubt    1 attempt, at most $0.0015 (counted as spent)",
        "paid twice  maybe 1 call, at most $0.0015",
        f"time        started {STARTED}, {duration(seconds)} active",
        "continue    fanfold resume 01J",
        "",
        "last errors",
        "  time      member  item          error",
    ]
    loud, lost = "503: overloaded | try again `later`", "haiku: no answer within 60 s"
    said = {("contract-003",): f"contract-003  {loud}", ("contract-004",): f"contract-004  {lost}"}
    assert len(errors) == 5
    assert lines[16:] == [f"  {clock_time(e.ended)}  haiku   {said[e.ids]}" for e in errors]


def test_verbose_lists_steps_members_and_every_item_that_did_not_pass(tmp_path: Path) -> None:
    reviewed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        now = of("contract-review")
        plain = detail(read, now, width=200)
        verbose = detail(read, now, verbose=True, width=200)
    added = verbose.replace(plain[plain.index("\n\nlast errors") :], "").splitlines()[13:]
    assert added == [
        "",
        "steps",
        "  step  calls  tokens      cost",
        "  map      16   3,740  ≤$0.0070",
        "",
        "members",
        "  member  calls  items  errors  tokens      cost",
        "  haiku      16      9       4   3,740  ≤$0.0070",
        "",
        "items that did not pass",
        "  item          outcome   reasons",
        "  contract-002  kicked    missing or empty: `evidence`",
        "  contract-003  failed    503: overloaded | try again `later` (after 4 attempts)",
        f"  contract-005  unjudged  {STUMBLED}",
    ]


@pytest.mark.parametrize(
    ("replies", "title"),
    [(["", ""], "items that did not pass"), (["drop", "drop"], "items that were skipped"),
     (["", "drop"], "items that did not pass, or were skipped"),
     (["drop"] * 201 + [""], "items that did not pass, or were skipped")],
)  # fmt: skip
def test_items_that_a_filter_skipped_are_not_said_to_have_failed(
    tmp_path: Path, replies: list[str], title: str
) -> None:
    rules = traits("rules", metered=False, price=None)
    member = Scripted(lambda ask, n: Reply(replies[number(ask)]), rules)
    ran(
        tmp_path / "s",
        "x",
        [member],
        contracts(len(replies)),
        revise=0,
        keep=lambda value: value != "drop",
    )
    with looked_at(tmp_path / "s") as (read, of):
        lines = detail(read, of("x"), verbose=True).splitlines()
    assert [line for line in lines if line.startswith("items that")] == [title]


def test_many_items_are_cut_and_counted(tmp_path: Path) -> None:
    member = Scripted(lambda ask, n: Reply(""), traits("rules", metered=False, price=None))
    ran(tmp_path / "s", "bad", [member], contracts(230), revise=0)
    with looked_at(tmp_path / "s") as (read, of):
        lines = detail(read, of("bad"), verbose=True).splitlines()
    assert lines[-2:] == ["  contract-199  kicked   the reply is empty", "  … and 30 more"]


def test_a_crashed_run_tells_what_is_in_doubt(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        lines = detail(read, with_id(of("nightly"), "01J"), store="my store").splitlines()
    assert lines == [
        "run         nightly (01J)",
        "status      crashed: its process died; what was recorded is safe",
        "items       8 of 40 done: 8 passed",
        "pending     32 items",
        "cost        ≤$0.0102 of $1.00",
        "calls       12 calls",
        "tokens      2,400 input, 320 output",
        "in doubt    4 attempts, at most $0.0062 (counted as spent)",
        f"time        started {STARTED}, 2.0s active",
        "continue    fanfold resume 01J --store 'my store'",
    ]


def test_a_running_run_tells_what_is_under_way(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    with looked_at(tmp_path / "s", alive=True, after=3.0) as (read, of):
        lines = detail(read, with_id(of("nightly"), "01J")).splitlines()
    assert lines[1] == "status      running"
    assert lines[7:] == [
        "under way   4 attempts, at most $0.0062 (in the cost until they end)",
        f"time        started {STARTED}, 3.0s active",
    ]


def test_long_texts_are_wrapped_but_never_the_command(tmp_path: Path) -> None:
    out_of_money(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        now = with_id(of("too-dear"), "01JXT21Q00ABCDEFGHJKMNPQR")
        lines = detail(read, now, width=40, store="a/long/way/to/the/store").splitlines()
    assert lines[:4] == [
        "run         too-dear", "            (01JXT21Q00ABCDEFGHJKMNPQR)",
        "status      paused: out of budget:", "            dollars of the run:",
    ]  # fmt: skip
    command = next(line for line in lines if line.startswith("continue "))
    assert command.endswith(" --store a/long/way/to/the/store --budget TOTAL")


def test_a_script_is_resumed_by_running_it_again(tmp_path: Path) -> None:
    out_of_money(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        now = of("too-dear")
        script = msgspec.structs.replace(now, run=msgspec.structs.replace(now.run, plan=b""))
        told = detail(read, script).splitlines()[-1]
    assert told == "continue    run the script again"


def test_the_item_of_a_shard_is_its_first_and_how_many_more() -> None:
    def shard(*ids: str) -> AttemptRecord:
        return AttemptRecord(
            no=1, step=0, member="m", state="error", ids=ids, reserved=0, cost=0, usage=Usage(),
            started=0.0, ended=None, error=None, why="",
        )  # fmt: skip

    assert [ids_text(shard(*ids)) for ids in ((), ("a",), ("a", "b", "c"), ("x" * 50,))] == [
        "", "a", "a +2", "x" * 39 + "…",
    ]  # fmt: skip


# ── for programs ──


def test_a_receipt_in_json_writes_all_tokens_out() -> None:
    receipt = Receipt("01J", "r", "complete", steps=(StepAccount("map"),), result={"a": 1})
    whole = json.loads(receipt_json(receipt))
    tokens = {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}
    assert whole["tokens"] == whole["steps"][0]["tokens"] == tokens
    assert list(whole) == [*Receipt.__struct_fields__, "resume", "details"]
    assert (whole["resume"], whole["details"]) == (None, None)
    assert whole["result"] == {"a": 1}


def test_a_receipt_in_json_says_why_items_did_not_pass_and_the_commands_for_more() -> None:
    receipt = Receipt("01J", "r", "flagged", reasons=(ReasonCount("the reply is empty", 2, "a"),))
    whole = json.loads(receipt_json(receipt, "fanfold resume 01J", "there"))
    assert whole["reasons"] == [{"reason": "the reply is empty", "items": 2, "example": "a"}]
    assert whole["resume"] == "fanfold resume 01J"
    assert whole["details"] == "fanfold status 01J --store there -v"


def test_status_in_json_is_a_receipt_with_what_only_status_knows(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        whole = json.loads(detail_json(read, with_id(of("nightly"), "01J"), "here"))
    tokens = {"input": 2400, "output": 320, "cache_read": 0, "cache_write": 0}
    worst = whole["attempts_in_doubt"]["at_most_usd"]
    assert worst > 0.006
    assert whole == {
        "run": "01J", "name": "nightly", "status": "crashed", "reason": None, "planned": 40,
        "passed": 8, "kicked": 0, "failed": 0, "skipped": 0, "unjudged": 0, "unfunded": 0,
        "in_doubt": 0, "cancelled": 0, "calls": 12, "reused": 0, "retries": 0, "tokens": tokens,
        "cost_usd": round(0.004 + worst, 9), "budget_usd": 1.0, "overrun_usd": 0.0,
        "cost_at_most": True, "below_usd": 0.0,
        "maybe_paid_twice": 0, "maybe_paid_twice_usd": 0.0, "unusable_usage": 0,
        "hedged": 0, "hedged_usd": 0.0, "seconds": 2.0, "cascades": [], "written": None,
        "reasons": [], "cause": None,
        "steps": [{"name": "map", "calls": 12, "reused": 0, "cost_usd": round(0.004 + worst, 9),
                   "tokens": tokens, "seconds": 2.0, "at_most": False, "note": "",
                   "sharing": 0, "shared": 0, "saved_usd": 0.0}],
        "result": None, "pending": 32, "started": "2025-06-15T15:06:40Z",
        "tags": [], "waits": [], "processes": [],
        "in_batches": {"lines": 0, "at_most": 0, "oldest": None, "back": 0, "unconfirmed": 0},
        "attempts_under_way": {"attempts": 0, "at_most_usd": 0.0},
        "attempts_in_doubt": {"attempts": 4, "at_most_usd": worst},
        "members": [{"member": "haiku", "calls": 12, "answered": 8, "reused": 0, "errors": 0,
                     "tokens": tokens, "cost_usd": round(0.004 + worst, 9), "at_most": False}],
        "errors": [], "resume": "fanfold resume 01J --store here", "details": None,
    }  # fmt: skip


def test_errors_in_json_name_their_items(tmp_path: Path) -> None:
    reviewed(tmp_path / "s")
    with looked_at(tmp_path / "s") as (read, of):
        whole = json.loads(detail_json(read, of("contract-review")))
    assert {"at": "2025-06-15T15:06:41Z", "member": "haiku", "ids": ["contract-004"],
            "state": "in_doubt", "error": "haiku: no answer within 60 s"} in whole["errors"]  # fmt: skip


def test_a_run_that_cannot_be_resumed_has_no_command(tmp_path: Path) -> None:
    ran(tmp_path / "s", "fine", [answering()], contracts(2))
    with looked_at(tmp_path / "s") as (read, of):
        assert json.loads(detail_json(read, of("fine")))["resume"] is None
        assert "fanfold resume" not in detail(read, of("fine"))
