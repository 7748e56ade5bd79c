"""Facts of the operator's verbs: a run that is opened again for some items, or closed by another."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from fanfold.clock import RealClock
from fanfold.journal.contract import Store
from fanfold.journal.facts import (
    CloseRun,
    EndItems,
    ItemEnding,
    PlanBatch,
    PlanItems,
    ReopenRun,
    RunRecord,
)
from fanfold.journal.opening import open_store
from fanfold.run.record import Launch, start
from fanfold.work.outcome import STATES, State
from fanfold.work.task import Budget

GIVEN: dict[str, State] = {"a": "passed", "b": "failed", "c": "unfunded", "d": "in_doubt"}


async def written(journal: Store) -> RunRecord:
    """A run with four items, each with an outcome."""
    record = await start(journal, "r", RealClock(), Budget(), Launch(b"old", "/f"))
    no = record.no
    await journal.write(PlanItems([(no, 0, n, id, b"x") for n, id in enumerate(GIVEN)]))
    await journal.write(PlanBatch(no, 0, "input", "f", len(GIVEN), 0))
    endings = tuple(ItemEnding(0, n, 0, state) for n, state in enumerate(GIVEN.values()))
    await journal.write(EndItems(no, endings))
    return record


def states(journal: Store, run: int) -> dict[str, State]:
    return {one.id: one.state for one in journal.read.endings(run, STATES)}


def after(folder: Path, **how: object) -> tuple[dict[str, State], bytes]:
    """The outcomes and the plan once the run was reopened like that."""

    async def done() -> tuple[dict[str, State], bytes]:
        journal = open_store(folder)
        try:
            record = await written(journal)
            fact = ReopenRun(record.no, "next", b"{}", record.session)
            assert await journal.write(msgspec.structs.replace(fact, **how))
            found = journal.read.find(record.id)
            assert found is not None
            return states(journal, record.no), found.plan
        finally:
            journal.close()

    return asyncio.run(done())


def test_a_resumed_run_goes_on_with_what_is_not_final(tmp_path: Path) -> None:
    assert after(tmp_path) == ({"a": "passed", "b": "failed"}, b"old")


def test_named_items_lose_their_outcome_and_the_others_keep_it(tmp_path: Path) -> None:
    kept, plan = after(tmp_path, anew=("a", "c"), keep=True, plan=b"new")
    assert (kept, plan) == ({"b": "failed", "d": "in_doubt"}, b"new")


def test_while_the_run_goes_on_they_lose_it_beside_what_is_not_final(tmp_path: Path) -> None:
    assert after(tmp_path, anew=("a",)) == ({"b": "failed"}, b"old")


def test_a_run_that_somebody_took_over_is_not_closed_by_another(tmp_path: Path) -> None:
    async def done() -> None:
        journal = open_store(tmp_path)
        try:
            record = await written(journal)
            fact = CloseRun(run=record.no, status="killed", reason="x", at=1.0, active=0.0,
                            result=None, rest="cancelled", session="another")  # fmt: skip
            assert await journal.write(fact) is False
            assert [run.status for run in journal.read.runs()] == ["running"]
            mine = msgspec.structs.replace(fact, session=record.session)
            assert await journal.write(mine) is True
            assert [run.status for run in journal.read.runs()] == ["killed"]
        finally:
            journal.close()

    asyncio.run(done())


def test_ids_are_found_exactly(tmp_path: Path) -> None:
    async def done() -> None:
        journal = open_store(tmp_path)
        try:
            record = await written(journal)
            read = journal.read
            assert [read.has_item(record.no, id) for id in ("a", "ab", "")] == [True, False, False]
            assert read.item_ids(record.no) == list(GIVEN)
        finally:
            journal.close()

    asyncio.run(done())
