"""The store of a team under faults: a server that crashes, connections that are cut, a process that was
stopped for longer than its lease. Calls are counted in the books of the model server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pytest

from fanfold.journal import opening
from fanfold.price import dollars
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.work.outcome import Receipt
from tests import postgres
from tests.flow.answering import all_answered
from tests.flow.children import Child, child, finished
from tests.flow.crash_child import PRICE, Job, Told
from tests.flow.proxy import Proxy
from tests.flow.simulation import outcomes
from tests.postgres import PostgresServer
from tests.waiting import wait_until

ITEMS = 200
DIRECTIONS = ("to_server", "from_server", "both")
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


def more_is_asked(model: RunningServer, work: Job) -> bool:
    """Within a second after all that was under way has ended."""
    model.wait_idle()
    sent = asked(model, work)
    try:
        wait_until(lambda: asked(model, work) > sent, seconds=1.0)
    except AssertionError:
        return False
    return True


@pytest.mark.slow
def test_when_the_server_crashes_no_call_is_sent_and_nothing_is_lost(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    """But for those that were claimed already: at most as many as there are slots."""
    work = job(database.place(), model, tmp_path)
    running = under_way(work, model)
    database.kill()
    before = asked(model, work)
    while more_is_asked(model, work):
        assert asked(model, work) - before <= work.concurrency
    database.start()
    complete(finished(running), model, work)
    assert counts(model, work) == [1] * ITEMS


@pytest.mark.sweep
def test_connections_that_are_cut_again_and_again_lose_nothing(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    work = job(database.place(), model, tmp_path)
    running = under_way(work, model)
    for many in range(44, ITEMS, 4):
        wait_until(lambda least=many: over(running) or asked(model, work) >= least)
        database.run(CUT)
    complete(finished(running), model, work)
    assert counts(model, work) == [1] * ITEMS


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
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


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("what", "seconds"),
    [("crash", 60), *((way, many) for way in DIRECTIONS for many in (5, 30, 120))],
)
def test_two_minutes_without_the_database_pause_a_run_and_cost_nothing(
    database: PostgresServer, tmp_path: Path, what: str, seconds: int
) -> None:
    """64 calls at once, which are answered meanwhile. The server is down, or nothing passes in one
    direction or in both."""
    held = threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=3_600_000.0)
    with Proxy(database.port) as proxy, held as model:
        work = job(database.place(port=proxy.port), model, tmp_path)
        running = child(work)
        wait_until(lambda: model.totals().in_flight == work.concurrency)
        (database.kill if what == "crash" else partial(proxy.hold, what))()
        with all_answered(model):
            assert not running.told.poll(seconds), "it waits"
            assert asked(model, work) <= 2 * work.concurrency, "but for what was claimed before"
            (database.start if what == "crash" else proxy.mend)()
            complete(finished(running), model, work)
        assert counts(model, work) == [1] * ITEMS


@pytest.mark.slow
def test_a_process_that_was_stopped_past_its_lease_sends_and_writes_nothing_more(
    database: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replies are kept in a file, and recorded when the store is opened again; so all is paid
    once, but what others repeated meanwhile, on record."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = database.place()
    opening.open_store(place).close()
    schema = place.rpartition("=")[2]
    database.run(f"update {schema}.store set lease = 6")
    held = threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=3_600_000.0)
    with held as model:
        work = job(place, model, tmp_path)
        running = child(work)
        wait_until(lambda: model.totals().asked == work.concurrency)
        model.release()
        wait_until(lambda: model.totals().asked == 2 * work.concurrency)
        assert running.process.pid is not None
        os.kill(running.process.pid, signal.SIGSTOP)
        until = "until > extract(epoch from clock_timestamp())"
        wait_until(lambda: not database.run(f"select 1 from {schema}.sessions where {until}"))
        model.release()
        model.wait_idle()
        sent, rows = marked_as_sent(place), contents(database, schema)
        os.kill(running.process.pid, signal.SIGCONT)
        with all_answered(model):
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


SHORT, USUAL = 6, 180  # seconds of a lease
FAULTS = ("crash", "cut", "hold", "drop", "stop", "kill")


class Faults:
    """What goes wrong, from a seed: what, for how long, and after how many calls (`moments`). Some have
    a short lease, so that a process that is stopped, or cut off, loses it. All is put right again, but for
    one that was killed."""

    def __init__(self, seed: int, database: PostgresServer, proxy: Proxy) -> None:
        self._random, self._database, self._proxy = Random(seed), database, proxy
        self.lease = self._random.choice((SHORT, USUAL, USUAL))
        self.concurrency = self._random.choice((8, 64))
        self.moments = sorted(self._random.randrange(ITEMS) for _ in range(3))
        self.done: list[str] = []

    def strike(self, process: Child) -> None:
        """One of them; on record in `done`."""
        what, seconds = self._random.choice(FAULTS), self._seconds()
        self.done.append(f"{what} {seconds:.2g} s" + (" (too late)" if over(process) else ""))
        match what:
            case "crash":
                self._database.kill()
                time.sleep(min(seconds, 60.0))
                self._database.start()
            case "cut":
                self._database.run(CUT)
            case "hold":
                self._proxy.hold(self._random.choice(DIRECTIONS))
                time.sleep(seconds)
                self._random.choice((self._proxy.drop, self._proxy.mend))()
            case "drop":
                self._proxy.drop()
            case "stop":
                self._stop(process, 2.0 * SHORT if self.lease == SHORT else min(seconds, 30.0))
            case "kill":
                process.process.kill()
                process.process.join()

    def _seconds(self) -> float:
        return self._random.choice((self._random.random(), 5.0, 30.0, 120.0))

    def _stop(self, process: Child, seconds: float) -> None:
        assert process.process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(process.process.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(process.process.pid, signal.SIGCONT)


def begun(process: Child, database: PostgresServer, place: str) -> bool:
    """It has a session, or is over. One that cannot reach its store at all is refused."""
    schema, pid = place.rpartition("=")[2], process.process.pid
    if not database.run(f"select 1 from pg_tables where schemaname = '{schema}'"):
        return over(process)
    owners = database.run(f"select convert_from(owner, 'UTF8') from {schema}.sessions")
    return over(process) or any(f'"pid":{pid},' in owner for (owner,) in owners)


def over(process: Child) -> bool:
    return process.told.poll() or not process.process.is_alive()


def to_its_end(running: Child, again: Job) -> Receipt:
    """One that was killed, or found itself fenced, is resumed, until nothing is left to do."""
    for _ in range(10):
        told = finished(running)
        if told is not None and told.receipt is not None and told.receipt.status == "complete":
            return told.receipt
        running = child(again)
    raise AssertionError(f"it never came to its end: {finished(running)}")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_random_faults_cost_nothing_twice_and_lose_nothing(
    database: PostgresServer, model: RunningServer, tmp_path: Path, seed: int
) -> None:
    """Three faults for each seed. What a killed or fenced process had sent is asked again, on record."""
    with Proxy(database.port) as proxy:
        faults, place = Faults(seed, database, proxy), database.place(port=proxy.port)
        opening.open_store(place).close()
        database.run(f"update {place.rpartition('=')[2]}.store set lease = {faults.lease}")
        work = job(place, model, tmp_path, usd=1.0, concurrency=faults.concurrency)
        running, again = child(work), msgspec.structs.replace(work, resume=True)
        for moment in faults.moments:
            wait_until(lambda one=running: begun(one, database, place))
            wait_until(lambda one=running, at=moment: over(one) or asked(model, work) >= at)
            faults.strike(running)
            if running.process.exitcode == -signal.SIGKILL:
                assert finished(running) is None
                running = child(again)
        receipt = to_its_end(running, again)
    model.wait_idle()
    assert outcomes(receipt) == {"passed": ITEMS}, faults.done
    assert receipt.cost_usd <= 1.0
    asked_for = counts(model, work)
    assert min(asked_for) == 1
    assert sum(asked_for) <= ITEMS + receipt.maybe_paid_twice
