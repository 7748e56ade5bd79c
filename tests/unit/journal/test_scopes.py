"""What runs spend that a run's workers started counts within its budget, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.journal import contract
from fanfold.journal.answers import Claim, Shortage
from fanfold.journal.facts import AddRun, EndAttempt, RunRecord, StartAttempt
from fanfold.journal.opening import open_store
from fanfold.price import nanos
from fanfold.run.loop import run_sync

TOP, CHILD, GRANDCHILD = ("A" * 26, "B" * 26, "C" * 26)


class Store:
    """A store with a run of a fleet (or a plan) that has a budget of a dollar."""

    def __init__(self, journal: contract.Store) -> None:
        self.journal = journal
        self._keys = 0

    async def run(
        self, id: str, parent: str | None = None, usd: float | None = None, **more: object
    ) -> int:
        budget = b"{}" if usd is None else b'{"usd": %g}' % usd
        record = RunRecord(
            id=id, name=id[0].lower(), created=1.0, session=str(more.get("session", f"s-{id[0]}")),
            plan=b'{"kind": "fleet"}' if more.get("fleet") else b"", budget=budget, parent=parent,
        )  # fmt: skip
        no: int = await self.journal.write(AddRun(record))
        return no

    async def start(self, run: int, usd: float) -> Claim:
        self._keys += 1
        claim: Claim = await self.journal.write(
            StartAttempt(run=run, step=0, session="s", member="m", answerer="m",
                  keys=(b"%032d" % self._keys,), ids=(), accept=("m",), reserved=nanos(usd),
                  reserved_tokens=0, at=1.0)
        )  # fmt: skip
        return claim

    async def end(self, run: int, claim: Claim, usd: float) -> None:
        await self.journal.write(
            EndAttempt(run=run, attempt=claim.attempt, cost=nanos(usd), at=2.0)
        )


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    journal = open_store(str(memory_path / "s"))
    yield Store(journal)
    journal.close()


def test_a_run_below_spends_within_the_budget_above_it(store: Store) -> None:
    """The worker's own reservation is held while it works, so its runs get what is left; they never
    wait for it, since it may be waiting for them."""

    async def go() -> None:
        top = await store.run(TOP, usd=1.0)
        worker = await store.start(top, 0.6)
        child = await store.run(CHILD, f"{TOP}:{worker.attempt}")
        first = await store.start(child, 0.3)
        assert (bool(first.attempt), first.broke) == (True, "")
        refused = await store.start(child, 0.2)
        assert (refused.attempt, refused.broke) == (0, "never")
        assert refused.short == Shortage("run a", nanos(1.0), 0, nanos(0.9), final=True)
        await store.end(child, first, 0.05)
        assert (await store.start(child, 0.2)).attempt

    run_sync(go())


def test_the_run_above_counts_what_those_below_took(store: Store) -> None:
    """Also what is two levels down; while that is under way, it may be given back."""

    async def go() -> None:
        top = await store.run(TOP, usd=1.0)
        worker = await store.start(top, 0.2)
        child = await store.run(CHILD, f"{TOP}:{worker.attempt}")
        inner = await store.start(child, 0.1)
        below = await store.run(GRANDCHILD, f"{CHILD}:{inner.attempt}")
        held = await store.start(below, 0.5)
        assert (await store.start(top, 0.5)).broke == "now"
        await store.end(below, held, 0.5)
        assert (await store.start(top, 0.6)).broke == "never"
        assert (await store.start(top, 0.2)).attempt

    run_sync(go())


def test_a_worker_of_a_fleet_starts_no_more_than_was_reserved_for_it(store: Store) -> None:
    async def go() -> None:
        top = await store.run(TOP, fleet=True)
        worker = await store.start(top, 0.4)
        child = await store.run(CHILD, f"{TOP}:{worker.attempt}")
        first = await store.start(child, 0.3)
        refused = await store.start(child, 0.2)
        assert (bool(first.attempt), refused.broke) == (True, "never")
        assert refused.short == Shortage("worker of a", nanos(0.4), 0, nanos(0.3), final=True)

    run_sync(go())


def test_several_starts_of_one_transaction_are_held_against_it_together(store: Store) -> None:
    async def go() -> None:
        top = await store.run(TOP, usd=1.0)
        worker = await store.start(top, 0.1)
        child = await store.run(CHILD, f"{TOP}:{worker.attempt}")
        facts = [
            StartAttempt(run=child, step=0, session="s", member="m", answerer="m", keys=(b"%032d" % n,),
                  ids=(), accept=("m",), reserved=nanos(0.3), reserved_tokens=0, at=1.0)
            for n in range(100, 108)
        ]  # fmt: skip
        claims = await asyncio.gather(*(store.journal.write(fact) for fact in facts))
        assert [bool(one.attempt) for one in claims].count(True) == 3

    run_sync(go())


def test_a_part_of_a_run_in_the_same_process_is_left_to_its_ledger(store: Store) -> None:
    async def go() -> None:
        top = await store.run(TOP, usd=1.0, session="same")
        worker = await store.start(top, 0.9)
        branch = await store.run(CHILD, f"{TOP}:{worker.attempt}", session="same")
        assert (await store.start(branch, 0.5)).attempt

    run_sync(go())
