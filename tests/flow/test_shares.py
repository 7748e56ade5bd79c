"""One run that several processes carry out together, on SQLite and on PostgreSQL. Calls are counted in the
books of the model server; how long they take is for the test to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.price import dollars
from fanfold.testing.running import RunningServer, running_server, threaded_server
from fanfold.testing.script import enforce_rates
from tests import postgres
from tests.faces.project import PRICE, write_items, write_project
from tests.flow.share_processes import (
    EXPECTED,
    ITEMS,
    RPM,
    RUN,
    SLOTS,
    ShareProcess,
    Together,
    end_everyone,
    while_answering,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

MOST = 1.2  # dollars that one call may cost
limited = enforce_rates(RPM, 1e12)
"""The script of a server that refuses what comes faster."""


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    yield
    end_everyone()


@pytest.fixture
def model(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=3_600_000.0) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def together(request: pytest.FixtureRequest, tmp_path: Path, model: RunningServer) -> Together:
    place = str(tmp_path / "store") if request.param == "sqlite" else postgres.server().place()
    return Together(tmp_path, place, model)


def test_four_processes_carry_out_one_run_within_its_limits(together: Together) -> None:
    """All take part, no more calls are under way than one process would make, and the result is the
    same: each item is asked about once, the reduce is made once."""
    together.start(4)
    together.at_work(4)
    together.go()
    assert [one.process.exitcode for one in together.started] == [0] * 4
    receipt = together.leader.receipt
    assert (receipt["status"], receipt["passed"], receipt["calls"]) == ("complete", ITEMS, ITEMS)
    assert receipt["steps"][0]["calls"] == ITEMS
    assert receipt["result"] == EXPECTED
    assert set(together.asked().values()) == {1} and len(together.asked()) == ITEMS
    assert len(together.rows.sessions()) == 4
    assert together.model.totals().max_in_flight <= SLOTS
    assert together.rows.ask("select count(*) from runs") == [(1,)]


def test_a_budget_holds_for_all_of_them_together(together: Together) -> None:
    """It is spent to the last call that fits, and not beyond. With more, the rest is done, once."""
    few = 120
    write_items(together.folder, [f"word {n}" for n in range(few)])
    together.start(4, *RUN, "--budget", "4")
    wait_until(lambda: len(together.rows.joined()) == 4)
    together.go()
    receipt = together.leader.receipt
    bill = sum(one.cost for one in together.model.books().asked)
    assert (receipt["status"], receipt["overrun_usd"]) == ("paused", 0.0)
    assert receipt["passed"] + receipt["unfunded"] == few
    assert dollars(bill) == receipt["cost_usd"] <= 4.0
    assert 4.0 - receipt["cost_usd"] < MOST, "what is left does not pay for one more call"
    words = ("resume", "talk", "--shares", "1", "--allow-paid", "--json", "--quiet")
    together.started.clear()
    (again,) = together.start(1, *words, "--budget", "100")
    together.go()
    assert (again.receipt["status"], again.receipt["passed"]) == ("complete", few)
    assert set(together.asked().values()) == {1} and len(together.asked()) == few


@pytest.mark.parametrize("which", ["the one that leads", "another one"])
def test_what_a_dead_process_had_the_others_take_over(
    tmp_path: Path, model: RunningServer, which: str
) -> None:
    """Nothing is asked twice but what the dead one had sent, which is on record. If it led, another
    one leads from then on."""
    together = Together(tmp_path, str(tmp_path / "store"), model)
    together.start(4)
    sessions = together.at_work(4)
    dead = together.process_of(sessions[0] if which == "the one that leads" else sessions[2])
    dead.kill()
    together.go()
    others = [one for one in together.started if one is not dead]
    assert [one.process.exitcode for one in others] == [0] * 3, [one.said() for one in others]
    receipt = together.leader.receipt
    assert (receipt["status"], receipt["passed"]) == ("complete", ITEMS)
    assert receipt["result"] == EXPECTED
    repeated = sum(together.asked().values()) - ITEMS
    assert len(together.asked()) == ITEMS
    assert repeated <= receipt["maybe_paid_twice"] <= SLOTS
    bill = sum(one.cost for one in together.model.books().asked)
    assert dollars(bill) <= receipt["cost_usd"]


def test_a_signal_to_the_one_that_leads_pauses_all_and_resume_goes_on(
    tmp_path: Path, model: RunningServer
) -> None:
    together = Together(tmp_path, str(tmp_path / "store"), model)
    together.start(3)
    lead = together.process_of(together.at_work(3)[0])
    lead.process.terminate()
    wait_until(lambda: together.rows.ask("select 1 from sharers where length(stop) > 0"))
    together.go()
    assert [one.process.exitcode for one in together.started] == [4] * 3
    assert (lead.receipt["status"], lead.receipt["reason"]) == ("paused", "ended by SIGTERM")
    assert sum(together.asked().values()) < ITEMS
    together.started.clear()
    together.start(2, "resume", "talk", *RUN[2:])
    together.go()
    assert [one.process.exitcode for one in together.started] == [0] * 2
    receipt = together.leader.receipt
    assert (receipt["status"], receipt["result"]) == ("complete", EXPECTED)
    assert set(together.asked().values()) == {1}


def test_a_signal_to_another_one_ends_only_that(tmp_path: Path, model: RunningServer) -> None:
    together = Together(tmp_path, str(tmp_path / "store"), model)
    together.start(3)
    other = together.process_of(together.at_work(3)[1])
    other.process.terminate()
    while_answering(model, lambda: not other.process.is_alive())
    assert (other.end(), together.rows.ask("select status from runs")) == (0, [("running",)])
    together.go()
    assert [one.end() for one in together.started if one is not other] == [0] * 2
    assert together.leader.receipt["result"] == EXPECTED
    assert set(together.asked().values()) == {1}


def test_a_plan_without_a_step_that_can_be_divided_is_refused(tmp_path: Path) -> None:
    write_project(tmp_path / "project", "http://127.0.0.1:9")
    plan = tmp_path / "project" / "plan.yaml"
    plan.write_text("name: one\nsteps:\n  - ask: {prompt: Say it, member: m}\n")
    words = ("run", "plan.yaml", "--shares", "2", "--allow-paid")
    refused = ShareProcess(tmp_path / "project", "p", *words)
    assert refused.end() == 2
    assert refused.said() == (
        "fanfold: plan.yaml: --shares: no step can be divided of `ask`; a `map` over the input can,"
        " without `batch`, `tools` and `watch`, and not in shards by `count`, `hash` or `range`\n"
    )


@pytest.mark.sweep
@pytest.mark.parametrize("killed", [False, True])
def test_four_processes_use_a_rate_that_is_enforced_to_nine_tenths(
    tmp_path: Path, killed: bool
) -> None:
    """20,000 items on PostgreSQL, four processes; also if one of them dies on the way."""
    many, script = 20_000, "tests.flow.test_shares:limited"
    with running_server(
        tmp_path / "books.jsonl", script=script, price=PRICE, latency_ms=50.0
    ) as model:
        together = Together(tmp_path, postgres.server().place(), model, many, 256, RPM)
        started = together.start(4, *RUN, "--budget", "900")
        if killed:
            wait_until(lambda: len(together.rows.sharers()) == 4)
            wait_until(lambda: model.totals().asked > many // 4)
            started[3].kill()
        codes = [one.end() for one in started]
        model.wait_idle()
        books = model.books()
    assert codes == ([0, 0, 0, -9] if killed else [0] * 4), [one.said() for one in started]
    receipt = together.leader.receipt
    assert (receipt["status"], receipt["passed"], receipt["overrun_usd"]) == ("complete", many, 0)
    assert receipt["result"] == " / ".join(f"Say word {n}" for n in range(many))
    answered = Counter(one.prompt for one in books.asked if one.status == 200)
    assert len(answered) == many
    assert sum(answered.values()) <= many + receipt["maybe_paid_twice"]
    assert dollars(sum(one.cost for one in books.asked)) <= receipt["cost_usd"] <= 900
    ((first, last),) = together.rows.ask("select min(started), max(started) from attempts")
    used = 60 * many / (last - first) / RPM
    (tmp_path / "rate").write_text(f"{used:.3f}")
    assert used >= 0.9, f"{used:.1%} of the rate; {len(together.rows.sessions())} took part"
