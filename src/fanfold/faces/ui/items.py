"""The items of a run: a page of them at a time, by outcome and by a text in their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fanfold.faces.ui.controls import form, item_button
from fanfold.faces.ui.seen import SeenRun
from fanfold.faces.ui.shell import address, chips, item_path, linked, pill, run_path, state_name
from fanfold.journal.answers import ItemFilter, ListedItem
from fanfold.journal.facts import RunRecord
from fanfold.observe.amounts import money
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.tables import Html, HtmlColumn, row_html, table
from fanfold.work.outcome import STATES, Receipt

SHOWN = 50
_COLUMNS = [
    HtmlColumn("item", "head mid"), HtmlColumn("outcome", "short"), HtmlColumn("member", "short"),
    HtmlColumn("calls", "num"), HtmlColumn("cost", "num"), HtmlColumn("reasons", "long"),
]  # fmt: skip


def items_tab(seen: SeenRun) -> str:
    """`state` is an outcome or `pending`, `q` a part of an id, `after` or `before` a place."""
    record, receipt, wanted = seen.record, seen.summary.receipt, _wanted(seen.query)
    found = seen.view.read.list_items(record.no, wanted)
    more, found = (
        len(found) > SHOWN,
        found[1:] if wanted.before and len(found) > SHOWN else found[:SHOWN],
    )
    acts = [item_button(seen, one.id, one.state or "pending") for one in found]
    with_orders = seen.reader.orders is not None and any(acts)
    columns = [*_COLUMNS, HtmlColumn("", "acts")] if with_orders else _COLUMNS
    rows = [Html(_row(columns, record, one, act)) for one, act in zip(found, acts, strict=True)]
    body = table(columns, rows, "list") if rows else note("No item is like that.")
    body = form(seen, body, "rows") if with_orders else body
    earlier = bool(found) and (more if wanted.before else wanted.place >= (0, 0))
    later = bool(found) and (wanted.before or more)
    return _filter(record, receipt, wanted) + body + _pager(record, wanted, found, earlier, later)


def _wanted(query: Mapping[str, str]) -> ItemFilter:
    stated = query.get("state", "")
    state = next((one for one in (*STATES, "pending") if one == stated), "")
    before = _place(query.get("before", ""))
    place = before or _place(query.get("after", "")) or (-1, -1)
    return ItemFilter(state, query.get("q", ""), place, before is not None, SHOWN + 1)  # type: ignore[arg-type]


def _place(text: str) -> tuple[int, int] | None:
    batch, _, position = text.partition(".")
    if not (batch.isdecimal() and position.isdecimal() and len(text) < 30):
        return None
    return int(batch), int(position)


def _filter(record: RunRecord, r: Receipt, wanted: ItemFilter) -> str:
    counts = {state: getattr(r, state) for state in STATES if getattr(r, state)}
    pending = r.planned - sum(counts.values())
    shown = [("", "all", r.planned), *((one, state_name(one), n) for one, n in counts.items())]
    shown += [("pending", "pending", pending)] if pending > 0 else []
    to = run_path(record.id)
    made = chips(
        (address(to, tab="items", state=state, q=wanted.text), f"{name} <b>{n:,}</b>",
         state == wanted.state)
        for state, name, n in shown
    )  # fmt: skip
    return (
        '<form class="filter" role="search" data-live><input type="hidden" name="tab" value="items">'
        f'<input type="hidden" name="state" value="{esc(wanted.state)}"><label>Search'
        f' <input type="search" name="q" value="{esc(wanted.text)}" placeholder="part of an id">'
        f"</label><noscript><button>Show</button></noscript></form>{made}"
    )


def _row(columns: Sequence[HtmlColumn], record: RunRecord, one: ListedItem, act: str) -> str:
    state = one.state or "pending"
    cells = [
        linked(item_path(record.id, one.id), one.id), pill(state_name(state), f"o-{state}"),
        one.member or "", f"{one.calls:,}" if one.calls else "",
        money(one.cost) if one.state else "", "; ".join(one.reasons)[:300], Html(act),
    ]  # fmt: skip
    return row_html(columns, cells[: len(columns)]).replace("<tr", "<tr data-row", 1)


def _pager(
    record: RunRecord, wanted: ItemFilter, found: list[ListedItem], earlier: bool, later: bool
) -> str:
    def to(**place: str) -> str:
        return address(run_path(record.id), tab="items", state=wanted.state, q=wanted.text, **place)

    links = []
    if earlier:
        links.append(linked(to(before="{}.{}".format(*found[0].place)), "Previous"))
    if later:
        links.append(linked(to(after="{}.{}".format(*found[-1].place)), "Next"))
    return f'<p class="pages">{" ".join(links)}</p>' if links else ""
