"""Any Python function as a gate."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.gates.checks import predicate
from fanfold.work.ask import Reply
from fanfold.work.item import Item
from fanfold.work.outcome import PASS, fail, unjudged
from tests.unit.gates.judging import item, judge, task_of, verdict


def long_enough(value: Any) -> Any:
    return len(value) > 2 or f"only {len(value)} letters"


@pytest.mark.parametrize("yes", [True, 1, [0], re.match("a", "a")])
def test_true_values_pass(yes: Any) -> None:
    assert verdict(predicate(lambda value: yes), "x") == PASS


@pytest.mark.parametrize("no", [False, None, 0, [], "", "  "])
def test_false_values_fail(no: Any) -> None:
    """Also None: a function that forgot its return lets nothing through."""
    assert verdict(predicate(lambda value: no, "not good"), "x") == fail("not good")


def test_a_text_is_the_reason() -> None:
    assert verdict(predicate(long_enough), "abc") == PASS
    assert verdict(predicate(long_enough), "ab") == fail("only 2 letters")


def test_without_a_reason_the_function_is_named() -> None:
    def is_even(value: int) -> bool:
        return value % 2 == 0

    assert verdict(predicate(is_even), 3) == fail("the check is_even failed")


def test_a_second_argument_is_the_item() -> None:
    def same_id(value: Any, item: Item) -> bool:
        return bool(value == item.id)

    assert verdict(predicate(same_id), "c-1", item(text="")) == PASS
    assert verdict(predicate(same_id), "c-2", item(text="")) == fail("the check same_id failed")


def test_which_second_arguments_are_meant_for_the_item() -> None:
    def optional(value: Any, item: Any = None) -> bool:
        return item is not None

    def other(value: Any, strict: Any = None) -> bool:
        return strict is None

    assert verdict(predicate(optional), 1, item(text="")) == PASS
    assert verdict(predicate(other), 1, item(text="")) == PASS


def test_without_one_item_it_cannot_be_judged() -> None:
    def check(value: Any, item: Item) -> bool:
        return True

    assert verdict(predicate(check), 1) == unjudged("the check check needs one item, `c-1` has 0")


def test_a_builtin_works() -> None:
    assert verdict(predicate(bool), [1]) == PASS


def test_an_async_function_is_awaited() -> None:
    async def slow(value: int) -> bool:
        await asyncio.sleep(0)
        return value > 1

    async def ask() -> list[Any]:
        return [await judge(predicate(slow), Reply(data=n)) for n in (1, 2)]

    assert asyncio.run(ask()) == [fail("the check slow failed"), PASS]


def test_an_async_method_is_awaited() -> None:
    class Slow:
        async def __call__(self, value: int) -> bool:
            return value > 1

    async def ask() -> list[Any]:
        return [await judge(predicate(Slow()), Reply(data=n)) for n in (1, 2)]

    assert asyncio.run(ask()) == [fail("the check Slow failed"), PASS]


def test_an_awaitable_is_never_taken_for_true() -> None:
    async def slow(value: int) -> bool:
        return False

    started = []

    def hidden(value: int) -> Any:
        started.append(slow(value))
        return started[0]

    with pytest.raises(TypeError, match="write it with `async def`"):
        predicate(hidden)(task_of(), Reply(data=1), None)  # type: ignore[arg-type]
    started[0].close()


@pytest.mark.parametrize("bad", [5, lambda: True, lambda a, b, c: True])
def test_what_cannot_be_called_with_a_value_is_bad_input(bad: Any) -> None:
    with pytest.raises(BadInput):
        predicate(bad)
