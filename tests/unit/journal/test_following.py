"""Following a run from outside: what changed is found, and nothing is read twice for nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fanfold.journal import opening
from fanfold.journal.contract import Store
from fanfold.journal.facts import AddRun, LoseAttempts, RecordFailure, ReleaseClaims
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
        memory, seen = RunMemory(), []
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
