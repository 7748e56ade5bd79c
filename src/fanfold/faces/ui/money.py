"""What all runs of the store cost: by day, run, step, member, model and tag; what was wasted and saved."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fanfold.errors import FanfoldError
from fanfold.faces.ui.reading import StoreReader
from fanfold.faces.ui.shell import UiPage, address, chips, linked, panel, run_path
from fanfold.journal.answers import DaySpending
from fanfold.journal.contract import StoreView
from fanfold.journal.decide import month_of
from fanfold.journal.facts import RunRecord
from fanfold.members.roster import find_roster, load_roster
from fanfold.observe.amounts import count, money, usd, utc_time
from fanfold.observe.closing import saving_text
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.plots import bar
from fanfold.observe.html.tables import Html, HtmlColumn, table
from fanfold.price import nanos

DAY = 86400
PERIODS = {"1": "today", "7": "7 days", "30": "30 days", "365": "a year"}
MOST_ROWS = 20
MOST_SAVERS = 50
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
    found = view.read.spending((int(now) // DAY - days + 1) * DAY)
    records = {one.no: one for one in view.read.records(sorted({row.run for row in found}))}
    return "\n".join([
        _figures(found), '<div class="grid">', *_panels(view, found, records, now), "</div>",
        panel("Saved", "".join(_saved(reader, view, records))),
    ])  # fmt: skip


def _figures(found: Sequence[DaySpending]) -> str:
    shown = [
        ("spent", sum(one.cost for one in found)), ("paid for no reply", sum(o.failed for o in found)),
        ("in doubt, at most", sum(one.in_doubt for one in found)),
        ("answers that came too late", sum(one.late for one in found)),
    ]  # fmt: skip
    figures = [(name, money(amount)) for name, amount in shown]
    figures.append(("calls", f"{sum(one.calls for one in found):,}"))
    made = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in figures)
    return f'<dl class="figures">{made}</dl>'


def _panels(
    view: StoreView, found: Sequence[DaySpending], records: Mapping[int, RunRecord], now: float
) -> Iterator[str]:
    steps = {no: view.read.step_names(no) for no in records}
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
    return _table(
        [(linked(run_path(records[int(no)].id), records[int(no)].name), *totals) for no, totals in order]
    )  # fmt: skip


def _table(rows: Sequence[tuple[Html, int, int]]) -> str:
    if not rows:
        return note("No call with a cost in this time.")
    most = max(cost for _, cost, _ in rows) or 1
    columns = [HtmlColumn("", "head mid"), HtmlColumn("", "plot"), HtmlColumn("", "num"),
               HtmlColumn("", "num")]  # fmt: skip
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
    return table(columns, made) + rest


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


def _saved(reader: StoreReader, view: StoreView, records: Mapping[int, RunRecord]) -> Iterator[str]:
    """Replies that were on record, and what cascades kept from the better member."""
    newest = sorted(records)[-MOST_SAVERS:]
    reused, lines = 0, []
    for no in newest:
        read = reader.over(view, no).read
        reused += sum(one.earlier for one in read.answered_items(no).values())
        lines += [f"{records[no].name}: {saving_text(one)}" for one in read.savings(no)]
    if reused:
        yield f"<p>Answered by a reply on record, without a call: {esc(count(reused, 'item'))}.</p>"
    if lines:
        yield f"<ul>{''.join(f'<li>{esc(line)}</li>' for line in lines[:MOST_ROWS])}</ul>"
    if len(records) > MOST_SAVERS:
        yield note(f"Of the newest {MOST_SAVERS} runs.")
