"""The account of a fleet as a page, in Markdown and in HTML: the sections of dag-fleet, then ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fanfold.fleet.status import FleetStatus, amount, cost_of_cap, elapsed_of
from fanfold.fleet.worker_view import Cost, WorkerView
from fanfold.journal.questions import ReportQuestions
from fanfold.members.agents.worker import OUTPUT
from fanfold.members.agents.worktree import begun_with, isolated
from fanfold.observe.account import RunAccount
from fanfold.observe.amounts import count, duration, money
from fanfold.observe.closing import cost_text, headline
from fanfold.observe.html.account import FOOT, books, head, sections
from fanfold.observe.html.page import Section, page
from fanfold.observe.html.prose import prose
from fanfold.observe.report import cell, doubt_lines, receipt_lines, table
from fanfold.observe.status import accounts, whole_receipt
from fanfold.observe.table import one_line

_STATUS = {"DONE": "SUCCESS"}
_NO_ERRORS = "_No errors — all workers completed successfully._"
_FAILED = ("FAILED", "KILLED", "IN DOUBT", "UNFUNDED")


def fleet_report(read: ReportQuestions, s: FleetStatus, diffs: dict[str, Diff]) -> str:
    """Values that come from workers are escaped and cut. `diffs`: by worker, of those that had a
    worktree of their own."""
    whole = whole_receipt(s.summary, accounts(read, s.summary.run, unsent=s.summary.unsent))
    titled = [
        *workers_sections(s, diffs),
        ("Receipt", receipt_lines(whole)),
        ("In Doubt", doubt_lines(read, s.summary)),
    ]
    sections = [_head(s), *([f"## {title}", "", *lines] for title, lines in titled if lines)]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def workers_sections(s: FleetStatus, diffs: dict[str, Diff]) -> list[tuple[str, list[str]]]:
    """The sections about the workers, by title, in Markdown; some may be empty."""
    # Each whole, and what continues it
    lines = []
    for one in s.workers:
        if one.session and one.lines:
            how = f": `{one_line(one.command, 4000).replace('`', chr(39))}`" if one.command else ""
            lines.append(f"- `{cell(one.id, 60)}` `{cell(one.session, 200)}`{how}")
    return [
        ("Workers", _workers(s)),
        ("Output Files", _outputs(s)),
        ("Errors", _errors(s)),
        ("Failed For A Parent", _failed_parents(s.workers)),
        ("Permission Denials", _denials(s.workers)),
        ("Branches", _branches(diffs)),
        ("Billing", _billing(s)),
        ("Sessions", lines),
    ]


def _head(s: FleetStatus) -> list[str]:
    run = s.summary.run
    over = run.ended is not None and run.status != "running"
    done = _utc(run.ended) if over and run.ended else f"not yet: {s.summary.status}"
    lines = [
        f"# Fleet Report: {cell(run.name)}", "",
        f"**Completed**: {done}",
        f"**Duration**: {duration(s.elapsed)}",
        f"**Total Cost**: {_cost_text(s.total)}",
    ]  # fmt: skip
    if s.summary.status not in ("complete", "running"):
        lines.append(f"**Status**: {cell(headline(s.summary.status, s.summary.receipt), 400)}")
    return lines


def _utc(stamp: float) -> str:
    return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _cost_text(cost: Cost) -> str:
    """With the note in words: a page has room for them."""
    note = " (at most: the cost of a last call is not known)" if cost.at_most else ""
    note = " (estimated)" if cost.estimated and not note else note
    bare = msgspec.structs.replace(cost, estimated=False, at_most=False)
    return amount(bare) + note


# ── as in dag-fleet ──────────────────────────────────────────────────────────────────────────


def _workers(s: FleetStatus) -> list[str]:
    rows = [
        [cell(one.id, 60), _outcome(one), str(len(one.outputs)), cost_of_cap(one),
         str(one.turns), _duration(one, s.now)]
        for one in s.workers
    ]  # fmt: skip
    lines = table(["Worker", "Status", "Files", "Cost", "Turns", "Duration"], rows)
    marks = [
        mark
        for mark, held in (
            ("`~` is estimated", any(one.cost.estimated for one in s.workers)),
            ("`≤` is at most", any(one.cost.at_most for one in s.workers)),
        )
        if held
    ]
    lines += ["", "; ".join(marks) + "."] if marks else []
    over = [
        f"`{cell(one.id, 60)}` {money(one.cost.over, at_most=one.cost.at_most)}"
        for one in s.workers
        if one.cost.over
    ]
    return [*lines, "", f"More than was reserved: {', '.join(over)}."] if over else lines


def _outcome(one: WorkerView) -> str:
    if one.stuck:
        return f"RUNNING (stuck? {duration(one.silent)} without output)"
    if one.state == "FAILED" and one.subtype and one.subtype not in ("success", "turn.completed"):
        return f"FAILED ({cell(one.subtype, 60)})"
    if one.waits:
        return f"{one.state} ({cell(one.waits, 200)})"
    return _STATUS.get(one.state, one.state)


def _duration(one: WorkerView, now: float) -> str:
    seconds = elapsed_of(one, now)
    return "n/a" if seconds is None else duration(seconds)


def _outputs(s: FleetStatus) -> list[str]:
    lines: list[str] = []
    for one in s.workers:
        if one.place is not None and one.outputs:
            files = [_file(s.root, one.place / OUTPUT / name) for name in one.outputs]
            lines += [*([""] if lines else []), f"### {cell(one.id, 60)}", "", *files]
    return lines or ["_No output files._"]


def _file(root: str, file: Path) -> str:
    shown = os.path.relpath(file, root) if root else str(file)
    try:
        size = count(file.stat().st_size, "byte")
    except OSError:
        size = "deleted"
    return f"- `{one_line(shown, 400).replace('`', chr(39))}` ({size})"


def _errors(s: FleetStatus) -> list[str]:
    failed = [one for one in s.workers if one.state in _FAILED and not one.failed_parent]
    if not failed:
        going = [one for one in s.workers if one.state in ("RUNNING", "PENDING")]
        bad = any(one.state in _FAILED for one in s.workers)
        return ["_No errors so far._" if going or bad else _NO_ERRORS]
    lines: list[str] = []
    for one in failed:
        lines += [""] if lines else []
        lines += [f"### {cell(one.id, 60)}", "", f"- **Status**: {_outcome(one)}"]
        lines += [f"- **Detail**: {cell(one.error, 600)}"] if one.error else []
        lines += [f"- **Exit code**: {one.code}"] if one.code is not None else []
        lines += [f"- **Session**: `{cell(one.session, 80)}`"] if one.session else []
        lines += _summary(s.root, one)
    return lines


def _summary(root: str, one: WorkerView) -> list[str]:
    """The summary that it wrote, if it did."""
    if one.place is None or "summary.md" not in one.outputs:
        return []
    shown = os.path.relpath(one.place / OUTPUT / "summary.md", root or ".")
    return [f"- **Summary**: `{one_line(shown, 400)}`"]


# ── ours ─────────────────────────────────────────────────────────────────────────────────────


def _failed_parents(workers: Sequence[WorkerView]) -> list[str]:
    return [
        f"- `{cell(one.id, 60)}`: {cell(one.error, 200)}" for one in workers if one.failed_parent
    ]


def _denials(workers: Sequence[WorkerView]) -> list[str]:
    return [
        f"- `{cell(one.id, 60)}`: {cell(', '.join(one.denied), 400)}"
        for one in workers
        if one.denied
    ]


def _branches(diffs: dict[str, Diff]) -> list[str]:
    if not diffs:
        return []
    lines = ["Nothing was merged into yours. Each worker's changes are on its own branch."]
    for worker, diff in diffs.items():
        lines += ["", f"### {cell(worker, 60)}: `{one_line(diff.branch)}`", ""]
        whose = f", the work of {cell(', '.join(diff.parents), 200)}" if diff.parents else ""
        lines += [f"In `{one_line(diff.folder, 400)}`, against `{diff.base[:12]}`{whose}:", ""]
        if diff.trouble:
            lines[-2:] = [cell(diff.trouble, 300)]
            continue
        shown = [*diff.stat, *(f" {name} (not added to git)" for name in diff.new)]
        lines += ["```", *(one_line(line, 200) for line in shown), "```"] if shown else [
            "_No changes._"
        ]  # fmt: skip
    return lines


def _billing(s: FleetStatus) -> list[str]:
    lanes = list(dict.fromkeys(one.lane or "unknown" for one in s.workers))
    rows = []
    for lane in lanes:
        own = [one for one in s.workers if (one.lane or "unknown") == lane]
        bound = any(one.cost.at_most for one in own)
        note = {"subscription": "estimated by list prices; no bill by the dollar",
                "api": "at most; not all of it is known to be billed" if bound else "billed",
                "local": "free"}.get(lane, "")  # fmt: skip
        rough = any(one.cost.estimated for one in own)
        total = Cost(sum(one.cost.usd or 0 for one in own), rough, bound)
        rows.append([lane, str(len(own)), amount(total), note])
    reserved = s.summary.under_way.at_most
    held = f", {money(reserved)} of it reserved for what is under way" if reserved else ""
    whole = f"Fleet: {cost_text(s.summary.receipt)}{held}."
    return [*table(["Lane", "Workers", "Cost", ""], rows), "", whole]


# ── for a browser ────────────────────────────────────────────────────────────────────────────


def fleet_page(account: RunAccount, s: FleetStatus, diffs: dict[str, Diff]) -> str:
    """The same sections as in Markdown, and those of a run's page."""
    own = [
        Section(title.capitalize(), prose("\n".join(lines), top=1))
        for title, lines in workers_sections(s, diffs)
    ]
    rest = books(account) if account.receipt.result is None else sections(account)
    return page(s.summary.run.name, head(account.summary, account.receipt), [*own, *rest], FOOT)


# ── what workers with a worktree have changed; read only, nothing is merged ──────────────────

SECONDS = 60.0
MOST_LINES = 60


class Diff(msgspec.Struct, frozen=True):
    """A worker's branch against the commit that it began with. `stat` is git's own summary, with
    what is not committed yet; `new` are untracked files. `parents`: whose work was in that
    commit. `trouble`: why there is no diff. `lines`: those added and removed, for each file in git."""

    branch: str
    folder: str
    base: str = ""
    stat: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    trouble: str = ""
    lines: tuple[tuple[str, str], ...] = ()

    @property
    def short(self) -> str:
        """`3 files +40 −2, 1 new`; "" where nothing has changed. Of a binary file no lines are counted."""
        added, gone = (sum(int(one[n]) for one in self.lines if one[n] != "-") for n in (0, 1))
        known = [f"{count(len(self.lines), 'file')} +{added:,} −{gone:,}"] if self.lines else []
        return ", ".join(known + ([f"{len(self.new):,} new"] if self.new else []))


def diff_of(store: Path, span: str, member: str) -> Diff:
    """The commit that its worktree began with is on record. For one of an earlier version it is found in
    git: the newest commit that both the branch and the checkout it was made from have."""
    folder, branch = isolated(store, span, member)
    begun = begun_with(folder)
    made = Diff(branch, str(folder), parents=() if begun is None else begun.parents)
    if not folder.is_dir():
        return msgspec.structs.replace(
            made, trouble="its worktree was removed; the branch may still exist"
        )
    try:
        base = _base(folder) if begun is None else begun.commit
        told = _git(folder, "diff", "--numstat", "--stat=100", base).splitlines()
        stat = [line for line in told if "\t" not in line]
        new = _git(folder, "ls-files", "--others", "--exclude-standard").splitlines()
    except OSError as error:
        return msgspec.structs.replace(made, trouble=f"git failed: {error}")
    return msgspec.structs.replace(
        made, base=base, stat=tuple(stat[-MOST_LINES:]), new=tuple(new[:MOST_LINES]),
        lines=tuple(_counted(line) for line in told if line.count("\t") >= 2),
    )  # fmt: skip


def _counted(line: str) -> tuple[str, str]:
    added, removed, _ = line.split("\t", 2)
    return added, removed


def _base(folder: Path) -> str:
    common = _git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir").strip()
    start = _git(Path(common), "rev-parse", "HEAD").strip()
    return _git(folder, "merge-base", start, "HEAD").strip()


def _git(folder: Path, *arguments: str) -> str:
    """Its own settings may start programs of the user's; none of them is needed to look."""
    around = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "-c", "core.quotepath=false", "--no-pager", *arguments],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False,
            env={**around, "GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise OSError("it takes too long") from None
    if done.returncode:
        raise OSError(" ".join(done.stderr.decode(errors="replace").split())[:200])
    return done.stdout.decode(errors="replace")
