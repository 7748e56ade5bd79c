"""The page of a run of a million items: counted in less than a second, filtered and paged at once.

By the processor time of the server, which does not depend on what else the machine does.
"""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fanfold.journal import opening
from fanfold.journal.facts import AddRun, NameStep, PlanBatch, RunRecord
from fanfold.journal.sqlite.sums import COLUMNS, GROUPS, WHOLE
from tests.faces.ui_server import ServedUi, served
from tests.waiting import wait_until

pytestmark = pytest.mark.sweep
ITEMS = 1_000_000
ENDED = 900_000
RUN = "01JZZZZZZZZZZZZZZZZZZZZZZ"
COUNT = "with recursive c(k) as (select 0 union all select k + 1 from c where k < ? - 1)"
ATTEMPTS = f"""{COUNT} insert into attempts (no, run, step, session, member, answerer, state, ids, reserved,
    tokens, cost, input, output, started, ended, why, took)
    select k + 1, 1, 0, 's', 'm' || (k % 4), 'openai:m', iif(k % 50 = 7, 'error', 'ok'),
    json_array('item-' || printf('%07d', k)), 2000, 150, 1000, 100, 50, 1000 + k * 0.001,
    1001 + k * 0.001, 'named', 1.0 from c"""
OUTCOMES = f"""{COUNT} insert into outcomes (run, batch, position, step, state, reasons, member, cost, calls)
    select 1, 0, k, 0, iif(k % 100 = 3, 'kicked', iif(k % 1000 = 7, 'failed', 'passed')),
    iif(k % 100 = 3, '["too short"]', null), 'm' || (k % 4), 1000, 1 from c"""
SUMS = f"insert into sums (run, step, member, {COLUMNS}) {WHOLE} {GROUPS}"


async def _planned(place: Path) -> None:
    store = opening.open_store(place, thread=False)
    record = RunRecord(id=RUN, name="million", created=1000.0, budget=b'{"usd": 5000}')
    run = await store.write(AddRun(record))
    await store.write(NameStep(run, 0, "map"))
    await store.plan_items((run, 0, n, f"item-{n:07}", b"h" * 16) for n in range(ITEMS))
    await store.write(PlanBatch(run, 0, "input", "f", ITEMS, 0))
    await store.flush()
    store.close()


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("million")
    asyncio.run(_planned(folder / ".fanfold"))
    db = sqlite3.connect(folder / ".fanfold" / "journal.db")
    with db:
        db.execute(ATTEMPTS, (ITEMS,))
        db.execute(OUTCOMES, (ENDED,))
        db.execute(SUMS)
    db.close()
    return folder


@pytest.fixture(scope="module")
def ui(million: Path) -> Iterator[ServedUi]:
    with served(million) as found:
        yield found


class Measured:
    """What requests take of the server, and what it keeps."""

    def __init__(self, ui: ServedUi) -> None:
        self._ui, self._process = ui, psutil.Process(ui.program.process.pid)
        self.seconds: dict[str, float] = {}
        self.most = 0

    def seen(self, path: str, *words: str) -> None:
        """Once these are on the page: sums that take long come when they are there."""
        cookie = f"fanfold-{self._ui.port}={self._ui.token}"

        def counted() -> bool:
            text = self._ui.ask(path, Cookie=cookie).text
            return all(one in text for one in words)

        before: Any = self._process.cpu_times()
        wait_until(counted)
        after: Any = self._process.cpu_times()
        self.seconds[path] = after.user + after.system - before.user - before.system
        self.most = max(self.most, self._process.memory_info().rss)


def test_pages_of_a_million_items_come_at_once_and_in_little_memory(ui: ServedUi) -> None:
    own, run = Measured(ui), f"/run/{RUN}"
    ui.ask("/", Cookie="none")
    idle = psutil.Process(ui.program.process.pid).memory_info().rss
    own.seen("/", "900,000 / 1,000,000")
    own.seen(run, "890,100 of 1,000,000", "spent", "Steps</h2>")
    items = f"{run}?tab=items"
    own.seen(f"{items}&state=pending", "item-0900000")
    for more in ("", "&state=kicked", "&state=passed&after=0.700000", "&q=item-0899", "&q=nobody",
                 "&state=pending&q=999", "&state=skipped", "&before=0.800000"):  # fmt: skip
        own.seen(items + more)
    figures = {path.partition("=")[2] or path: round(took, 2) for path, took in own.seconds.items()}
    grown = (own.most - idle) >> 20
    assert own.seconds["/"] < 1 and own.seconds[run] < 1.5, figures
    assert max(took for path, took in own.seconds.items() if "items" in path) < 0.3, figures
    assert grown < 50, figures


def test_status_of_it_takes_about_a_second(million: Path) -> None:
    """By the processor time of the command, its start included."""
    took: dict[str, float] = {}
    for words in ("status", "status million"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "fanfold", *words.split()]
        ended = subprocess.run(command, cwd=million, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took[words] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert b"890,100" in ended.stdout
    assert took["status"] < 1 and took["status million"] < 2, took
