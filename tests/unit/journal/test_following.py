"""Following a run from outside: what changed is found, and nothing is read twice for nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fanfold.journal import opening
from fanfold.journal.contract import Store
from fanfold.journal.facts import AddRun, CloseRun, LoseAttempts, RecordFailure, ReleaseClaims
from fanfold.journal.following import RunMemory, StoreFollower, attempts_in
from fanfold.journal.opening import open_store
from tests.unit.journal.test_writer import end, failed, record, start


def with_store(place: Path, act: Any) -> Any:
    async def main() -> Any:
        store = open_store(place, thread=False)
        try:
            return await act(store)
        finally:
            store.close()

    return asyncio.run(main())


def test_the_first_look_is_at_the_tables_and_the_next_ones_at_what_came_since(
    tmp_path: Path,
) -> None:
    async def act(store: Store) -> list[Any]:
        follower = StoreFollower()
        await store.write(AddRun(record("r")))
        looks = [follower.news(store)]
        await store.write(start(b"a" * 16))
        await store.write(end(1, b"a" * 16))
        looks += [follower.news(store), follower.news(store)]
        return [look and [type(fact).__name__ for fact, _ in look] for look in looks]

    assert with_store(tmp_path, act) == [None, ["StartAttempt", "EndAttempt"], []]


def test_all_attempts_that_changed_are_named(tmp_path: Path) -> None:
    async def act(store: Store) -> list[int]:
        follower = StoreFollower()
        await store.write(AddRun(record("r")))
        for n in range(4):
            await store.write(start(bytes([n]) * 16))
        follower.news(store)
        await store.write(failed(1, bytes([0]) * 16))
        await store.write(ReleaseClaims("s", "m:1", (bytes([1]) * 16,), 2.0))
        await store.write(LoseAttempts((3,), 3.0))
        failure = RecordFailure(run=1, step=0, session="s", member="f", answerer="f", ids=("a",),
                                error="bad", at=4.0)  # fmt: skip
        await store.write(failure)
        return sorted(attempts_in(follower.news(store) or []))

    assert with_store(tmp_path, act) == [1, 2, 3, 5]


def test_answers_are_remembered_until_something_is_committed_for_the_run(tmp_path: Path) -> None:
    async def act(store: Store) -> list[Any]:
        memory, seen = RunMemory(now=lambda: 0.0), []
        await store.write(AddRun(record("a")))
        await store.write(AddRun(record("b")))
        asked: list[str] = []

        async def look() -> None:
            view = opening.look(tmp_path)
            attempts = view.read.attempts
            view.read.attempts = lambda run: (asked.append("asked"), attempts(run))[1]  # type: ignore
            seen.append(len(memory.over(view, 1).read.attempts(1)))
            view.close()

        await look()
        await store.write(start(b"a" * 16, run=2))
        await look()
        await store.write(start(b"b" * 16))
        await look()
        return [seen, len(asked)]

    assert with_store(tmp_path, act) == [[0, 0, 1], 2]


def test_reading_a_busy_run_takes_at_most_a_tenth_of_the_time_until_it_ends(tmp_path: Path) -> None:
    """A read takes 2 seconds here, and something is committed all the time."""

    async def act(store: Store) -> list[int]:
        clock = [0.0]
        memory = RunMemory(now=lambda: clock[0])
        seen = []

        async def look() -> None:
            view = opening.look(tmp_path)
            attempts = view.read.attempts

            def slowly(run: int) -> Any:
                clock[0] += 2.0
                return attempts(run)

            view.read.attempts = slowly  # type: ignore[method-assign]
            seen.append(len(memory.over(view, 1).read.attempts(1)))
            view.close()

        await store.write(AddRun(record("a")))
        for n in range(4):
            await store.write(start(bytes([n]) * 16))
            await look()
            clock[0] += 8.0
        close = CloseRun(run=1, status="complete", reason=None, at=9.0, active=1.0, result=None)
        await store.write(close)
        await look()
        return seen

    assert with_store(tmp_path, act) == [1, 1, 1, 4, 4]
