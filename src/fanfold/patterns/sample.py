"""Sample: some of the items, by lot, the same ones every time; the others leave the flow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from fanfold.patterns.arguments import Folded, pattern
from fanfold.patterns.gathered import need_field, passed, settle_all, terms_of_nobody
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import source_of
from fanfold.work import check
from fanfold.work.blocking import item_path
from fanfold.work.check import whole
from fanfold.work.fields import MISSING, leaves
from fanfold.work.item import Item, Source, canonical
from fanfold.work.options import needed, option
from fanfold.work.outcome import Outcome
from fanfold.work.task import Terms


class Sampling(msgspec.Struct, frozen=True):
    """So many items in all; with `by`, of each value of that field in proportion to its items, at
    least one."""

    items: int
    by: str | None = None
    seed: int = 0

    def chosen(self, items: Iterable[tuple[int, Item]]) -> set[int]:
        """Positions. What is chosen depends on the items and the seed alone."""
        strata: dict[bytes, list[int]] = defaultdict(list)
        for at, item in items:
            strata[b"" if self.by is None else self._stratum(item)].append(at)
        wanted = _shares(self.items, [len(group) for group in strata.values()])
        lot = Random(self.seed)
        return {
            at
            for group, many in zip(strata.values(), wanted, strict=True)
            for at in lot.sample(group, many)
        }

    def _stratum(self, item: Item) -> bytes:
        assert self.by is not None
        found = [leaf for _, leaf in leaves(item.view(), item_path(self.by))]
        return canonical([None if leaf is MISSING else leaf for leaf in found])


def _shares(wanted: int, sizes: Sequence[int]) -> list[int]:
    """In proportion, by the largest remainder; each group has at least one while they suffice."""
    total = sum(sizes)
    if wanted >= total:
        return list(sizes)
    exact = [wanted * size / total for size in sizes]
    shares = [min(size, max(1, int(share))) for size, share in zip(sizes, exact, strict=True)]
    by_rest = sorted(range(len(sizes)), key=lambda n: (shares[n] - exact[n], n))
    while sum(shares) < wanted:
        for n in by_rest:
            if sum(shares) < wanted and shares[n] < sizes[n]:
                shares[n] += 1
    while sum(shares) > wanted:
        most = max(range(len(sizes)), key=lambda n: (shares[n] - exact[n], shares[n], n))
        shares[most] -= 1
    return shares


@pattern
async def sample(
    run: Run,
    items: Source | Iterable[Any],
    n: int,
    *,
    by: str | None = None,
    seed: int = 0,
    step: str = "sample",
) -> Folded:
    """Choose `n` of the items by lot; with `by`, of each value of that field in proportion. The same
    seed gives the same items. Nobody is asked; the others are `skipped`. The value is the list of
    those that were chosen."""
    how = Sampling(
        needed("n", n, whole(least=1)), option("by", by, check.text), needed("seed", seed, whole())
    )
    terms = terms_of_nobody(needed("step", step, check.text))
    batch = await run.plan(need_field("by", source_of(items, run.spool), how.by), terms)
    value = await sample_batch(run, batch, terms, how)
    run.set_result(value)
    return Folded(value, run.receipt(), run, batch, terms)


async def sample_batch(run: Run, batch: Batch, terms: Terms, how: Sampling) -> list[Any]:
    """The reply of an item that is chosen is the item itself. Only those are kept in memory."""
    chosen = how.chosen(batch.source.walk())
    kept: list[Any] = []

    def ended() -> Iterator[tuple[int, Item, Outcome]]:
        for at, item in batch.source.walk():
            if at in chosen:
                kept.append(item.data)
                yield at, item, passed(item, item.data)
            else:
                yield at, item, Outcome(item.id, "skipped")

    await settle_all(run, batch, terms, ended())
    return kept
