"""The workers of a run: a card for each, the graph of what waits for what, and the page of one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from fanfold.errors import FanfoldError
from fanfold.faces.ui.controls import last_answer, message_form, worker_controls
from fanfold.faces.ui.runs import age
from fanfold.faces.ui.seen import SeenRun
from fanfold.faces.ui.shell import (
    UiPage,
    chips,
    copied,
    crumbs,
    linked,
    panel,
    pill,
    run_path,
    worker_path,
)
from fanfold.faces.web import RequestRefused
from fanfold.fleet.look import RunSnapshot, numbers_of
from fanfold.fleet.report import diff_of
from fanfold.fleet.run_plan import run_plan
from fanfold.fleet.status import Sort, cost_of_cap, elapsed_of, ordered, state_counts, status_word
from fanfold.fleet.stream import GLYPHS, WorkerStream
from fanfold.fleet.worker_view import WorkerFiles, WorkerView
from fanfold.journal.contract import StoreView
from fanfold.observe.amounts import clock_time, count, duration, money
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.plots import bar
from fanfold.observe.html.tables import pairs
from fanfold.run.inherited import store_words
from fanfold.work.picture import levels

SORTS: dict[Sort, str] = {
    "attention": "needs attention first", "cost": "most expensive first", "name": "by name",
    "planned": "as planned",
}  # fmt: skip
_GLYPHS = GLYPHS | {"tool": "▸ "}
MOST_CARDS = 200
MOST_DRAWN = 80
MOST_LINES = 300
WIDE, TALL, GAP_X, GAP_Y = 150, 34, 54, 12


def has_workers(seen: SeenRun) -> bool:
    return run_plan(seen.record).fleet or bool(numbers_of(seen.view, seen.record))


def workers_of(seen: SeenRun) -> list[WorkerView]:
    return seen.reader.workers(seen.record.no).read(seen.view, seen.record, seen.now)


def workers_tab(seen: SeenRun) -> Iterator[str]:
    """Those that need attention come first."""
    found = workers_of(seen)
    if not found:
        yield note("No worker has started yet.")
        return
    counts = state_counts(found)
    stuck = sum(one.stuck for one in found)
    words = [f"{many:,} {state.lower()}" for state, many in counts.items()]
    words += [f"{stuck:,} without output"] if stuck else []
    cost = sum(one.cost.usd or 0 for one in found)
    yield f'<p class="sum">{esc(", ".join(words))}; {money(cost)} together</p>'
    stated = seen.query.get("sort", "")
    sort: Sort = next((one for one in SORTS if one == stated), "attention")
    yield chips(
        (run_path(seen.record.id, tab="workers", sort=key), name, key == sort)
        for key, name in SORTS.items()
    )
    changes = _changes(seen, found)
    cards = "".join(
        _card(seen, one, changes.get(one.id, "")) for one in ordered(found, sort)[:MOST_CARDS]
    )
    yield f'<div class="cards">{cards}</div>'
    if any(one.depends_on for one in found) and len(found) <= MOST_DRAWN:
        yield panel("What waits for what", dag_svg(seen, found))


def _changes(seen: SeenRun, workers: Sequence[WorkerView]) -> dict[str, str]:
    """What each has changed in git so far, in short. Git takes its time, so it may be a moment old."""
    store = seen.view.files.absolute()
    begun = [one for one in workers if one.isolated and one.span][:MOST_DRAWN]
    if not begun:
        return {}

    def looked(_: StoreView) -> dict[str, str]:
        return {one.id: diff_of(store, one.span, one.member).short for one in begun}

    return seen.reader.later((seen.record.no, "changes"), looked).value or {}


def _card(seen: SeenRun, one: WorkerView, changes: str) -> str:
    to = worker_path(seen.record.id, one.id)
    took, heard = elapsed_of(one, seen.now), one.heard
    figures = [
        ("cost", cost_of_cap(one)), ("elapsed", "–" if took is None else duration(took)),
        ("last output", "–" if heard is None else age(heard, seen.now)),
    ]  # fmt: skip
    shown = "".join(f"<div><dt>{name}</dt><dd>{esc(text)}</dd></div>" for name, text in figures)
    cap = ""
    if one.cap:
        share = min(1.0, (one.cost.usd or 0) / one.cap)
        cap = bar([share], f"{share:.0%} of what it may spend", ["bad" if one.over else "s0"])
    said = one.waits or one.error or one.last
    style = "bad-text" if one.error and not one.waits else ""
    by = " · ".join(filter(None, ("" if one.member == one.id else one.member, one.model, changes)))
    return (
        f'<article class="card {_style(one)}" data-row><h3>{linked(to, one.id)}'
        f'{pill(status_word(one).lower(), _style(one))}</h3><p class="meta">{esc(by)}</p>'
        f'<dl>{shown}</dl>{cap}<p class="said {style}">{esc(said[:240])}</p>'
        f"{worker_controls(seen, one)}</article>"
    )


def _style(one: WorkerView) -> str:
    return "stuck" if one.stuck else one.state


# ── the graph ────────────────────────────────────────────────────────────────────────────────


def dag_svg(seen: SeenRun, workers: Sequence[WorkerView]) -> str:
    """A column for each level; an arrow from each worker to those that wait for it."""
    known = {one.id for one in workers}
    parents = {one.id: [id for id in one.depends_on if id in known] for one in workers}
    try:
        level = levels(parents)
    except FanfoldError:
        return ""
    at = _places(parents, level)
    columns = max(level.values()) + 1
    width, height = (
        max(one[n] for one in at.values()) + size + 1 for n, size in enumerate((WIDE, TALL))
    )
    edges = "".join(_edge(at[up], at[id]) for id, above in parents.items() for up in above)
    nodes = "".join(_node(seen, one, *at[one.id]) for one in workers)
    label = f"{count(len(workers), 'worker')} in {count(columns, 'level')}"
    return (
        f'<div class="wide"><svg class="dag" role="img" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}"><title>{label}</title>{edges}{nodes}</svg></div>'
    )


def _places(
    parents: Mapping[str, Sequence[str]], level: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """The corner of each: beside those it waits for, as far as there is room."""
    at: dict[str, tuple[int, int]] = {}
    for column in range(max(level.values()) + 1):
        own = [id for id in parents if level[id] == column]
        own.sort(key=lambda id: sum(at[up][1] for up in parents[id]) / max(1, len(parents[id])))
        for row, id in enumerate(own):
            at[id] = (column * (WIDE + GAP_X) + 1, row * (TALL + GAP_Y) + 1)
    return at


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + WIDE, start[1] + TALL // 2
    x2, y2 = end[0], end[1] + TALL // 2
    half = (x1 + x2) // 2
    return f'<path class="edge" d="M{x1} {y1}C{half} {y1} {half} {y2} {x2} {y2}"/>'


def _node(seen: SeenRun, one: WorkerView, x: int, y: int) -> str:
    name = one.id if len(one.id) <= 20 else f"{one.id[:19]}…"
    return (
        f'<a href="{esc(worker_path(seen.record.id, one.id))}"><g class="node {_style(one)}">'
        f"<title>{esc(one.id)}: {esc(status_word(one))}</title>"
        f'<rect x="{x}" y="{y}" width="{WIDE}" height="{TALL}" rx="6"/>'
        f'<circle cx="{x + 14}" cy="{y + TALL // 2}" r="4"/>'
        f'<text x="{x + 26}" y="{y + TALL // 2 + 4}">{esc(name)}</text></g></a>'
    )


# ── one worker ───────────────────────────────────────────────────────────────────────────────


def worker_page(seen: SeenRun) -> UiPage:
    id = seen.query.get("id", "")
    one = next((found for found in workers_of(seen) if found.id == id), None)
    if one is None:
        raise RequestRefused(f"there is no worker {id!r} in {seen.record.name}", status=404)
    files = RunSnapshot(seen.view, seen.record, seen.now).find(id)
    up = run_path(seen.record.id, tab="workers")
    body = [
        crumbs(("/", "Runs"), (run_path(seen.record.id), seen.record.name), (up, "workers")),
        f"<h1>{esc(id)}</h1>",
        f'<p class="lead">{pill(status_word(one).lower(), _style(one))}{esc(one.waits or one.error)}</p>',
        f'<div class="controls">{worker_controls(seen, one)}{message_form(seen, one)}</div>',
        last_answer(seen, id),
        '<div class="grid">', panel("Worker", _figures(seen, one)),
        panel("Commands", "".join(_commands(seen, one))), "</div>",
        panel("Changes so far", "".join(_diff(seen, one))),
        panel("Log", "".join(_log(files)), "log"),
    ]  # fmt: skip
    going = one.state in ("RUNNING", "PENDING") and seen.runs_now
    return UiPage(
        title=id, body="\n".join(body), follow=str(seen.record.no), tick=2 if going else 0
    )


def _figures(seen: SeenRun, one: WorkerView) -> str:
    took = elapsed_of(one, seen.now)
    shown: Mapping[str, str] = {
        "member": one.member, "model": one.model, "paid by": one.lane or "",
        "cost": cost_of_cap(one), "elapsed": "" if took is None else duration(took),
        "last output": "" if one.heard is None else age(one.heard, seen.now),
        "turns": f"{one.turns:,}" if one.turns else "",
        "tokens": f"{one.usage.total:,}" if one.usage.total else "",
        "attempts": f"{one.tries:,}" if one.tries else "",
        "depends on": ", ".join(one.depends_on), "files": ", ".join(one.outputs[:8]),
        "exit code": "" if one.code is None else str(one.code), "session": one.session,
        "denied": ", ".join(one.denied[:8]),
    }  # fmt: skip
    return pairs([(name, text) for name, text in shown.items() if text])


def _commands(seen: SeenRun, one: WorkerView) -> Iterator[str]:
    words, where = f"{seen.record.id} {shlex.quote(one.id)}", store_words(seen.reader.shown)
    yield f"<h3>Look on in a terminal</h3>{copied(f'fanfold view {words} -f{where}', 'Copy')}"
    if one.command:
        yield f"<h3>Continue its session</h3>{copied(one.command, 'Copy')}"
    if one.state == "RUNNING":
        yield f"<h3>End it</h3>{copied(f'fanfold kill {words}{where}', 'Copy')}"
    elif one.tries:
        yield f"<h3>Start it again</h3>{copied(f'fanfold relaunch {words}{where}', 'Copy')}"


def _diff(seen: SeenRun, one: WorkerView) -> Iterator[str]:
    if not (one.isolated and one.span):
        return
    diff = diff_of(seen.view.files.absolute(), one.span, one.member)
    yield f'<p class="meta">{esc(diff.branch)}</p>'
    lines = [*diff.stat, *(f" {name} (not added to git)" for name in diff.new)]
    if diff.trouble or not lines:
        yield note(diff.trouble or "No changes.")
        return
    yield f"<pre>{esc(chr(10).join(lines))}</pre>"


def _log(files: WorkerFiles | None) -> Iterator[str]:
    """The newest events last, as a terminal shows them."""
    if files is None:
        yield note("It has not started yet.")
        return
    events = WorkerStream(files).last(MOST_LINES, over=files.over)
    if not events:
        yield note("It has said nothing yet.")
        return
    lines = "".join(
        f'<li class="{event.told.kind}"><time>{clock_time(event.at)}</time>'
        f"<span>{esc(_GLYPHS[event.told.kind] + event.told.text[:4000])}</span></li>"
        for event in events
    )
    yield f'<ol class="events" tabindex="0" data-end>{lines}</ol>'
