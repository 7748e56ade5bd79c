"""A plugin for `tools/steady`: tests in random order, each of them many times, and which may race.

pytest -p tests.steadiness -m races --shuffle SEED --repeat 50

Repeated: each test function so often, over all its cases; one with a hundred cases runs once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from inspect import isclass, isfunction, unwrap
from math import ceil
from random import Random
from types import CodeType
from typing import Any

import pytest

SIGNS = frozenset({
    "subprocess", "threading", "multiprocessing", "fork", "kill", "started", "new_process", "child",
    "start_server", "threaded_server", "running_server", "ModelServer", "RawServer", "wait_until",
    "however_slow",
})  # fmt: skip
"""What a test has to do with, itself or through what it calls, to be one that may race."""

CALM = frozenset({"fanfold"})
"""Starts a process, but only one, and waits for its end."""

ALONE = (
    "tests/docs/", "tests/faces/test_newcomer.py", "tests/faces/test_wheel.py",
    "tests/flow/test_scale.py", "tests/flow/test_tree_scale.py",
)  # fmt: skip
"""One process each, waited for, whose output or memory is looked at: what counts there are lines and
bytes, and the minutes that they take are better spent on those that race."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in random order")
    parser.addoption(
        "--repeat", type=int, default=1, metavar="N", help="run each test function so often"
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    seed = config.option.shuffle
    return [] if seed is None else [f"random order: --shuffle {seed}"]


@pytest.fixture
def repetition() -> int:
    """Which time it is that a test runs."""
    return 0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    times = metafunc.config.option.repeat
    if times > 1:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(times), ids=[f"time-{n}" for n in range(times)])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known: dict[Any, bool] = {}
    for item in items:
        if item.nodeid.startswith(ALONE) or not isinstance(item, pytest.Function):
            continue
        if any(_races(one, known) for one in _parts(item)):
            item.add_marker(pytest.mark.races)
    _keep_enough(config.option.repeat, items)
    if config.option.shuffle is not None:
        Random(config.option.shuffle).shuffle(items)


def _keep_enough(times: int, items: list[pytest.Item]) -> None:
    """Of a function with several cases, each so often that all together make up the number."""
    functions = [item.nodeid.partition("[")[0] for item in items]
    cases = {name: many / times for name, many in Counter(functions).items()}
    last = {name: ceil(times / many) for name, many in cases.items()}
    items[:] = [
        item for item, name in zip(items, functions, strict=True) if _repetition(item) < last[name]
    ]


def _repetition(item: pytest.Item) -> int:
    call = getattr(item, "callspec", None)
    return int(call.params.get("repetition", 0)) if call else 0


def _parts(item: pytest.Function) -> Iterator[Any]:
    """The test, and the fixtures that it takes from others."""
    yield unwrap(item.function)
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield from (unwrap(one.func) for one in definitions)


def _races(thing: Any, known: dict[Any, bool]) -> bool:
    """Whether a function or class of the tests names a sign, or something that does."""
    if not (isfunction(thing) or isclass(thing)) or not thing.__module__.startswith("tests."):
        return False
    if thing not in known:
        known[thing] = False  # until it is known: things name each other
        known[thing] = any(_names_a_sign(one, known) for one in _functions(thing))
    return known[thing]


def _functions(thing: Any) -> list[Callable[..., Any]]:
    if isfunction(thing):
        return [unwrap(thing)]
    found = (unwrap(getattr(one, "fget", None) or one) for one in vars(thing).values())
    return [one for one in found if isfunction(one)]


def _names_a_sign(function: Callable[..., Any], known: dict[Any, bool]) -> bool:
    names = set(_names(function.__code__)) - CALM
    if not SIGNS.isdisjoint(names):
        return True
    return any(_races(function.__globals__.get(name), known) for name in names)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
