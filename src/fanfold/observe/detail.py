"""One run in detail: its account, what is under way or in doubt, what went wrong, how to continue."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import msgspec

from fanfold.journal.answers import AttemptRecord, EndedItem, Unsettled
from fanfold.journal.questions import ReportQuestions
from fanfold.observe.amounts import (
    batches_text,
    clock_time,
    count,
    duration,
    from_earlier,
    local_time,
    money,
    usd,
    utc_time,
)
from fanfold.observe.closing import (
    MOST_REASONS,
    NAMES,
    cache_texts,
    cost_text,
    headline,
    items_text,
    reason_text,
    resume_command,
    status_command,
    twice_text,
    unusable_text,
)
from fanfold.observe.status import MemberAccount, RunSummary, accounts, by_member, whole_receipt
from fanfold.observe.table import Column, aligned, one_line
from fanfold.observe.waits import wait_text, waits_json
from fanfold.price import dollars
from fanfold.run.shares import SharingProcess
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES, Receipt, State, StepAccount

MOST_ERRORS = 5
MOST_ITEMS = 200
MOST_PROCESSES = 8
NOT_PASSED: tuple[State, ...] = tuple(state for state in STATES if state != "passed")
LABEL = 12
CONTINUE = "continue"
_encode = msgspec.json.Encoder().encode


def detail(
    read: ReportQuestions,
    summary: RunSummary,
    *,
    verbose: bool = False,
    width: int = 80,
    store: str = "",
) -> str:
    """`verbose` also lists the steps, the members and every item that did not pass.

    `store` is the folder as the operator named it, for the command to resume with.
    """
    found = accounts(read, summary.run, unsent=summary.unsent)
    account = whole_receipt(summary, found)
    lines = _labelled([("run", _title(summary)), *_facts(summary, account, store)], width)
    if verbose:
        lines += _section("steps", _step_columns(account.steps), width)
        lines += _section("members", _member_columns(by_member(found)), width)
        lines += _items(read, summary, width)
    lines += _errors(read, summary, width)
    return "\n".join(lines)


def _title(summary: RunSummary) -> str:
    return f"{one_line(summary.run.name)} ({summary.run.id})"


def _facts(s: RunSummary, account: Receipt, store: str) -> list[tuple[str, str]]:
    """Each fact with its label; those that are zero or empty are omitted."""
    facts = [
        ("status", _status(s, account)),
        ("processes", _processes(s.processes)),
        ("tags", ", ".join(s.run.tags)),
        ("items", items_text(account)),
        *(("why", reason_text(one)) for one in account.reasons[:MOST_REASONS]),
        ("pending", count(s.pending, "item") if s.pending else ""),
        ("cost", cost_text(account)),
        ("calls", _calls(account)),
        ("tokens", _tokens(account.tokens)),
        *(("waits", wait_text(one, s.now)) for one in s.waits),
        ("under way", _at_most(s.under_way, "in the cost until they end")),
        ("in batches", batches_text(s.batches)),
        ("in doubt", _at_most(s.in_doubt, "counted as spent")),
        ("paid twice", f"maybe {twice_text(account)}" if account.maybe_paid_twice else ""),
        *(("cache", text) for text in cache_texts(account)),
        ("usage", f"unusable: {unusable_text(account)}" if account.unusable_usage else ""),
        ("time", f"started {local_time(s.run.created)}, {duration(s.seconds)} active"),
        (CONTINUE, _continue(s, store) if s.resumable else ""),
    ]
    return [(label, text) for label, text in facts if text]


def _status(s: RunSummary, account: Receipt) -> str:
    if s.status == "crashed":
        return "crashed: its process died; what was recorded is safe"
    return headline(s.status, account)


def _processes(many: tuple[SharingProcess, ...]) -> str:
    """Who carries it out together; the first few by name."""
    if not many:
        return ""
    named = [
        f"{one.name}{' leads,' if one.leads else ''} {count(one.calls, 'call')}"
        for one in many[:MOST_PROCESSES]
    ]
    more = len(many) - len(named)
    last = [f"and {more:,} more"] if more else []
    nobody = "" if any(one.leads for one in many) else " (none leads at the moment)"
    return f"{len(many):,}{nobody}: {'; '.join(named + last)}"


def _at_most(open: Unsettled, note: str) -> str:
    attempts = count(open.attempts, "attempt")
    return f"{attempts}, at most {money(open.at_most)} ({note})" if open.attempts else ""


def _calls(account: Receipt) -> str:
    lost = f", {account.retries:,} without a reply" if account.retries else ""
    reused = f", {from_earlier(account.reused)}" if account.reused else ""
    return f"{count(account.calls, 'call')}{reused}{lost}"


def _tokens(tokens: Usage) -> str:
    named = [("input", tokens.input), ("output", tokens.output),
             ("cache read", tokens.cache_read), ("cache write", tokens.cache_write)]  # fmt: skip
    return ", ".join(f"{n:,} {name}" for name, n in named if n)


def _continue(s: RunSummary, store: str) -> str:
    return resume_command(s.receipt, store) if s.run.plan else "run the script again"


def _labelled(pairs: list[tuple[str, str]], width: int) -> list[str]:
    """Long texts are wrapped; a command is not, so that it can be copied."""
    lines = []
    for label, text in pairs:
        whole = label == CONTINUE or len(text) <= width - LABEL
        first, *rest = [text] if whole else wrap(text, max(20, width - LABEL))
        lines.append(label.ljust(LABEL) + first)
        lines += [" " * LABEL + more for more in rest]
    return lines


# ── lists ────────────────────────────────────────────────────────────────────────────────────


def _section(title: str, columns: list[Column], width: int) -> list[str]:
    return ["", title, *aligned(columns, width, "  ")] if columns[0].cells else []


def _step_columns(steps: tuple[StepAccount, ...]) -> list[Column]:
    return [
        Column("step", [one_line(step.label, 120) for step in steps], least=8),
        Column("calls", [f"{step.calls:,}" for step in steps], right=True),
        Column("tokens", [f"{step.tokens.total:,}" for step in steps], right=True),
        Column("cost", [usd(step.cost_usd, at_most=step.at_most) for step in steps], right=True),
    ]


def _member_columns(found: list[MemberAccount]) -> list[Column]:
    return [
        Column("member", [one_line(one.member, 60) for one in found], least=8),
        Column("calls", [f"{one.calls:,}" for one in found], right=True),
        Column("items", [f"{one.answered:,}" for one in found], right=True),
        Column("errors", [f"{one.errors:,}" for one in found], right=True, rank=1),
        Column("tokens", [f"{one.tokens.total:,}" for one in found], right=True),
        Column("cost", [usd(one.cost_usd, at_most=one.at_most) for one in found], right=True),
    ]


def _items(read: ReportQuestions, summary: RunSummary, width: int) -> list[str]:
    ended = read.endings(summary.run.no, NOT_PASSED, MOST_ITEMS)
    whole = sum(getattr(summary.receipt, state) for state in NOT_PASSED)
    title = _items_title(whole, summary.receipt.skipped)
    lines = _section(title, _item_columns(ended), width)
    if whole > len(ended):
        lines.append(f"  … and {whole - len(ended):,} more")
    return lines


def _items_title(whole: int, skipped: int) -> str:
    """A filter skips an item by its plan, so that is no failure, and the headline does not count it."""
    if whole == skipped:
        return "items that were skipped"
    return "items that did not pass" + (", or were skipped" if skipped else "")


def _item_columns(ended: list[EndedItem]) -> list[Column]:
    return [
        Column("item", [one_line(one.id, 80) for one in ended], least=16),
        Column("outcome", [NAMES.get(one.state, one.state) for one in ended]),
        Column("reasons", [one_line("; ".join(one.reasons), 400) for one in ended], least=20),
    ]


def _errors(read: ReportQuestions, summary: RunSummary, width: int) -> list[str]:
    """The last attempts that gave no reply, newest first."""
    attempts = read.newest(summary.run.no, ("error", "in_doubt"), MOST_ERRORS)
    return _section("last errors", [
        Column("time", [clock_time(one.ended or one.started) for one in attempts]),
        Column("member", [one_line(one.member, 40) for one in attempts], least=8),
        Column("item", [ids_text(one) for one in attempts], least=12),
        Column("error", [one_line(one.error or "", 400) for one in attempts], least=20),
    ], width)  # fmt: skip


def ids_text(attempt: AttemptRecord, most: int = 40) -> str:
    """The item of an attempt; of a shard the first, and how many more there are."""
    if not attempt.ids:
        return ""
    more = f" +{len(attempt.ids) - 1:,}" if len(attempt.ids) > 1 else ""
    return one_line(attempt.ids[0], most) + more


# ── for programs ─────────────────────────────────────────────────────────────────────────────


def receipt_json(account: Receipt, resume: str | None = None, store: str = "") -> bytes:
    """One receipt object. All four kinds of tokens are written out, also where they are 0. Beside
    it the commands that continue the run and that show why items did not pass; null is neither."""
    return _encode(_plain(account) | {"resume": resume, "details": _details(account, store)})


def detail_json(read: ReportQuestions, summary: RunSummary, store: str = "") -> bytes:
    """The receipt of the whole run, and beside it what only status knows.

    `calls` are of all invocations here, `reused` the items that ended with a reply of an earlier run; the
    status may be `running` or `crashed`.
    """
    found = accounts(read, summary.run, unsent=summary.unsent)
    whole = _plain(whole_receipt(summary, found))
    whole |= {
        "status": summary.status, "pending": summary.pending,
        "written": None,  # which files it wrote, only the invocation itself knows
        "started": utc_time(summary.run.created),
        "processes": [msgspec.structs.asdict(one) for one in summary.processes],
        "tags": summary.run.tags, "waits": waits_json(summary.waits),
        "attempts_under_way": _open(summary.under_way), "attempts_in_doubt": _open(summary.in_doubt),
        "in_batches": msgspec.structs.asdict(summary.batches),
        "members": [_member(one) for one in by_member(found)],
        "errors": [_error(one) for one in read.newest(summary.run.no, ("error", "in_doubt"))],
        "resume": _continue(summary, store) if summary.resumable else None,
        "details": _details(summary.receipt, store),
    }  # fmt: skip
    return _encode(whole)


def _details(account: Receipt, store: str) -> str | None:
    return status_command(account, store) if account.reasons else None


def _plain(account: Receipt) -> dict[str, Any]:
    whole: dict[str, Any] = msgspec.structs.asdict(account)
    whole["tokens"] = msgspec.structs.asdict(account.tokens)
    whole["steps"] = [_account(step) for step in account.steps]
    return whole


def _account(one: StepAccount | MemberAccount) -> dict[str, Any]:
    return {**msgspec.structs.asdict(one), "tokens": msgspec.structs.asdict(one.tokens)}


def _member(one: MemberAccount) -> dict[str, Any]:
    return {name: value for name, value in _account(one).items() if name != "step"}


def _open(open: Unsettled) -> dict[str, Any]:
    return {"attempts": open.attempts, "at_most_usd": dollars(open.at_most)}


def _error(one: AttemptRecord) -> dict[str, Any]:
    return {"at": utc_time(one.ended or one.started), "member": one.member, "ids": one.ids,
            "state": one.state, "error": one.error}  # fmt: skip
