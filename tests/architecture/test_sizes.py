"""Small modules, short functions."""

from __future__ import annotations

from tests.architecture.sources import functions, modules

LONGEST_MODULE = 400
LONG_BODY = 40
LONG_SHARE = 0.03


def test_no_module_is_too_long() -> None:
    lines = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()
    }
    assert {name: many for name, many in lines.items() if many > LONGEST_MODULE} == {}


def test_long_function_bodies_are_rare() -> None:
    long = [found for found in functions() if found.lines > LONG_BODY]
    told = ", ".join(f"{found.module}.{found.name} ({found.lines})" for found in long)
    assert len(long) <= LONG_SHARE * len(functions()), told


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base"}
    assert [name for name in modules() if name.split(".")[-1].strip("_") in empty] == []
