"""Asks that workers on other machines carry out. Each party has a folder, a roster and an environment of
its own; they share only the database. Calls are counted in the books of the model server."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from random import Random

import pytest

from fanfold.price import dollars
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests import media, postgres
from tests.faces.cli import Ended, Program, fanfold, started
from tests.faces.project import MEMBER, PRICE, write_items, write_project
from tests.postgres import PostgresServer
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

KEY = "    key: env:MODEL_KEY\n"
AT = "    at: workers\n"


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    running = postgres.server()
    yield running
    running.start_again()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    books = tmp_path_factory.mktemp("server") / "books.jsonl"
    with threaded_server(books, price=PRICE, latency_ms=20.0) as running:
        yield running


class Machines:
    """A run's machine, and those of workers. Only workers have the key."""

    def __init__(self, place: str, url: str, folder: Path, items: int) -> None:
        self.place, self._url, self._folder = place, url, folder
        self.run = folder / "run"
        write_project(self.run, url, items=items, concurrency=16)
        write_items(self.run, [f"{folder.name} {n}." for n in range(items)])
        self.roster(AT)

    def roster(self, at: str, model: str = "test-model") -> None:
        member = MEMBER.format(url=self._url).replace("test-model", model)
        text = f"members:\n{member}{KEY}{at}".replace("concurrency: 8", "concurrency: 16")
        (self.run / "roster.yaml").write_text(text)

    def worker(
        self, name: str, *words: str, model: str = "test-model"
    ) -> AbstractContextManager[Program]:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        member = MEMBER.format(url=self._url).replace("test-model", model)
        (folder / "workers.yaml").write_text(f"members:\n{member}{KEY}")
        given = ("--queue", self.place, "--roster", "workers.yaml", *words)
        return started(folder, "worker", *given, MODEL_KEY="secret")

    @property
    def words(self) -> tuple[str, ...]:
        return ("plan.yaml", "--store", self.place, "--json", "--allow-paid")

    def carry_out(self) -> Ended:
        return fanfold(self.run, "run", *self.words)

    def asked(self, model: RunningServer) -> Counter[str]:
        """How often the server was asked about each item."""
        mine = [one.prompt for one in model.books().asked if self._folder.name + " " in one.prompt]
        return Counter(mine)


def test_workers_carry_out_what_a_run_asks_with_keys_that_only_they_have(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    machines = Machines(database.place(), model.url, tmp_path, 30)
    with machines.worker("one") as one, machines.worker("two") as two:
        for worker in (one, two):
            worker.until_it_says("takes asks for m")
        ended = machines.carry_out()
        assert ended.code == 0, ended
        for worker in (one, two):
            worker.send(signal.SIGTERM)
        assert [worker.end().code for worker in (one, two)] == [0, 0]
    assert list(machines.asked(model).values()) == [1] * 30
    assert ended.receipt["calls"] == 30
    assert rows(database, machines.place, "select count(*) from s.asks") == [(0,)]


def test_files_go_to_a_worker_with_their_asks(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    """The worker's machine does not have them."""
    machines = Machines(database.place(), model.url, tmp_path, 1)
    machines.roster(f"{AT}    media: [image]\n")
    for n in range(5):
        (machines.run / f"page-{n}.png").write_bytes(media.png(seed=1000 + n))
    page = f"PAGE of {tmp_path.name}"  # others ask the same server
    steps = f"steps:\n  - map: {{member: m, prompt: {page}, attach: item}}\n"
    plan = f"name: p\ninput: {{files: '*.png'}}\n{steps}"
    (machines.run / "plan.yaml").write_text(plan)
    with machines.worker("one") as one:
        one.until_it_says("takes asks for m")
        ended = machines.carry_out()
        assert ended.code == 0, ended
    files = [one.files for one in model.books().asked if one.prompt == page]
    assert sorted(map(len, files)) == [1] * 5
    assert len({hash for (hash,) in files}) == 5
    kept = "select count(*), count(b.hash) from s.attached a left join s.blobs b on a.hash = b.hash"
    assert rows(database, machines.place, kept) == [(5, 5)]


def rows(database: PostgresServer, place: str, question: str) -> list[tuple[object, ...]]:
    """Tables are named with `s.` before them."""
    return database.run(question.replace(" s.", f" {place.rpartition('=')[2]}."))


@pytest.mark.parametrize("items", [60, pytest.param(500, marks=pytest.mark.sweep)])
def test_when_a_worker_and_the_run_are_killed_only_what_that_worker_held_is_in_doubt(
    database: PostgresServer, model: RunningServer, tmp_path: Path, items: int
) -> None:
    """The run is resumed by a machine that has only the store: answers that came meanwhile are used."""
    place = database.place()
    machines = Machines(place, model.url, tmp_path, items)
    with machines.worker("one") as one, machines.worker("two") as two:
        for worker in (one, two):
            worker.until_it_says("takes asks for m")
        with started(machines.run, "run", *machines.words) as run:
            run.until(lambda: len(machines.asked(model)) >= items // 3)
            one.process.kill()
            one.process.wait()
            run.process.kill()
            run.process.wait()
        model.wait_idle()
        told = (
            "select count(*) from s.asks where state = 'taken' and worker ="
            " (select id from s.workers where pid = {})"
        )
        wait_until(lambda: rows(database, place, told.format(two.process.pid)) == [(0,)])
        ((held,),) = rows(database, place, told.format(one.process.pid))
        elsewhere = {"HOME": str(tmp_path / "elsewhere"), "XDG_STATE_HOME": str(tmp_path / "state")}
        ended = fanfold(machines.run, "resume", "talk", "--store", place, "--json", **elsewhere)
    assert isinstance(held, int)
    assert ended.code == 0, ended
    receipt, asked = ended.receipt, machines.asked(model)
    assert (receipt["passed"], receipt["maybe_paid_twice"]) == (items, held)
    assert (len(asked), min(asked.values())) == (items, 1)
    assert asked.total() <= items + held
    bill = sum(entry.cost for entry in model.books().asked if tmp_path.name + " " in entry.prompt)
    assert dollars(bill) <= receipt["cost_usd"] <= 100.0
    assert fanfold(machines.run, "runs", "rm", "talk", "--yes", "--store", place).code == 0
    assert rows(database, place, "select count(*) from s.asks") == [(0,)], "no prompt is left"


def about_shards(asked: Asked) -> Says:
    """Each item by its id, but `i1` only when it is asked about alone. The first two asks are held."""
    ids = re.findall(r'^### "(\w+)"$', asked.prompt, re.MULTILINE)
    if not ids:
        return Says(data={"said": "alone"})
    answers = [{"id": id, "answer": {"said": id}} for id in ids if id != "i1"]
    return Says(data={"answers": answers}, latency=3600.0 if asked.n <= 2 else 0.0)


def test_answers_to_several_items_that_came_while_the_run_was_dead_are_used(
    database: PostgresServer, tmp_path: Path
) -> None:
    """Each is its item's, under its key; only the one that the reply forgot is asked about again."""
    place, script = database.place(), f"{__name__}:about_shards"
    with threaded_server(tmp_path / "books", script=script, price=PRICE) as held:
        machines = Machines(place, held.url, tmp_path, 12)
        shards = "concurrency: 2\n      shard: {items: 3}\n      schema: {type: object, required: [said]}"
        plan = machines.run / "plan.yaml"
        text = plan.read_text().replace("concurrency: 16", shards)
        plan.write_text(re.sub("  - reduce: .*", "  - reduce: collect", text))
        with machines.worker("one") as worker:
            worker.until_it_says("takes asks for m")
            with started(machines.run, "run", *machines.words) as run:
                run.until(lambda: held.totals().asked == 2)
                run.process.kill()
                run.process.wait()
            held.release()
            taken = "select count(*) from s.asks where state = 'taken'"
            wait_until(lambda: rows(database, place, taken) == [(0,)])
            ended = fanfold(machines.run, "resume", "talk", "--store", place, "--json")
        said = [part["value"]["said"] for part in ended.receipt["result"]]
        asked = held.books().asked
    assert (ended.code, ended.receipt["maybe_paid_twice"]) == (0, 0), ended
    assert said == ["alone" if n == 1 else f"i{n}" for n in range(12)]
    assert len(asked) == 5
    assert dollars(sum(entry.cost for entry in asked)) == ended.receipt["cost_usd"]
    assert rows(database, place, "select count(*) from s.asks") == [(0,)]


def refusing_first(asked: Asked) -> Says:
    """The first ask is held, and then refused for now."""
    return Says(status=429, latency=3600.0) if asked.n == 1 else Says()


def test_a_refusal_that_came_while_the_run_was_dead_does_not_fail_its_item(
    database: PostgresServer, tmp_path: Path
) -> None:
    place, script = database.place(), f"{__name__}:refusing_first"
    with threaded_server(tmp_path / "books", script=script, price=PRICE) as held:
        machines = Machines(place, held.url, tmp_path, 1)
        with machines.worker("one") as worker:
            worker.until_it_says("takes asks for m")
            with started(machines.run, "run", *machines.words) as run:
                run.until(lambda: held.totals().asked == 1)
                run.process.kill()
                run.process.wait()
            held.release()
            ended = fanfold(machines.run, "resume", "talk", "--store", place, "--json")
    assert (ended.code, ended.receipt["passed"], ended.receipt["maybe_paid_twice"]) == (0, 1, 0)


def test_a_worker_that_does_not_fit_gets_no_work_and_everyone_can_see_why(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    place = database.place()
    machines = Machines(place, model.url, tmp_path, 1)
    why = "m is openai:another there, and openai:test-model is asked for"

    def listed() -> str:
        return fanfold(tmp_path, "workers", "--queue", place).out

    with ExitStack() as stack:
        other = stack.enter_context(machines.worker("other", model="another"))
        other.until_it_says("takes asks for m")
        run = stack.enter_context(started(machines.run, "run", *machines.words))
        run.until(lambda: f"gets no such asks: {why}" in listed())
        run.until_it_says(f"fanfold: warning: m: {why}; its asks wait until a worker takes them")
        run.until(lambda: "1 ask waits for a worker with m" in listed())
        checked = fanfold(machines.run, "members", "--check", "--store", place)
        assert why in checked.out, checked
        with machines.worker("one"):
            assert run.end().code == 0
        assert "another" not in fanfold(machines.run, "show", "talk", "i0", "--store", place).out


def test_two_runs_at_once_ask_each_content_once(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    machines = Machines(database.place(), model.url, tmp_path, 20)
    words = ("run", *machines.words, "--name")
    with (
        machines.worker("one", "--slots", "3"),
        started(machines.run, *words, "a") as first,
        started(machines.run, *words, "b") as second,
    ):
        receipts = [run.end().receipt for run in (first, second)]
    assert [receipt["passed"] for receipt in receipts] == [20, 20]
    assert list(machines.asked(model).values()) == [1] * 20


def test_without_a_server_members_at_workers_are_refused(tmp_path: Path) -> None:
    machines = Machines(".fanfold", "http://127.0.0.1:9", tmp_path, 1)
    ended = machines.carry_out()
    assert ended.code == 2
    assert ended.err == (
        f"fanfold: {tmp_path}/run/roster.yaml:11: member m is `at: workers`, and the store .fanfold"
        " is not on PostgreSQL; use such a store, or name a queue in the roster: settings: {queue: postgresql://…}\n"
    )
    assert fanfold(tmp_path, "worker", "--queue", ".fanfold").code == 2


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("here", "`at` is `workers`, {tags: […]} or ssh://HOST, not `here`"),
        ("{tags: ['a b']}", "`a b` is not a tag: letters, digits and . _ - only"),
        ("{tag: gpu}", "unknown field `tag`"),
    ],
)
def test_a_place_that_is_none_is_refused(tmp_path: Path, at: str, said: str) -> None:
    machines = Machines(".fanfold", "http://127.0.0.1:9", tmp_path, 1)
    machines.roster(f"    at: {at}\n")
    ended = machines.carry_out()
    assert (ended.code, said in ended.err) == (2, True), ended


CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'fanfold'"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["crash", "cut"])
def test_a_database_that_fails_costs_nothing_twice_and_loses_nothing(
    database: PostgresServer, model: RunningServer, tmp_path: Path, fault: str
) -> None:
    """Workers finish what they have meanwhile, and report when it is back."""
    machines = Machines(database.place(), model.url, tmp_path, 150)
    with machines.worker("one") as one, machines.worker("two") as two:
        for worker in (one, two):
            worker.until_it_says("takes asks for m")
        with started(machines.run, "run", *machines.words) as run:
            for share in (30, 60, 90):
                run.until(lambda least=share: len(machines.asked(model)) >= least)
                if fault == "cut":
                    database.run(CUT)
                    continue
                database.kill()
                model.wait_idle()
                database.start()
            ended = run.end()
        assert ended.code == 0, ended
        for worker in (one, two):
            worker.send(signal.SIGTERM)
        assert [worker.end().code for worker in (one, two)] == [0, 0]
    receipt = ended.receipt
    assert (receipt["passed"], receipt["calls"], receipt["maybe_paid_twice"]) == (150, 150, 0)
    assert list(machines.asked(model).values()) == [1] * 150


@pytest.mark.slow
def test_a_worker_that_was_stopped_past_its_lease_sends_nothing_more(
    database: PostgresServer, model: RunningServer, tmp_path: Path
) -> None:
    """What it held is in doubt and repeated on record; what it had got meanwhile does no harm."""
    place = database.place()
    machines = Machines(place, model.url, tmp_path, 120)
    fanfold(tmp_path, "workers", "--queue", place)
    lasts = "update s.store set lease = {} returning 1"
    rows(database, place, lasts.format(6))
    with machines.worker("one") as one, ExitStack() as stack:
        one.until_it_says("takes asks for m")
        rows(database, place, lasts.format(180))  # for the others: they may be slow
        stack.enter_context(machines.worker("two")).until_it_says("takes asks for m")
        with started(machines.run, "run", *machines.words) as run:
            run.until(lambda: len(machines.asked(model)) >= 40)
            one.send(signal.SIGSTOP)
            ended = run.end()
        assert ended.code == 0, ended
        model.wait_idle()
        sent = machines.asked(model).total()
        good = f"l.until > extract(epoch from clock_timestamp()) and w.pid = {one.process.pid}"
        lease = f"select 1 from s.sessions l join s.workers w on w.id = l.id where {good}"
        wait_until(lambda: not rows(database, place, lease))
        one.send(signal.SIGCONT)
        stopped = one.end()
    assert stopped.code == 2
    assert "longer than its lease (6 s)" in stopped.err
    receipt, asked = ended.receipt, machines.asked(model)
    assert receipt["passed"] == 120
    assert asked.total() <= 120 + receipt["maybe_paid_twice"]
    assert asked.total() - sent <= 8, "none but those that were on their way"


# ── any of them, at any moment ───────────────────────────────────────────────────────────────


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(20))
def test_random_faults_of_workers_runs_and_database_cost_nothing_twice(
    database: PostgresServer, model: RunningServer, tmp_path: Path, seed: int
) -> None:
    """Four faults for each seed. What a killed worker held is asked again, on record."""
    random, items = Random(seed), 150
    machines = Machines(database.place(), model.url, tmp_path, items)
    resume = ("resume", "talk", "--store", machines.place, "--json")
    with ExitStack() as stack:
        workers = [stack.enter_context(machines.worker(name)) for name in ("one", "two")]
        for worker in workers:
            worker.until_it_says("takes asks for m")
        run = stack.enter_context(started(machines.run, "run", *machines.words))
        for share in (20, 50, 80, 110):
            wait_until(lambda least=share: len(machines.asked(model)) >= least)
            match random.choice(("worker", "run", "cut", "crash")):
                case "worker":
                    workers.pop(0).process.kill()
                    workers.append(stack.enter_context(machines.worker(f"next{share}")))
                case "run":
                    run.process.kill()
                    run.process.wait()
                    run = stack.enter_context(started(machines.run, *resume))
                case "cut":
                    database.run(CUT)
                case "crash":
                    database.kill()
                    database.start()
        ended = run.end()
    assert ended.code == 0, ended
    receipt, asked = ended.receipt, machines.asked(model)
    assert (receipt["passed"], len(asked), min(asked.values())) == (items, items, 1)
    assert asked.total() <= items + receipt["maybe_paid_twice"]
    assert receipt["cost_usd"] <= 100.0


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(20))
def test_two_hundred_kills_of_workers_and_runs_cost_nothing_twice(
    database: PostgresServer, model: RunningServer, tmp_path: Path, seed: int
) -> None:
    """Ten for each seed, while two workers and a run are at work."""
    random, items = Random(1000 + seed), 200
    machines = Machines(database.place(), model.url, tmp_path, items)
    resume = ("resume", "talk", "--store", machines.place, "--json")
    with ExitStack() as stack:
        workers = [stack.enter_context(machines.worker(name)) for name in ("one", "two")]
        for worker in workers:
            worker.until_it_says("takes asks for m")
        run = stack.enter_context(started(machines.run, "run", *machines.words))
        for share in range(15, 165, 15):
            wait_until(lambda least=share: len(machines.asked(model)) >= least)
            if random.random() < 0.5:
                workers.pop(0).process.kill()
                workers.append(stack.enter_context(machines.worker(f"next{share}")))
            else:
                run.process.kill()
                run.process.wait()
                run = stack.enter_context(started(machines.run, *resume))
        ended = run.end()
    assert ended.code == 0, ended
    receipt, asked = ended.receipt, machines.asked(model)
    assert (receipt["passed"], len(asked), min(asked.values())) == (items, items, 1)
    assert asked.total() <= items + receipt["maybe_paid_twice"]
    assert receipt["cost_usd"] <= 100.0
