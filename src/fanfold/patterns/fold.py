"""Pure reducers: many passed replies into one value, and their names in a plan.

Each function here returns a Reducer. Parts come in planned order, one at a time, and what is kept
is the result, not the parts. A value that does not fit raises a FanfoldError that names its item.
All of them work in a tree too, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nlargest
from typing import Any, TypeAlias

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.ordering import RankedRecord, ordered
from fanfold.patterns.piecewise import (
    UNIT,
    Piecewise,
    added,
    chained,
    different,
    in_units,
    misfit,
    piecewise,
    values,
)
from fanfold.work.arguments import public, refuse_async
from fanfold.work.check import described
from fanfold.work.excerpt import as_text
from fanfold.work.fields import MISSING, Path, leaves, number, path_of, spread
from fanfold.work.nearest import quoted, remedy
from fanfold.work.outcome import Part
from fanfold.work.task import Reducer
from fanfold.work.vote import ballot as _ballot
from fanfold.work.vote import label as _label


@public
def concat(sep: str = "\n\n", title: str | None = None) -> Reducer:
    """All texts in planned order; what is no text is written as JSON. Of nothing: "".

    `title` is the line above each, with an empty one between: `## {id}` for that of its item.
    """
    if not isinstance(sep, str):
        raise BadInput(f"`sep` must be a text, not {described(sep)}")
    if title is None:
        return piecewise(lambda parts: sep.join(as_text(part.value) for part in parts))
    if not isinstance(title, str) or "{id}" not in title:
        raise BadInput(
            f"`title` must be a text with {{id}} in it, such as '## {{id}}', not {title!r}"
        )

    def gather(parts: Iterable[Part]) -> list[str]:
        return [f"{title.replace('{id}', part.id)}\n\n{as_text(part.value)}" for part in parts]

    return Piecewise(gather, chained, sep.join)


@public
def collect() -> Reducer:
    """A list of {"id", "value"}. Of nothing: []."""
    return Piecewise(
        lambda parts: [{"id": part.id, "value": part.value} for part in parts], chained
    )


@public
def total(field: str | None = None) -> Reducer:
    """The sum of the values, or of a field, through lists. Numbers written as text count too.

    Whole numbers are added exactly and fractions without drift. Of nothing: 0.
    """
    path = path_of(field)

    def gather(parts: Iterable[Part]) -> tuple[int, int | None]:
        """The sum of the whole numbers, and that of the fractions in units, if there are any."""
        whole, fractions = 0, None
        for amount in _numbers(parts, path):
            if isinstance(amount, int):
                whole += amount
            else:
                fractions = (fractions or 0) + in_units(amount)
        return whole, fractions

    def join(parts: Iterable[Part]) -> tuple[int, int | None]:
        sums = [part.value for part in parts]
        fractions = [units for _, units in sums if units is not None]
        return sum(whole for whole, _ in sums), sum(fractions) if fractions else None

    def close(sums: tuple[int, int | None]) -> int | float:
        whole, fractions = sums
        return whole if fractions is None else whole + fractions / UNIT

    return Piecewise(gather, join, close)


@public
def count(by: str | None = None) -> Reducer:
    """How many parts there are, or how many of each value of the field `by`, first seen first.

    A part whose field holds a list counts once for each of its elements. Of nothing: 0, or {}.
    """
    if by is None:
        return Piecewise(lambda parts: sum(1 for _ in parts), lambda parts: sum(values(parts)))
    path = path_of(by)

    def gather(parts: Iterable[Part]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for part, leaf in _found(parts, path):
            if isinstance(leaf, (dict, list)):
                raise misfit(part.id, f"`{by}` is no plain value", leaf)
            label = as_text(leaf)
            counts[label] = counts.get(label, 0) + 1
        return counts

    return Piecewise(gather, lambda parts: added(values(parts)))


@public
def union(field: str | None = None) -> Reducer:
    """The different values, or elements of lists, first seen first. Of nothing: []."""
    path = path_of(field)

    def gather(parts: Iterable[Part]) -> list[Any]:
        return different(leaf for _, leaf in _found(parts, path))

    return Piecewise(gather, lambda parts: different(chained(parts)))


@public
def merge() -> Reducer:
    """One object of all objects, in depth, lists appended; or one list of all lists.

    Where plain values meet, the last in planned order stands; null gives way to anything. Of
    nothing: {}.
    """

    def fold(parts: Iterable[Part]) -> dict[str, Any] | list[Any]:
        whole: Any = None
        for part in parts:
            if not isinstance(part.value, (dict, list)):
                raise misfit(part.id, "only objects and lists can be merged", part.value)
            whole = _merged(whole, part.value, part.id, "the value")
        return {} if whole is None else whole

    return piecewise(fold)


@public
def sort_by(field: str, descending: bool = False) -> Reducer:
    """All records in the order of a field; equal ones stay in planned order. Of nothing: [].

    Replies that are lists of records are opened (with `findings.severity`, the list `findings` of
    each reply), and each record carries its item's id as `item` unless it has such a field. The
    words low, medium, high, critical go by rank, numbers by size. Without the field: last; if none has
    it, FanfoldError.
    """
    if not isinstance(descending, bool):
        raise BadInput(f"`descending` must be true or false, not {described(descending)}")

    def order(ranked: list[RankedRecord]) -> list[RankedRecord]:
        known = [one for one in ranked if one[0]]
        known.sort(key=lambda one: one[0], reverse=descending)
        return known + [one for one in ranked if not one[0]]

    return ordered(field, lambda ranked: ranked, order)


@public
def top(n: int, by: str) -> Reducer:
    """The n records with the highest `by`, highest first, as `sort_by` would order them.

    Of nothing: []. Holds only n records at a time.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise BadInput(f"`top` needs a whole number of records from 1 on, not {n!r}")

    def highest(ranked: Iterable[RankedRecord]) -> list[RankedRecord]:
        return nlargest(n, ranked, key=lambda one: one[0])

    return ordered(by, highest, list)


@public
def best(by: str) -> Reducer:
    """The record with the highest `by`; the first in planned order of equals. Of nothing: None."""
    first = piecewise(top(1, by))
    return Piecewise(
        first.gather, first.join, lambda one: next(iter(first.close(one)), None), first.check
    )


@public
def vote(field: str | None = None) -> Reducer:
    """The value most parts agree on; the first in planned order when several are level.

    What counts as the same answer is said in `work.vote.ballot`: numbers go by their value, text by
    its words. Returns {"winner", "votes", "of"}. Of nothing: no winner, of 0.
    """
    path = path_of(field)

    def gather(parts: Iterable[Part]) -> tuple[dict[str, int], dict[str, Any]]:
        votes: dict[str, int] = {}
        said: dict[str, Any] = {}
        for part in parts:
            value = _single(part, path)
            ballot = _ballot(value)
            said.setdefault(ballot, value.strip() if isinstance(value, str) else value)
            votes[ballot] = votes.get(ballot, 0) + 1
        return votes, said

    def join(parts: Iterable[Part]) -> tuple[dict[str, int], dict[str, Any]]:
        polls = [part.value for part in parts]
        said: dict[str, Any] = {}
        for _, heard in reversed(polls):
            said.update(heard)
        return added(votes for votes, _ in polls), said

    return Piecewise(gather, join, _elected)


@public
def python(fn: Reducer) -> Reducer:
    """A function of the parts (`id`, `position`, `value`), which come one at a time."""
    if not callable(fn):
        raise BadInput(f"a `python` reduce needs a function of the parts, not {fn!r}")
    refuse_async("the function of a `python` reduce", fn)
    return fn


# ── what the reducers share ──────────────────────────────────────────────────────────────────


def _elected(poll: tuple[dict[str, int], dict[str, Any]]) -> dict[str, Any]:
    votes, said = poll
    winner = max(votes, key=votes.__getitem__, default=None)
    return {
        "winner": None if winner is None else said[winner],
        "votes": {_label(said[ballot]): many for ballot, many in votes.items()},
        "of": sum(votes.values()),
    }


def _found(parts: Iterable[Part], path: Path) -> Iterator[tuple[Part, Any]]:
    """Each value at the path, lists opened, with the part it is of; a missing field raises."""
    for part in parts:
        for where, leaf in spread(part.value, path):
            if leaf is MISSING:
                raise misfit(part.id, f"has no field `{where}`", leaf)
            yield part, leaf


def _numbers(parts: Iterable[Part], path: Path) -> Iterator[int | float]:
    for part, leaf in _found(parts, path):
        amount = number(leaf)
        if amount is None:
            raise misfit(part.id, "not a number", leaf)
        yield amount


def _single(part: Part, path: Path) -> Any:
    """The one value at the path; a vote has to be one value."""
    found = [leaf for _, leaf in leaves(part.value, path)]
    if len(found) != 1 or found[0] is MISSING:
        raise misfit(part.id, f"has no single `{'.'.join(path)}`", part.value)
    return found[0]


def _merged(whole: Any, value: Any, item: str, where: str) -> Any:
    """`whole` (which is ours to change) with `value` (which is not) put into it."""
    if value is None:
        return whole
    if isinstance(value, dict) and (whole is None or isinstance(whole, dict)):
        whole = {} if whole is None else whole
        for name, part in value.items():
            whole[name] = _merged(whole.get(name), part, item, f"`{name}`")
        return whole
    if isinstance(value, list) and (whole is None or isinstance(whole, list)):
        return [*value] if whole is None else _extended(whole, value)
    if isinstance(value, (dict, list)) or isinstance(whole, (dict, list)):
        raise misfit(item, f"{where} is of another kind than in the items before", value)
    return value


def _extended(whole: list[Any], value: list[Any]) -> list[Any]:
    whole.extend(value)
    return whole


# ── their names in a plan ────────────────────────────────────────────────────────────────────────


Resolve: TypeAlias = Callable[[str], Any]
"""From `module:attribute` to what it names; raises BadInput when there is no such thing."""


class _Kind(msgspec.Struct, frozen=True):
    build: Callable[..., Reducer]
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


def _sorted(by: str, order: str = "ascending") -> Reducer:
    if order not in ("ascending", "descending"):
        raise BadInput(f"reduce `sort`: order is ascending or descending, not {order!r}")
    return sort_by(by, descending=order == "descending")


_KINDS: dict[str, _Kind] = {
    "concat": _Kind(concat, may=("sep", "title")),
    "collect": _Kind(collect),
    "sum": _Kind(total, may=("field",)),
    "count": _Kind(count, may=("by",)),
    "union": _Kind(union, may=("field",)),
    "merge": _Kind(merge),
    "sort": _Kind(_sorted, needs=("by",), may=("order",)),
    "top": _Kind(top, needs=("n", "by")),
    "best": _Kind(best, needs=("by",)),
    "vote": _Kind(vote, may=("field",)),
    "python": _Kind(python, needs=("target",)),
}
KINDS = tuple(_KINDS)


def from_plan(kind: str, options: Mapping[str, Any], resolve: Resolve) -> Reducer:
    """The reducer of a plan's `reduce: {kind: …}`; `options` are its other fields."""
    if kind not in _KINDS:
        raise BadInput(f"unknown reduce kind {quoted(str(kind))}: {remedy(str(kind), KINDS)}")
    chosen = _KINDS[kind]
    known = chosen.needs + chosen.may
    for name, given in options.items():
        if name not in known:
            what = remedy(str(name), known) if known else "it takes no other field"
            raise BadInput(f"reduce `{kind}` has no field `{name}`: {what}")
        if name != "n" and not isinstance(given, str):
            raise BadInput(f"reduce `{kind}`: `{name}` is a text, not {given!r}")
    for name in chosen.needs:
        if name not in options:
            raise BadInput(f"reduce `{kind}` needs the field `{name}`")
    if kind == "python":
        return python(resolve(options["target"]))
    return chosen.build(**options)
