"""Which items are simulated: all, or some that are spread over a large input."""

from __future__ import annotations

from collections.abc import Sequence

from fanfold.errors import BadInput
from fanfold.plans.inputs import Numbered
from fanfold.plans.plan import Plan
from fanfold.plans.steps.group import Group
from fanfold.plans.steps.join import Join
from fanfold.plans.steps.rank import Rank
from fanfold.plans.steps.resolve import Resolve
from fanfold.plans.steps.sample import SampleStep
from fanfold.simulate.what_if import Scenario, ladder
from fanfold.work.item import Item, Source

AT_ONCE = 8  # items for each call at once, at least: else all of them are begun together
MOST = 1_000_000
WHOLE = 5_000  # items of a plan that is not simulated by a sample
_NOT_BY_SAMPLE = (Group, Join, Rank, Resolve, SampleStep)
"""What they ask does not grow as their items do."""


def sampled_items(
    plan: Plan, source: Source | None, sample: int, tried: Sequence[Scenario]
) -> tuple[list[Item] | None, int]:
    """The items that are simulated, and how many there are in all."""
    if source is None:
        return None, 1
    numbered = source if isinstance(source, Numbered) else None
    size = sum(1 for _ in source.walk()) if numbered is None else numbered.size
    compared = next((one for one in plan.steps if isinstance(one, _NOT_BY_SAMPLE)), None)
    if compared is not None:
        if size > WHOLE:
            what = f"`{compared.name}` compares items, so all {size:,} would be simulated"
            raise BadInput(f"{what}; try --limit {WHOLE}", file=plan.file, line=compared.line)
        sample = size
    at_once = [one.concurrency for one in tried if one.concurrency]
    most = max(at_once or [one.concurrency or 0 for one in ladder(plan, size)], default=0)
    many = min(size, max(sample, AT_ONCE * most))
    if many > MOST:
        what = f"a concurrency of {most:,} takes a sample of {many:,} items to simulate"
        raise BadInput(f"{what}; at most {MOST:,} are possible", file=plan.file)
    chosen = [n * size // many for n in range(many)]
    if numbered is not None:
        return [numbered.item(position) for position in chosen], size
    skip = bytearray(b"\1") * size
    for position in chosen:
        skip[position] = 0
    return [item for _, item in source.walk(skip)], size
