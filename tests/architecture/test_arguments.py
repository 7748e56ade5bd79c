"""What users call: no argument is swallowed, and a misspelt one is refused by the name that was meant."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Unpack, get_args, get_origin, get_type_hints

import msgspec
import pytest

import fanfold
from fanfold.errors import BadInput
from fanfold.gates import checks, cites
from fanfold.patterns import conductor, ensemble, fold, graph, nested, vote_rules
from fanfold.work import pieces, task
from tests.architecture.sources import modules, nodes

NOT_CALLED = {"FanfoldError", "Folded", "Run", "RunStopped", "fold"}  # made by fanfold itself
BEHIND = (  # documented, but imported from where they are
    checks.number_range, checks.schema, cites.cites, conductor.over_all, ensemble.voters,
    graph.node, nested.inside, vote_rules.judged, pieces.Fits, task.Hedge,
    *(getattr(fold, name) for name in ("best", "count", "merge", "total", "union", "vote", "python")),
)  # fmt: skip


def called() -> list[Any]:
    named = (getattr(fanfold, name) for name in fanfold.__all__ if name not in NOT_CALLED)
    return [*named, *BEHIND]


def keywords(thing: Any) -> Iterator[str]:
    """The names under which it takes arguments, read from its signature alone."""
    if isinstance(thing, type):
        assert issubclass(thing, msgspec.Struct)
        yield from thing.__struct_fields__
        return
    inner = inspect.unwrap(thing)
    for name, parameter in inspect.signature(inner).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            hint = get_type_hints(inner)[name]
            assert get_origin(hint) is Unpack
            yield from get_args(hint)[0].__annotations__
        elif parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            yield name


def call(thing: Callable[..., Any], *args: Any, **named: Any) -> None:
    made = thing(*args, **named)
    if inspect.iscoroutine(made):
        asyncio.run(made)


@pytest.mark.parametrize("thing", called(), ids=lambda thing: thing.__name__)
def test_a_misspelt_argument_is_refused_with_the_name_that_was_meant(thing: Any) -> None:
    for name in [*keywords(thing), "zzz"]:
        with pytest.raises(BadInput) as refused:
            call(thing, **{f"{name}{name[-1]}": None})
        wrong = refused.value
        assert isinstance(wrong, TypeError), "what Python itself would raise"
        assert f"`{name}{name[-1]}`" in str(wrong) and "\n" not in str(wrong)
        if name != "zzz":
            assert f"did you mean `{name}`?" in str(wrong)


@pytest.mark.parametrize("thing", called(), ids=lambda thing: thing.__name__)
def test_too_many_arguments_are_refused_in_one_line(thing: Any) -> None:
    most = 20
    if any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(thing).parameters.values()):
        return
    with pytest.raises(BadInput) as refused:
        call(thing, *[None] * most)
    assert "\n" not in str(refused.value)


def test_no_function_of_a_pattern_a_gate_or_a_run_takes_keywords_it_does_not_write_out() -> None:
    """`**options` of no stated type would swallow a misspelt gate."""
    rooms = ("gates", "patterns", "run", "members")
    names_of_values = {"render", "knowing", "put"}  # any name of a template or record is one
    loose = [
        f"{module}.{node.name}"
        for module in modules()
        if module.split(".")[1:2] and module.split(".")[1] in rooms
        for node in nodes(module, ast.FunctionDef, ast.AsyncFunctionDef)
        if node.args.kwarg
        and node.name not in names_of_values
        and not (node.args.kwarg.annotation
                 and ast.unparse(node.args.kwarg.annotation).startswith(("Unpack[", "P.kwargs")))
    ]  # fmt: skip
    assert loose == []
