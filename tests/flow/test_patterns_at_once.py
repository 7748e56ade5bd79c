"""Several patterns at once in a script: when the run stops, nothing that is paid for is cut off, and it
ends as it would with one pattern."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import ReduceFailed, RunStopped
from fanfold.journal.opening import open_store
from tests.waiting import LONG

LETTERS = list("abcdef")
TOGETHER = pytest.mark.parametrize("together", ["task group", "gather"])


async def all_of(together: str, *work: Awaitable[Any]) -> None:
    if together == "gather":
        await asyncio.gather(*work)
        return
    async with asyncio.TaskGroup() as group:
        for one in work:
            group.create_task(one)  # type: ignore[arg-type]


class Pair:
    """Two members that cost money: `quick`, and `slow`, whose calls end only when they may."""

    def __init__(self) -> None:
        self.may_end, self._another = asyncio.Event(), asyncio.Event()
        self.begun, self.ended = Counter[str](), Counter[str]()
        self.members = [
            ff.function(self.quick, id="quick", price={"call": 0.01}),
            ff.function(self.slow, id="slow", price={"call": 0.01}),
        ]

    async def quick(self, text: str) -> str:
        self.begun["quick"] += 1
        self.ended["quick"] += 1
        return text.upper()

    async def slow(self, text: str) -> str:
        self.begun["slow"] += 1
        self._another.set()
        await self.may_end.wait()
        self.ended["slow"] += 1
        return text.upper()

    async def under_way(self, many: int) -> None:
        while self.begun["slow"] < many:
            self._another.clear()
            await self._another.wait()

    def map(self, run: ff.Run, who: str, **options: Any) -> Awaitable[Any]:
        return ff.map_reduce(
            run, LETTERS, prompt="{{ item }}", members=[who], step=who, concurrency=2, **options
        )


def ended(store: Path) -> tuple[str, int]:
    """The status of the run, and how many of its calls are in doubt."""
    with closing(open_store(store)) as opened:
        found = opened.read.find("r")
        assert found is not None
        return found.status, len(opened.read.attempts_in_doubt(found.no))


@TOGETHER
def test_a_pause_lets_the_calls_of_all_patterns_come_to_their_end(
    tmp_path: Path, together: str
) -> None:
    """The first pattern that ends must not have the calls of the others cancelled."""
    pair = Pair()

    async def paused(run: ff.Run) -> None:
        await pair.under_way(2)
        run.pause("that is enough")
        await asyncio.sleep(0.2)  # for the quick pattern to come to its end; less proves less
        pair.may_end.set()

    async def main(stop: Callable[[ff.Run], Awaitable[None]] | None) -> None:
        async with ff.open_run("r", store=tmp_path / "s", members=pair.members) as run:
            maps = pair.map(run, "quick"), pair.map(run, "slow")
            await all_of(together, *maps, *([stop(run)] if stop else []))

    with pytest.raises(RunStopped, match=r"^paused: that is enough; run the script again"):
        asyncio.run(main(paused))
    assert pair.begun == pair.ended
    assert ended(tmp_path / "s") == ("paused", 0)
    asyncio.run(main(None))
    assert pair.ended == {"quick": 6, "slow": 6}, "each item was asked about once"


def test_what_cannot_be_paid_in_one_pattern_cuts_nothing_off_in_another(tmp_path: Path) -> None:
    pair = Pair()
    dear = ff.function(lambda text: text, id="dear", price={"call": 1.0})

    async def main() -> None:
        members, budget = [*pair.members, dear], ff.Budget(usd=0.5)
        async with ff.open_run("r", store=tmp_path / "s", members=members, budget=budget) as run:

            async def begun_later() -> None:
                await pair.under_way(2)
                asyncio.get_running_loop().call_later(0.2, pair.may_end.set)
                await pair.map(run, "dear")

            await all_of("task group", pair.map(run, "slow"), begun_later())

    with pytest.raises(RunStopped, match=r"^paused: out of budget: dollars of the run"):
        asyncio.run(main())
    assert pair.begun == pair.ended
    assert ended(tmp_path / "s") == ("paused", 0)


@TOGETHER
def test_a_reduce_that_fails_pauses_the_run_as_it_does_alone(tmp_path: Path, together: str) -> None:
    pair = Pair()
    pair.may_end.set()

    def picky(texts: list[str]) -> str:
        raise ValueError("not today")

    async def main() -> None:
        async with ff.open_run("r", store=tmp_path / "s", members=pair.members) as run:
            await all_of(together, pair.map(run, "quick", reduce=picky))

    with pytest.raises(RunStopped, match=r"^paused: reduce: `picky` raised ValueError") as caught:
        asyncio.run(main())
    assert isinstance(caught.value.__cause__, ReduceFailed)
    assert ended(tmp_path / "s") == ("paused", 0)


def test_an_error_of_the_script_is_named_though_a_task_group_is_around_it(tmp_path: Path) -> None:
    pair = Pair()
    pair.may_end.set()

    async def wrong() -> None:
        raise ValueError("my own mistake")

    async def main() -> None:
        async with ff.open_run("r", store=tmp_path / "s", members=pair.members) as run:
            await all_of("task group", wrong(), pair.map(run, "quick"))

    with pytest.raises(BaseExceptionGroup):
        asyncio.run(main())
    with closing(open_store(tmp_path / "s")) as opened:
        found = opened.read.find("r")
        assert found is not None
        assert found.status == "killed"
        assert str(found.reason).startswith("ValueError: my own mistake (")


def test_a_pattern_within_a_call_does_not_wait_for_that_call(tmp_path: Path) -> None:
    """Else neither would ever end."""
    pair, runs = Pair(), list[ff.Run]()

    async def outer(text: str) -> str:
        asyncio.get_running_loop().call_later(0.1, pair.may_end.set)
        found = await pair.map(runs[0], "slow")
        return str(found.value)

    async def main() -> None:
        members = [*pair.members, ff.function(outer, id="outer")]
        async with ff.open_run("r", store=tmp_path / "s", members=members) as run:
            runs.append(run)
            work = asyncio.ensure_future(
                ff.map_reduce(run, ["one"], prompt="{{ item }}", members=["outer"], step="outer")
            )
            await pair.under_way(2)
            run.pause("that is enough")
            async with asyncio.timeout(LONG):
                await work

    with pytest.raises(RunStopped, match=r"^paused: that is enough"):
        asyncio.run(main())
    assert pair.begun == pair.ended


@pytest.mark.parametrize("why", ["a reduce that fails", "a mistake", "never awaited"])
def test_no_pattern_is_left_behind_when_the_block_of_its_run_is_left(
    tmp_path: Path, why: str
) -> None:
    """`gather` raises what the first one raises, and lets the others go on."""
    pair = Pair()

    def picky(texts: list[str]) -> str:
        raise ValueError("not today")

    async def left(run: ff.Run) -> None:
        await pair.under_way(2)
        asyncio.get_running_loop().call_later(0.2, pair.may_end.set)
        if why == "a mistake":
            raise LookupError("my own mistake")
        if why == "a reduce that fails":
            await pair.map(run, "quick", reduce=picky)

    async def main() -> None:
        work: list[asyncio.Future[Any]] = []
        try:
            async with ff.open_run("r", store=tmp_path / "s", members=pair.members) as run:
                work.append(asyncio.ensure_future(pair.map(run, "slow")))
                await asyncio.gather(left(run), *(work if why != "never awaited" else ()))
        finally:
            assert work[0].done() and isinstance(work[0].exception(), RunStopped)

    said = {
        "a mistake": (LookupError, "^my own mistake"),
        "a reduce that fails": (RunStopped, "^paused: reduce: `picky` raised ValueError"),
        "never awaited": (RunStopped, "^paused: the block of the run was left while patterns were"),
    }
    with pytest.raises(said[why][0], match=said[why][1]):
        asyncio.run(main())
    assert pair.begun == pair.ended
    assert ended(tmp_path / "s") == ("killed" if why == "a mistake" else "paused", 0)
