"""Three hosts, each with an address, a name and process numbers of its own: PostgreSQL on one, workers on
the others. Calls are counted in the books of the model server."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from fanfold.journal import opening
from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.project import MEMBER, PRICE, write_project
from tests.flow.answering import all_answered
from tests.flow.proxy import Proxy
from tests.flow.share_processes import ITEMS, StoreRows, while_answering
from tests.hosts import LAB, Host, HostProgram, laboratory
from tests.postgres import server_at
from tests.waiting import LONG, wait_until

SHORT = 10  # seconds of a lease
KEY = "    key: env:MODEL_KEY\n"


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    with laboratory("db", "mill", "gpu") as made:
        yield made


@pytest.fixture
def model(hosts: list[Host], tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=20.0) as running:
        yield running


class Team:
    """A run on the host of the database, and workers on the others."""

    def __init__(self, place: str, model: RunningServer, folder: Path, items: int) -> None:
        port = Proxy(int(model.url.rpartition(":")[2]), LAB).port
        self.place, self._url, self._folder = place, f"http://{LAB}:{port}", folder
        self.run, self._model = folder / "run", model
        write_project(self.run, self._url, items=items, concurrency=16)
        text = f"members:\n{MEMBER.format(url=self._url)}{KEY}    at: workers\n"
        (self.run / "roster.yaml").write_text(text.replace("concurrency: 8", "concurrency: 16"))

    def worker(self, host: Host) -> AbstractContextManager[HostProgram]:
        folder = self._folder / host.name
        folder.mkdir()
        (folder / "workers.yaml").write_text(f"members:\n{MEMBER.format(url=self._url)}{KEY}")
        words = ("--queue", self.place, "--roster", "workers.yaml")
        return host.started(folder, "worker", *words, MODEL_KEY="secret")

    def running(self, host: Host) -> AbstractContextManager[HostProgram]:
        words = ("plan.yaml", "--store", self.place, "--json", "--allow-paid")
        return host.started(self.run, "run", *words)

    def sharing(self, host: Host) -> AbstractContextManager[HostProgram]:
        """One of the processes that carry the run out together."""
        words = ("plan.yaml", "--store", self.place, "--json", "--allow-paid", "--shares", "1")
        state = str(self._folder / f"state-{host.name}")
        return host.started(self.run, "run", *words, MODEL_KEY="secret", XDG_STATE_HOME=state)

    def asked(self) -> Counter[str]:
        return Counter(one.prompt for one in self._model.books().asked)


@pytest.mark.slow
def test_a_run_on_one_host_is_carried_out_by_workers_on_two_others(
    hosts: list[Host], model: RunningServer, tmp_path: Path
) -> None:
    """The link of one is cut for a while: what it has is finished and reported when it is back."""
    db, mill, gpu = hosts
    with server_at(db.address, db.words(process_numbers=False)) as database:
        team = Team(database.place("team"), model, tmp_path, 120)
        opening.open_store(team.place).close()
        database.run(f"update team.store set lease = {LONG}")
        rows = StoreRows(team.place)
        with team.worker(mill) as one, team.worker(gpu) as two, team.running(db) as run:
            run.until(lambda: len(rows.ask("select id from workers")) == 2)
            run.until(lambda: len(team.asked()) >= 30)
            mill.cut()
            run.until(lambda: len(team.asked()) >= 90)
            listed = db.fanfold(tmp_path, "workers", "--queue", team.place)
            assert [f"{name}:" in listed.out for name in ("mill", "gpu")] == [True, True], listed
            mill.mend()
            ended = run.end()
            for worker in (one, two):
                worker.send(signal.SIGTERM)
            assert [worker.end().code for worker in (one, two)] == [0, 0]
    assert ended.code == 0, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["maybe_paid_twice"]) == (120, 0)
    assert list(team.asked().values()) == [1] * 120
    wait_until(lambda: [host.processes() for host in hosts] == [[], [], []])


@pytest.mark.sweep
def test_processes_on_two_hosts_carry_out_one_run_and_one_host_may_crash(
    hosts: list[Host], tmp_path: Path
) -> None:
    """Started on each with the same name. The one that leads goes down with its host: when its lease is
    over the other one leads, and only what the dead one had sent is asked again, on record."""
    db, mill, gpu = hosts
    slow = threaded_server(tmp_path / "books", price=PRICE, latency_ms=3_600_000.0)
    with slow as model, server_at(db.address, db.words(process_numbers=False)) as database:
        team, rows = (
            Team(database.place("team"), model, tmp_path, ITEMS),
            StoreRows(database.place("team")),
        )
        roster = team.run / "roster.yaml"
        roster.write_text(roster.read_text().replace("    at: workers\n", ""))
        opening.open_store(team.place).close()
        database.run(f"update team.store set lease = {SHORT}")
        with team.sharing(mill) as first:
            first.until(rows.sharers)
            with team.sharing(gpu) as second:
                second.until(lambda: len(rows.joined()) == 2)
                while_answering(model, lambda: len(rows.sharers()) == 2)
                said = db.fanfold(tmp_path, "status", "talk", "--json", "--store", team.place)
                names = [one["name"].partition(":")[0] for one in said.receipt["processes"]]
                assert names == ["mill", "gpu"]
                mill.crash()
                with all_answered(model):
                    ended = second.end()
    assert ended.code == 0, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["overrun_usd"]) == (ITEMS, 0.0)
    assert len(team.asked()) == ITEMS
    assert sum(team.asked().values()) - ITEMS <= receipt["maybe_paid_twice"] <= 16
