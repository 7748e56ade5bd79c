"""Random orders while the process of a run is killed and resumed: the four promises hold by the server's
books, and each order is carried out once or refused, on record."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from signal import SIGKILL

import pytest

from fanfold.errors import BadInput
from fanfold.fleet.runs import reading
from fanfold.journal.answers import OrderRecord
from fanfold.journal.opening import open_store
from fanfold.price import dollars
from fanfold.run.orders import Verb, give
from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import Program, fanfold, runs, started
from tests.faces.project import PRICE, write_project
from tests.waiting import wait_until

FEWEST, MOST_USD = 40, 300.0
ORDERS: tuple[tuple[Verb, str], ...] = (
    ("pause", ""), ("resume", ""), ("resume", ""), ("approve", ""), ("stop", ""), ("kill", ""),
    ("set", "budget=300"), ("set", "budget=0.5"), ("set", "concurrency=1"), ("set", "concurrency=9"),
    ("set", "map.concurrency=1"), ("set", "map.concurrency=6"), ("set", "map.budget=290"),
    ("set", "m.limits.rpm=100000"), ("set", "m=off"), ("set", "m=on"), ("set", "nobody=off"),
    ("kill", "i1"), ("hand-over", ""), *(("skip", f"i{n}") for n in range(0, FEWEST, 13)),
)  # fmt: skip


class Storm:
    """A run that is started again whenever it has ended, as long as somebody wants it to go on."""

    def __init__(self, folder: Path, seed: int, stack: ExitStack) -> None:
        self.folder, self._rng, self._stack = folder, Random(seed), stack
        self.program = self._start("run", "plan.yaml")
        wait_until(lambda: bool(self._answered()) or bool(runs(folder)))

    def _start(self, *words: str) -> Program:
        return self._stack.enter_context(started(self.folder, *words, "--quiet"))

    def ensure(self) -> None:
        if self.program.process.poll() is not None:
            self.program = self._start("resume", "talk", "--retry-in-doubt")

    def order(self) -> None:
        """One of them, to whatever is there at this moment; and now and then all is killed."""
        what, value = self._rng.choice(ORDERS)
        kill = self._rng.random() < 0.2
        if kill and self._rng.random() < 0.5:
            self.program.send(SIGKILL)
        with suppress(BadInput):  # the run is over, so nothing is on record
            asyncio.run(self._give(what, value))
        if kill:
            self.program.send(SIGKILL)
            self.program.process.wait()

    async def _give(self, what: Verb, value: str) -> None:
        store = open_store(self.folder / ".fanfold")
        try:
            record = store.read.find("talk")
            assert record is not None
            await give(store, record, "ann", what, value, within=5.0)
        finally:
            store.close()

    def _answered(self) -> list[OrderRecord]:
        with suppress(Exception), reading(self.folder / ".fanfold") as archive:
            return archive.read.orders(1)
        return []

    def orders(self) -> list[OrderRecord]:
        with reading(self.folder / ".fanfold") as archive:
            return archive.read.orders(1)


def weathered(folder: Path, server: RunningServer, seed: int, orders: int) -> None:
    items = max(FEWEST, 4 * orders)
    write_project(folder, server.url, items=items)
    with ExitStack() as stack:
        storm = Storm(folder, seed, stack)
        for _ in range(orders):
            storm.ensure()
            storm.order()
        storm.program.send(SIGKILL)
        storm.program.process.wait()
        last = ("budget=300", "m=on", "map.budget=300", "concurrency=9", "map.concurrency=9")
        fanfold(folder, "set", "talk", *last)
    ended = fanfold(folder, "resume", "talk", "--retry-in-doubt", "--json", "--quiet")
    if ended.code == 2:  # it had been complete before
        assert "is over" in ended.err or "nothing" in ended.err, ended
        ended = fanfold(folder, "status", "talk", "--json")
    receipt, books = ended.receipt, server.books()
    assert receipt["planned"] == items == receipt["passed"] + receipt["skipped"], receipt
    assert receipt["status"] == "complete", receipt
    twice = sum(times - 1 for times in books.paid_twice().values())
    assert twice <= receipt["maybe_paid_twice"], "only what was in doubt is paid twice"
    assert dollars(books.bill) <= receipt["cost_usd"] + 1e-9 <= MOST_USD + 1e-9
    assert receipt["result"].count("/") == receipt["passed"] - 1, "what passed, and no more"
    given = storm.orders()
    assert all(one.state in ("done", "refused") and one.answered for one in given), given
    assert len(given) >= orders / 2, "the run was over too soon"


@pytest.mark.parametrize(
    ("seed", "orders"), [(1, 8), pytest.param(2, 200, marks=pytest.mark.sweep)]
)
def test_the_promises_hold_and_each_order_is_answered(
    tmp_path: Path, seed: int, orders: int
) -> None:
    with threaded_server(tmp_path / "books", price=PRICE, latency_ms=150) as server:
        weathered(tmp_path / "project", server, seed, orders)
