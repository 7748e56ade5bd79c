"""What the live page asks a store, whichever backend it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.journal.answers import ItemFilter
from fanfold.journal.contract import Store
from fanfold.journal.costs import DaySpending
from fanfold.journal.facts import AddRun, EndItems, ItemEnding, NameStep, PlanBatch
from tests.contract.backends import BACKENDS, Backend
from tests.contract.test_store import OTHER, end, record, start, within

DAY = 86400.0
ITEMS = 12


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Twelve items. At the first step the third failed, and the other nine of the first ten passed;
    at the second the fourth was kicked. Two calls that ended, on two days."""
    backend = BACKENDS[request.param](tmp_path)
    failed = ItemEnding(0, 2, 0, "failed", ("no reply",), calls=1)
    passed = [ItemEnding(0, n, 0, "passed", (), "m", 7, 1) for n in range(10) if n != 2]
    kicked = ItemEnding(0, 3, 1, "kicked", ("too short",), "m", 9, 2)

    async def fill(store: Store) -> None:
        await store.write(AddRun(record()))
        for no, name in enumerate(("first", "second")):
            await store.write(NameStep(1, no, name))
        await store.plan_items((1, 0, n, f"Item-{n:02}", b"h") for n in range(ITEMS))
        await store.write(PlanBatch(1, 0, "input", "f", ITEMS, 1))
        await store.write(EndItems(1, (failed, *passed, kicked)))
        await store.write(start(at=1.0))
        await store.write(end(1, at=3.0))
        await store.write(start(OTHER, at=DAY + 1.0))
        await store.write(end(2, OTHER, at=DAY + 2.0, state="error", error="503", landed=()))

    within(backend, fill)
    return backend


def listed(backend: Backend, **wanted: Any) -> list[tuple[str, str | None]]:
    async def ask(store: Store) -> list[tuple[str, str | None]]:
        return [(one.id, one.state) for one in store.read.list_items(1, ItemFilter(**wanted))]

    found: list[tuple[str, str | None]] = within(backend, ask)
    return found


def test_items_are_listed_in_planned_order_with_their_last_outcome(backend: Backend) -> None:
    assert listed(backend, limit=5) == [
        ("Item-00", "passed"), ("Item-01", "passed"), ("Item-02", "failed"), ("Item-03", "kicked"),
        ("Item-04", "passed"),
    ]  # fmt: skip


def test_a_search_finds_a_part_of_an_id_in_either_case_and_no_sign_means_more(
    backend: Backend,
) -> None:
    assert [id for id, _ in listed(backend, text="TEM-0", limit=3)] == [
        "Item-00",
        "Item-01",
        "Item-02",
    ]
    for text in ("%", "_", "\\", "Item%0", "Item_0", "x" * 60_000):
        assert listed(backend, text=text) == []


def test_a_listed_item_has_what_its_line_says(backend: Backend) -> None:
    async def ask(store: Store) -> Any:
        return store.read.list_items(1, ItemFilter("kicked"))

    (one,) = within(backend, ask)
    assert (one.place, one.reasons, one.member, one.cost, one.calls) == (
        (0, 3), ("too short",), "m", 9, 2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "ids"),
    [("failed", ["Item-02"]), ("kicked", ["Item-03"]), ("pending", ["Item-10", "Item-11"]),
     ("skipped", []), ("passed", [f"Item-{n:02}" for n in (0, 1, 4, 5, 6, 7, 8, 9)])],
)  # fmt: skip
def test_items_are_listed_by_outcome(backend: Backend, state: str, ids: list[str]) -> None:
    """An item is where it ended: what passed the first step and was kicked at the second was kicked."""
    assert [id for id, _ in listed(backend, state=state)] == ids


def test_pages_follow_each_other_in_both_directions(backend: Backend) -> None:
    ids = [id for id, _ in listed(backend, place=(0, 4), limit=3)]
    assert ids == ["Item-05", "Item-06", "Item-07"]
    ids = [id for id, _ in listed(backend, place=(0, 4), before=True, limit=3)]
    assert ids == ["Item-01", "Item-02", "Item-03"]
    assert listed(backend, state="failed", place=(0, 2)) == []
    assert listed(backend, state="failed", place=(0, 3), before=True) == [("Item-02", "failed")]


def test_an_id_is_found_by_a_part_of_it_in_either_case(backend: Backend) -> None:
    assert [id for id, _ in listed(backend, text="eM-1")] == ["Item-10", "Item-11"]
    assert listed(backend, text="em-0", state="failed") == [("Item-02", "failed")]
    assert listed(backend, text="%") == []


def test_outcomes_are_counted_by_step(backend: Backend) -> None:
    async def ask(store: Store) -> Any:
        return store.read.step_tally(1)

    assert within(backend, ask) == {(0, "failed"): 1, (0, "passed"): 9, (1, "kicked"): 1}


def test_cost_is_added_up_over_time_and_by_day(backend: Backend) -> None:
    async def ask(store: Store) -> Any:
        return store.read.costs_over_time(1, 0.0, 10.0), store.read.spending(2.0)

    over_time, later = within(backend, ask)
    assert over_time == [(0, 7, 1), (8640, 7, 1)]
    assert later == [DaySpending(1, 1, 0, "m", "m:1", 1, 7, 7, 0, 0, 2)]
