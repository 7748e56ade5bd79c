"""What every store answers to processes that carry out one run together."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.journal.contract import Store
from fanfold.journal.facts import AddRun, CloseRun, ReopenRun
from fanfold.journal.limits import SharedLimit
from fanfold.journal.shares import (
    WHOLE,
    DivideBatch,
    EndRange,
    JoinRun,
    LeaveRun,
    NoteShare,
    TakenRange,
    TakePortion,
    TakeRange,
)
from tests.contract.backends import BACKENDS, Backend
from tests.contract.test_store import end, record, start, within, write

HALF = WHOLE // 2


@pytest.fixture(params=BACKENDS)
def backend(
    request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> Backend:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return BACKENDS[request.param](tmp_path)


async def led(store: Store) -> None:
    """A run that `a` leads, and a batch of 100 that is open."""
    await write(store, AddRun(record(session="a"), shared=True))
    await write(store, DivideBatch(1, "a", 0, 0, 100, 10, b"{}"))


def test_a_shared_run_of_one_name_is_started_once(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        first = await store.write(AddRun(record("one", session="a"), shared=True))
        second = await store.write(AddRun(record("two", session="b"), shared=True))
        after_its_death = await store.write(AddRun(record("three", session="c"), True, ("a",)))
        alone = await store.write(AddRun(record("four", session="d")))
        return [first, second, after_its_death, alone, [one.id for one in store.read.runs()]]

    assert within(backend, act) == [1, 0, 2, 3, ["one", "three", "four"]]


def test_portions_of_two_never_overlap(backend: Backend) -> None:
    async def act(store: Store) -> list[bool]:
        await led(store)
        answers = [await store.write(JoinRun(1, "b", "a")), await store.write(JoinRun(1, "c", "x"))]
        answers += [
            await store.write(TakePortion(1, "b", HALF, WHOLE)),  # all of it is with `a`
            await store.write(TakePortion(1, "a", 0, HALF)),
            await store.write(TakePortion(1, "b", HALF - 1, WHOLE)),
            await store.write(TakePortion(1, "b", HALF, WHOLE)),
            await store.write(TakePortion(1, "a", 0, WHOLE)),
        ]
        await store.write(LeaveRun(1, ("b",)))
        answers.append(await store.write(TakePortion(1, "a", 0, WHOLE)))
        answers.append(await store.write(TakePortion(1, "b", 0, 1)))
        return answers

    expected = [True, False, False, True, False, True, False, True, False]
    assert within(backend, act) == expected


def test_each_position_is_taken_by_one_and_what_somebody_leaves_by_another(
    backend: Backend,
) -> None:
    async def act(store: Store) -> list[Any]:
        await led(store)
        await store.write(JoinRun(1, "b", "a"))
        taken = [await store.write(TakeRange(1, who, "a")) for who in ("a", "b")]
        await write(store, EndRange(1, "a", taken[0].first))
        await store.write(LeaveRun(1, ("b",)))
        while (one := await store.write(TakeRange(1, "a", "a"))).first < one.end:
            taken.append(one)
        await write(store, *(EndRange(1, "a", one.first) for one in taken))
        over = await store.write(TakeRange(1, "a", "a"))
        not_led = await store.write(TakeRange(1, "b", "x"))
        return [taken, over, not_led]

    taken, over, not_led = within(backend, act)
    assert all(one.first % 10 == 0 for one in taken)
    assert taken[1] == taken[2], "what was left behind comes first"
    positions = [n for one in taken[:1] + taken[2:] for n in range(one.first, one.end)]
    assert positions == list(range(100))
    assert (over, not_led) == (TakenRange(0, 0), None)


def test_who_takes_part_is_on_record_until_the_run_is_closed(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await led(store)
        await store.write(JoinRun(1, "b", "a"))
        await store.write(NoteShare(1, "b", False, b'{"a": 1}', b"[]"))
        seen = [(one.session, one.wants, one.stop, one.counts) for one in store.read.sharers(1)]
        await store.write(JoinRun(1, "s", "a"))
        await store.write(LeaveRun(1, ("s",)))
        open_batch, status = store.read.division(1), store.read.led_by(1)
        await store.write(ReopenRun(1, "c", b"{}", "a", shared=True))
        assert (store.read.division(1), store.read.led_by(1)) == (None, ("running", "c"))
        still = [(one.session, one.gone, one.low, one.high) for one in store.read.sharers(1)]
        await store.write(
            CloseRun(run=1, status="complete", reason=None, at=1.0, active=1.0, result=None)
        )
        assert open_batch is not None
        return [seen, (open_batch.lead, open_batch.size), status, still, store.read.sharers(1)]

    seen, opened, status, still, after = within(backend, act)
    assert seen == [("a", True, b"", b""), ("b", False, b'{"a": 1}', b"[]")]
    assert (opened, status) == (("a", 100), ("running", "a"))
    assert still == [
        ("a", False, 0, WHOLE), ("b", False, 0, 0),  # until somebody finds them dead
        ("s", True, 0, 0),  # it may stand by to take part again
        ("c", False, 0, 0),
    ]  # fmt: skip
    assert after == []


@pytest.mark.parametrize(
    ("limit", "unit"),
    [({"usd": 250}, "usd"), ({"tokens": 25}, "tokens"), ({"calls": 2}, "calls")],
)
def test_a_budget_counts_what_all_processes_of_the_run_take(
    backend: Backend, limit: dict[str, int], unit: str
) -> None:
    """100 nano-dollars, 10 tokens and a call are reserved for each; 7 and 2 are what one takes."""

    async def act(store: Store) -> list[Any]:
        await led(store)
        shared = (SharedLimit("run", **limit),)
        claims = [
            await store.write(start(bytes([n]) * 16, session=who, budgets=shared))
            for n, who in enumerate(("a", "b", "a"))
        ]
        ended = end(claims[0].attempt, b"\0" * 16, tokens=2)
        await store.write(ended)
        claims.append(await store.write(start(b"\3" * 16, session="b", budgets=shared)))
        other_step = (SharedLimit("step other", 1, **limit),)
        claims.append(await store.write(start(b"\4" * 16, step=1, budgets=other_step)))
        return claims

    first, second, third, after, other = within(backend, act)
    assert first.attempt and second.attempt and other.attempt
    assert (third.broke, third.short.unit, third.short.scope) == ("now", unit, "run")
    if unit == "calls":
        assert (after.broke, after.short.settled, after.short.reserved) == ("now", 1, 1)
    else:
        assert after.attempt, "what the first one did not take is free again"
