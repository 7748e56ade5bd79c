"""Two runs side by side: which items changed outcome or reply, what they cost and took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from fanfold.faces.ui.changes import plan_changes, side_by_side
from fanfold.faces.ui.reading import StoreReader
from fanfold.faces.ui.seen import SeenRun, seen_run
from fanfold.faces.ui.shell import (
    UiPage,
    address,
    chips,
    item_path,
    linked,
    outcome_bar,
    panel,
    pill,
    run_path,
    state_name,
)
from fanfold.journal.answers import EndedItem
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.observe.amounts import count, duration, local_time, money, usd
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.tables import Html, HtmlColumn, table
from fanfold.observe.shown import inline
from fanfold.observe.status import accounts, whole_receipt
from fanfold.work.outcome import STATES, Receipt

MOST = 10_000
MOST_ROWS = 200
MOST_CHOICES = 200
MOST_TEXT = 300
TURNS = {"": "all", "worse": "worse", "better": "better", "other": "another reply only"}
_GOOD = ("passed", "skipped")


def compare_page(reader: StoreReader, view: StoreView, query: Mapping[str, str]) -> UiPage:
    """`a` and `b` are runs; without them, the last two of one name. `turn`: one of TURNS."""
    every = view.read.runs()[::-1]
    a, b = _chosen(every, query.get("a", ""), query.get("b", ""))
    form = _form(every[:MOST_CHOICES], a, b)
    body = [f"<h1>Compare</h1>{form}"]
    follow, late = "", False
    if a is None or b is None:
        body.append(note("Choose two runs: of one plan, best, before and after a change."))
    else:
        first, second = (seen_run(reader, view, one, query) for one in (a, b))
        turn = query.get("turn", "") if query.get("turn") in TURNS else ""
        key = ("compare", a.no, b.no, turn)
        found = reader.later(key, lambda own: _compared(own, first, second, turn))
        body.append(found.value or note("They are being compared."))
        follow = "*" if first.runs_now or second.runs_now else ""
        late = first.late or second.late or found.late
    return UiPage(title="Compare", at="/compare", body="\n".join(body), follow=follow, late=late)


def _compared(view: StoreView, a: SeenRun, b: SeenRun, turn: str) -> str:
    a, b = (
        msgspec.structs.replace(one, view=one.reader.over(view, one.record.no)) for one in (a, b)
    )
    return (
        panel("Both", _both(a, b))
        + panel("What differs in the plan", _plans(a.record, b.record))
        + panel("Items that differ", "".join(_items(a, b, turn)))
    )


def _plans(a: RunRecord, b: RunRecord) -> str:
    """What was changed between the two: prompts, members, gates."""
    found = plan_changes(a, b)
    if not found:
        known = a.plan and b.plan
        return note("Nothing: both were started with the same.") if known else ""
    columns = [
        HtmlColumn("field", "head mid"),
        HtmlColumn("before", "long"),
        HtmlColumn("after", "long"),
    ]
    return table(
        columns, [(name, *side_by_side(x, y)) for name, x, y in found[:40]], "compare diff"
    )


def _chosen(
    every: Sequence[RunRecord], a: str, b: str
) -> tuple[RunRecord | None, RunRecord | None]:
    by_id = {one.id: one for one in every}
    if a or b:
        return by_id.get(a), by_id.get(b)
    newest: dict[str, RunRecord] = {}
    for one in every:
        if one.name in newest:
            return one, newest[one.name]
        newest[one.name] = one
    return None, None


def _form(every: Sequence[RunRecord], a: RunRecord | None, b: RunRecord | None) -> str:
    def options(chosen: RunRecord | None) -> str:
        return "".join(
            f'<option value="{esc(one.id)}"{" selected" if one == chosen else ""}>'
            f"{esc(one.name[:40])} · {local_time(one.created)} · {esc(one.id[-4:])}</option>"
            for one in every
        )

    return (
        '<form class="filter" data-live>'
        f'<label>Before <select name="a"><option value="">…</option>{options(a)}</select></label>'
        f'<label>After <select name="b"><option value="">…</option>{options(b)}</select></label>'
        "<noscript><button>Compare</button></noscript></form>"
    )


def _both(a: SeenRun, b: SeenRun) -> str:
    first, second = _receipt(a), _receipt(b)
    cost = [one.cost_usd + one.below_usd for one in (first, second)]
    rows: list[tuple[str, str, str, str]] = [
        ("passed", f"{first.passed:,} of {first.planned:,}", f"{second.passed:,} of {second.planned:,}",
         _signed(second.passed - first.passed)),
        ("cost", usd(cost[0]), usd(cost[1]), _times(cost[0], cost[1])),
        ("calls", f"{first.calls:,}", f"{second.calls:,}", _signed(second.calls - first.calls)),
        ("tokens", f"{first.tokens.total:,}", f"{second.tokens.total:,}",
         _times(first.tokens.total, second.tokens.total)),
        ("active time", duration(first.seconds), duration(second.seconds),
         _times(first.seconds, second.seconds)),
        ("outcomes", Html(outcome_bar(first)), Html(outcome_bar(second)), ""),
    ]  # fmt: skip
    columns = [
        HtmlColumn("", "head"), HtmlColumn("before", "side"), HtmlColumn("after", "side"),
        HtmlColumn("difference", "num"),
    ]  # fmt: skip
    names = tuple(linked(run_path(one.record.id), one.record.name) for one in (a, b))
    states = tuple(Html(pill(one.summary.status)) for one in (a, b))
    return table(columns, [("run", *names, ""), ("state", *states, ""), *rows])


def _receipt(seen: SeenRun) -> Receipt:
    found = accounts(seen.view.read, seen.record, unsent=seen.summary.unsent)
    return whole_receipt(seen.summary, found)


def _signed(number: int) -> str:
    return f"{number:+,}".replace("-", "−") if number else "same"


def _times(before: float, after: float) -> str:
    if before == after:
        return "same"
    return f"{(after - before) / before:+.0%}".replace("-", "−") if before else ""


def _items(a: SeenRun, b: SeenRun, turn: str) -> Iterator[str]:
    before, after = ({one.id: one for one in _ended(seen)} for seen in (a, b))
    shared = [id for id in after if id in before]
    turned: dict[str, list[str]] = {"worse": [], "better": [], "other": []}
    for id in shared:
        if _differs(before[id], after[id]):
            turned[_turned(before[id], after[id])].append(id)
    every = [id for ids in turned.values() for id in ids]
    many = {"": len(every), **{name: len(ids) for name, ids in turned.items()}}
    yield chips(
        (address("/compare", a=a.record.id, b=b.record.id, turn=key), f"{name} <b>{many[key]:,}</b>",
         key == turn)
        for key, name in TURNS.items()
    )  # fmt: skip
    yield note(f"Of {count(len(shared), 'item')} that ended in both runs.")
    only = len(before) + len(after) - 2 * len(shared)
    if only:
        yield note(f"{count(only, 'item')} ended in one of the runs only.")
    order = turned.get(turn, every)
    if order:
        rows = [_row(a, b, before[id], after[id]) for id in order[:MOST_ROWS]]
        yield table(_COLUMNS, rows, "compare diff")
    if len(order) > MOST_ROWS:
        yield note(f"… and {len(order) - MOST_ROWS:,} more")
    if max(len(before), len(after)) == MOST:
        yield note(f"The first {MOST:,} items of each run are compared.")


_COLUMNS = [
    HtmlColumn("item", "head mid"), HtmlColumn("before", "long"), HtmlColumn("after", "long"),
    HtmlColumn("cost", "num"),
]  # fmt: skip


def _ended(seen: SeenRun) -> list[EndedItem]:
    return seen.view.read.endings(seen.record.no, STATES, MOST)


def _differs(one: EndedItem, other: EndedItem) -> bool:
    return one.state != other.state or one.value != other.value


def _turned(one: EndedItem, other: EndedItem) -> str:
    """How it is now: `better`, `worse`, or another reply only."""
    return {1: "better", -1: "worse"}.get((other.state in _GOOD) - (one.state in _GOOD), "other")


def _row(a: SeenRun, b: SeenRun, one: EndedItem, other: EndedItem) -> Sequence[str]:
    before, after = _text(one), _text(other)
    alike = bool(one.reasons) == bool(other.reasons)
    texts = side_by_side(before, after) if alike else (Html(esc(before)), Html(esc(after)))
    ends = ((a, one, texts[0]), (b, other, texts[1]))
    sides = [_side(seen, ended, text) for seen, ended, text in ends]
    change = other.cost - one.cost
    sign = "+" if change > 0 else "−" if change < 0 else ""
    id = linked(item_path(b.record.id, one.id), one.id)
    return id, *sides, f"{sign}{money(abs(change))}" if change else "same"


def _text(one: EndedItem) -> str:
    """Why it did not pass, or what was replied."""
    text = "; ".join(one.reasons) if one.reasons else "" if one.value is None else inline(one.value)
    return text[:MOST_TEXT] + ("…" if len(text) > MOST_TEXT else "")


def _side(seen: SeenRun, one: EndedItem, text: Html) -> Html:
    to = linked(item_path(seen.record.id, one.id), "show", "sub")
    return Html(f"{pill(state_name(one.state), f'o-{one.state}')} {to}<br>{text}")
