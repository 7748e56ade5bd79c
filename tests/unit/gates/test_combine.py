"""all_of and any_of: three-valued, at once when they can be, sparing of those who ask."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Literal

import pytest

from fanfold.errors import BadInput
from fanfold.gates.combine import all_of, any_of
from fanfold.work.ask import Reply
from fanfold.work.outcome import PASS, Verdict, fail, unjudged
from fanfold.work.task import Gate
from tests.unit.gates.judging import judge

State = Literal["pass", "fail", "unjudged"]
STATES: tuple[State, ...] = ("pass", "fail", "unjudged")
REPLY = Reply(text="x")


@pytest.fixture(autouse=True)
def nothing_left_unawaited() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect(1)  # what is young; all would take half a second
    assert [str(w.message) for w in caught] == []


def at_once(said: Verdict) -> Gate:
    return lambda task, reply, ask: said


class Asking:
    """A gate that answers later and notes that it was asked."""

    def __init__(self, said: Verdict) -> None:
        self.said, self.asked = said, 0

    def __call__(self, task: Any, reply: Any, ask: Any) -> Any:
        return self._answer()

    async def _answer(self) -> Verdict:
        self.asked += 1
        await asyncio.sleep(0)
        return self.said


def verdict_of(state: State, n: int) -> Verdict:
    return Verdict(state, () if state == "pass" else (f"{state} {n}",))


async def settle(gate: Gate) -> Verdict:
    said = judge(gate, REPLY)
    return said if isinstance(said, Verdict) else await said


def expected_all(states: tuple[State, ...]) -> State:
    return "fail" if "fail" in states else "unjudged" if "unjudged" in states else "pass"


def expected_any(states: tuple[State, ...]) -> State:
    return "pass" if "pass" in states else "unjudged" if "unjudged" in states else "fail"


@pytest.mark.parametrize(("combine", "expected"), [(all_of, expected_all), (any_of, expected_any)])
def test_the_truth_table_at_once_and_asked(
    combine: Callable[..., Gate], expected: Callable[[tuple[State, ...]], State]
) -> None:
    """Whichever of three parts answer at once or later, the state is the same."""

    async def check() -> None:
        for states, later in product(product(STATES, repeat=3), product((False, True), repeat=3)):
            parts = [
                (Asking if late else at_once)(verdict_of(state, n))
                for n, (state, late) in enumerate(zip(states, later, strict=True))
            ]
            assert (await settle(combine(*parts))).state == expected(states), (states, later)

    asyncio.run(check())


def test_pure_parts_answer_at_once() -> None:
    assert judge(all_of(at_once(PASS), at_once(Verdict("pass"))), REPLY) == PASS
    assert judge(any_of(at_once(fail("a")), at_once(Verdict("pass"))), REPLY) == PASS


def test_all_of_collects_every_reason_once() -> None:
    gate = all_of(at_once(fail("a", "b")), at_once(unjudged("u")), at_once(fail("b", "c")))
    assert judge(gate, REPLY) == fail("a", "b", "c")


def test_all_of_unjudged_keeps_the_reasons_why() -> None:
    assert judge(all_of(at_once(unjudged("u")), at_once(PASS)), REPLY) == unjudged("u")


def test_any_of_says_what_every_part_had_against_it() -> None:
    assert judge(any_of(at_once(fail("a")), at_once(fail("b"))), REPLY) == fail("a", "b")


def test_nobody_is_asked_about_a_reply_that_failed() -> None:
    """A judge costs money; the order of the parts does not matter."""
    asking = Asking(PASS)
    assert judge(all_of(asking, at_once(fail("a"))), REPLY) == fail("a")
    assert asking.asked == 0


def test_all_of_stops_asking_at_the_first_fail() -> None:
    first, second, third = Asking(unjudged("u")), Asking(fail("no")), Asking(PASS)
    assert asyncio.run(settle(all_of(first, second, third))) == fail("no")
    assert [first.asked, second.asked, third.asked] == [1, 1, 0]


def test_any_of_asks_nobody_when_one_passes_at_once() -> None:
    asking = Asking(PASS)
    assert judge(any_of(asking, at_once(PASS)), REPLY) == PASS
    assert asking.asked == 0


def test_any_of_stops_asking_at_the_first_pass() -> None:
    first, second, third = Asking(fail("a")), Asking(PASS), Asking(PASS)
    assert asyncio.run(settle(any_of(first, second, third))) == PASS
    assert [first.asked, second.asked, third.asked] == [1, 1, 0]


def test_they_nest_and_drop_what_is_nested() -> None:
    asking = Asking(PASS)
    inner = any_of(at_once(fail("x")), asking)
    assert judge(all_of(inner, at_once(fail("a"))), REPLY) == fail("a")
    assert asyncio.run(settle(all_of(inner, at_once(PASS)))) == PASS
    assert asking.asked == 1


def test_a_part_that_raises_raises_and_leaves_nothing_behind() -> None:
    def broken(task: Any, reply: Any, ask: Any) -> Verdict:
        raise KeyError("gone")

    for combine in (all_of, any_of):
        with pytest.raises(KeyError):
            judge(combine(Asking(PASS), broken), REPLY)


def test_one_that_raises_while_asked_leaves_nothing_behind() -> None:
    class Broken(Asking):
        async def _answer(self) -> Verdict:
            raise KeyError("gone")

    for combine in (all_of, any_of):
        with pytest.raises(KeyError):
            asyncio.run(settle(combine(Broken(PASS), Asking(PASS))))


@pytest.mark.parametrize("combine", [all_of, any_of])
def test_of_nothing_is_bad_input(combine: Callable[..., Gate]) -> None:
    with pytest.raises(BadInput):
        combine()
