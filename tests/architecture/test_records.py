"""Records: what a library cannot bear, and where a kind of step is."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from fanfold.plans.steps.kind import Step
from fanfold.plans.steps.plan_entry import PlanEntry
from tests.architecture.sources import modules

_COLLECTIONS = (list, tuple, set, frozenset, dict)
_ROOMS = ("work", "members", "plans", "fleet", "gates", "run", "patterns")


def records(base: Any = msgspec.Struct) -> Iterator[Any]:
    for kind in base.__subclasses__():
        yield kind
        yield from records(kind)


def _has_pattern(kind: Any) -> bool:
    return get_origin(kind) is Annotated and any(
        isinstance(one, msgspec.Meta) and one.pattern is not None for one in kind.__metadata__
    )


def _breaks(kind: Any) -> bool:
    """A pattern beside a collection, in one union."""
    parts = get_args(kind) if get_origin(kind) is not Annotated else (kind.__origin__,)
    beside = [one.__origin__ if get_origin(one) is Annotated else one for one in parts]
    union = get_origin(kind) in (Union, UnionType)
    here = union and any(map(_has_pattern, parts)) and any(
        get_origin(one) in _COLLECTIONS or one in _COLLECTIONS for one in beside
    )  # fmt: skip
    return here or any(_breaks(one) for one in parts if one is not ...)


def test_the_walk_finds_what_breaks() -> None:
    text = Annotated[str, msgspec.Meta(pattern="x")]
    assert [
        _breaks(one) for one in (text | tuple[text, ...], dict[str, text | list[str]] | None)
    ] == [
        True,
        True,
    ]  # type: ignore[list-item]
    assert [_breaks(one) for one in (text, text | None, text | int, str | list[text])] == [
        False
    ] * 4


def test_no_record_has_a_pattern_beside_a_collection() -> None:
    """msgspec 0.22 writes past the end of its memory when it is decoded; see `work/reader.Word`."""
    for name in modules():
        if name.split(".")[1:2] and name.split(".")[1] in _ROOMS:
            importlib.import_module(name)
    found = []
    for record in records():
        if record.__module__.startswith("fanfold."):
            hints = get_type_hints(record, include_extras=True)
            found += [f"{record.__name__}.{name}" for name, kind in hints.items() if _breaks(kind)]
    assert found == []


KINDS = PlanEntry.kinds


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_step_is_one_module_of_its_own_name(name: str) -> None:
    assert KINDS[name].__module__ == f"fanfold.plans.steps.{name}"


def test_every_kind_of_step_is_in_the_table() -> None:
    shared = {
        "fanfold.plans.steps",
        *(f"fanfold.plans.steps.{name}" for name in ("kind", "table", "sequence", "plan_entry")),
    }
    there = {module for module in modules() if module.startswith("fanfold.plans.steps")}
    assert there - shared == {kind.__module__ for kind in KINDS.values()}
    steps = {kind for kind in Step.__subclasses__() if kind.__module__.startswith("fanfold.")}
    assert steps == {kind for kind in KINDS.values() if issubclass(kind, Step)}
