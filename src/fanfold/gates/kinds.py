"""The gates that a plan file states, by their names there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from fanfold.errors import BadInput
from fanfold.gates import checks
from fanfold.gates.checks import parameters, predicate
from fanfold.gates.cites import cites
from fanfold.gates.combine import all_of, any_of
from fanfold.gates.judge import judge
from fanfold.work.nearest import quoted, remedy
from fanfold.work.task import Gate

Resolve: TypeAlias = Callable[[str], Any]
"""From `module:attribute` to what it names; raises BadInput when there is no such thing."""

_GATE_ARGUMENTS = 3


def from_plan(spec: list[dict[str, Any]] | dict[str, Any], resolve: Resolve) -> Gate:
    """The gate of a plan's `gate:` field: a list of checks, or a mapping. All must pass."""
    gates = _listed(spec, resolve)
    if not gates:
        raise BadInput("`gate` states no check: give one, such as `require: [a]`, or leave it out")
    return all_of(*gates)


def _listed(spec: Any, resolve: Resolve) -> list[Gate]:
    gates = []
    for entry in spec if isinstance(spec, list) else [spec]:
        if not isinstance(entry, dict):
            raise BadInput(f"a gate is a mapping such as `require: [a, b]`, not {entry!r}")
        gates += [_one(kind, given, resolve) for kind, given in entry.items()]
    return gates


def _one(kind: str, given: Any, resolve: Resolve) -> Gate:
    kind = _RENAMED.get(kind, kind)
    if kind not in _KINDS:
        raise BadInput(f"unknown gate {quoted(str(kind))}: {remedy(str(kind), _KINDS)}")
    return _KINDS[kind](given, resolve)


def _require(given: Any, resolve: Resolve) -> Gate:
    return checks.require(*_names("require", given))


def _quotes(given: Any, resolve: Resolve) -> Gate:
    if isinstance(given, dict):
        return checks.quotes(**_options("quotes", given, needs=("field",), may=("source",)))
    return all_of(*[checks.quotes(field) for field in _names("quotes", given)])


def _cites(given: Any, resolve: Resolve) -> Gate:
    """`cites: sources` is about fields, `cites: true` about what stands in [brackets]."""
    if given is True:
        return cites()
    return all_of(*[cites(field) for field in _names("cites", given)])


def _schema(given: Any, resolve: Resolve) -> Gate:
    return checks.schema(given)


def _regex(given: Any, resolve: Resolve) -> Gate:
    if isinstance(given, str):
        return checks.regex(given)
    return checks.regex(**_options("regex", given, needs=("pattern",), may=("field",)))


def _judge(given: Any, resolve: Resolve) -> Gate:
    may = ("member", "members", "needs", "threshold", "schema", "step", "revise")
    options = dict(_options("judge", given, needs=("prompt",), may=may))
    for name in ("prompt", "member", "step"):
        if not isinstance(options.get(name, ""), str):
            raise BadInput(f"gate `judge`: `{name}` is a text, not {options[name]!r}")
    for name in ("members", "needs"):
        if name in options:
            options[name] = _names("judge", options[name])
    if not isinstance(options.get("schema", {}), dict):
        raise BadInput(f"gate `judge`: `schema` is a JSON Schema, not {options['schema']!r}")
    return judge(**options)


def _shape(given: Any, resolve: Resolve) -> Gate:
    return checks.shape(resolve(_target("shape", given)))


def _python(given: Any, resolve: Resolve) -> Gate:
    """A function of three arguments is a gate itself, any other a predicate."""
    fn = resolve(_target("python", given))
    if not callable(fn):
        raise BadInput(f"gate `python`: {given} is not a function")
    needed = [p for p in parameters(fn) if p.default is p.empty]
    return fn if len(needed) == _GATE_ARGUMENTS else predicate(fn)


def _all_of(given: Any, resolve: Resolve) -> Gate:
    return all_of(*_listed(given, resolve))


def _any_of(given: Any, resolve: Resolve) -> Gate:
    return any_of(*_listed(given, resolve))


def _fields(
    kind: str, build: Callable[..., Gate], *, needs: tuple[str, ...], may: tuple[str, ...] = ()
) -> Callable[[Any, Resolve], Gate]:
    """A gate whose fields in a plan are the arguments of its function."""
    return lambda given, resolve: build(**_options(kind, given, needs=needs, may=may))


_KINDS: dict[str, Callable[[Any, Resolve], Gate]] = {
    "require": _require,
    "quotes": _quotes,
    "cites": _cites,
    "schema": _schema,
    "range": _fields("range", checks.number_range, needs=("field",), may=("low", "high")),
    "regex": _regex,
    "judge": _judge,
    "shape": _shape,
    "python": _python,
    "all_of": _all_of,
    "any_of": _any_of,
}

KINDS = tuple(_KINDS)
_RENAMED = {"model": "shape"}  # plans written for 0.1, and runs of them that go on


def _names(kind: str, given: Any) -> list[str]:
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) for name in names):
        raise BadInput(f"gate `{kind}` takes a field or a list of fields, not {given!r}")
    return names


def _target(kind: str, given: Any) -> str:
    if not isinstance(given, str):
        raise BadInput(f"gate `{kind}` takes `module:attribute`, not {given!r}")
    return given


def _options(
    kind: str, given: Any, *, needs: tuple[str, ...], may: tuple[str, ...]
) -> dict[str, Any]:
    known = needs + may
    if not isinstance(given, dict):
        raise BadInput(f"gate `{kind}` takes a mapping of {', '.join(known)}, not {given!r}")
    for name in given:
        if name not in known:
            raise BadInput(f"gate `{kind}` has no field `{name}`: {remedy(str(name), known)}")
    for name in needs:
        if name not in given:
            raise BadInput(f"gate `{kind}` needs the field `{name}`")
    return given
