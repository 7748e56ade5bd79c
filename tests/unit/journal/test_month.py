"""Budgets of the month: the store's own account, changed together with the attempts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fanfold.journal.answers import Claim, MonthUse, Shortage
from fanfold.journal.contract import Store
from fanfold.journal.decide import month_bounds, month_of
from fanfold.journal.facts import (
    AddRun,
    EndAttempt,
    LoseAttempts,
    ReleaseClaims,
    RunRecord,
    StartAttempt,
)
from fanfold.journal.limits import MonthlyLimit
from fanfold.journal.opening import open_store

JUNE = 1_750_000_000.0  # 2025-06-15
LIMIT = 100


def begun(
    name: str, *, reserved: int = 40, at: float = JUNE, limit: int | None = LIMIT
) -> StartAttempt:
    """A start by `haiku`; under the budget of the month, unless `limit` is None."""
    monthly = None if limit is None else MonthlyLimit(month_of(at), limit)
    return StartAttempt(
        run=1, step=0, session="here", member="haiku", answerer="a", keys=(name.encode(),),
        ids=(name,), accept=("a",), reserved=reserved, reserved_tokens=0, at=at, monthly=monthly,
    )  # fmt: skip


def over(name: str, attempt: int, cost: int, **more: object) -> EndAttempt:
    return EndAttempt(
        run=1, attempt=attempt, cost=cost, at=JUNE, answerer="a", released=(name.encode(),),
        monthly=True, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def with_journal(store: Path, act: Callable[[Store], Awaitable[None]]) -> None:
    async def main() -> None:
        journal = open_store(store, thread=False)
        try:
            if not journal.read.runs():
                await journal.write(AddRun(RunRecord(id="r", name="r", created=JUNE)))
            await act(journal)
            assert_adds_up(journal)
        finally:
            journal.close()

    asyncio.run(main())


def assert_adds_up(journal: Store) -> None:
    """The running account is what the attempts say."""
    read = journal.read
    for month in ("2025-05", "2025-06", "2025-07"):
        for member, used in read.month_uses(month).items():
            assert used == read.month_use(member, month)


@pytest.mark.parametrize(
    ("at", "month"),
    [(0.0, "1970-01"), (JUNE, "2025-06"), (1_751_327_999.9, "2025-06"), (1_751_328_000.0, "2025-07"),
     (1_767_225_599.0, "2025-12")],
)  # fmt: skip
def test_a_month_is_that_of_utc_and_ends_where_the_next_begins(at: float, month: str) -> None:
    first, after = month_bounds(month)
    assert (month_of(at), first <= at < after) == (month, True)
    assert (month_of(first), month_of(first - 0.001) < month) == (month, True)
    assert month_of(after) > month


def test_what_does_not_fit_is_refused_and_no_attempt_is_made(tmp_path: Path) -> None:
    async def act(journal: Store) -> None:
        claims = [await journal.write(begun(name)) for name in ("a", "b", "c")]
        assert [(one.attempt, one.broke) for one in claims] == [(1, ""), (2, ""), (0, "now")]
        assert claims[2].short == Shortage("", 100, 0, 80)
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(0, 80)}
        assert [one.ids for one in journal.read.attempts(1)] == [("a",), ("b",)]
        assert (await journal.write(begun("d", reserved=101))).broke == "never"
        assert await journal.write(begun("e", reserved=20)) == Claim(attempt=3)

    with_journal(tmp_path, act)


def test_one_group_is_checked_one_start_after_the_other(tmp_path: Path) -> None:
    async def act(journal: Store) -> None:
        before = journal.commits
        futures = [journal.write(begun(name, reserved=30)) for name in "abcdef"]
        claims = await asyncio.gather(*futures)
        assert journal.commits == before + 1
        assert [claim.attempt for claim in claims] == [1, 2, 3, 0, 0, 0]

    with_journal(tmp_path, act)


def test_an_end_corrects_the_reservation_to_what_was_charged(tmp_path: Path) -> None:
    async def act(journal: Store) -> None:
        await journal.write(begun("a"))
        await journal.write(begun("b"))
        await journal.write(over("a", 1, 7))
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(7, 40)}
        await journal.write(over("b", 2, 0, state="error", error="refused"))
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(7, 0)}
        assert await journal.write(begun("c", reserved=93)) == Claim(attempt=3)
        assert (await journal.write(begun("d", reserved=1))).broke == "now"
        await journal.write(over("c", 3, 93, state="in_doubt", error="timed out"))
        assert (await journal.write(begun("d", reserved=1))).broke == "never"

    with_journal(tmp_path, act)


def test_an_overrun_counts_as_it_was(tmp_path: Path) -> None:
    async def act(journal: Store) -> None:
        await journal.write(begun("a"))
        await journal.write(over("a", 1, 150))
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(150, 0)}
        assert (await journal.write(begun("b", reserved=0))).broke == "never"

    with_journal(tmp_path, act)


def test_what_a_dead_process_had_reserved_counts_as_spent(tmp_path: Path) -> None:
    async def act(journal: Store) -> None:
        await journal.write(begun("a"))
        assert await journal.recover(JUNE) == 1
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(40, 0)}
        await journal.write(LoseAttempts((1,), JUNE))  # twice is once
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(40, 0)}
        await journal.write(over("a", 1, 5))  # it lived after all, and tells what it took
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(5, 0)}

    with_journal(tmp_path, act)


def test_what_was_never_sent_is_given_back(tmp_path: Path) -> None:
    async def act(journal: Store) -> None:
        await journal.write(begun("a"))
        await journal.write(ReleaseClaims("here", "a", (b"a",), JUNE))
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(0, 0)}

    with_journal(tmp_path, act)


def test_a_call_belongs_to_the_month_it_began_in(tmp_path: Path) -> None:
    july = month_bounds("2025-06")[1]

    async def act(journal: Store) -> None:
        await journal.write(begun("a", reserved=100, at=july - 1))
        assert (await journal.write(begun("b", reserved=100, at=july - 1))).broke == "now"
        assert await journal.write(begun("b", reserved=100, at=july)) == Claim(attempt=2)
        await journal.write(over("a", 1, 60))
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(60, 0)}
        assert journal.read.month_uses("2025-07") == {"haiku": MonthUse(0, 100)}

    with_journal(tmp_path, act)


def test_what_was_spent_before_there_was_a_budget_counts_too(tmp_path: Path) -> None:
    """Of this month, of this member, settled and under way."""

    async def act(journal: Store) -> None:
        await journal.write(
            begun("old", reserved=90, at=month_bounds("2025-06")[0] - 1, limit=None)
        )
        await journal.write(begun("a", reserved=50, limit=None))
        await journal.write(begun("b", reserved=30, limit=None))
        await journal.write(over("a", 2, 25))
        assert journal.read.month_uses("2025-06") == {}
        assert (await journal.write(begun("c", reserved=46))).broke == "now"
        assert await journal.write(begun("c", reserved=45)) == Claim(attempt=4)
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(25, 75)}

    with_journal(tmp_path, act)


def test_adding_up_anew_finds_what_a_process_without_a_budget_spent(tmp_path: Path) -> None:
    async def act(journal: Store) -> None:
        await journal.write(begun("a"))
        await journal.write(begun("b", reserved=50, limit=None))
        fresh = begun("c", reserved=20)
        anew = MonthlyLimit("2025-06", LIMIT, anew=True)
        assert (await journal.write(_with(fresh, anew))).broke == "now"
        assert await journal.write(_with(begun("c", reserved=10), anew)) == Claim(attempt=3)
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(0, 100)}

    with_journal(tmp_path, act)


def _with(fact: StartAttempt, monthly: MonthlyLimit) -> StartAttempt:
    fields = {name: getattr(fact, name) for name in fact.__struct_fields__}
    return StartAttempt(**{**fields, "monthly": monthly})


def test_whoever_has_the_key_is_found_before_the_purse_is_looked_at(tmp_path: Path) -> None:
    """Who would not pay is not refused for lack of money."""

    async def act(journal: Store) -> None:
        await journal.write(begun("a", reserved=100))
        claim = await journal.write(begun("a", reserved=100))
        assert (claim.broke, [held.attempt for held in claim.held]) == ("", [1])

    with_journal(tmp_path, act)


def test_members_without_a_budget_leave_no_rows_and_change_none(tmp_path: Path) -> None:
    async def act(journal: Store) -> None:
        for n in range(3):
            await journal.write(begun(str(n), limit=None))
        assert journal.read.month_uses("2025-06") == {}

    with_journal(tmp_path, act)


def test_two_processes_at_once_never_pass_it(tmp_path: Path) -> None:
    """Several journals on one store, each with its own writer, draw on the same purse until it is
    empty: not a cent more, and nothing is left that a call would have fitted into."""
    limit, each, journals = 1000, 7, 4
    with_journal(tmp_path, _nothing)
    taken: list[int] = []
    together = threading.Barrier(journals)

    def draw(who: int) -> None:
        async def main() -> int:
            journal = open_store(tmp_path)
            together.wait()
            try:
                names = [f"{who}/{n}" for n in range(100)]
                starts = [begun(name, reserved=each, limit=limit) for name in names]
                claims = [claim for start in starts for claim in [await journal.write(start)]]
                return sum(each for claim in claims if claim.attempt)
            finally:
                journal.close()

        taken.append(asyncio.run(main()))

    threads = [threading.Thread(target=draw, args=(who,)) for who in range(journals)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == limit // each * each
    assert len(taken) == journals

    async def look(journal: Store) -> None:
        assert journal.read.month_uses("2025-06") == {"haiku": MonthUse(0, sum(taken))}

    with_journal(tmp_path, look)


async def _nothing(journal: Store) -> None:
    """Only makes the store."""
