"""What can be ordered on a page, as forms: of a run, an item, a worker, a member; and the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fanfold.errors import BadInput
from fanfold.faces.ui.seen import SeenRun
from fanfold.faces.ui.shell import pill
from fanfold.fleet.run_plan import run_plan
from fanfold.fleet.worker_view import WorkerView
from fanfold.journal.answers import OrderRecord
from fanfold.observe.amounts import clock_time
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.tables import HtmlColumn, table
from fanfold.observe.status import AGAIN
from fanfold.run.orders import WorkerMessage, held, is_under_way, parse_change

MOST_SHOWN = 20
MOST_MEMBERS = 200
FRESH = 60.0  # seconds for which an answer is shown on every part of a page
_EXAMPLES = "map.concurrency=4, fast.limits.rpm=60, fast=off"


def form(seen: SeenRun, body: str, style: str = "act") -> str:
    """Sent to the page it is on. Nothing where the page takes no orders."""
    orders = seen.reader.orders
    if orders is None or not body:
        return ""
    return (
        f'<form class="{style}" method="post"><input type="hidden" name="token"'
        f' value="{orders.token}">{body}</form>'
    )


def button(verb: str, value: str, label: str, style: str = "") -> str:
    of = f' class="{style}"' if style else ""
    return f'<button name="{verb}" value="{esc(value)}"{of}>{esc(label)}</button>'


def asked_twice(seen: SeenRun, label: str, question: str, verb: str, value: str) -> str:
    """A button behind another one, for what cannot be taken back."""
    sure = form(seen, f"<span>{esc(question)}</span>{button(verb, value, label, 'bad')}")
    return f'<details class="sure"><summary>{esc(label)}…</summary>{sure}</details>' if sure else ""


def field(seen: SeenRun, what: str, label: str, value: str, hint: str = "", size: int = 7) -> str:
    """A field with the button that sets it."""
    text = (
        f'<label>{esc(label)} <input name="value" required autocomplete="off" size="{size}"'
        f' value="{esc(value)}" placeholder="{esc(hint)}"></label>{button("set", what, "Set")}'
    )
    return form(seen, text)


# ── a run ────────────────────────────────────────────────────────────────────────────────────


def run_controls(seen: SeenRun) -> str:
    """The buttons, and what came of the last order."""
    made = "" if seen.reader.orders is None else "".join(_run_forms(seen))
    return (f'<div class="controls">{made}</div>' if made else "") + last_answer(seen)


def _run_forms(seen: SeenRun) -> Iterator[str]:
    record, receipt = seen.record, seen.summary.receipt
    alive = record.status == "running" and is_under_way(seen.view, record.no)
    resumable = seen.summary.resumable and bool(record.plan)
    if not alive and not resumable:
        return
    if alive and held(seen.view.read, record.no) is None:
        yield form(seen, button("pause", "", "Pause"))
    elif alive:
        yield form(seen, button("resume", "", "Continue", "main"))
    elif record.cause is not None and record.cause.kind == "approval":
        yield form(seen, button("approve", "", "Approve and continue", "main")
                   + '<input type="hidden" name="continue" value="">')  # fmt: skip
    else:
        yield form(seen, button("continue", "", "Continue", "main"))
    budget = receipt.budget_usd
    yield field(seen, "budget", "Budget $", "" if budget is None else f"{budget:g}", "none")
    yield field(seen, "concurrency", "Concurrency", _set_last(seen, "concurrency"), "as planned", 9)
    more = field(seen, "", "Anything else that can be set", "", _EXAMPLES, 34)
    more += form(seen, button("approve", "", "Approve")
                 + '<span class="meta">stages that turn out larger than foreseen</span>')  # fmt: skip
    yield f'<details class="more"><summary>More</summary>{more}</details>'
    if alive:
        question = "Ends its process and all its workers."
        yield asked_twice(seen, "Kill the run", question, "kill-all", "")


def _set_last(seen: SeenRun, name: str) -> str:
    """To which value it was set by the last order that was carried out; "" when by none."""
    found = [one for one in seen.view.read.orders(seen.record.no, ("done",)) if one.what == "set"]
    values = [one.value.partition("=") for one in found]
    return next((value.strip() for key, _, value in reversed(values) if key.strip() == name), "")


# ── its answers ──────────────────────────────────────────────────────────────────────────────


def orders_of(seen: SeenRun) -> Sequence[OrderRecord]:
    journal = seen.view.read.orders(seen.record.no)
    orders = seen.reader.orders
    return journal[::-1] if orders is None else orders.given(seen.record.no, journal)


def _told(one: OrderRecord) -> WorkerMessage | None:
    return msgspec.json.decode(one.value, type=WorkerMessage) if one.what == "tell" else None


def _words(one: OrderRecord) -> str:
    told = _told(one)
    value = one.value if told is None else f"{told.worker}: {told.text[:400]}"
    return f"{one.what} {value}".strip()


def _object(one: OrderRecord) -> str:
    """The item or the worker that it is about."""
    told = _told(one)
    return one.value if told is None else told.worker


def _result(one: OrderRecord) -> str:
    if one.state == "given":
        return "waits for the process of the run; it holds when the run is continued"
    done = "carried out" if one.state == "done" else "refused"
    return f"{done}: {one.said}" if one.said else done


def _answer(one: OrderRecord) -> str:
    at = clock_time(one.answered or one.at)
    return (
        f'<p class="answer {one.state}"><b>{esc(_words(one))}</b> {esc(_result(one))}'
        f' <span class="meta">{at}</span></p>'
    )


def last_answer(seen: SeenRun, about: str = "") -> str:
    """What came of the last order, for a while: to the run, or about one item or worker of it."""
    last = next((one for one in orders_of(seen) if about in ("", _object(one))), None)
    fresh = last is not None and seen.now - (last.answered or last.at) < FRESH
    said = _answer(last) if last is not None and (fresh or last.state == "given") else ""
    return f'<div role="status" aria-live="polite">{said}</div>'


def orders_table(seen: SeenRun) -> str:
    """All that was ordered, with who and what came of it."""
    found = orders_of(seen)
    if not found:
        return ""
    columns = [HtmlColumn("time", "short"), HtmlColumn("by", "short"), HtmlColumn("order", "mid"),
               HtmlColumn("answer", "long")]  # fmt: skip
    rows = [(clock_time(o.at), o.by, _words(o), _result(o)) for o in found[:MOST_SHOWN]]
    more = len(found) - MOST_SHOWN
    return table(columns, rows) + (note(f"… and {more:,} earlier") if more > 0 else "")


# ── items, workers, members ──────────────────────────────────────────────────────────────────


def item_button(seen: SeenRun, id: str, state: str) -> str:
    """Within a form: leave it out while it is pending; carry it out again when nothing runs."""
    if seen.summary.status == "running" or seen.summary.held:
        return button("skip", id, "Skip") if state == "pending" else ""
    return button("retry", id, "Retry") if state in (*AGAIN, "kicked") and seen.record.plan else ""


def item_controls(seen: SeenRun, id: str) -> str:
    """Of the item's page."""
    read, run = seen.view.read, seen.record.no
    planned = read.find_items(run, id)
    ended = [one.state for item in planned for one in read.step_endings(run, item)]
    state = ended[-1] if ended else "pending" if planned else ""
    return form(seen, item_button(seen, id, state)) + last_answer(seen, id)


def worker_controls(seen: SeenRun, one: WorkerView) -> str:
    if one.state == "RUNNING":
        return asked_twice(seen, "Kill", "It ends with all that it started.", "kill", one.id)
    if one.tries and one.state != "PENDING":
        return form(seen, button("relaunch", one.id, "Relaunch"))
    return ""


def message_form(seen: SeenRun, one: WorkerView) -> str:
    """What a worker is told: now, where its program takes messages, or at its next start."""
    return form(
        seen,
        '<label>Message <input name="value" required autocomplete="off" size="40" maxlength="20000"'
        f' placeholder="for this worker"></label>{button("tell", one.id, "Tell")}',
    )


def member_switches(seen: SeenRun) -> str:
    """Whom the run may ask."""
    if seen.reader.orders is None or seen.summary.status not in ("running", "paused"):
        return ""
    off: dict[str, bool] = {}
    for one in seen.view.read.orders(seen.record.no, ("done", "given")):
        if one.what == "set" and (switched := _switched(one.value)) is not None:
            off[switched[0]] = not switched[1]
    names = sorted({*run_plan(seen.record).members, *off})
    made = "".join(_switch(name, off=off.get(name, False)) for name in names[:MOST_MEMBERS])
    return form(seen, f"<ul>{made}</ul>" if made else "", "switches")


def _switch(name: str, *, off: bool) -> str:
    shown, to = (pill("off", "paused"), "on") if off else ("", "off")
    return f"<li>{esc(name)} {shown}{button('set', f'{name}={to}', f'Turn {to}')}</li>"


def _switched(value: str) -> tuple[str, bool] | None:
    try:
        change = parse_change(value)
    except BadInput:
        return None
    return (change.name, bool(change.value)) if change.field == "enabled" else None
