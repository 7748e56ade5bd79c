"""Group: the items by a key, and one value made of each group."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any, Unpack

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.arguments import Folded, NoValue, PatternOptions, pattern, terms_of
from fanfold.patterns.asked_reduce import AskedReduce, placeholder_asks
from fanfold.patterns.gathered import need_field, passed, settle_all, terms_of_nobody
from fanfold.patterns.nested import settle_value, value_of
from fanfold.patterns.piecewise import knowing, piecewise
from fanfold.patterns.pipeline import Stage, pipe_batch
from fanfold.patterns.prompt import Prompt
from fanfold.patterns.reduce import Landing, Reducing, begin_reduce, grow, reducing
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows, source_of
from fanfold.work import check
from fanfold.work.blocking import item_path
from fanfold.work.excerpt import as_text
from fanfold.work.fields import MISSING, spread
from fanfold.work.item import Item, Source
from fanfold.work.options import needed
from fanfold.work.outcome import Outcome, Part
from fanfold.work.task import Reducer, Task, Terms
from fanfold.work.tree import widths

_OF_GROUPS = ("step", "gate", "concurrency", "on_failure")


class GroupingWay(msgspec.Struct, frozen=True):
    """How it is done: items by what is at `by`, a group by `reduction`. `terms` are those on which
    groups are settled; `keys` is the step where items are."""

    by: str
    reduction: Reducing
    terms: Terms

    @property
    def keys(self) -> Terms:
        return terms_of_nobody(f"{self.terms.step}.key")


class GroupedParts(msgspec.Struct):
    """One group: its key, and its parts in planned order."""

    key: Any
    parts: list[Part]


@pattern
async def group(
    run: Run,
    items: Source | Iterable[Any],
    *,
    by: str,
    reduce: Reducer | AskedReduce,
    fan_in: int | None = None,
    **how: Unpack[PatternOptions],
) -> Folded:
    """Put the items into groups by the field `by`, and make one value of each with `reduce`. An item
    whose field is a list is in the group of each element.

    The value is a list of {"id", "key", "ids", "value"}, in the order in which the groups were first
    met: `ids` are the items behind each. `gate` judges the value of a group. An item without the
    field fails, and a group of which nothing could be made is left out.
    """
    for name in (name for name in how if name not in _OF_GROUPS):
        what = f"`group` has no use for `{name}`: it asks nobody but by its `reduce`"
        raise BadInput(f"{what}; give it to asked(…)")
    way = group_way(
        needed("by", by, check.text), reducing(reduce, fan_in), terms_of(how, None, "group")
    )
    await begin_reduce(run, way.reduction)
    await run.begin(way.terms)
    batch = await run.plan(need_field("by", source_of(items, run.spool), by), way.keys)
    value = await group_batch(run, batch, way)
    run.set_result(value)
    return Folded(value, run.receipt(), run, batch, way.keys)


def group_way(by: str, reduction: Reducing, terms: Terms) -> GroupingWay:
    """Nobody is asked about a group but by its reduce."""
    if reduction.how is None:
        raise BadInput("`group` needs a `reduce`")
    item_path(by)
    who = terms_of_nobody(terms.step).who
    if isinstance(reduction.how, AskedReduce):
        who = reduction.how.terms.who
        if reduction.how.terms.step == "reduce":
            asked = msgspec.structs.replace(reduction.how.terms, step=f"{terms.step}.reduce")
            how = msgspec.structs.replace(reduction.how, terms=asked)
            reduction = msgspec.structs.replace(reduction, how=how)
    terms = msgspec.structs.replace(terms, who=who, escalate=(), keep=None, revise=0)
    return GroupingWay(by, msgspec.structs.replace(reduction, inside=True), terms)


async def group_batch(
    run: Run, batch: Batch, way: GroupingWay, *, of: str | None = None, govern: bool = False
) -> list[dict[str, Any]]:
    """Of the items of a batch, which are settled at `way.keys`. `of`: the step whose replies are the
    parts; else these are the items themselves."""
    groups = Groups(way.by, of)
    await settle_all(run, batch, way.keys, map(groups.add, batch.source.walk()))
    found = groups.found
    rows = [
        Item(id, {"key": one.key, "ids": [part.id for part in one.parts]})
        for id, one in found.items()
    ]
    planned = await run.plan(Rows(rows), way.terms, name=f"{way.terms.step}.groups")
    if govern and isinstance(way.reduction.how, AskedReduce):
        await run.govern(way.reduction.how.terms, placeholder_asks(asks_of_groups(way, found)))
    stage = Stage(Prompt(), way.terms, None, _OfGroup(found, way.reduction))
    await pipe_batch(run, planned, [stage], "batch")
    run.pause_if_unpaid()
    return [
        {"id": part.id, "key": found[part.id].key, "ids": ids, "value": part.value}
        for part in run.passed(planned, way.terms)
        for ids in [[one.id for one in found[part.id].parts]]
    ]


class Groups:
    """Which group each item is in. The id of a group is its key in words."""

    def __init__(self, by: str, of: str | None = None) -> None:
        self._path, self._by, self._of = item_path(by), by, of
        self.found: dict[str, GroupedParts] = {}

    def add(self, row: tuple[int, Item]) -> tuple[int, Item, Outcome]:
        """How the item ended: with the ids of its groups, or without a field to go by."""
        position, item = row
        view = item.view()
        found = [key for _, key in spread(view, self._path)]
        if not found or any(key is MISSING or key is None for key in found):
            what = f"it has no field `{self._by}` to group by"
            return position, item, Outcome(item.id, "failed", reasons=(what,))
        value = item.data if self._of is None else view["steps"][self._of]
        keys = {as_text(key): key for key in found}
        for id, key in keys.items():
            group = self.found.setdefault(id or "(empty)", GroupedParts(key, []))
            group.parts.append(Part(item.id, len(group.parts), value))
        return position, item, passed(item, list(keys))


def asks_of_groups(way: GroupingWay, groups: dict[str, GroupedParts]) -> int:
    """How many asks their trees have."""
    if way.reduction.fan_in is None:
        return 0
    fan_in = way.reduction.fan_in
    return sum(sum(widths(len(one.parts), fan_in)[1:]) for one in groups.values())


class _OfGroup:
    """The way of a group to its value."""

    def __init__(self, groups: dict[str, GroupedParts], reduction: Reducing) -> None:
        self._groups, self._reduction = groups, reduction

    async def __call__(self, run: Run, task: Task) -> Outcome:
        try:
            value = await value_of(self._made(run, self._groups[task.id].parts))
            return await settle_value(run, task, value)
        except NoValue as error:
            return run.settle(task, Outcome(task.id, "failed", reasons=(str(error),)))

    async def _made(self, run: Run, parts: list[Part]) -> Any:
        how = self._reduction.how
        if self._reduction.fan_in is None:
            assert how is not None and not isinstance(how, AskedReduce)
            return piecewise(knowing(how, tuple))(parts)
        return await grow(run, len(parts), _landing(parts), self._reduction)


async def _landing(parts: list[Part]) -> AsyncGenerator[Landing, None]:
    for part in parts:
        yield part.position, part
