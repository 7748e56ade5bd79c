"""Join: which records of one list are the same as which of another? Similar pairs are asked about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.arguments import Folded, PatternOptions, pattern, terms_of
from fanfold.patterns.gathered import (
    Gathered,
    needed_block,
    passed,
    terms_of_nobody,
    terms_within,
)
from fanfold.patterns.pairs import PairSource, ask_pairs, pair_id, pair_prompt, pair_terms
from fanfold.patterns.prompt import Prompt, check_prompt, prompt_of
from fanfold.run.planning import Batch, duplicate_id
from fanfold.run.run import Run
from fanfold.run.sources import source_of
from fanfold.work.blocking import Block, blocked_record, pairs_between
from fanfold.work.item import Item, Source, canonical
from fanfold.work.task import Terms

SIDES = ("left", "right")


class JoiningWay(msgspec.Struct, frozen=True):
    """How it is done. `terms` are those of the pairs, `items` those on which left ones are settled."""

    items: Terms
    terms: Terms
    prompt: Prompt
    block: Block = Block()


@pattern
async def join(
    run: Run,
    left: Source | Iterable[Any],
    right: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    block: Block = Block(),
    **how: Unpack[PatternOptions],
) -> Folded:
    """Find the records of `right` that are the same as one of `left`. `block` chooses the pairs that
    are asked about; the prompt sees them as `item.left` and `item.right`, and an answer is
    {"same": true}, or yes or no.

    The value is a list of {"id", "left", "right"}, one for each pair that is the same, with both
    records in it. The reply of each left item is the list of its own.
    """
    source = needed_block(block, source_of(left, run.spool))
    other = right_records(source_of(right, run.spool))
    asked = prompt_of(pair_prompt(prompt, *SIDES), schema, how=how)
    terms = terms_of(how, asked.schema, "join")
    pairs = pair_terms(terms_within(terms, "pairs"))
    way = JoiningWay(terms_of_nobody(terms.step), pairs, asked, block)
    check_prompt(asked, way.terms, run.traits(way.terms))
    await run.begin(way.terms)
    batch = await run.plan(source, way.items)
    value = await join_batch(run, batch, other, way)
    run.set_result(value)
    return Folded(value, run.receipt(), run, batch, way.items)


def right_records(source: Source) -> list[Item]:
    """All of them, in memory. Each has an id of its own, by which its pairs are known."""
    first: dict[str, int] = {}
    found: list[Item] = []
    for position, item in source.walk():
        if first.setdefault(item.id, position) != position:
            raise duplicate_id(source, item.id, first[item.id], position, " in `right`")
        try:
            canonical(item.data)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            what = f"item {position} of `right` ({item.id!a}) is not plain JSON: {error}"
            raise BadInput(what) from None
        found.append(item)
    return found


async def join_batch(
    run: Run, batch: Batch, right: Sequence[Item], way: JoiningWay, *, govern: bool = False
) -> list[dict[str, Any]]:
    """The items of a batch, which are settled on `way.items`, with those of the right."""
    left = Gathered(batch)
    pairs = pairs_of_both(left.items, right, way.block)
    answered = await ask_pairs(run, pairs, way.terms, way.prompt, govern=govern)
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for one in sorted(answered.answers):
        if one.same:
            a, b = left.items[one.a], right[one.b]
            found[one.a].append({"id": pair_id(a.id, b.id), "left": a.view(), "right": b.view()})
    said = (passed(item, found.get(at, [])) for at, item in enumerate(left.items))
    await left.settle(run, way.items, said)
    return [row for at in range(len(left.items)) for row in found.get(at, ())]


def pairs_of_both(left: Sequence[Item], right: Sequence[Item], block: Block) -> PairSource:
    first, second = (
        [blocked_record(item.view(), block) for item in side] for side in (left, right)
    )
    return PairSource(left, right, pairs_between(first, second, block), SIDES)
