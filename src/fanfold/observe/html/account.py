"""The page of a run: receipt, result, what the gate caught, items, cost and time, timeline, tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fanfold.journal.answers import EndedItem
from fanfold.observe.account import MOST_ITEMS, Caught, MemberWork, RunAccount, Times, excerpt
from fanfold.observe.amounts import count, duration, local_time, money, usd
from fanfold.observe.closing import (
    NAMES,
    cache_texts,
    cost_text,
    hedged_text,
    saving_text,
    status_reason,
    twice_text,
    unusable_text,
)
from fanfold.observe.detail import ids_text
from fanfold.observe.html.page import PageCapacity, Section, esc, note, page, paged
from fanfold.observe.html.plots import bar, color_key, counts_chart, timeline
from fanfold.observe.html.tables import (
    Html,
    HtmlColumn,
    json_text,
    naming,
    pairs,
    result,
    row_html,
    table,
    whole_json,
)
from fanfold.observe.html.tree import tree_table
from fanfold.observe.shown import categories, shown
from fanfold.observe.status import RunSummary
from fanfold.price import dollars
from fanfold.work.outcome import STATES, Receipt, StepAccount

MOST_ROWS = 20_000
LARGEST = 460_000  # characters of a page, without its head
REPLIES = 100_000  # characters reserved for the items when the result is long
CAUGHT_SIZE = 60_000  # characters of the table of items that were caught


def account_page(account: RunAccount) -> str:
    """Everything that comes from data is escaped, cut where it is long, and then it says so."""
    name = account.summary.run.name
    return page(name, head(account.summary, account.receipt), sections(account), FOOT)


def sections(account: RunAccount) -> list[Section]:
    """The receipt before the result, which may be long."""
    receipt, caught, *rest = _figures(account)
    capacity = _capacity([receipt, caught, *rest])
    capacity.remaining -= REPLIES
    result = Section("Result", "\n".join(result_html(account.summary, account.receipt, capacity)))
    capacity.remaining += REPLIES
    return [receipt, result, caught, _items(account, capacity), *rest]


def books(account: RunAccount) -> list[Section]:
    """All but the result."""
    receipt, caught, *rest = _figures(account)
    return [receipt, caught, _items(account, _capacity([receipt, caught, *rest])), *rest]


def _capacity(others: list[Section]) -> PageCapacity:
    """What the other sections leave free of a page."""
    return PageCapacity(LARGEST - sum(len(one.body) for one in others))


def _items(account: RunAccount, capacity: PageCapacity) -> Section:
    return Section("Items", "\n".join(items_html(account, capacity)))


def _figures(account: RunAccount) -> list[Section]:
    r = account.receipt
    return [
        Section("Receipt", receipt_html(r)),
        Section("What the gate caught", "\n".join(_caught(account.caught))),
        Section("Cost and time", "\n".join(_cost(account))),
        Section("Timeline", "\n".join(times_html(account.times))),
        Section("Tree", tree_table(account.tree)),
        Section("Escalation", "".join(f"<p>{esc(saving_text(one))}</p>" for one in r.cascades)),
        Section("In doubt", "\n".join(_doubts(account))),
    ]


def result_page(title: str, value: object, more: int = 0) -> str:
    """A page with nothing but a result: for a plan that writes one. `more` items are not in it."""
    body = "\n".join(_value(value, _capacity([])))
    if more:
        body += note(f"{count(more, 'item')} more passed; only the first are on this page.")
    return page(title, f"<h1>{esc(title)}</h1>", [Section("Result", body)])


# ── head and foot ────────────────────────────────────────────────────────────────────────────


def head(s: RunSummary, r: Receipt, more: Sequence[tuple[str, str]] = ()) -> str:
    """Name, status and why, the first figures; `more` of them at the end."""
    reason = "its process died; resume it to continue"
    if s.status != "crashed":
        reason = status_reason(s.status, r) or ""
    style = f"status {s.status}"
    figures = [
        ("items passed", f"{r.passed:,} of {r.planned:,}"),
        ("cost", cost_text(r)),
        ((r.calls == 1 and "call") or "calls", f"{r.calls:,}"),
        ("active time", duration(s.seconds)),
        *more,
    ]
    shown = "".join(
        f"<div><dt>{esc(name)}</dt><dd>{esc(text)}</dd></div>" for name, text in figures
    )
    return (
        f"<h1>{esc(s.run.name)}</h1>\n"
        f'<p class="lead"><span class="{style}">{s.status}</span>{esc(reason)}</p>\n'
        f'<p class="meta">Started {local_time(s.run.created)}, run <code>{esc(s.run.id)}</code></p>\n'
        f'<dl class="figures">{shown}</dl>'
    )


FOOT = "Made by fanfold from the journal of the run. All figures are of the whole run."


# ── the result ───────────────────────────────────────────────────────────────────────────────


def result_html(s: RunSummary, made: Receipt, capacity: PageCapacity) -> Iterator[str]:
    value = made.result
    if value is None:
        unfinished = s.status in ("running", "crashed")
        yield note("There is no result yet." if unfinished else "There is no result.")
        return
    if made.passed < made.planned:
        yield note(f"Based on {made.passed:,} of {count(made.planned, 'item')}.")
    yield from _value(value, capacity)


def _value(value: object, capacity: PageCapacity) -> Iterator[str]:
    if (
        value is None
        or value == []
        or value == {}
        or (isinstance(value, str) and not value.strip())
    ):
        yield note("The result is empty.")
        return
    yield from (counts_chart(found) for found in categories(value)[:3])
    yield result(shown(value, MOST_ROWS), 3, capacity)
    yield whole_json(value)


# ── the books ────────────────────────────────────────────────────────────────────────────────


def _caught(caught: Caught) -> Iterator[str]:
    if caught.revised:
        more = caught.revised - len(caught.ids)
        ids = ", ".join(caught.ids) + (f" and {more:,} more" if more else "")
        yield f"<p>{esc(count(caught.revised, 'item'))} passed after a kick-back: {esc(ids)}.</p>"
    if not caught.whole:
        yield note("No item was kicked, unjudged or failed.")
        return
    ids = naming([one.id for one in caught.ended])
    columns = [HtmlColumn("item", ids), HtmlColumn("outcome", "short"), HtmlColumn("reasons", "long"),
               HtmlColumn("how the reply begins", "long"), HtmlColumn("member"),
               HtmlColumn("cost", "num")]  # fmt: skip
    rows = [
        (one.id, one.state, Html("<br>".join(esc(reason[:600]) for reason in one.reasons)),
         excerpt(one), one.member or "", money(one.cost))
        for one in caught.ended
    ]  # fmt: skip
    made = [row_html(columns, row) for row in rows]
    first = PageCapacity(CAUGHT_SIZE).first(made, MOST_ITEMS, CAUGHT_SIZE)
    yield table(columns, [Html(row) for row in first])
    if caught.whole > len(first):
        more = caught.whole - len(first)
        yield note(f"… and {more:,} more; only the first {len(first)} are shown.")


def receipt_html(r: Receipt) -> str:
    """Two tables side by side: the items, and what they took."""
    items = [("planned", f"{r.planned:,}")]
    items += [(NAMES.get(state, state), f"{getattr(r, state):,}") for state in STATES]
    t = r.tokens
    took = [
        ("calls", f"{r.calls:,}"), ("items from replies of earlier runs", f"{r.reused:,}"),
        ("calls without a reply", f"{r.retries:,}"),
        ("tokens: input", f"{t.input:,}"), ("tokens: output", f"{t.output:,}"),
        ("tokens: cache read", f"{t.cache_read:,}"), ("tokens: cache write", f"{t.cache_write:,}"),
        *(("cache", text) for text in cache_texts(r)),
        ("cost", cost_text(r)),
        ("maybe paid twice", twice_text(r) if r.maybe_paid_twice else usd(0)),
        *([("unusable usage", unusable_text(r))] if r.unusable_usage else []),
        *([("hedged", hedged_text(r))] if r.hedged else []),
        ("active time", duration(r.seconds)),
    ]  # fmt: skip
    return f'<div class="two">{pairs(items)}{pairs(took)}</div>'


def _cost(account: RunAccount) -> Iterator[str]:
    if account.members:
        yield f"<h3>By member</h3>{members_html(account.members, account.receipt)}"
    steps = [
        one for one in account.receipt.steps if one.calls or one.reused or one.cost_usd or one.note
    ]
    if steps:
        yield f"<h3>By step</h3>{steps_html(steps)}"


def members_html(members: Sequence[MemberWork], made: Receipt) -> str:
    """With the share of the whole cost as a bar; of the calls, when it cost nothing."""
    costly = made.cost_usd > 0
    weights = [one.account.cost_usd if costly else one.account.calls for one in members]
    most = max(weights) or 1
    columns = [
        HtmlColumn("member", "head"), HtmlColumn("calls", "num"), HtmlColumn("items answered", "num"),
        HtmlColumn("of these reused", "num"), HtmlColumn("errors", "num"), HtmlColumn("tokens", "num"),
        HtmlColumn("time of calls", "num"), HtmlColumn("cost", "num"), HtmlColumn("", "plot"),
    ]  # fmt: skip
    rows = []
    for one, weight in zip(members, weights, strict=True):
        a = one.account
        label = f"{a.member}: {usd(a.cost_usd, at_most=a.at_most)}, {count(a.calls, 'call')}"
        rows.append(
            (a.member, f"{a.calls:,}", f"{a.answered:,}", f"{a.reused:,}", f"{a.errors:,}",
             f"{a.tokens.total:,}", _time(one.seconds), usd(a.cost_usd, at_most=a.at_most),
             Html(bar([weight / most], label)))
        )  # fmt: skip
    return table(columns, rows)


def steps_html(steps: list[StepAccount]) -> str:
    columns = [
        HtmlColumn("step", "head"), HtmlColumn("calls", "num"), HtmlColumn("items from earlier runs", "num"),
        HtmlColumn("input tokens", "num"), HtmlColumn("output tokens", "num"),
        HtmlColumn("time with calls under way", "num"), HtmlColumn("cost", "num"),
    ]  # fmt: skip
    rows = [
        (s.label, f"{s.calls:,}", f"{s.reused:,}", f"{s.tokens.input:,}", f"{s.tokens.output:,}",
         _time(s.seconds), usd(s.cost_usd, at_most=s.at_most))
        for s in steps
    ]  # fmt: skip
    return table(columns, rows)


def _time(seconds: float) -> str:
    """A call of a function leaves none."""
    return duration(seconds) if seconds else "–"


def times_html(times: Times | None) -> Iterator[str]:
    if times is None:
        return
    yield timeline(times)
    if any(lane.levels for lane in times.lanes):
        yield note("There were many calls: the height says how many were under way at once.")
    if any(bar.state not in ("ok", "started") for lane in times.lanes for bar in lane.bars):
        yield color_key([("s0", "replied"), ("bad", "no reply that counts")])
    if times.breaks:
        yield note("Dashed lines: the run was paused there and continued later.")
    if times.others:
        yield note(f"{count(times.others, 'more member')} with fewer calls are not shown.")


def _doubts(account: RunAccount) -> Iterator[str]:
    doubt = account.summary.in_doubt
    if not doubt.attempts:
        return
    verb = "was" if doubt.attempts == 1 else "were"
    yield (
        f"<p>{esc(count(doubt.attempts, 'attempt'))} {verb} lost under way and may have been carried"
        f" out. At most {esc(usd(dollars(doubt.at_most)))}, which is counted as spent.</p>"
    )
    columns = [HtmlColumn("member", "head"), HtmlColumn("item"), HtmlColumn("what happened", "long"),
               HtmlColumn("at most", "num")]  # fmt: skip
    rows = [
        (one.member, ids_text(one, 60), (one.error or "the process died")[:400], money(one.cost))
        for one in account.doubts
    ]
    yield table(columns, rows)
    if doubt.attempts > len(account.doubts):
        yield note(f"… and {doubt.attempts - len(account.doubts):,} more")


PAGE = 20
FIRST = 30_000  # characters of the items that are shown at first
MOST_REPLY = 4000  # characters of one reply


def items_html(account: RunAccount, capacity: PageCapacity) -> Iterator[str]:
    """Those that did not pass come first."""
    items, run = account.items, account.summary.run
    if not items:
        return
    texts = [_texts(one) for one in items]
    first = capacity.first([_item(*one) for one in texts[:PAGE]], PAGE, FIRST)
    box = f'<div class="items">{"".join(first)}</div>'
    yield paged(box, texts, len(first), account.receipt.planned, PAGE, capacity)
    others = sum(one.state != "passed" for one in items)
    order = "Those that did not pass come first. " if 0 < others < len(items) else ""
    command = f"fanfold show {run.id} ITEM"
    yield note(f"{order}All of one item, with its input, prompts and attempts: {command}")


def _texts(one: EndedItem) -> tuple[str, str, str]:
    """A line, the reasons, the reply: as they are packed, too."""
    label = [one.id, NAMES.get(one.state, one.state), one.member or "", money(one.cost)]
    return " · ".join(filter(None, label)), "\n".join(one.reasons)[:MOST_REPLY], _reply(one.value)


def _item(line: str, reasons: str, reply: str) -> str:
    why = f'<p class="note">{"<br>".join(map(esc, reasons.splitlines()))}</p>' if reasons else ""
    body = f"<pre>{esc(reply)}</pre>" if reply else note("No reply.")
    return f"<details><summary>{esc(line)}</summary>{why}{body}</details>"


def _reply(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json_text(value, MOST_REPLY)
    return (
        text
        if len(text) <= MOST_REPLY
        else f"{text[:MOST_REPLY]}\n… and {len(text) - MOST_REPLY:,} more"
    )
