"""Several processes that carry out one run on PostgreSQL, and what goes wrong: the one that leads is killed,
one is stopped for longer than its lease, the server crashes. Calls are counted in the books of the model
server."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fanfold.journal import opening
from fanfold.price import dollars
from fanfold.testing.running import RunningServer, threaded_server
from tests import postgres
from tests.faces.project import PRICE
from tests.flow.share_processes import (
    EXPECTED,
    ITEMS,
    SLOTS,
    ShareProcess,
    Together,
    end_everyone,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.sweep
SHORT = 6  # seconds of a lease


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    yield
    end_everyone()
    postgres.server().start_again()


@pytest.fixture
def together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Together]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = postgres.server().place()
    opening.open_store(place).close()
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=3_600_000.0) as model:
        yield Together(tmp_path, place, model)


def complete(together: Together, but: ShareProcess | None = None) -> dict[str, Any]:
    """All items passed, and nothing was asked twice but what is on record as doubt."""
    others = [one for one in together.started if one is not but]
    assert [one.process.exitcode for one in others] == [0] * len(others), [
        one.said() for one in together.started
    ]
    receipt = together.leader.receipt
    assert (receipt["status"], receipt["passed"]) == ("complete", ITEMS)
    assert (receipt["result"], receipt["overrun_usd"]) == (EXPECTED, 0.0)
    assert len(together.asked()) == ITEMS
    assert sum(together.asked().values()) - ITEMS <= receipt["maybe_paid_twice"] <= SLOTS
    bill = sum(one.cost for one in together.model.books().asked)
    assert dollars(bill) <= receipt["cost_usd"]
    return receipt


def nothing_under_way(model: RunningServer) -> bool:
    """What is under way is answered; calls that were claimed before are sent then."""
    model.release()
    return model.totals().in_flight == 0


def test_when_the_one_that_leads_is_killed_another_one_leads(together: Together) -> None:
    together.start(3)
    dead = together.process_of(together.at_work(3)[0])
    dead.kill()
    together.go()
    complete(together, but=dead)


@pytest.mark.parametrize("which", ["the one that leads", "another one"])
def test_one_that_was_stopped_past_its_lease_does_nothing_more(
    together: Together, which: str
) -> None:
    """The others take over what it had; when it goes on it sends nothing, and says why."""
    server, schema = postgres.server(), together.place.rpartition("=")[2]
    server.run(f"update {schema}.store set lease = {SHORT}")
    together.start(3)
    session = together.at_work(3)[0 if which == "the one that leads" else 1]
    stopped = together.process_of(session)
    assert stopped.process.pid is not None
    os.kill(stopped.process.pid, signal.SIGSTOP)
    now = "extract(epoch from clock_timestamp())"
    leased = f"select 1 from {schema}.sessions where id = '{session}' and until > {now}"
    wait_until(lambda: not server.run(leased))
    mine = f"select count(*), max(started) from attempts where session = '{session}'"
    made = together.rows.ask(mine)
    together.go(but=stopped)
    assert together.rows.ask(mine) == made
    os.kill(stopped.process.pid, signal.SIGCONT)
    assert stopped.end() == 4, stopped.said()
    assert f"longer than its lease ({SHORT} s)" in stopped.said()
    assert "Traceback" not in stopped.said()
    assert together.rows.ask(mine) == made
    complete(together, but=stopped)


def test_a_server_that_crashes_and_comes_back_loses_nothing(together: Together) -> None:
    together.start(3)
    together.at_work(3)
    server = postgres.server()
    server.kill()
    wait_until(lambda: nothing_under_way(together.model))
    server.start()
    together.go()
    receipt = complete(together)
    assert receipt["maybe_paid_twice"] == 0
