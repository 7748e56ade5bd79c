"""The account of a run as a Markdown page: result, receipt, what the gate caught, who cost what."""

from __future__ import annotations

from typing import Any

import msgspec

from fanfold.journal.facts import Attempt, AttemptState
from fanfold.journal.read import Ended, Reader
from fanfold.observe.amounts import count, duration, local_time, money, usd
from fanfold.observe.closing import (
    NAMES,
    cost_text,
    headline,
    hedged_text,
    saving_text,
    twice_text,
)
from fanfold.observe.detail import ids_text
from fanfold.observe.markdown import cell, json_block, table
from fanfold.observe.standing import MemberAccount, Standing, accounts, by_member, whole_receipt
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES, Receipt, State, StepAccount

MOST_ROWS = 20
MOST_COLUMNS = 10
MOST_ITEMS = 100
MOST_DOUBTS = 50
CAUGHT: tuple[State, ...] = ("kicked", "unjudged", "failed")


def report(read: Reader, standing: Standing) -> str:
    """Values that come from data are escaped and cut; a result that is text stands as it is."""
    found = accounts(read, standing.run)
    account = whole_receipt(standing, found)
    sections = [
        _head(standing, account),
        ["## Result", "", *_result(standing), *_rests_on(standing)],
        ["## Receipt", "", *receipt_lines(account)],
        ["## What the gate caught", "", *_caught(read, standing)],
        _titled("## Steps", _steps(account.steps)),
        _titled("## Cost by member", _members(by_member(found))),
        _titled("## Escalation", [f"- {cell(saving_text(one), 300)}" for one in account.cascades]),
        _titled("## In doubt", doubt_lines(read, standing)),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _titled(title: str, lines: list[str]) -> list[str]:
    return [title, "", *lines] if lines else []


def _head(s: Standing, account: Receipt) -> list[str]:
    reason = headline(s.status, account).removeprefix(s.status)
    if s.status == "crashed":
        reason = ": its process died; resume it to go on"
    times = f"started {local_time(s.run.created)}, {duration(s.seconds)} active"
    return [
        f"# {cell(s.run.name)}", "",
        f"**{s.status}**{cell(reason, 400)}", "",
        f"{s.done:,} of {account.planned:,} items done · {cost_text(account)} · run `{s.run.id}`, {times}",
    ]  # fmt: skip


# ── the result ───────────────────────────────────────────────────────────────────────────────


def _result(standing: Standing) -> list[str]:
    """A table of flat records, a text as it is, anything else as JSON."""
    value = standing.receipt.result
    if value is None:
        unfinished = standing.status in ("running", "crashed")
        return ["There is no result yet." if unfinished else "There is no result."]
    if isinstance(value, str):
        return [value.rstrip() or "The result is an empty text."]
    if not isinstance(value, list):
        return json_block(value)
    if not value:
        return ["The result is an empty list."]
    head = value[:MOST_ROWS]
    lines = _record_table(head) or json_block(head)
    more = len(value) - len(head)
    return [*lines, "", f"… and {more:,} more"] if more else lines


def _rests_on(standing: Standing) -> list[str]:
    """A result knows which planned items are not in it; their ids and reasons come further down."""
    made = standing.receipt
    if made.result is None or made.passed >= made.planned:
        return []
    return ["", f"It rests on {made.passed:,} of {count(made.planned, 'planned item')}."]


def _record_table(records: list[Any]) -> list[str]:
    """Nothing, when these are not records or not flat."""
    rows = [_flat(record) for record in records]
    titles = list(dict.fromkeys(title for row in rows if row for title in row))
    if not all(rows) or len(titles) > MOST_COLUMNS:
        return []
    cells = [[cell(row.get(title)) for title in titles] for row in rows if row]
    return table([cell(title) for title in titles], cells)


def _flat(record: Any) -> dict[str, Any] | None:
    """Fields of plain values; those of a record inside are named `outer.inner`."""
    if not isinstance(record, dict):
        return None
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": v for inner, v in value.items()}
        else:
            flat[str(name)] = value
    plain = not any(isinstance(value, dict | list) for value in flat.values())
    return flat if plain else None


# ── the account ──────────────────────────────────────────────────────────────────────────────


def receipt_lines(account: Receipt) -> list[str]:
    rows = [["planned", f"{account.planned:,}"]]
    rows += [[NAMES.get(state, state), f"{getattr(account, state):,}"] for state in STATES]
    rows += [
        ["calls", f"{account.calls:,}"],
        ["reused replies", f"{account.reused:,}"],
        ["calls without a reply", f"{account.retries:,}"],
        *_tokens(account.tokens),
        ["cost", cost_text(account)],
        ["maybe paid twice", twice_text(account) if account.maybe_paid_twice else usd(0)],
        *([["hedged", hedged_text(account)]] if account.hedged else []),
        ["active time", duration(account.seconds)],
    ]
    return table(["receipt", ""], rows, right=1)


def _tokens(tokens: Usage) -> list[list[str]]:
    return [[f"tokens: {name.replace('_', ' ')}", f"{n:,}"]
            for name, n in msgspec.structs.asdict(tokens).items()]  # fmt: skip


def _caught(read: Reader, standing: Standing) -> list[str]:
    """Kicked, unjudged and failed items with their reasons, and what a kick-back put right."""
    revised = read.revised(standing.run.no)
    lines = []
    if revised:
        lines.append(f"{count(revised, 'item')} passed after a kick-back.")
    whole = sum(getattr(standing.receipt, state) for state in CAUGHT)
    if not whole:
        return [*lines, "No item was kicked, unjudged or failed."]
    ended = read.endings(standing.run.no, CAUGHT, MOST_ITEMS)
    lines += ["", *_caught_table(ended)] if lines else _caught_table(ended)
    more = whole - len(ended)
    return [*lines, "", f"… and {more:,} more"] if more > 0 else lines


def _caught_table(ended: list[Ended]) -> list[str]:
    rows = [
        [cell(one.id, 60), one.state, cell("; ".join(one.reasons), 300), cell(one.member, 40),
         money(one.cost)]
        for one in ended
    ]  # fmt: skip
    return table(["item", "outcome", "reasons", "member", "cost"], rows, right=1)


def _steps(steps: tuple[StepAccount, ...]) -> list[str]:
    rows = [
        [cell(s.name, 60), f"{s.calls:,}", f"{s.tokens.input:,}", f"{s.tokens.output:,}",
         usd(s.cost_usd)]
        for s in steps
    ]  # fmt: skip
    titles = ["step", "calls", "input", "output", "cost"]
    return table(titles, rows, right=4) if rows else []


def _members(found: list[MemberAccount]) -> list[str]:
    rows = [
        [cell(a.member, 60), f"{a.calls:,}", f"{a.answered:,}", f"{a.reused:,}", f"{a.errors:,}",
         f"{a.tokens.total:,}", usd(a.cost_usd)]
        for a in found
    ]  # fmt: skip
    titles = ["member", "calls", "items answered", "of these reused", "errors", "tokens", "cost"]
    return table(titles, rows, right=6) if rows else []


def doubt_lines(read: Reader, standing: Standing) -> list[str]:
    """Attempts that were lost under way: they may have been carried out, and count as spent."""
    doubt = standing.in_doubt
    if not doubt.attempts:
        return []
    states: list[AttemptState] = ["in_doubt"]
    if standing.status == "crashed":
        states.append("started")
    attempts = read.newest(standing.run.no, states, MOST_DOUBTS)
    verb = "was" if doubt.attempts == 1 else "were"
    lines = [
        f"{count(doubt.attempts, 'attempt')} {verb} lost under way and may have been carried out. "
        f"At most {money(doubt.at_most)}, which is counted as spent.", "",
        *table(["member", "item", "what happened", "at most"], [_doubt(one) for one in attempts], 1),
    ]  # fmt: skip
    more = doubt.attempts - len(attempts)
    return [*lines, "", f"… and {more:,} more"] if more > 0 else lines


def _doubt(one: Attempt) -> list[str]:
    what = one.error or "the process died"
    return [cell(one.member, 40), cell(ids_text(one), 60), cell(what, 200), money(one.cost)]
