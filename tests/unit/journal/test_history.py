"""What a member's calls took so far, as the attempts on record tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.errors import Transient
from fanfold.gates.checks import regex, require
from fanfold.journal import opening
from fanfold.journal.answers import CallHistory
from fanfold.journal.sqlite.read_members import NEWEST
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberStats
from tests.unit.observe.runs import answering, contracts, ran

HAIKU = "scripted:haiku"


def of(store: Path, step: str = "map", answerer: str = HAIKU) -> CallHistory | None:
    archive = opening.look(store)
    try:
        return archive.read.call_history("haiku", answerer, step)
    finally:
        archive.close()


def test_means_variances_and_latency_are_those_of_the_calls(tmp_path: Path) -> None:
    outputs = [10, 20, 30, 40]
    member = Scripted(
        lambda ask, n: Reply("ok", usage=Usage(100, outputs[n], cache_read=50)),
        traits("haiku"), latency=2.0,
    )  # fmt: skip
    ran(tmp_path, "one", [member], contracts(4), concurrency=1)
    past = of(tmp_path)
    assert past is not None
    costs = [150_000 + 5000 * tokens for tokens in outputs]
    assert past == CallHistory(
        calls=4, step="map", cost=sum(costs) / 4,
        cost_variance=pytest.approx(5000**2 * 500 / 3), input=150.0,
        output=25.0, latency=pytest.approx(2.0),
        slow=pytest.approx(2.0), kicks=0.0, errors=0.0,
    )  # fmt: skip


def test_another_step_falls_back_on_all_steps_and_another_model_begins_anew(tmp_path: Path) -> None:
    ran(tmp_path, "one", [answering()], contracts(3))
    past = of(tmp_path, "reduce")
    assert past is not None and (past.calls, past.step) == (3, None)
    assert of(tmp_path, answerer="scripted:other") is None


def test_kick_backs_and_errors_are_told_as_shares(tmp_path: Path) -> None:
    """Of four contracts one is kicked back and one meets an error first."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        text = ask.messages[0].content
        if "contract 3" in text and n == 3:
            return Transient("503")
        thin = "contract 2" in text and not ask.turns
        return Reply(data={} if thin else {"a": 1}, usage=Usage(1, 1))

    ran(tmp_path, "one", [Scripted(script, traits("haiku"))], contracts(4), gate=require("a"),
        concurrency=1)  # fmt: skip
    past = of(tmp_path)
    assert past is not None
    assert (past.calls, past.kicks, past.errors) == (5, 0.25, pytest.approx(1 / 6))


def test_a_reply_without_usage_counts_in_cost_but_not_in_tokens(tmp_path: Path) -> None:
    script = lambda ask, n: Reply("ok", usage=Usage(10, 4) if n else None)  # noqa: E731
    ran(tmp_path, "one", [Scripted(script, traits("haiku"))], contracts(2), concurrency=1)
    past = of(tmp_path)
    assert past is not None
    assert (past.calls, past.input, past.output) == (2, 10.0, 4.0)
    assert past.cost > 100_000  # the worst case stands for the one that told nothing


def test_only_the_newest_are_looked_at(tmp_path: Path) -> None:
    ran(tmp_path, "old", [Scripted(lambda ask, n: Reply("a", usage=Usage(9, 9)), traits("haiku"))],
        contracts(NEWEST + 20), concurrency=50)  # fmt: skip
    newest = Scripted(lambda ask, n: Reply("b", usage=Usage(1, 1)), traits("haiku"))
    ran(tmp_path, "new", [newest], contracts(NEWEST), prompt="Other {{ item.text }}",
        concurrency=50)  # fmt: skip
    past = of(tmp_path)
    assert past is not None and (past.calls, past.input, past.output) == (1000, 1.0, 1.0)


def test_what_a_run_asked_of_a_step_is_counted_by_task(tmp_path: Path) -> None:
    ran(tmp_path, "one", [answering()], contracts(3))
    ran(tmp_path, "two", [answering()], contracts(5), prompt="Other {{ item.text }}")
    archive = opening.look(tmp_path)
    run = archive.read.find("two")
    assert run is not None
    asked = archive.read.tasks_asked
    assert (asked(run.no, "map"), asked(run.no, "reduce")) == (5, 0)
    archive.close()


def test_success_is_the_share_of_calls_that_settled_a_task(tmp_path: Path) -> None:
    """Six calls for four contracts: one met an error, one reply was kicked back."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        return [Reply("ok"), Transient("503"), Reply("bad")][n] if n < 3 else Reply("ok")

    member = Scripted(script, traits("haiku"), latency=2.0)
    ran(tmp_path, "one", [member], contracts(4), concurrency=1, gate=regex("ok"))
    archive = opening.look(tmp_path)
    try:
        stats = archive.read.member_stats
        assert stats("haiku", HAIKU, "map") == MemberStats(4 / 6, pytest.approx(2.0), 6)
        assert stats("haiku", HAIKU, None) == stats("haiku", HAIKU, "map")
        assert stats("haiku", HAIKU, "reduce") is None
        assert stats("haiku", "scripted:other", None) is None
    finally:
        archive.close()


def test_a_member_that_never_answered_has_no_success(tmp_path: Path) -> None:
    member = Scripted(lambda ask, n: Transient("503"), traits("haiku"))
    ran(tmp_path, "one", [member], contracts(1), attempts=2)
    archive = opening.look(tmp_path)
    try:
        assert archive.read.member_stats("haiku", HAIKU, "map") == MemberStats(0.0, 0.0, 2)
    finally:
        archive.close()
