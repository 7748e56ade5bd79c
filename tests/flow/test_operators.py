"""group, resolve, join, rank and sample, end to end: over HTTP, killed at random moments and resumed."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from fanfold.testing.running import RunningServer, threaded_server
from fanfold.work.outcome import Receipt
from tests.flow.children import child, finished
from tests.flow.crash_child import PRICE, Job, Told, progress
from tests.flow.operator_scenes import OPERATORS, RECORDS, SIZE
from tests.flow.simulation import outcomes

PLANNED = {  # the items, and what is asked about
    "group": SIZE + 3, "resolve": SIZE + 18, "join": SIZE // 2 + 23, "rank": SIZE + 3 * 9,
    "windows": SIZE + 4 + 4 + 4, "sample": SIZE + 9,
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    books = tmp_path_factory.mktemp("server") / "books.jsonl"
    script = "tests.flow.operator_scenes:answered"
    with threaded_server(books, script=script, price=PRICE, latency_ms=2.0) as running:
        yield running


def result(store: Path) -> Any:
    with closing(sqlite3.connect(store / "journal.db")) as db:
        return msgspec.json.decode(db.execute("select result from runs").fetchone()[0])


def in_doubt(store: Path) -> int:
    with closing(sqlite3.connect(store / "journal.db")) as db:
        counted = db.execute("select count(*) from attempts where state = 'in_doubt'")
        return int(counted.fetchone()[0])


def whole(told: Told | None) -> Receipt:
    assert told is not None and told.receipt is not None
    return told.receipt


class Whole(NamedTuple):
    """A run to its end, and what it asked."""

    store: Path
    receipt: Receipt
    asked: list[str]


@pytest.fixture(scope="module")
def carried(
    server: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Whole]:
    """By each operator; once for all tests."""

    @cache
    def one(operator: str) -> Whole:
        store = tmp_path_factory.mktemp(operator)
        job = Job(store=str(store), url=server.url, items=[], operator=operator)
        first = len(server.books().asked)
        receipt = whole(finished(child(job)))
        server.wait_idle()
        return Whole(store, receipt, [entry.prompt for entry in server.books().asked[first:]])

    return one


@pytest.mark.parametrize("operator", OPERATORS)
def test_killed_at_random_moments_and_resumed(
    operator: str, server: RunningServer, carried: Callable[[str], Whole], tmp_path: Path
) -> None:
    """What was answered is not asked again, all outcomes are there, and the result is the same."""
    store, receipt, once = carried(operator)
    assert len(set(once)) == len(once) == receipt.calls > 0, "each is asked about once"
    assert receipt.planned == PLANNED[operator] == sum(outcomes(receipt).values())
    most, seeded = progress(store), Random(f"kill {operator}")
    before = len(server.books().asked)
    again = Job(store=str(tmp_path), url=server.url, items=[], operator=operator)
    for n, point in enumerate(sorted(seeded.sample(range(2, most - 1), 2))):
        dies = msgspec.structs.replace(again, die_at=point, resume=n > 0)
        finished(child(dies))
    receipt = whole(finished(child(msgspec.structs.replace(again, resume=True))))
    server.wait_idle()
    asked = Counter(entry.prompt for entry in server.books().asked[before:])
    assert set(asked) == set(once)
    assert asked.total() - len(asked) <= in_doubt(tmp_path)
    assert receipt.status == "complete"
    assert sum(outcomes(receipt).values()) == receipt.planned == PLANNED[operator]
    assert result(tmp_path) == result(store)


def test_a_second_run_asks_nobody(
    server: RunningServer, carried: Callable[[str], Whole], tmp_path: Path
) -> None:
    for operator in OPERATORS:
        store, before, _ = carried(operator)
        job = Job(store=str(store), url=server.url, items=[], operator=operator, name="again")
        after = whole(finished(child(job)))
        assert (after.calls, after.reused, after.cost_usd) == (0, before.calls, 0.0)
    assert len(RECORDS) == SIZE
