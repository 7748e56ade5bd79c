"""Asks that wait for workers and are not wanted any more: what nobody has taken was not sent."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.price import dollars
from fanfold.testing.running import RunningServer, threaded_server
from tests import postgres
from tests.faces.cli import fanfold, started
from tests.faces.project import MEMBER, PRICE
from tests.flow.answering import all_answered
from tests.flow.test_workers import AT, Machines, rows
from tests.postgres import PostgresServer
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

SLOTS, ITEMS, AT_ONCE = 2, 24, 16
WAIT = "select count(*) from s.asks where state = 'queued'"


@pytest.fixture
def database() -> PostgresServer:
    return postgres.server()


@pytest.fixture
def model(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=3_600_000.0) as running:
        yield running


def test_a_run_that_is_stopped_takes_back_what_no_worker_has(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    """What a worker has comes to its end; the rest cost nothing, is not in doubt, and is asked later."""
    machines = Machines(database.place(), model.url, tmp_path, ITEMS)
    with machines.worker("one", "--slots", str(SLOTS)) as worker:
        worker.until_it_says("takes asks for m")
        with started(machines.run, "run", *machines.words) as run:
            run.until(lambda: model.totals().in_flight == SLOTS)
            run.until(lambda: rows(database, machines.place, WAIT) == [(AT_ONCE - SLOTS,)])
            run.send(signal.SIGINT)
            run.until(lambda: rows(database, machines.place, WAIT) == [(0,)])
            model.release()
            paused = run.end()
        assert rows(database, machines.place, "select count(*) from s.asks") == [(0,)]
        with all_answered(model):
            resume = ("resume", "talk", "--store", machines.place, "--json")
            ended = fanfold(machines.run, *resume)
    receipt = paused.receipt
    assert (paused.code, receipt["status"]) == (4, "paused")
    assert (receipt["passed"], receipt["calls"], receipt["in_doubt"]) == (SLOTS, SLOTS, 0)
    assert (ended.code, ended.receipt["passed"]) == (0, ITEMS)
    assert list(machines.asked(model).values()) == [1] * ITEMS


def test_a_run_without_a_worker_can_be_stopped(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    machines = Machines(database.place(), model.url, tmp_path, ITEMS)
    with started(machines.run, "run", *machines.words) as run:
        wait_until(lambda: fanfold(machines.run, "status", "--store", machines.place).code == 0)
        run.until(lambda: rows(database, machines.place, WAIT) == [(AT_ONCE,)])
        run.send(signal.SIGTERM)
        paused = run.end()
    receipt = paused.receipt
    assert (paused.code, receipt["status"], receipt["calls"]) == (4, "paused", 0)
    assert (receipt["cost_usd"], receipt["in_doubt"]) == (0.0, 0)
    assert model.totals().asked == 0


def test_a_hedge_that_no_worker_has_taken_costs_nothing(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    """The other request was answered: the hedge is taken out of the queue, and was no call."""
    machines = Machines(database.place(), model.url, tmp_path, items=1)
    here = MEMBER.format(url=model.url)
    there = here.replace("- id: m", "- id: w").replace("input: 1000", "input: 2000")
    (machines.run / "roster.yaml").write_text(f"members:\n{here}{there}{AT}")
    plan = machines.run / "plan.yaml"
    plan.write_text(plan.read_text().replace("member: m", "hedge: {extra: 1.0, after: 0.1}"))
    with started(machines.run, "run", *machines.words) as run:
        run.until(lambda: model.totals().in_flight == 1)
        run.until(lambda: rows(database, machines.place, WAIT) == [(1,)])
        model.release()
        ended = run.end()
    receipt, books = ended.receipt, model.books()
    assert (ended.code, receipt["passed"], receipt["calls"], receipt["hedged"]) == (0, 1, 1, 0)
    assert (len(books.asked), receipt["cost_usd"]) == (1, dollars(books.bill))
    assert rows(database, machines.place, "select count(*) from s.asks") == [(0,)]
