"""The account of a run as a Markdown page: the same sections as the page in HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from fanfold.journal.answers import AttemptRecord, EndedItem
from fanfold.journal.questions import ReportQuestions
from fanfold.observe.account import Caught, MemberWork, RunAccount, doubtful, excerpt
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
from fanfold.observe.shown import Grid, Pairs, Parts, Prose, RawJson, Shown, Values, lines_of, shown
from fanfold.observe.status import RunSummary
from fanfold.observe.table import one_line
from fanfold.observe.tree import RunNode, draw_tree
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES, Receipt, StepAccount

MOST_ROWS = 20
WIDEST = 200
MOST_LINES = 200


def report(account: RunAccount) -> str:
    """Values from data are escaped and cut; a result that is text is not changed."""
    summary, receipt = account.summary, account.receipt
    sections = [
        _head(summary, receipt),
        ["## Receipt", "", *receipt_lines(receipt)],
        ["## Result", "", *_result(summary), *_based_on(summary)],
        ["## What the gate caught", "", *_caught(account.caught)],
        _titled("## Cost and time by member", _members(account.members)),
        _titled("## Cost and time by step", _steps(receipt.steps)),
        _titled("## Tree", _tree(account.tree)),
        _titled("## Escalation", [f"- {cell(saving_text(one), 300)}" for one in receipt.cascades]),
        _titled("## In doubt", _doubts(summary, account.doubts)),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _titled(title: str, lines: list[str]) -> list[str]:
    return [title, "", *lines] if lines else []


def _head(s: RunSummary, account: Receipt) -> list[str]:
    reason = "its process died; resume it to continue"
    if s.status != "crashed":
        reason = status_reason(s.status, account) or ""
    reason = f": {reason}" if reason else ""
    times = f"started {local_time(s.run.created)}, {duration(s.seconds)} active"
    return [
        f"# {cell(s.run.name)}", "",
        f"**{s.status}**{cell(reason, 400)}", "",
        f"{s.done:,} of {account.planned:,} items done · {cost_text(account)} · run `{s.run.id}`, {times}",
    ]  # fmt: skip


# ── the result ───────────────────────────────────────────────────────────────────────────────


def _result(summary: RunSummary) -> list[str]:
    value = summary.receipt.result
    if value is None:
        unfinished = summary.status in ("running", "crashed")
        return ["There is no result yet." if unfinished else "There is no result."]
    if isinstance(value, str):
        return [value.rstrip() or "The result is an empty text."]
    return ["The result is empty."] if not value and value != 0 else _shown(shown(value, MOST_ROWS))


def _shown(found: Shown, level: int = 3) -> list[str]:
    """Tables where there are records, names with values, lists; anything else as JSON."""
    match found:
        case Prose(text):
            return [text.rstrip()]
        case Pairs(rows):
            return table(["", ""], [[cell(name), _cell(value)] for name, value in rows])
        case Grid():
            return _grid(found)
        case Values(values, whole):
            more = [f"- … and {whole - len(values):,} more"] if whole > len(values) else []
            return [*(f"- {_cell(value)}" for value in values), *more]
        case Parts(parts):
            return _parts(parts, level)
        case RawJson(value):
            return json_block(value)


def _parts(parts: tuple[tuple[str, Shown], ...], level: int) -> list[str]:
    lines: list[str] = []
    for title, found in parts:
        lines += [""] if lines else []
        lines += [f"{'#' * level} {cell(title)}", ""] if title else []
        lines += _shown(found, min(level + 1, 6))
    return lines


def _grid(found: Grid) -> list[str]:
    lines = table(
        [cell(title) for title in found.titles],
        [[_cell(value) for value in row] for row in found.rows],
    )
    more = found.whole - len(found.rows)
    for line in [*([f"… and {more:,} more"] if more else []), *found.notes]:
        lines += ["", cell(line, 400)]
    return lines


def _cell(value: Any) -> str:
    return cell("; ".join(lines_of(value)))


def _based_on(summary: RunSummary) -> list[str]:
    """A result knows which planned items are not in it; their ids and reasons come further down."""
    made = summary.receipt
    if made.result is None or made.passed >= made.planned:
        return []
    return ["", f"Based on {made.passed:,} of {count(made.planned, 'item')}."]


# ── the account ──────────────────────────────────────────────────────────────────────────────


def receipt_lines(account: Receipt) -> list[str]:
    rows = [["planned", f"{account.planned:,}"]]
    rows += [[NAMES.get(state, state), f"{getattr(account, state):,}"] for state in STATES]
    rows += [
        ["calls", f"{account.calls:,}"],
        ["items from replies of earlier runs", f"{account.reused:,}"],
        ["calls without a reply", f"{account.retries:,}"],
        *_tokens(account.tokens),
        *(["cache", text] for text in cache_texts(account)),
        ["cost", cost_text(account)],
        ["maybe paid twice", twice_text(account) if account.maybe_paid_twice else usd(0)],
        *([["unusable usage", unusable_text(account)]] if account.unusable_usage else []),
        *([["hedged", hedged_text(account)]] if account.hedged else []),
        ["active time", duration(account.seconds)],
    ]
    return table(["receipt", ""], rows, right=1)


def _tokens(tokens: Usage) -> list[list[str]]:
    return [[f"tokens: {name.replace('_', ' ')}", f"{n:,}"]
            for name, n in msgspec.structs.asdict(tokens).items()]  # fmt: skip


def _caught(caught: Caught) -> list[str]:
    """Kicked, unjudged and failed items with their reasons, and what a kick-back put right."""
    lines = []
    if caught.revised:
        more = caught.revised - len(caught.ids)
        ids = ", ".join(cell(id, 60) for id in caught.ids) + (f" and {more:,} more" if more else "")
        lines.append(f"{count(caught.revised, 'item')} passed after a kick-back: {ids}.")
    if not caught.whole:
        return [*lines, "No item was kicked, unjudged or failed."]
    lines += ["", *_caught_table(caught.ended)] if lines else _caught_table(caught.ended)
    more = caught.whole - len(caught.ended)
    return [*lines, "", f"… and {more:,} more"] if more > 0 else lines


def _caught_table(ended: tuple[EndedItem, ...]) -> list[str]:
    rows = [
        [cell(one.id, 60), one.state, cell("; ".join(one.reasons), 300),
         cell(excerpt(one, 160), 160), cell(one.member, 40), money(one.cost)]
        for one in ended
    ]  # fmt: skip
    titles = ["item", "outcome", "reasons", "how the reply begins", "member", "cost"]
    return table(titles, rows, right=1)


def _steps(steps: tuple[StepAccount, ...]) -> list[str]:
    rows = [
        [cell(s.label, 120), f"{s.calls:,}", f"{s.tokens.input:,}", f"{s.tokens.output:,}",
         _time(s.seconds), usd(s.cost_usd, at_most=s.at_most)]
        for s in steps
    ]  # fmt: skip
    titles = ["step", "calls", "input tokens", "output tokens", "time with calls under way", "cost"]
    return table(titles, rows, right=5) if rows else []


def _members(found: tuple[MemberWork, ...]) -> list[str]:
    rows = [
        [cell(a.member, 60), f"{a.calls:,}", f"{a.answered:,}", f"{a.reused:,}", f"{a.errors:,}",
         f"{a.tokens.total:,}", _time(one.seconds), usd(a.cost_usd, at_most=a.at_most)]
        for one in found for a in (one.account,)
    ]  # fmt: skip
    titles = [
        "member", "calls", "items answered", "of these reused", "errors", "tokens", "time of calls",
        "cost",
    ]  # fmt: skip
    return table(titles, rows, right=7) if rows else []


def _time(seconds: float) -> str:
    """A call of a function leaves none."""
    return duration(seconds) if seconds else "–"


def _tree(root: RunNode) -> list[str]:
    lines = draw_tree(root, WIDEST).replace("`", "'").splitlines()
    more = len(lines) - MOST_LINES
    cut = [*lines[:MOST_LINES], f"… and {more:,} more lines: fanfold tree"] if more > 0 else lines
    return ["```text", *cut, "```"]


def doubt_lines(read: ReportQuestions, summary: RunSummary) -> list[str]:
    """Attempts that were lost under way: they may have been carried out, and count as spent."""
    return _doubts(summary, tuple(doubtful(read, summary)))


def _doubts(summary: RunSummary, attempts: tuple[AttemptRecord, ...]) -> list[str]:
    doubt = summary.in_doubt
    if not doubt.attempts:
        return []
    verb = "was" if doubt.attempts == 1 else "were"
    lines = [
        f"{count(doubt.attempts, 'attempt')} {verb} lost under way and may have been carried out. "
        f"At most {money(doubt.at_most)}, which is counted as spent.", "",
        *table(["member", "item", "what happened", "at most"], [_doubt(one) for one in attempts], 1),
    ]  # fmt: skip
    more = doubt.attempts - len(attempts)
    return [*lines, "", f"… and {more:,} more"] if more > 0 else lines


def _doubt(one: AttemptRecord) -> list[str]:
    what = one.error or "the process died"
    return [cell(one.member, 40), cell(ids_text(one), 60), cell(what, 200), money(one.cost)]


_SIGNS = re.compile(r"[\\`|*\[\]<>~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_encode = msgspec.json.Encoder().encode


def cell(value: Any, most: int = 120) -> str:
    """A value for a table or a sentence: one line, cut to `most`, its markup escaped."""
    text = value if isinstance(value, str) else "" if value is None else _encode(value).decode()
    return _SIGNS.sub(lambda sign: "\\" + sign[0], one_line(text, most))


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> list[str]:
    """The cells must be safe already (see `cell`). The last `right` columns hold numbers."""
    left = len(titles) - right
    rule = ["---"] * left + ["---:"] * right
    return [f"| {' | '.join(row)} |" for row in (titles, rule, *rows)]


def json_block(value: Any, most: int = 6000) -> list[str]:
    """JSON between fences; cut after `most` characters, and then it says so."""
    text = msgspec.json.format(_encode(value), indent=2).decode()
    lines = ["```json", text[:most], "```"]
    if len(text) > most:
        lines += ["", f"… and {len(text) - most:,} more characters; `--json` has all of it"]
    return lines
