"""The store of a team under faults: a server that crashes, connections that are cut, a process that was
stopped for longer than its lease. Calls are counted in the books of the model server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest

from fanfold.journal import opening
from fanfold.price import dollars
from fanfold.testing.running import RunningServer, threaded_server
from tests import postgres
from tests.flow.children import Child, child, finished
from tests.flow.crash_child import PRICE, Job, Told
from tests.flow.proxy import Proxy
from tests.flow.simulation import outcomes
from tests.postgres import PostgresServer
from tests.waiting import wait_until

ITEMS = 200
CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'fanfold'"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    books = tmp_path_factory.mktemp("server") / "books.jsonl"
    script = "tests.flow.crash_child:answered"
    with threaded_server(books, script=script, price=PRICE, latency_ms=40.0) as running:
        yield running


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    """Whatever a test did to it, the next one finds it running."""
    running = postgres.server()
    yield running
    running.start_again()


def job(place: str, model: RunningServer, folder: Path, **how: object) -> Job:
    items = [f"<{folder.name}-{n}>" for n in range(ITEMS)]
    given = {"store": place, "url": model.url, "items": items, "concurrency": 64, **how}
    return Job(state=str(folder / "state"), **given)  # type: ignore[arg-type]


def counts(model: RunningServer, work: Job) -> list[int]:
    """How often each item was asked about, whatever came of it."""
    prompts = [entry.prompt for entry in model.books().asked]
    return [sum(f"Say {text}" in prompt for prompt in prompts) for text in work.items]


def asked(model: RunningServer, work: Job) -> int:
    return sum(counts(model, work))


def complete(told: Told | None, model: RunningServer, *works: Job) -> None:
    """All passed, and the money adds up."""
    assert told is not None and told.receipt is not None, told
    assert (told.receipt.status, outcomes(told.receipt)) == ("complete", {"passed": ITEMS})
    items = {f"Say {text}" for work in works for text in work.items}
    bill = sum(one.cost for one in model.books().asked if one.prompt in items)
    assert dollars(bill) <= told.receipt.cost_usd


def test_two_processes_with_one_store_ask_each_content_once(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    place = database.place()
    works = [job(place, model, tmp_path, name=name, concurrency=16) for name in ("one", "two")]
    told = [finished(one) for one in [child(work) for work in works]]
    assert counts(model, works[0]) == [1] * ITEMS
    receipts = [one.receipt for one in told if one is not None]
    assert [outcomes(receipt) for receipt in receipts] == [{"passed": ITEMS}] * 2
    bill = sum(
        one.cost for one in model.books().asked if one.prompt.endswith(f"{tmp_path.name}-0>")
    )
    assert dollars(bill) <= sum(receipt.cost_usd for receipt in receipts)


def under_way(work: Job, model: RunningServer) -> Child:
    """A process that has sent some calls, and has others to send."""
    running = child(work)
    wait_until(lambda: asked(model, work) >= 40)
    return running


@pytest.mark.slow
def test_when_the_server_crashes_no_call_is_sent_and_nothing_is_lost(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    work = job(database.place(), model, tmp_path)
    running = under_way(work, model)
    database.kill()
    model.wait_idle()
    sent = asked(model, work)
    with pytest.raises(AssertionError):
        wait_until(lambda: asked(model, work) > sent, seconds=1.0)
    database.start()
    complete(finished(running), model, work)
    assert counts(model, work) == [1] * ITEMS


@pytest.mark.slow
def test_connections_that_are_cut_again_and_again_lose_nothing(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    work = job(database.place(), model, tmp_path)
    running = under_way(work, model)
    while running.process.is_alive() and not running.told.poll(0.05):
        database.run(CUT)
    complete(finished(running), model, work)
    assert counts(model, work) == [1] * ITEMS


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["to_server", "from_server", "both"])
def test_a_network_that_swallows_what_is_sent_loses_nothing(
    database: PostgresServer, model: RunningServer, tmp_path: Path, direction: str
) -> None:
    """It stops in mid-transaction; later what was held back is lost with its connections."""
    with Proxy(database.port) as proxy:
        work = job(database.place(port=proxy.port), model, tmp_path)
        running = under_way(work, model)
        proxy.hold(direction)
        model.wait_idle()
        proxy.drop()
        complete(finished(running), model, work)
    assert counts(model, work) == [1] * ITEMS


@pytest.mark.slow
def test_a_process_that_was_stopped_past_its_lease_sends_and_writes_nothing_more(
    database: PostgresServer,
    model: RunningServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its replies are kept in a file, and recorded when the store is opened again; so all is paid
    once, but what others repeated meanwhile, on record."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = database.place()
    opening.open_store(place).close()
    schema = place.rpartition("=")[2]
    database.run(f"update {schema}.store set lease = 6")
    work = job(place, model, tmp_path)
    running = under_way(work, model)
    assert running.process.pid is not None
    os.kill(running.process.pid, signal.SIGSTOP)
    over = f"select 1 from {schema}.sessions where until > extract(epoch from clock_timestamp())"
    wait_until(lambda: not database.run(over))
    model.wait_idle()
    sent, rows = marked_as_sent(place), contents(database, schema)
    os.kill(running.process.pid, signal.SIGCONT)
    told = finished(running)
    assert told is not None
    assert "longer than its lease (6 s)" in told.trouble
    assert asked(model, work) <= sent, "none but those that were on their way"
    assert contents(database, schema) == rows

    database.run(f"update {schema}.store set lease = 180")
    again = finished(child(job(place, model, tmp_path, name="again")))
    complete(again, model)
    assert sum(counts(model, work)) == ITEMS, "what it had got is used, not asked for again"


def marked_as_sent(place: str) -> int:
    """Calls that are over, and those that may have left the process."""
    view = opening.look(place)
    attempts, (run,) = view.read.attempts(1), view.read.runs()
    under_way = {one.no: run.session for one in attempts if one.state == "started"}
    unsent = view.sent.unsent(under_way)
    view.close()
    return len(attempts) - len(unsent)


def contents(database: PostgresServer, schema: str) -> list[object]:
    tables = "runs", "attempts", "replies", "outcomes", "claims", "log", "spending"
    return [database.run(f"select md5(string_agg(t::text, '')) from {schema}.{table} t")
            for table in tables]  # fmt: skip


# ── any of them, at any moment ───────────────────────────────────────────────────────────────


def break_something(random: Random, database: PostgresServer, proxy: Proxy, process: Child) -> None:
    """And put it right again, but for a process that was killed."""
    pid = process.process.pid
    assert pid is not None
    match random.choice(("crash", "cut", "hold", "drop", "stop", "kill")):
        case "crash":
            database.kill()
            time.sleep(random.random())
            database.start()
        case "cut":
            database.run(CUT)
        case "hold":
            proxy.hold(random.choice(("to_server", "from_server", "both")))
            time.sleep(random.random())
            proxy.drop()
        case "drop":
            proxy.drop()
        case "stop":
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(random.random())
                os.kill(pid, signal.SIGCONT)
        case "kill":
            process.process.kill()
            process.process.join()


def has_begun(process: Child, database: PostgresServer, place: str) -> bool:
    """It has a session, or is over. One that cannot reach its store at all is refused."""
    schema, pid = place.rpartition("=")[2], process.process.pid
    if not database.run(f"select 1 from pg_tables where schemaname = '{schema}'"):
        return False
    owners = database.run(f"select convert_from(owner, 'UTF8') from {schema}.sessions")
    mine = any(f'"pid":{pid},' in owner for (owner,) in owners)
    return mine or not process.process.is_alive()


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_random_faults_cost_nothing_twice_and_lose_nothing(
    database: PostgresServer, model: RunningServer, tmp_path: Path, seed: int
) -> None:
    """Three faults for each seed. What a killed process had sent is asked again, on record."""
    random = Random(seed)
    with Proxy(database.port) as proxy:
        place = database.place(port=proxy.port)
        work = job(place, model, tmp_path, usd=1.0, concurrency=random.choice((8, 64)))
        running, again = child(work), msgspec.structs.replace(work, resume=True)
        for _ in range(3):
            wait_until(lambda one=running: has_begun(one, database, place))
            time.sleep(random.random())
            break_something(random, database, proxy, running)
            if running.process.exitcode == -signal.SIGKILL:
                assert finished(running) is None
                running = child(again)
        told = finished(running)
    model.wait_idle()
    assert told is not None and told.receipt is not None, told
    assert outcomes(told.receipt) == {"passed": ITEMS}
    assert told.receipt.cost_usd <= 1.0
    asked_for = counts(model, work)
    assert min(asked_for) == 1
    assert sum(asked_for) <= ITEMS + told.receipt.maybe_paid_twice
