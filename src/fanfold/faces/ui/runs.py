"""The page of all runs: newest first, live, with search and a filter by state."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from fanfold.faces.ui.reading import StoreReader
from fanfold.faces.ui.seen import seen_run
from fanfold.faces.ui.shell import UiPage, address, linked, outcome_bar, pill, run_path
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.observe.amounts import count, duration, local_time, usd
from fanfold.observe.closing import status_reason
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.plots import bar
from fanfold.observe.html.tables import Html, HtmlColumn, row_html, table
from fanfold.observe.status import RunSummary
from fanfold.price import dollars, nanos
from fanfold.run.orders import is_under_way
from fanfold.work.outcome import Receipt

SHOWN = 50
STATES = ("running", "complete", "flagged", "paused", "aborted", "killed", "crashed")
_COLUMNS = [
    HtmlColumn("run", "head mid"), HtmlColumn("state", "short"), HtmlColumn("items", "num"),
    HtmlColumn("outcomes", "plot"), HtmlColumn("cost", "num"), HtmlColumn("of budget", "plot budget"),
    HtmlColumn("started", "short"), HtmlColumn("active", "num"),
]  # fmt: skip


def runs_page(reader: StoreReader, view: StoreView, query: Mapping[str, str]) -> UiPage:
    """`q` is part of a name or id, `state` one of STATES, `skip` so many of the newest."""
    text, state = query.get("q", ""), query.get("state", "")
    skip = int(query["skip"]) if query.get("skip", "").isdecimal() else 0
    every = view.read.runs()[::-1]
    status = {
        run.no: run.status if is_under_way(view, run.no) else "crashed"
        for run in every
        if run.status == "running"
    }
    found = [
        run for run in every
        if text.lower() in "\n".join((run.name, run.id, *run.tags)).lower()
        and state in ("", status.get(run.no, run.status))
    ]  # fmt: skip
    now = time.time()
    shown = [seen_run(reader, view, run, query) for run in found[skip : skip + SHOWN]]
    names = {run.id: run.name for run in every}
    rows = [Html(_row(one.summary, names, now)) for one in shown]
    body = table(_COLUMNS, rows, "list") if rows else note(_nothing(bool(every)))
    going = any(one.runs_now for one in shown)
    head = f"<h1>Runs</h1>{_form(text, state, len(found), len(every))}"
    return UiPage(
        title="Runs", at="/", follow="*", tick=5 if going else 0,
        late=any(one.late for one in shown),
        body=head + body + _pager(text, state, skip, len(found)),
    )  # fmt: skip


def _nothing(any_run: bool) -> str:
    return (
        "No run is like that."
        if any_run
        else "There is no run in this store yet; start one with: fanfold run PLAN"
    )


def _form(text: str, state: str, found: int, whole: int) -> str:
    options = "".join(
        f'<option value="{one}"{" selected" if one == state else ""}>{one}</option>'
        for one in STATES
    )
    many = f"{found:,} of {count(whole, 'run')}" if found < whole else count(whole, "run")
    return (
        '<form class="filter" role="search" data-live><label>Search'
        f' <input type="search" name="q" value="{esc(text)}" placeholder="name, id or tag"></label>'
        f'<label>State <select name="state"><option value="">any</option>{options}</select></label>'
        f'<noscript><button>Show</button></noscript><span class="meta">{many}</span></form>'
    )


def _pager(text: str, state: str, skip: int, whole: int) -> str:
    links = []
    if skip:
        links.append(linked(address("/", q=text, state=state, skip=max(0, skip - SHOWN)), "Newer"))
    if skip + SHOWN < whole:
        links.append(linked(address("/", q=text, state=state, skip=skip + SHOWN), "Older"))
    return f'<p class="pages">{" ".join(links)}</p>' if links else ""


def _row(s: RunSummary, names: Mapping[str, str], now: float) -> str:
    r, run = s.receipt, s.run
    above = (run.parent or "").partition(":")[0]
    parent = f'<br><span class="sub">from {esc(names[above])}</span>' if above in names else ""
    why = status_reason(s.status, r) if s.status not in ("running", "complete") else ""
    reason = f'<br><span class="sub">{esc(why[:120])}</span>' if why else ""
    cells = [
        Html(linked(run_path(run.id), run.name) + tags_html(run) + parent + reason), pill(s.status),
        f"{s.done:,} / {r.planned:,}", Html(outcome_bar(r)), cost_of(spent_so_far(s)), Html(_budget(s)),
        Html(f'<time title="{esc(local_time(run.created))}">{esc(age(run.created, now))}</time>'),
        duration(s.seconds),
    ]  # fmt: skip
    return row_html(_COLUMNS, cells).replace("<tr", "<tr data-row", 1)


def tags_html(run: RunRecord) -> str:
    """Each leads to the runs that have it."""
    return "".join(
        f' <a class="tag" href="{esc(address("/", q=tag))}">{esc(tag)}</a>' for tag in run.tags
    )


def spent_so_far(s: RunSummary) -> Receipt:
    """Without what is only reserved for calls under way."""
    r = s.receipt
    spent = dollars(max(0, nanos(r.cost_usd) - s.under_way.at_most))
    return msgspec.structs.replace(r, cost_usd=spent)


def cost_of(r: Receipt) -> str:
    return usd(r.cost_usd + r.below_usd, at_most=r.cost_at_most)


def _budget(s: RunSummary) -> str:
    r = s.receipt
    if r.budget_usd is None:
        return '<span class="sub">no budget</span>'
    return budget_bar(r, s.under_way.at_most / 1e9)


def budget_bar(r: Receipt, reserved: float) -> str:
    """What was spent and what is reserved, of the budget."""
    limit, whole = r.budget_usd or 0.0, r.cost_usd + r.below_usd
    spent = max(0.0, whole - reserved)
    label = f"{usd(spent)} spent, {usd(reserved)} reserved, of {usd(limit)}"
    most = max(limit, whole) or 1.0
    return bar([spent / most, min(reserved, whole) / most], label, ["s0", "s2"])


def age(stamp: float, now: float) -> str:
    """`just now`, `12m ago`, `3d ago`."""
    seconds = max(0.0, now - stamp)
    return "just now" if seconds < 10 else f"{duration(seconds).split()[0]} ago"
