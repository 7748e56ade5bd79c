"""Where an item stands in the reduce behind its last step: the nodes of the tree above it."""

from __future__ import annotations

from collections.abc import Iterator

from fanfold.errors import FanfoldError
from fanfold.faces.ui.seen import STATES, SeenRun
from fanfold.faces.ui.shell import panel
from fanfold.journal.answers import AttemptRecord, PlannedItem
from fanfold.observe.amounts import money
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.tables import HtmlColumn, table
from fanfold.plans.prepare import stored_with
from fanfold.plans.steps.reduce import Reduce
from fanfold.run.item_view import ItemView
from fanfold.work.tree import widths

_COLUMNS = [
    HtmlColumn("node", "head short"), HtmlColumn("made of items", "num"), HtmlColumn("by", "short"),
    HtmlColumn("state", "short"), HtmlColumn("cost", "num"),
]  # fmt: skip


def place_html(seen: SeenRun, view: ItemView, place: PlannedItem | None, size: int) -> str:
    """For an item that passed; nothing where no reduce is behind it."""
    reduce = _behind(seen, view)
    if reduce is None or place is None:
        return ""
    tree = reduce.tree_of
    if tree is None:
        many = seen.summary.receipt.passed
        said = f"<p>Its reply is one of {many:,} that {esc(reduce.name)} is made of.</p>"
        return panel("In the result", said)
    rows = list(_nodes(seen, reduce.name, place.position, size, tree))
    about = f"{reduce.name}, in a tree of {tree}: its reply is in each of these, up to the result."
    return panel("In the result", note(about) + table(_COLUMNS, rows))


def _behind(seen: SeenRun, view: ItemView) -> Reduce | None:
    """The first reduce behind the last step that the item came through."""
    try:
        steps = stored_with(seen.record).plan.steps if seen.record.plan else ()
    except FanfoldError:
        return None
    own = {one.step for one in view.steps}
    last = max((n for n, step in enumerate(steps) if own & {*step.names}), default=-1)
    behind = steps[last + 1 :] if last >= 0 else ()
    return next((step for step in behind if isinstance(step, Reduce)), None)


def _nodes(
    seen: SeenRun, step: str, position: int, size: int, fan_in: int
) -> Iterator[tuple[str, ...]]:
    number = {name: n for n, name in enumerate(seen.view.read.step_names(seen.record.no))}.get(step)
    for level in range(1, len(widths(size, fan_in))):
        covers = fan_in**level
        name = f"{level}.{position // covers}"
        first = position // covers * covers
        tried = [
            one for one in seen.view.read.item_attempts(seen.record.no, name) if one.step == number
        ]
        span = f"{first + 1:,} to {min(first + covers, size):,}"
        yield name, span, *_asked(tried)


def _asked(tried: list[AttemptRecord]) -> tuple[str, str, str]:
    """By whom it was made; a pure one is made by nobody."""
    if not tried:
        return "", "", ""
    cost = sum(one.cost for one in tried)
    return tried[-1].member, STATES[tried[-1].state], money(cost)
