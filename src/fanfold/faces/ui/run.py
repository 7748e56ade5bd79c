"""The page of one run: what it does now, its budget, its steps; and tabs for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fanfold.faces.ui.burn import burn_html
from fanfold.faces.ui.controls import member_switches, orders_table, run_controls
from fanfold.faces.ui.fleet import has_workers, workers_tab
from fanfold.faces.ui.flow import flow_html
from fanfold.faces.ui.items import items_tab
from fanfold.faces.ui.reading import LateAnswer
from fanfold.faces.ui.runs import spent_so_far, tags_html
from fanfold.faces.ui.seen import STATES, SeenRun
from fanfold.faces.ui.shell import (
    UiPage,
    crumbs,
    item_path,
    linked,
    outcome_bar,
    panel,
    run_path,
    tabs,
)
from fanfold.journal.answers import AttemptRecord
from fanfold.journal.facts import AttemptState, RunRecord
from fanfold.observe.account import times, worked
from fanfold.observe.amounts import batches_text, clock_time, count, duration, money, per_time
from fanfold.observe.closing import reason_text, resume_command
from fanfold.observe.detail import ids_text
from fanfold.observe.html.account import head, members_html, receipt_html, result_html, times_html
from fanfold.observe.html.page import PageCapacity, esc, note
from fanfold.observe.html.plots import color_key
from fanfold.observe.html.tables import Html, HtmlColumn, table
from fanfold.observe.html.tree import tree_table
from fanfold.observe.status import accounts, whole_receipt
from fanfold.observe.tree import tree
from fanfold.observe.waits import wait_text
from fanfold.run.inherited import named_store
from fanfold.work.outcome import Receipt
from fanfold.work.waiting import WaitingCalls

COUNTING = "This run is large: it is being counted, and the page shows it when it is."
QUICK = ("items", "workers")
MOST_LOG = 200
MOST_STARTED = 10_000
ERROR_AGE = 120.0  # seconds for which an error is news
_ANY: tuple[AttemptState, ...] = ("started", "ok", "error", "in_doubt", "late")


def run_page(seen: SeenRun) -> UiPage:
    record, receipt = seen.record, spent_so_far(seen.summary)
    shown = {key: one for key, one in TABS.items() if key != "workers" or has_workers(seen)}
    tab = seen.query.get("tab", "")
    tab = tab if tab in shown else "overview"
    make = shown[tab][1]
    part = (
        LateAnswer("\n".join(make(seen)), late=False)
        if tab in QUICK
        else seen.later(f"{tab} {seen.runs_now}", lambda own: "\n".join(make(own)))
    )
    late = seen.late or part.late
    body = [
        "" if seen.counted else note(COUNTING), crumbs(("/", "Runs")),
        head(seen.summary, receipt, _pace(seen)), _tags(seen), _parent(seen),
        f'<div class="whole">{outcome_bar(receipt)}</div>', _legend(receipt),
        run_controls(seen),
        tabs((run_path(record.id, tab=key), title, key == tab) for key, (title, _) in shown.items()),
        member_switches(seen) if tab == "members" else "", part.value or note(COUNTING),
        panel("Orders", orders_table(seen)) if tab == "overview" else "",
    ]  # fmt: skip
    return UiPage(
        title=record.name,
        body="\n".join(body),
        follow=str(record.no),
        late=late,
        tick=2 if seen.runs_now else 0,
    )


def _pace(seen: SeenRun) -> list[tuple[str, str]]:
    """Rate and time left, while it runs."""
    if not seen.runs_now:
        return []
    rate = seen.reader.rate(seen.record).see(seen.summary.seconds, seen.summary.done)
    left = seen.summary.pending
    shown = [("in flight", f"{seen.summary.under_way.attempts:,}")]
    if said := batches_text(seen.summary.batches):
        shown.append(("in batches", said))
    reserved = seen.summary.under_way.at_most
    shown += [("reserved", money(reserved))] if reserved else []
    shown += [("rate", per_time(rate))] if rate > 0 else []
    return shown + ([("time left", duration(left / rate))] if rate > 0 and left else [])


def _tags(seen: SeenRun) -> str:
    shown = tags_html(seen.record)
    return f'<p class="meta">Tags:{shown}</p>' if shown else ""


def _parent(seen: SeenRun) -> str:
    span = (seen.record.parent or "").partition(":")[0]
    found = seen.view.read.find(span) if span else None
    if found is None:
        return ""
    return f'<p class="meta">Started by {linked(run_path(found.id), found.name)}</p>'


def _legend(r: Receipt) -> str:
    from_states = [("passed", r.passed), ("kicked", r.kicked), ("failed", r.failed),
                   ("skipped", r.skipped), ("unjudged", r.unjudged), ("unfunded", r.unfunded),
                   ("in doubt", r.in_doubt), ("cancelled", r.cancelled)]  # fmt: skip
    shown = [(f"o-{name.replace(' ', '_')}", f"{n:,} {name}") for name, n in from_states if n]
    pending = r.planned - sum(n for _, n in from_states)
    shown += [("o-pending", f"{pending:,} pending")] if pending > 0 else []
    return color_key(shown)


# ── overview ─────────────────────────────────────────────────────────────────────────────────


def _overview(seen: SeenRun) -> Iterator[str]:
    yield '<div class="grid">'
    yield panel("Now", "".join(_now(seen)))
    yield panel("Budget", "".join(burn_html(seen)))
    yield "</div>"
    yield panel("Steps", flow_html(seen.view, seen.record, seen.summary.receipt, _reserved(seen)))
    yield panel("Why items did not pass", "".join(_reasons(seen)))


def _now(seen: SeenRun) -> Iterator[str]:
    s = seen.summary
    if not seen.runs_now:
        if s.resumable and seen.record.plan:
            command = resume_command(s.receipt, named_store(seen.reader.shown))
            yield f"<p>To continue it:</p><pre>{esc(command)}</pre>"
        else:
            yield note("Nothing is under way.")
        return
    going = _in_flight(seen)
    yield from _waits(seen, going)
    if not going:
        return
    members: dict[str, list[AttemptRecord]] = {}
    for one in going:
        members.setdefault(one.member, []).append(one)
    columns = [HtmlColumn("member", "head mid"), HtmlColumn("in flight", "num"),
               HtmlColumn("longest", "num"), HtmlColumn("reserved", "num")]  # fmt: skip
    rows = [
        (member, f"{len(several):,}",
         duration(max(0.0, seen.now - min(one.started for one in several))),
         money(sum(one.reserved for one in several)))
        for member, several in sorted(members.items(), key=lambda pair: -len(pair[1]))
    ]  # fmt: skip
    yield table(columns, rows)


def _in_flight(seen: SeenRun) -> list[AttemptRecord]:
    unsent = {one.no for one in seen.summary.unsent}
    started = seen.view.read.newest(seen.record.no, ("started",), MOST_STARTED)
    return [one for one in started if one.no not in unsent]


def _reserved(seen: SeenRun) -> dict[int, int]:
    """By step: what is only reserved for its calls under way."""
    found: dict[int, int] = {}
    for one in _in_flight(seen) if seen.runs_now else ():
        found[one.step] = found.get(one.step, 0) + one.reserved
    return found


def _waits(seen: SeenRun, going: list[AttemptRecord]) -> Iterator[str]:
    """Why the rest waits, as the process of the run has noted it; and the last error."""
    found = seen.summary.waits
    if found:
        yield f'<ul class="waits">{"".join(_wait(one, seen.now) for one in found)}</ul>'
    rest = seen.summary.pending - len(going) - sum(one.calls for one in found)
    if rest > 0:
        behind = " after these" if found else ""
        yield note(f"{count(rest, 'item')} {'comes' if rest == 1 else 'come'}{behind}.")
    last = seen.view.read.newest(seen.record.no, ("error", "in_doubt"), 1)
    if last and seen.now - (last[0].ended or last[0].started) < ERROR_AGE:
        one = last[0]
        ago = duration(max(0.0, seen.now - (one.ended or one.started)))
        yield (
            f'<p class="note bad-text">{esc(one.member)}, {ago} ago:'
            f" {esc((one.error or 'lost')[:300])}</p>"
        )


def _wait(one: WaitingCalls, now: float) -> str:
    style = "bad-text" if one.why in ("breaker", "refused") else ""
    return f'<li class="{style}">{esc(wait_text(one, now))}</li>'


def _reasons(seen: SeenRun) -> Iterator[str]:
    found = seen.summary.receipt.reasons
    if found:
        yield f"<ul>{''.join(f'<li>{esc(reason_text(one))}</li>' for one in found[:8])}</ul>"


# ── the other tabs ───────────────────────────────────────────────────────────────────────────


def _items(seen: SeenRun) -> Iterator[str]:
    yield items_tab(seen)


def _tree(seen: SeenRun) -> Iterator[str]:
    yield tree_table(tree(seen.view, seen.record))


def _timeline(seen: SeenRun) -> Iterator[str]:
    found = times(seen.view.read, seen.record.no, seen.summary.unsent)
    if found is None:
        yield note("No call has left its time yet.")
    yield from times_html(found)


def _members(seen: SeenRun) -> Iterator[str]:
    found = accounts(seen.view.read, seen.record, unsent=seen.summary.unsent)
    members = worked(seen.view.read, seen.record.no, found)
    if not members:
        yield note("No member was asked yet.")
        return
    yield members_html(members, seen.summary.receipt)


def _result(seen: SeenRun) -> Iterator[str]:
    yield from result_html(seen.summary, seen.summary.receipt, PageCapacity(300_000))


def _receipt(seen: SeenRun) -> Iterator[str]:
    found = accounts(seen.view.read, seen.record, unsent=seen.summary.unsent)
    yield receipt_html(whole_receipt(seen.summary, found))


def _log(seen: SeenRun) -> Iterator[str]:
    """The newest attempts first."""
    found = seen.view.read.newest(seen.record.no, _ANY, MOST_LOG)
    if not found:
        yield note("No call with a record of its own: calls of functions leave none.")
        return
    columns = [
        HtmlColumn("time", "short"), HtmlColumn("member", "mid"), HtmlColumn("item", "mid"),
        HtmlColumn("state", "short"), HtmlColumn("took", "num"), HtmlColumn("cost", "num"),
        HtmlColumn("why, error", "long"),
    ]  # fmt: skip
    rows = [
        (clock_time(one.started), one.member, Html(_item_link(seen.record, one)),
         STATES[one.state], "" if one.took is None else duration(one.took),
         money(one.cost, at_most=one.bound or one.state == "started"), (one.error or one.why)[:400])
        for one in found
    ]  # fmt: skip
    yield table(columns, rows, "list")
    yield note(f"The newest {MOST_LOG:,} calls." if len(found) == MOST_LOG else "All calls.")


def _item_link(record: RunRecord, one: AttemptRecord) -> str:
    if not one.ids:
        return ""
    return linked(item_path(record.id, one.ids[0]), ids_text(one, 60))


TABS: dict[str, tuple[str, Callable[[SeenRun], Iterator[str]]]] = {
    "overview": ("Overview", _overview), "workers": ("Workers", workers_tab),
    "items": ("Items", _items), "tree": ("Tree", _tree),
    "timeline": ("Timeline", _timeline), "members": ("Members", _members),
    "result": ("Result", _result), "receipt": ("Receipt", _receipt), "log": ("Log", _log),
}  # fmt: skip
