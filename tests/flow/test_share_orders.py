"""Orders to a run that several processes carry out together: all of them heed each, and whoever leads next
goes on from there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.clock import RealClock
from fanfold.faces.cli.shares import perform_shared
from fanfold.journal.opening import look, open_store
from fanfold.plans.execute import Audience
from fanfold.plans.prepare import Job, Options, prepare
from fanfold.run.loop import run_sync
from fanfold.run.orders import NewOrder, give_by, is_under_way
from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import Ended, fanfold
from tests.faces.project import PRICE
from tests.flow.share_processes import EXPECTED, RUN, Together, end_everyone, while_answering
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

FEW = 2


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    yield
    end_everyone()


@pytest.fixture
def together(tmp_path: Path) -> Iterator[Together]:
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=3_600_000.0) as model:
        yield Together(tmp_path, str(tmp_path / "store"), model)


def order(together: Together, *words: str) -> Ended:
    ended = fanfold(together.folder, *words, "--store", together.place)
    assert ended.code == 0, ended
    return ended


def status(together: Together) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(order(together, "status", "talk", "--json").out)
    return found


def idle(model: RunningServer) -> int:
    """All that is under way is answered, and nothing follows; how many were asked then."""
    model.release()
    model.wait_idle()
    return model.totals().asked


def test_orders_reach_all_processes_also_one_that_joins_later(together: Together) -> None:
    """When `pause` returns none of them sends anything more, nor does one that joins meanwhile; a limit
    that is set is the limit of all together; `resume` lets all go on."""
    model = together.model
    together.start(3)
    together.at_work(3)
    order(together, "pause", "talk")
    sent = idle(model)
    (late,) = together.start(1, *RUN, "--budget", "7")
    wait_until(lambda: len(together.rows.joined()) == 4)
    wait_until(lambda: late.process.pid in [together.rows.pid(one) for one in together.busy()])
    order(together, "set", "talk", f"m.limits.concurrency={FEW}")
    assert model.totals().asked == sent
    assert "talk is under way, and its budget stays as it is" in late.said()
    told = status(together)
    assert (told["status"], sum(one["leads"] for one in told["processes"])) == ("paused", 1)
    names = [one["name"].rpartition(":")[2] for one in told["processes"]]
    assert sorted(names) == sorted(str(one.process.pid) for one in together.started)
    assert f"processes   4: {told['processes'][0]['name']}" in order(together, "status", "talk").out

    order(together, "resume", "talk")
    wait_until(lambda: model.totals().in_flight == FEW)
    for _ in range(20):
        model.release()
        assert model.totals().in_flight <= FEW
    order(together, "set", "talk", "m.limits.concurrency=12")
    together.go()
    assert [one.process.exitcode for one in together.started] == [0] * 4
    assert together.leader.receipt["result"] == EXPECTED
    assert set(together.asked().values()) == {1}


@pytest.mark.sweep
def test_kill_ends_all_processes(together: Together) -> None:
    together.start(3)
    together.at_work(3)
    order(together, "kill", "talk", "all")
    assert [one.end() for one in together.started] == [3] * 3
    assert "Traceback" not in "".join(one.said() for one in together.started)
    assert status(together)["status"] == "killed"
    assert together.rows.ask("select count(*) from attempts where state = 'started'") == [(0,)]


def test_a_run_is_under_way_while_another_process_is_about_to_lead_it(together: Together) -> None:
    """When the one that led is dead and the next one has not begun: an order is given, and waits."""
    (lead,) = together.start(1)
    wait_until(lambda: len(together.rows.sharers()) == 1)
    said = list[tuple[str, bool]]()

    def instead(job: Job, around: object) -> int:
        """What a process does that is to lead from now on."""
        assert job.record is not None
        with closing(open_store(together.place)) as store:
            new = NewOrder("a test", "pause", within=0.0)
            order = run_sync(give_by(RealClock(), store, job.record, new))
            said.append((order.state, is_under_way(store, job.record.no)))
        return 0

    def end_the_one_that_leads() -> None:
        wait_until(lambda: len(together.rows.joined()) == 2)
        lead.kill()
        while_answering(together.model, lambda: said)

    thread = threading.Thread(target=end_the_one_that_leads)
    thread.start()
    options = Options(store=together.place, shares=1, allow_paid=True)
    job = prepare(str(together.folder / "plan.yaml"), options)
    audience = Audience(lambda run: nullcontext())
    assert perform_shared(job, instead, audience, {}) == 0
    thread.join()
    assert said == [("given", True)]
    with closing(look(together.place)) as view:
        assert not is_under_way(view, 1), "nobody is left"


def test_whoever_leads_next_carries_out_what_was_ordered(together: Together) -> None:
    """An order to a run whose leader has just died is for the one that takes over; a run that is paused
    stays paused when its leader dies; and its budget is the one that was set last."""
    together.start(3, *RUN, "--budget", "50")
    sessions = together.at_work(3)
    order(together, "set", "talk", "budget=90")
    together.process_of(sessions[0]).kill()
    together.answering(lambda: order(together, "pause", "talk"))
    assert together.rows.lead() != sessions[0]
    assert status(together)["status"] == "paused"
    sent = idle(together.model)
    second = together.rows.lead()
    together.process_of(second).kill()
    wait_until(lambda: together.rows.lead() != second)
    wait_until(lambda: status(together)["status"] == "paused")
    assert together.model.totals().asked == sent
    order(together, "resume", "talk")
    together.go()
    receipt = together.leader.receipt
    assert (receipt["status"], receipt["budget_usd"]) == ("complete", 90.0)
    assert receipt["result"] == EXPECTED
    assert sum(together.asked().values()) - len(together.asked()) <= receipt["maybe_paid_twice"]
