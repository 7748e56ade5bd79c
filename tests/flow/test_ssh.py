"""Members `at: ssh://host`: a real sshd, whose user has the roster, the key and the program; the run has
none of these. Calls are counted in the books of the model server."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from fanfold.price import dollars
from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import Ended, fanfold, started
from tests.faces.project import MEMBER, PRICE, write_items, write_project
from tests.flow.answering import all_answered
from tests.sshd import SshServer, sshd
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

KEY = "    key: env:MODEL_KEY\n"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SshServer]:
    with sshd(tmp_path / "host") as running:
        yield running


@pytest.fixture
def model(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=20.0) as running:
        yield running


class Machines:
    """A run's folder, and the home of a user on the host."""

    def __init__(self, host: SshServer, model: RunningServer, folder: Path, items: int) -> None:
        self.host, self._model, self.run = host, model, folder / "run"
        write_project(self.run, model.url, items=items, concurrency=16)
        write_items(self.run, [f"word {n}." for n in range(items)])
        member = MEMBER.format(url=model.url).replace("concurrency: 8", "concurrency: 16")
        (host.home / "workers.yaml").write_text(f"members:\n{member}{KEY}")
        self.roster(host.place)

    def roster(self, at: str) -> None:
        member = MEMBER.format(url=self._model.url).replace("concurrency: 8", "concurrency: 16")
        (self.run / "roster.yaml").write_text(f"members:\n{member}{KEY}    at: {at}\n")

    def carry_out(self, *words: str) -> Ended:
        return fanfold(self.run, "run", "plan.yaml", "--json", "--allow-paid", *words)

    def asked(self) -> Counter[str]:
        return Counter(one.prompt for one in self._model.books().asked)

    def workers(self) -> list[int]:
        """The processes of workers there."""
        return workers_of(self.host.home)

    def send(self, number: signal.Signals) -> None:
        """To all of them; some may end meanwhile."""
        for pid in self.workers():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def none_left(self) -> None:
        wait_until(lambda: self.workers() == [])


def workers_of(home: Path) -> list[int]:
    mark, found = f"HOME={home}\0".encode(), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def test_a_host_carries_out_what_a_run_asks_with_its_own_key(
    host: SshServer, model: RunningServer, tmp_path: Path
) -> None:
    machines = Machines(host, model, tmp_path, 30)
    ended = machines.carry_out()
    assert ended.code == 0, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["calls"]) == (30, 30)
    assert list(machines.asked().values()) == [1] * 30
    machines.none_left()


@pytest.mark.parametrize("items", [60, pytest.param(500, marks=pytest.mark.sweep)])
def test_connections_that_are_cut_cost_nothing_twice_and_lose_nothing(
    host: SshServer, model: RunningServer, tmp_path: Path, items: int
) -> None:
    """What was under way is finished there meanwhile, and collected over the next connection."""
    machines = Machines(host, model, tmp_path, items)
    with started(machines.run, "run", "plan.yaml", "--json", "--allow-paid") as run:
        for share in (items // 4, items // 2):
            run.until(lambda least=share: len(machines.asked()) >= least)
            host.cut()
        ended = run.end()
    assert ended.code == 0, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["calls"], receipt["maybe_paid_twice"]) == (items, items, 0)
    assert list(machines.asked().values()) == [1] * items
    bill = sum(entry.cost for entry in model.books().asked)
    assert dollars(bill) == pytest.approx(receipt["cost_usd"])
    machines.none_left()


def test_a_run_that_is_stopped_sends_nothing_more_to_a_host(
    host: SshServer, tmp_path: Path
) -> None:
    """What it has comes to its end; what waits for a slot was not sent, and is asked later."""
    held = threaded_server(tmp_path / "held.jsonl", price=PRICE, latency_ms=3_600_000.0)
    with held as model:
        machines = Machines(host, model, tmp_path, 30)
        with started(machines.run, "run", "plan.yaml", "--json", "--allow-paid") as run:
            run.until(lambda: model.totals().in_flight == 8)
            run.send(signal.SIGINT)
            run.until_it_says("waiting for them")
            model.release()
            paused = run.end()
        with all_answered(model):
            ended = fanfold(machines.run, "resume", "talk", "--json")
        assert list(machines.asked().values()) == [1] * 30
    receipt = paused.receipt
    assert (paused.code, receipt["passed"], receipt["calls"], receipt["in_doubt"]) == (4, 8, 8, 0)
    assert (ended.code, ended.receipt["passed"]) == (0, 30)
    machines.none_left()


def test_what_a_host_finished_while_the_run_was_dead_is_used(
    host: SshServer, model: RunningServer, tmp_path: Path
) -> None:
    machines = Machines(host, model, tmp_path, 60)
    with started(machines.run, "run", "plan.yaml", "--json", "--allow-paid") as run:
        run.until(lambda: len(machines.asked()) >= 20)
        run.process.kill()
        run.process.wait()
    machines.none_left()
    ended = fanfold(machines.run, "resume", "talk", "--json")
    assert ended.code == 0, ended
    receipt = ended.receipt
    assert (receipt["passed"], receipt["maybe_paid_twice"]) == (60, 0)
    assert list(machines.asked().values()) == [1] * 60
    machines.none_left()


def test_only_what_a_killed_worker_held_is_in_doubt(
    host: SshServer, model: RunningServer, tmp_path: Path
) -> None:
    machines = Machines(host, model, tmp_path, 60)
    with started(machines.run, "run", "plan.yaml", "--json", "--allow-paid") as run:
        run.until(lambda: len(machines.asked()) >= 20)
        machines.send(signal.SIGKILL)
        ended = run.end()
    receipt, asked = ended.receipt, machines.asked()
    assert (ended.code, receipt["passed"], len(asked)) == (0, 60, 60), ended
    assert receipt["maybe_paid_twice"] <= 8, "as many as it has slots"
    assert asked.total() <= 60 + receipt["maybe_paid_twice"]
    machines.none_left()


def test_work_spreads_over_hosts_by_their_free_slots(
    host: SshServer, model: RunningServer, tmp_path: Path
) -> None:
    """Each answers no more at once than it has slots; one that cannot be reached is left out."""
    machines = Machines(host, model, tmp_path, 40)
    other = host.home.parent / "other"
    other.mkdir()
    (other / "workers.yaml").write_text((host.home / "workers.yaml").read_text())
    two = host.url.replace(str(host.home), str(other))
    machines.roster(
        host.place.replace("[", f"[ssh://127.0.0.1:9/nowhere, {two}, ").replace(
            "slots: 8", "slots: 2"
        )
    )
    ended = machines.carry_out()
    assert ended.code == 0, ended
    assert list(machines.asked().values()) == [1] * 40
    folders = sorted((host.home / ".local/state/fanfold/hosts").iterdir())
    assert len(folders) == 2, "a folder for each roster"
    machines.none_left()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("host", "ssh://127.0.0.1:9: ssh: connect to host 127.0.0.1 port 9: Connection refused"),
        ("key", "Permission denied (publickey)"),
        ("known", "Host key verification failed."),
        ("program", "/nowhere/fanfold: no such program there; name it: at: {ssh: […], program:"),
        ("roster", "workers.yaml: no such file"),
        ("model", "m is openai:another there, and openai:test-model is asked for"),
        ("member", "the roster there has no m"),
    ],
)
def test_what_is_wrong_with_a_host_is_said_in_one_line(
    host: SshServer, model: RunningServer, tmp_path: Path, spoil: str, said: str
) -> None:
    machines = Machines(host, model, tmp_path, 1)
    there = host.home / "workers.yaml"
    match spoil:
        case "host":
            machines.roster(host.place.replace(host.url, "127.0.0.1:9"))
        case "key":
            (host.folder / "authorized_keys").write_text("")
        case "known":
            other = (host.folder / "key.pub").read_text()
            (host.folder / "known_hosts").write_text(f"[{host.address}]:{host.port} {other}")
        case "program":
            machines.roster(host.place.replace(f"{host.folder}/fanfold", "/nowhere/fanfold"))
        case "roster":
            there.unlink()
        case "model":
            there.write_text(there.read_text().replace("test-model", "another"))
        case "member":
            there.write_text(there.read_text().replace("id: m", "id: n"))
    checked = fanfold(machines.run, "members", "--check", "--json")
    (found,) = msgspec.json.decode(checked.out)
    assert said in found["trouble"], checked
    assert "\n" not in found["trouble"]
    ended = machines.carry_out()
    assert ended.code == 4, ended
    assert said in ended.receipt["reason"], ended
    assert machines.asked().total() == 0
    machines.none_left()


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("ssh://", "`ssh://` is no host: write ssh://USER@HOST:PORT/FOLDER, or less of it"),
        ("ssh://-oProxyCommand=x", "is no host"),
        ("ssh://me:secret@mill", "is no host"),
        ("[ssh://mill, workers]", "`at` is `workers`, {tags: […]} or ssh://HOST, not `ssh://mill, workers`"),
        ("{ssh: mill, tags: gpu}", "`at` needs `tags` or `ssh`, and not both"),
        ("{tags: gpu, slots: 3}", "`slots` of a place is for `ssh`"),
        ("{ssh: mill, config: here}", "`config` is a path from / or ~, not `here`"),
    ],
)  # fmt: skip
def test_a_host_that_is_none_is_refused(tmp_path: Path, at: str, said: str) -> None:
    write_project(tmp_path, "http://127.0.0.1:9", items=1)
    (tmp_path / "roster.yaml").write_text(
        f"members:\n{MEMBER.format(url='http://127.0.0.1:9')}    at: {at}\n"
    )
    ended = fanfold(tmp_path, "run", "plan.yaml")
    assert (ended.code, said in ended.err) == (2, True), ended


def test_a_key_may_be_good_for_a_worker_and_nothing_else(
    host: SshServer, model: RunningServer, tmp_path: Path
) -> None:
    machines = Machines(host, model, tmp_path, 3)
    command = f"cd {host.home} && exec {host.folder}/fanfold worker --stdio --roster workers.yaml"
    key = (host.folder / "key.pub").read_text()
    (host.folder / "authorized_keys").write_text(f'command="{command}",restrict {key}')
    machines.roster(host.place.replace("roster: workers.yaml", "roster: not-heeded.yaml"))
    assert machines.carry_out().receipt["passed"] == 3
    machines.none_left()


def test_a_worker_that_is_told_to_end_finishes_what_it_has(host: SshServer, tmp_path: Path) -> None:
    """Its host gets no more asks, and the run says so."""
    held = threaded_server(tmp_path / "held.jsonl", price=PRICE, latency_ms=3_600_000.0)
    with held as model:
        machines = Machines(host, model, tmp_path, 60)
        with started(machines.run, "run", "plan.yaml", "--json", "--allow-paid") as run:
            for asked in (8, 16):
                run.until(lambda many=asked: model.totals().asked == many)
                if asked == 8:
                    model.release()
            machines.send(signal.SIGTERM)
            with all_answered(model):
                ended = run.end()
        assert ended.code == 4, ended
        assert "its worker was told to end" in ended.receipt["reason"]
        machines.none_left()
        with all_answered(model):
            resumed = fanfold(machines.run, "resume", "talk", "--json")
        receipt = resumed.receipt
        assert (receipt["passed"], receipt["maybe_paid_twice"]) == (60, 0), resumed
        assert list(machines.asked().values()) == [1] * 60
