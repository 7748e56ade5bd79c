"""Reduces in a tree: the same result as all at once, a bounded number of asks, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput, FanfoldError, ReduceFailed
from fanfold.patterns import fold
from fanfold.patterns.asked_reduce import AskedReduce, asked
from fanfold.patterns.piecewise import Piecewise, piecewise
from fanfold.patterns.reduce import Landing, Reducing, grow, reducing
from fanfold.run.run import Run
from fanfold.testing.member import Scripted
from fanfold.work.ask import Reply
from fanfold.work.outcome import Outcome, Part
from fanfold.work.task import Reducer, Task
from fanfold.work.tree import ReduceTree
from tests.flow.simulation import Scene, play

# ── pure ─────────────────────────────────────────────────────────────────────────────────────


def in_a_tree(reduce: Reducer, values: list[Any], fan_in: int) -> Any:
    """None is an item that left no part."""
    pieces, tree = piecewise(reduce), ReduceTree[Part](len(values), fan_in)
    for position, value in enumerate(values):
        node = tree.land(position, None if value is None else Part(f"i{position}", position, value))
        while node is not None:
            made = (pieces.gather if node.level == 1 else pieces.join)(node.parts)
            node = tree.reduced(node, Part(node.name, node.index, made))
    return pieces(()) if tree.result is None else pieces.result(tree.result.value)


def at_once(reduce: Reducer, values: list[Any]) -> Any:
    there = [Part(f"i{n}", n, value) for n, value in enumerate(values) if value is not None]
    return reduce(iter(there))


def many(value: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | value, max_size=25)


NUMBER = st.integers(-(10**20), 10**20) | st.floats(-1e9, 1e9) | st.sampled_from([0.1, "0.2", "3"])
WORD = st.sampled_from(["a", "A ", "b", "1", "1.0", "low", "high"])
RECORD = st.fixed_dictionaries({"k": WORD | NUMBER}, optional={"more": st.lists(WORD)})
LISTED = st.fixed_dictionaries({"list": st.lists(RECORD, max_size=3)})
OBJECT = st.dictionaries(st.sampled_from("ab"), st.integers(0, 9) | st.none())

CASES: dict[str, tuple[Reducer, st.SearchStrategy[list[Any]]]] = {
    "concat": (fold.concat(", "), many(WORD | st.integers())),
    "concat with titles": (fold.concat(", ", title="{id}:"), many(WORD | st.integers())),
    "collect": (fold.collect(), many(RECORD)),
    "total": (fold.total(), many(NUMBER)),
    "total of a field": (fold.total("n"), many(st.fixed_dictionaries({"n": NUMBER}))),
    "count": (fold.count(), many(WORD)),
    "count by": (fold.count("k"), many(RECORD)),
    "union": (fold.union(), many(WORD | st.lists(st.lists(WORD)))),
    "union of a field": (fold.union("k"), many(RECORD)),
    "merge": (fold.merge(), many(OBJECT)),
    "sort": (fold.sort_by("k"), many(RECORD)),
    "sort of lists": (fold.sort_by("list.k", descending=True), many(LISTED)),
    "top": (fold.top(3, "k"), many(RECORD)),
    "top of lists": (fold.top(2, "list.k"), many(LISTED)),
    "best": (fold.best("k"), many(RECORD)),
    "vote": (fold.vote(), many(WORD)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_tree_gives_the_same_as_all_at_once(name: str) -> None:
    reduce, values = CASES[name]

    @given(values, st.integers(2, 5))
    def check(values: list[Any], fan_in: int) -> None:
        assert in_a_tree(reduce, values, fan_in) == at_once(reduce, values)

    check()


def test_every_reducer_is_among_them() -> None:
    """A reducer is a function that returns one; `python` takes whatever a user gives, and `from_plan`
    is how a plan names them."""
    made = {name for name in vars(fold) if _makes_reducer(name)}
    tested = {name.split()[0] for name in CASES}
    assert made == {"sort_by" if name == "sort" else name for name in tested} | {
        "python",
        "from_plan",
    }


def _makes_reducer(name: str) -> bool:
    found = getattr(fold, name)
    stated = getattr(found, "__annotations__", {}).get("return")
    return stated == "Reducer" and not name.startswith("_")


def test_a_function_of_ones_own_is_applied_to_its_own_results() -> None:
    seen: list[list[tuple[str, int, Any]]] = []

    def longest(parts: Iterable[Part]) -> str:
        there = [(part.id, part.position, part.value) for part in parts]
        seen.append(there)
        return max((value for _, _, value in there), key=len, default="")

    assert in_a_tree(longest, ["a", "bbb", None, "cc", "d"], 2) == "bbb"
    assert seen == [
        [("i0", 0, "a"), ("i1", 1, "bbb")],
        [("i3", 3, "cc")],
        [("1.0", 0, "bbb"), ("1.1", 1, "cc")],
        [("i4", 4, "d")],
        [("2.0", 0, "bbb"), ("1.2", 2, "d")],
    ]
    assert in_a_tree(longest, [None], 2) == ""


# ── what can be stated ───────────────────────────────────────────────────────────────────────


def test_reducing_is_what_was_given() -> None:
    way = asked("{{ parts }}", fan_in=4)
    sum_up = fold.total()
    assert reducing(None) == Reducing()
    assert reducing(sum_up) == Reducing(sum_up, None)
    assert reducing(sum_up, 3) == Reducing(sum_up, 3)
    assert reducing(way) == Reducing(way, 4)
    assert reducing(way, 3) == Reducing(way, 3)


@pytest.mark.parametrize(
    ("reduce", "fan_in", "text"),
    [
        (fold.total(), 1, "`fan_in` is a whole number from 2 on, not 1"),
        (asked("x"), True, "`fan_in` is a whole number from 2 on, not True"),
        (None, 3, "`fan_in` requires a `reduce`"),
        (
            "sum",
            None,
            "`reduce` must be a function of the parts, such as concat(), or asked(…), not the text 'sum'",
        ),
    ],
)
def test_bad_reduces_are_bad_input(reduce: Any, fan_in: Any, text: str) -> None:
    with pytest.raises(BadInput) as bad:
        reducing(reduce, fan_in)
    assert str(bad.value) == text


def test_an_ask_for_fewer_than_two_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"^`fan_in` is a whole number from 2 on, not 1$"):
        asked("x", fan_in=1)


# ── asked, with another way to carry the asks out ────────────────────────────────────────────


class Desk:
    """Carries asks out in a second each and notes what it sees; `states` are those not passed."""

    def __init__(self, **states: Any) -> None:
        self.states = {name.replace("_", "."): state for name, state in states.items()}
        self.seen: list[str] = []
        self.told: dict[str, list[list[str]]] = {}
        self.in_flight = self.most = self.cancelled = 0

    async def __call__(self, run: Run, task: Task) -> Outcome:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        self.seen.append(task.id)
        parts = task.ask.items[0].data["parts"]
        self.told[task.id] = [[part["id"], *part["ids"]] for part in parts]
        try:
            await asyncio.sleep(1.0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        state = self.states.get(task.id, "passed")
        if isinstance(state, Exception):
            raise state
        made = "+".join(str(part["value"]) for part in parts)
        return Outcome(task.id, state, Reply(made), ("said the desk",))


class Parts:
    """So many landings, at once; `fetched` is how many were taken so far."""

    def __init__(self, count: int, absent: Iterable[int] = ()) -> None:
        self.count, self.absent, self.fetched = count, set(absent), 0

    async def landings(self) -> AsyncGenerator[Landing, None]:
        for n in range(self.count):
            self.fetched = n + 1
            yield n, None if n in self.absent else Part(f"i{n}", n, n)


def carried(folder: Path, pattern: Callable[[Run], Awaitable[Any]]) -> str | None:
    """The reason why the run was flagged."""
    nobody = Scripted(lambda ask, n: Reply("not asked"))
    return play(Scene(folder, (nobody,), pattern=pattern)).reason


def way(desk: Desk, fan_in: int = 3, concurrency: int = 2) -> AskedReduce:
    return asked("Make one", fan_in=fan_in, concurrency=concurrency, by=desk)


def test_each_node_is_told_its_parts_and_the_items_behind_them(memory_path: Path) -> None:
    desk, parts = Desk(), Parts(8, absent=[1, 6, 7])
    values: list[Any] = []

    async def pattern(run: Run) -> None:
        values.append(await grow(run, 8, parts.landings(), Reducing(way(desk), 3)))

    assert carried(memory_path, pattern) is None
    assert values == ["0+2+3+4+5"]
    assert desk.told == {
        "1.0": [["i0", "i0"], ["i2", "i2"]],
        "1.1": [["i3", "i3"], ["i4", "i4"], ["i5", "i5"]],
        "2.0": [["1.0", "i0", "i2"], ["1.1", "i3", "i4", "i5"]],
    }


@pytest.mark.parametrize("count", [0, 3])
def test_of_no_parts_nobody_is_asked(memory_path: Path, count: int) -> None:
    desk, parts = Desk(), Parts(count, absent=range(count))
    values: list[Any] = []

    async def pattern(run: Run) -> None:
        values.append(await grow(run, count, parts.landings(), Reducing(way(desk), 3)))

    assert carried(memory_path, pattern) is None
    assert (values, desk.seen) == ([None], [])


def test_asks_at_once_are_bounded_and_hold_up_who_lands_parts(memory_path: Path) -> None:
    """Two under way and four waiting: 18 parts of 3, and one more landing, before a second is over."""
    desk, parts = Desk(), Parts(3000)
    fetched: list[int] = []

    async def watch() -> None:
        while True:
            fetched.append(parts.fetched)
            await asyncio.sleep(1.0)

    async def pattern(run: Run) -> None:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.5)
        await grow(run, 3000, parts.landings(), Reducing(way(desk), 3))
        watching.cancel()

    assert carried(memory_path, pattern) is None
    assert desk.most == 2
    assert fetched[:3] == [0, 18, 24]
    assert len(desk.seen) == 1000 + 334 + 112 + 38 + 13 + 5 + 2 + 1 - single_nodes(3000, 3)


def single_nodes(size: int, fan_in: int) -> int:
    """Nodes above the first level with one child only, which are never asked for."""
    shape = ReduceTree[int](size, fan_in).widths
    return sum(below % fan_in == 1 for below in shape[1:-1])


def test_after_a_node_that_does_not_pass_no_other_is_asked_for(memory_path: Path) -> None:
    """Those under way come to their end, and all parts are taken."""
    desk, parts = Desk(**{"1_1": "kicked"}), Parts(300)
    values: list[Any] = []

    async def pattern(run: Run) -> None:
        values.append(await grow(run, 300, parts.landings(), Reducing(way(desk), 3)))

    assert carried(memory_path, pattern) == "reduce: kicked: said the desk"
    assert (values, parts.fetched) == ([None], 300)
    assert (desk.seen, desk.cancelled) == (["1.0", "1.1"], 0)


def test_what_goes_wrong_in_an_ask_shows_when_the_map_is_done(memory_path: Path) -> None:
    desk, parts = Desk(**{"1_0": FanfoldError("the desk burned down")}), Parts(300)

    async def pattern(run: Run) -> None:
        with pytest.raises(FanfoldError, match=r"^the desk burned down$"):
            await grow(run, 300, parts.landings(), Reducing(way(desk), 3))

    assert carried(memory_path, pattern) is None
    assert (parts.fetched, desk.seen) == (300, ["1.0", "1.1"])


@pytest.mark.parametrize("seconds", [0.5, 2.5])
def test_cancelled_it_leaves_nothing_behind(memory_path: Path, seconds: float) -> None:
    desk, parts = Desk(), Parts(3000)
    left: list[asyncio.Task[Any]] = []

    async def pattern(run: Run) -> None:
        before = asyncio.all_tasks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await grow(run, 3000, parts.landings(), Reducing(way(desk), 3))
        left.extend(asyncio.all_tasks() - before)

    carried(memory_path, pattern)
    assert (left, desk.in_flight, desk.cancelled) == ([], 0, 2)


def test_a_reducer_that_raises_does_not_cut_the_map_short(memory_path: Path) -> None:
    parts = Parts(30)

    def picky(parts: Iterable[Part]) -> Any:
        raise ZeroDivisionError("not\ntoday")

    async def pattern(run: Run) -> None:
        with pytest.raises(
            ReduceFailed, match="reduce: `picky` raised ZeroDivisionError: not today"
        ):
            await grow(run, 30, parts.landings(), Reducing(picky, 3))

    carried(memory_path, pattern)
    assert parts.fetched == 30


def test_piecewise_of_a_piecewise_is_itself() -> None:
    pieces = fold.total()
    assert isinstance(pieces, Piecewise)
    assert piecewise(pieces) is pieces
