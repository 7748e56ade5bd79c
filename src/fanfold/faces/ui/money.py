"""What all runs of the store cost: by day, run, step, member, model and tag; what was wasted and saved."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fanfold.errors import FanfoldError
from fanfold.faces.ui.early import unasked_votes
from fanfold.faces.ui.reading import StoreReader
from fanfold.faces.ui.shell import UiPage, address, chips, linked, panel, run_path
from fanfold.journal.contract import StoreView
from fanfold.journal.costs import DaySpending, ReplyCosts
from fanfold.journal.decide import month_of
from fanfold.journal.facts import RunRecord
from fanfold.members.roster import find_roster, load_roster
from fanfold.observe.amounts import count, local_time, money, usd, utc_time
from fanfold.observe.closing import saving_text
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.plots import bar
from fanfold.observe.html.tables import Html, HtmlColumn, table
from fanfold.price import nanos

DAY = 86400
PERIODS = {"1": "today", "7": "7 days", "30": "30 days", "365": "a year"}
MOST_ROWS = 20
MOST_SAVERS = 50
_PLAIN = [
    HtmlColumn("", "head mid"),
    HtmlColumn("", "plot"),
    HtmlColumn("", "num"),
    HtmlColumn("", "num"),
]
_Name = Callable[[DaySpending], str]


def money_page(reader: StoreReader, view: StoreView, query: Mapping[str, str]) -> UiPage:
    days = query.get("days", "")
    days = days if days in PERIODS else "30"
    periods = chips(
        (address("/money", days=key), name, key == days) for key, name in PERIODS.items()
    )
    found = reader.later(f"money {days}", lambda own: _body(reader, own, int(days)))
    body = f"<h1>Money</h1>{periods}{found.value or note('It is being counted.')}"
    return UiPage(title="Money", at="/money", body=body, follow="*", late=found.late)


def _body(reader: StoreReader, view: StoreView, days: int) -> str:
    now = time.time()
    start = (int(now) // DAY - days + 1) * DAY
    found = view.read.spending(start)
    records = {one.no: one for one in view.read.records(sorted({row.run for row in found}))}
    records |= {one.no: one for one in view.read.runs() if one.created >= start}
    newest = sorted(records)[-MOST_SAVERS:]
    costs = {no: reader.over(view, no).read.reply_costs(no) for no in newest}
    only = note(f"Of the newest {MOST_SAVERS} runs.") if len(records) > MOST_SAVERS else ""
    return "\n".join([
        _figures(found), '<div class="grid">',
        panel("Paid for nothing", _wasted(found, costs.values()) + only),
        panel("Saved", "".join(_saved(reader, view, records, found, costs)) + only),
        *_panels(view, found, records, now), "</div>",
    ])  # fmt: skip


def _figures(found: Sequence[DaySpending]) -> str:
    calls, tokens = sum(one.calls for one in found), sum(one.tokens for one in found)
    figures = [("spent", money(sum(one.cost for one in found))), ("calls", f"{calls:,}"),
               ("tokens", f"{tokens:,}")]  # fmt: skip
    made = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in figures)
    return f'<dl class="figures">{made}</dl>'


def _wasted(found: Sequence[DaySpending], costs: Collection[ReplyCosts]) -> str:
    """Of what was spent: what no result came of."""
    whole = max(1, sum(one.cost for one in found))
    shown = [
        ("kicked back", sum(one.kicked for one in costs)),
        ("no reply, or one that cannot be read", sum(one.failed for one in found)),
        ("in doubt, at most", sum(one.in_doubt for one in found)),
        ("answered too late (hedged)", sum(one.late for one in found)),
    ]  # fmt: skip
    rows = [
        (name, Html(bar([min(1.0, amount / whole)], f"{amount / whole:.1%} of what was spent")),
         f"{amount / whole:.1%}" if amount else "", money(amount))
        for name, amount in shown
    ]  # fmt: skip
    return table(_PLAIN, rows)


def _panels(
    view: StoreView, found: Sequence[DaySpending], records: Mapping[int, RunRecord], now: float
) -> Iterator[str]:
    steps = {no: view.read.step_names(no) for no in {one.run for one in found}}
    names: dict[str, _Name] = {
        "By day (UTC)": lambda one: utc_time(one.day * DAY)[:10],
        "By member": lambda one: one.member,
        "By model": lambda one: one.answerer.partition(":")[2] or one.answerer,
        "By step": lambda one: f"{records[one.run].name}: {steps[one.run][one.step]}",
    }
    for title, name in names.items():
        yield panel(title, _by(found, name, newest=title.startswith("By day")))
    yield panel("By tag", _by_tag(found, records))
    yield panel("By run", _by_run(found, records))
    yield panel("This month's budgets", "".join(_months(view, now)))


def _totals(found: Sequence[DaySpending], name: _Name) -> dict[str, tuple[int, int]]:
    whole: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one in found:
        cost, calls = whole[name(one)]
        whole[name(one)] = cost + one.cost, calls + one.calls
    return whole


def _by(found: Sequence[DaySpending], name: _Name, *, newest: bool = False) -> str:
    whole = _totals(found, name)
    order = sorted(whole.items(), key=lambda pair: pair[0] if newest else pair[1], reverse=True)
    return _table([(Html(esc(key)), *totals) for key, totals in order])


def _by_tag(found: Sequence[DaySpending], records: Mapping[int, RunRecord]) -> str:
    """A run with several tags counts with each of them."""
    whole: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one in found:
        for tag in records[one.run].tags or ("",):
            cost, calls = whole[tag]
            whole[tag] = cost + one.cost, calls + one.calls
    if set(whole) <= {""}:
        return note(
            "No run of this time has a tag: fanfold run PLAN --tag TAG, or `tags` in its plan."
        )
    order = sorted(whole.items(), key=lambda pair: pair[1], reverse=True)
    return _table([(_tag_link(tag), *totals) for tag, totals in order])


def _tag_link(tag: str) -> Html:
    return linked(address("/", q=tag), tag) if tag else Html('<span class="sub">without</span>')


def _by_run(found: Sequence[DaySpending], records: Mapping[int, RunRecord]) -> str:
    whole = _totals(found, lambda one: str(one.run))
    order = sorted(whole.items(), key=lambda pair: pair[1], reverse=True)
    return _table([(_run_link(records[int(no)]), *totals) for no, totals in order])


def _run_link(run: RunRecord) -> Html:
    """Several runs may have one name."""
    at = f'<br><span class="sub">{esc(local_time(run.created))}</span>'
    return Html(linked(run_path(run.id), run.name) + at)


def _table(rows: Sequence[tuple[Html, int, int]]) -> str:
    if not rows:
        return note("No call with a cost in this time.")
    most = max(cost for _, cost, _ in rows) or 1
    made = [
        (name, Html(bar([cost / most], money(cost))), count(calls, "call"), money(cost))
        for name, cost, calls in rows[:MOST_ROWS]
    ]
    more = len(rows) - MOST_ROWS
    rest = (
        note(f"… and {more:,} more, {money(sum(r[1] for r in rows[MOST_ROWS:]))}")
        if more > 0
        else ""
    )
    return table(_PLAIN, made) + rest


def _months(view: StoreView, now: float) -> Iterator[str]:
    """Members with a budget of the month: by the store, and by the roster of this folder."""
    month = month_of(now)
    limits: dict[str, float] = {}
    with suppress(FanfoldError, OSError):
        roster = load_roster(find_roster(None, None, Path.cwd()))
        limits = {
            id: entry.traits.budget_usd_month
            for id, entry in roster.entries.items()
            if entry.traits.budget_usd_month is not None
        }
    used = view.read.month_uses(month)
    rows = []
    for id in sorted({*limits, *used}):
        spent = (used[id] if id in used else view.read.month_use(id, month)).whole
        limit = limits.get(id)
        most = max(spent, nanos(limit or 0.0)) or 1
        drawn = bar([spent / most], f"{id}: {money(spent)}") if limit is not None else ""
        rows.append((id, Html(drawn), money(spent), "" if limit is None else usd(limit)))
    if not rows:
        yield note("No member has a budget of the month.")
        return
    columns = [HtmlColumn("member", "head mid"), HtmlColumn("", "plot"), HtmlColumn("used", "num"),
               HtmlColumn("budget", "num")]  # fmt: skip
    yield table(columns, rows)


def _saved(
    reader: StoreReader,
    view: StoreView,
    records: Mapping[int, RunRecord],
    found: Sequence[DaySpending],
    costs: Mapping[int, ReplyCosts],
) -> Iterator[str]:
    """Replies on record, prompt caches, members that need not be asked."""
    reads = {no: reader.over(view, no).read for no in costs}
    savings = [(no, one) for no, read in reads.items() for one in read.savings(no)]
    early = [one for no in costs if (one := unasked_votes(records[no], reads[no])).calls]
    kept = sum(max(0.0, one.instead_usd - one.cost_usd) for _, one in savings)
    items = sum(one.items for one in costs.values())
    rows = [
        ("replies on record", count(items, "item"), money(sum(one.reused for one in costs.values()))),
        ("prompt caches", "", money(sum(one.saved for one in found))),
        ("cheaper members first, about", count(sum(one.settled for _, one in savings), "item"), usd(kept)),
        ("votes that could change nothing, about", count(sum(one.calls for one in early), "call"),
         money(sum(one.cost for one in early))),
    ]  # fmt: skip
    yield table([HtmlColumn("", "head mid"), HtmlColumn("", "num"), HtmlColumn("", "num")], rows)
    lines = [f"<li>{esc(records[no].name)}: {esc(saving_text(one))}</li>" for no, one in savings]
    if lines:
        more = f"<ul>{''.join(lines[-MOST_ROWS:])}</ul>"
        yield f"<details><summary>Which members were not needed</summary>{more}</details>"
