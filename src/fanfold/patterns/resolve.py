"""Resolve: which records are about one thing? Similar pairs are asked about, and the answers joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import msgspec

from fanfold.patterns.arguments import Folded, PatternOptions, pattern, terms_of
from fanfold.patterns.gathered import (
    Gathered,
    need_field,
    needed_block,
    passed,
    terms_of_nobody,
    terms_within,
)
from fanfold.patterns.map_reduce import map_batch
from fanfold.patterns.pairs import PairSource, ask_pairs, one_of_words, pair_prompt, pair_terms
from fanfold.patterns.pipeline import Stage
from fanfold.patterns.prompt import Prompt, check_prompt, make_task, prompt_of
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows, source_of
from fanfold.work import check
from fanfold.work.blocking import (
    Block,
    Blocked,
    blocked_record,
    item_path,
    pairs_within,
    without_vector,
)
from fanfold.work.cluster import CLOSURES, Closure, Entities, PairAnswer, entities
from fanfold.work.excerpt import as_text
from fanfold.work.fields import MISSING, leaves
from fanfold.work.item import Item, Source, canonical
from fanfold.work.options import option
from fanfold.work.task import Terms


class Naming(msgspec.Struct, frozen=True):
    """How an entity is called: as most of its records say in `field`; or a member is asked."""

    field: str | None = None
    prompt: Prompt | None = None
    terms: Terms | None = None


class ResolvingWay(msgspec.Struct, frozen=True):
    """How it is done. `terms` are those of the pairs, `items` those on which items are settled."""

    items: Terms
    terms: Terms
    prompt: Prompt
    block: Block = Block()
    closure: Closure = "strict"
    naming: Naming = Naming()


@pattern
async def resolve(
    run: Run,
    items: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    block: Block = Block(),
    closure: Closure = "strict",
    canonical: str | Stage | None = None,
    **how: Unpack[PatternOptions],
) -> Folded:
    """Find the items that are about one thing. `block` chooses the pairs that are asked about; the
    prompt sees them as `item.a` and `item.b`, and an answer is {"same": true}, or yes or no.

    The value is {"entities": [{"id", "name", "ids"}], "conflicts", "bridges", "unanswered", …}. An
    item's reply is {"entity", "name", "size"}. Two groups become one only where no answer says
    `different`; `closure="transitive"` joins them nevertheless. Either way `conflicts` lists the
    answers that the result contradicts. `canonical`: the field that names an entity, or a
    `stage(...)` that is asked for a name of each with several records (`item.records`).
    """
    one_of_words("closure", closure, CLOSURES)
    source = needed_block(block, source_of(items, run.spool))
    asked = prompt_of(pair_prompt(prompt, "a", "b"), schema, how=how)
    terms = terms_of(how, asked.schema, "resolve")
    way = ResolvingWay(
        terms_of_nobody(terms.step), pair_terms(terms_within(terms, "pairs")), asked, block, closure,
        _naming(canonical, terms.step),
    )  # fmt: skip
    check_prompt(asked, way.terms, run.traits(way.terms))
    await run.begin(way.terms)
    if way.naming.terms is not None and way.naming.prompt is not None:
        check_prompt(way.naming.prompt, way.naming.terms, run.traits(way.naming.terms))
        await run.begin(way.naming.terms)
    need_field("canonical", source, way.naming.field)
    batch = await run.plan(source, way.items)
    value = await resolve_batch(run, batch, way)
    run.set_result(value)
    return Folded(value, run.receipt(), run, batch, way.items)


def _naming(canonical: Any, step: str) -> Naming:
    if isinstance(canonical, Stage):
        terms = msgspec.structs.replace(canonical.terms, step=f"{step}.canonical")
        return Naming(None, canonical.prompt, terms)
    return Naming(option("canonical", canonical, check.text))


async def resolve_batch(
    run: Run, batch: Batch, way: ResolvingWay, *, govern: bool = False
) -> dict[str, Any]:
    """Of the items of a batch, which are settled on `way.items`."""
    gathered = Gathered(batch)
    records, pairs = similar_pairs(gathered.items, way.block)
    answered = await ask_pairs(run, pairs, way.terms, way.prompt, govern=govern)
    found = entities(len(records.distinct), answered.answers, way.closure)
    groups = records.spread(found.groups)
    names = await _names(run, gathered.items, groups, way.naming, govern=govern)
    of = {at: n for n, group in enumerate(groups) for at in group}
    said = []
    for at, item in enumerate(gathered.items):
        group = groups[of[at]]
        entity = gathered.items[group[0]].id
        said.append(passed(item, {"entity": entity, **names[of[at]], "size": len(group)}))
    await gathered.settle(run, way.items, said)
    return {
        "entities": [
            {"id": ids[0], **name, "ids": ids}
            for group, name in zip(groups, names, strict=True)
            for ids in [[gathered.items[at].id for at in group]]
        ],
        **_doubts(records.distinct, found),
        "unanswered": answered.unanswered,
        "asked": answered.batch.size,
        "left_out": pairs.blocked.left_out,
    }


class Distinct:
    """Items without those that are equal in all but their id: these are one without a question."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._copies: dict[bytes, list[int]] = {}
        for at, item in enumerate(items):
            self._copies.setdefault(canonical(_without_id(item)), []).append(at)
        self.distinct = [items[copies[0]] for copies in self._copies.values()]

    def spread(self, groups: Iterable[Iterable[int]]) -> list[list[int]]:
        """The same groups, of all items."""
        copies = list(self._copies.values())
        return sorted(sorted(at for n in group for at in copies[n]) for group in groups)


def _without_id(item: Item) -> Any:
    data = item.data
    return {k: v for k, v in data.items() if k != "id"} if isinstance(data, dict) else data


def similar_pairs(items: Sequence[Item], block: Block) -> tuple[Distinct, PairSource]:
    records = Distinct(items)
    blocked: Blocked = pairs_within(
        [blocked_record(item.view(), block) for item in records.distinct], block
    )
    shown = [without_vector(item, block) for item in records.distinct]
    return records, PairSource(shown, shown, blocked, ("a", "b"))


def _doubts(items: Sequence[Item], found: Entities) -> dict[str, Any]:
    def shown(one: PairAnswer) -> dict[str, str]:
        said = "same" if one.same else "different"
        return {"a": items[one.a].id, "b": items[one.b].id, "answer": said}

    return {
        "conflicts": list(map(shown, found.conflicts)),
        "bridges": list(map(shown, found.bridges)),
    }


# ── names ────────────────────────────────────────────────────────────────────────────────────────


async def _names(
    run: Run,
    items: Sequence[Item],
    groups: Sequence[Sequence[int]],
    naming: Naming,
    *,
    govern: bool,
) -> list[dict[str, Any]]:
    """{"name": …} of each group, or nothing where nothing names it."""
    names = [_usual(items, group, naming.field) for group in groups]
    if naming.terms is None or naming.prompt is None:
        return names
    several = [n for n, group in enumerate(groups) if len(group) > 1]
    rows = [named_entity(items, groups[n], naming.field) for n in several]
    batch = await run.plan(Rows(rows), naming.terms)
    if govern:
        asks = (make_task(naming.prompt, row, naming.terms, None).ask for row in rows)
        await run.govern(naming.terms, asks)
    await map_batch(run, batch, naming.terms, naming.prompt)
    run.pause_if_unpaid()
    for part in run.passed(batch, naming.terms):
        value = part.value.get("name") if isinstance(part.value, dict) else part.value
        if value is not None:
            names[several[part.position]] = {"name": value}
    return names


def named_entity(items: Sequence[Item], group: Sequence[int], field: str | None) -> Item:
    """What is asked about: its records, and the name that they give it."""
    records = [items[at].view() for at in group]
    return Item(items[group[0]].id, {**_usual(items, group, field), "records": records})


def _usual(items: Sequence[Item], group: Sequence[int], field: str | None) -> dict[str, Any]:
    """What most records say; of equals the longest, then the first."""
    if field is None:
        return {}
    said = [
        leaf
        for at in group
        for _, leaf in leaves(items[at].view(), item_path(field))
        if leaf is not MISSING and leaf is not None
    ]
    times = Counter(map(as_text, said))
    best = max(said, key=lambda value: (times[as_text(value)], len(as_text(value))), default=None)
    return {} if best is None else {"name": best}
