"""The steps of a run as boxes in a row, lit by what happened at each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from fanfold.errors import FanfoldError
from fanfold.faces.ui.shell import tally_bar
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.observe.amounts import count, usd
from fanfold.observe.html.page import esc
from fanfold.plans.drawing.picture import picture
from fanfold.plans.prepare import stored_with
from fanfold.price import dollars
from fanfold.work.outcome import STATES, Receipt, StepAccount
from fanfold.work.picture import Box


def flow_html(
    view: StoreView, record: RunRecord, receipt: Receipt, reserved: Mapping[int, int]
) -> str:
    """By the plan that it was started with; of a script, the steps that it has named so far.
    `reserved`: of each step's cost, what is not spent yet."""
    names = view.read.step_names(record.no)
    tally: dict[str, Counter[str]] = {name: Counter() for name in names}
    for (step, state), many in view.read.step_tally(record.no).items():
        tally[names[step]][state] += many
    accounts = {step.name: step for step in receipt.steps}
    for step, amount in reserved.items():
        if (of := accounts.get(names[step])) is not None:
            spent = max(0.0, of.cost_usd - dollars(amount))
            accounts[names[step]] = msgspec.structs.replace(of, cost_usd=spent)
    boxes = _boxes(record) or [(Box(name, name), (name,)) for name in names]
    made = [_box(box, own, tally, accounts, receipt.planned) for box, own in boxes]
    return f'<ol class="flow">{"".join(made)}</ol>' if made else ""


def _boxes(record: RunRecord) -> list[tuple[Box, tuple[str, ...]]]:
    """Each with the names of its steps in the journal."""
    try:
        stored = stored_with(record)
        drawn = picture(stored.plan)
    except FanfoldError:
        return []
    by_id = {f"step {n}": tuple(step.names) for n, step in enumerate(stored.plan.steps)}
    return [(box, by_id.get(box.id, ())) for box in drawn.boxes]


def _box(
    box: Box,
    own: tuple[str, ...],
    tally: dict[str, Counter[str]],
    accounts: dict[str, StepAccount],
    planned: int,
) -> str:
    whole: Counter[str] = Counter()
    for name in own:
        whole += tally.get(name, Counter())
    found: dict[str, int] = {state: whole[state] for state in STATES if whole[state]}
    several = [accounts[name] for name in own if name in accounts]
    calls, cost = sum(one.calls for one in several), sum(one.cost_usd for one in several)
    figures = [count(calls, "call")] if calls else []
    figures += [usd(cost)] if cost else []
    bar = tally_bar(found, max(planned, whole.total())) if found else ""
    lit = " lit" if found or calls else ""
    lines = "".join(f"<span>{esc(line[:120])}</span>" for line in box.lines[:3])
    ended = ", ".join(f"{many:,} {state.replace('_', ' ')}" for state, many in found.items())
    return (
        f'<li class="box{lit}"><b>{esc(box.title[:80])}</b>{lines}{bar}'
        f'<span class="meta">{esc(ended)}</span><span class="meta">{esc(", ".join(figures))}</span></li>'
    )
