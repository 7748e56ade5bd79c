"""What a run says when it ends or is interrupted: a few plain lines."""

from __future__ import annotations

import shlex

from fanfold.observe.amounts import count, duration, money, of_budget, usd
from fanfold.observe.status import DONE, outcomes
from fanfold.observe.table import one_line
from fanfold.run.figures import Statistics
from fanfold.work.outcome import (
    FilesWritten,
    ReasonCount,
    Receipt,
    Saving,
    State,
    StepAccount,
    StopCause,
)
from fanfold.work.text import from_here

MOST_REASONS = 3
LEAST_SHARING = 4  # calls that say something about a cache
NAMES: dict[State, str] = {"in_doubt": "in doubt"}
"""Outcomes whose name for people is not their name in JSON."""


def closing(receipt: Receipt, resume_command: str | None, store: str = "") -> str:
    """A few lines: status and reason, items, cost, calls, what escalation saved, doubts, usage that
    cannot be true, the files that were written, why items did not pass, and how to continue. `store`
    is for the commands."""
    lines = [
        f"{one_line(receipt.name)} {headline(receipt.status, receipt)}",
        items_text(receipt),
        f"cost {cost_text(receipt)}",
        calls_text(receipt),
    ]
    if receipt.cascades:
        more = len(receipt.cascades) - 1
        rest = f" (and {count(more, 'step')} more)" if more else ""
        lines.append(saving_text(receipt.cascades[0]) + rest)
    if receipt.maybe_paid_twice:
        lines.append(f"maybe paid twice: {twice_text(receipt)}")
    if receipt.unusable_usage:
        lines.append(f"unusable usage: {unusable_text(receipt)}")
    lines += [f"cache: {text}" for text in cache_texts(receipt)]
    lines += [one_line(step.label, 200) for step in receipt.steps if step.note]
    if receipt.written:
        lines.append(f"wrote {', '.join(map(file_text, receipt.written))}")
    lines += reason_lines(receipt, store)
    if resume_command:
        lines.append(f"to continue: {resume_command}")
    return "\n".join(lines)


def reason_lines(receipt: Receipt, store: str = "") -> list[str]:
    """The most frequent reasons why items did not pass, and the command that shows them all."""
    if not receipt.reasons:
        return []
    lines = [f"why: {reason_text(one)}" for one in receipt.reasons[:MOST_REASONS]]
    more = len(receipt.reasons) - MOST_REASONS
    lines += [f"why: {count(more, 'more reason')}"] if more > 0 else []
    return [*lines, f"to see them: {status_command(receipt, store)}"]


def reason_text(one: ReasonCount) -> str:
    """`12 items, such as contract-007: the reply is empty`."""
    id = one_line(one.example, 60)
    which = id if one.items == 1 else f"{one.items:,} items, such as {id}"
    return f"{which}: {one_line(one.reason)}"


def status_command(receipt: Receipt, store: str = "") -> str:
    words = ["fanfold", "status", receipt.run, *(["--store", store] if store else []), "-v"]
    return shlex.join(words)


def interrupted(stats: Statistics, reserved: int) -> str:
    """What the first Ctrl-C says at once. `reserved` is in nano-dollars."""
    if stats.batches.lines:
        left = f"{count(stats.batches.lines, 'ask')} in batches: `resume` collects them"
        return f"stopping: {left}; {count(stats.in_flight, 'call')} under way"
    if not stats.in_flight:
        return "stopping: no call is under way"
    cost = f" and may still cost at most {money(reserved)}" if reserved else ""
    calls = "1 call is" if stats.in_flight == 1 else f"{stats.in_flight:,} calls are"
    them = "it" if stats.in_flight == 1 else "them"
    return f"stopping: {calls} under way{cost}\nwaiting for {them}; Ctrl-C again cancels {them}"


def resume_command(receipt: Receipt, store: str = "") -> str:
    """The exact command. A run out of budget needs a new total, which only the operator can name."""
    words = ["fanfold", "resume", receipt.run]
    words += ["--store", store] if store else []
    words += _missing(receipt)
    words += ["--retry-in-doubt"] if receipt.in_doubt else []
    return shlex.join(words)


def _missing(receipt: Receipt) -> list[str]:
    """What a resume must state: a new total for a budget that is used up, or the approval of what was
    held. A plain total means dollars of the run. A member's own budget of the month is in the roster:
    no new total of the run helps."""
    total = ["--budget", "TOTAL"] if receipt.unfunded else []
    match receipt.cause:
        case StopCause(kind="monthly_budget"):
            return []
        case StopCause(kind="budget", step=step, currency=currency):
            budget = f"{step}.{currency}=" if step else f"{currency}=" if currency != "usd" else ""
            return ["--budget", f"{budget}TOTAL"]
        case StopCause(kind="cap", cap=cap):
            return [*total, "--cap", str(cap)]
        case StopCause(kind="approval"):
            return [*total, "--yes"]
    return total


def again_command(receipt: Receipt, store: str = "") -> str:
    """For a fleet that has ended: its workers are started again one by one, by name."""
    where = f" --store {shlex.quote(store)}" if store else ""
    return f"fanfold relaunch {shlex.quote(receipt.run)} WORKER{where}"


# ── the pieces, for others too ───────────────────────────────────────────────────────────────


def headline(status: str, receipt: Receipt) -> str:
    """`paused: the budget of the run is used up`."""
    reason = status_reason(status, receipt)
    return f"{status}: {reason}" if reason else status


def status_reason(status: str, receipt: Receipt) -> str | None:
    if receipt.reason is None and status == "flagged":
        bad = receipt.planned - receipt.passed - receipt.skipped
        return f"{bad:,} of {count(receipt.planned, 'item')} did not pass"
    return one_line(receipt.reason) if receipt.reason else None


def file_text(written: FilesWritten) -> str:
    """Relative to the current folder, where it is below that."""
    path = one_line(from_here(written.path))
    return path if written.files is None else f"{count(written.files, 'file')} in {path}/"


def items_text(receipt: Receipt) -> str:
    """`120 of 500 done: 112 passed, 3 kicked, 5 failed, 380 unfunded`."""
    done = sum(getattr(receipt, state) for state in DONE)
    found = ", ".join(f"{n:,} {NAMES.get(state, state)}" for state, n in outcomes(receipt))
    return f"{done:,} of {receipt.planned:,} done" + (f": {found}" if found else "")


def cost_text(receipt: Receipt) -> str:
    beyond = usd(receipt.overrun_usd, at_most=receipt.cost_at_most)
    over = f" ({beyond} over budget)" if receipt.overrun_usd else ""
    below = f", {usd(receipt.below_usd)} of it by runs it started" if receipt.below_usd else ""
    whole = receipt.cost_usd + receipt.below_usd
    return of_budget(whole, receipt.budget_usd, at_most=receipt.cost_at_most) + over + below


def calls_text(receipt: Receipt) -> str:
    parts = [count(receipt.calls, "call"), f"{receipt.reused:,} reused"]
    if receipt.retries:
        parts.append(count(receipt.retries, "retry", "retries"))
    if receipt.hedged:
        parts.append(hedged_text(receipt))
    if receipt.tokens.total:
        parts.append(count(receipt.tokens.total, "token"))
    return ", ".join([*parts, duration(receipt.seconds)])


def hedged_text(receipt: Receipt) -> str:
    """Second requests, and what the answers cost that were not used."""
    return f"{receipt.hedged:,} hedged for at most {usd(receipt.hedged_usd)}"


def saving_text(one: Saving) -> str:
    """`map: 88 items settled without opus for $0.02; opus would have taken about $1.20 for them`."""
    text = (
        f"{one_line(one.step)}: {count(one.settled, 'item')} settled without {one_line(one.member)}"
    )
    text += f" for {usd(one.cost_usd)}"
    if not one.instead_usd:
        return text
    return f"{text}; {one_line(one.member)} would have taken about {usd(one.instead_usd)} for them"


def twice_text(receipt: Receipt) -> str:
    return f"{count(receipt.maybe_paid_twice, 'call')}, at most {usd(receipt.maybe_paid_twice_usd)}"


def cache_texts(receipt: Receipt) -> list[str]:
    """For each step whose calls share a beginning: how much of that was read from caches, and where
    that is far less than all but the first should read, the likely reason."""
    return [_cache_text(step) for step in receipt.steps if step.shared]


def _cache_text(step: StepAccount) -> str:
    tokens, name = step.tokens, one_line(step.name, 60)
    saved = (
        f"saved {usd(step.saved_usd)}"
        if step.saved_usd >= 0
        else f"cost {usd(-step.saved_usd)} more"
    )
    said = (
        f"{name}: {step.hit_rate:.0%} of {step.shared:,} shared tokens read,"
        f" {tokens.cache_write:,} written, {saved}"
    )
    expected = (step.sharing - 1) / step.sharing
    if step.sharing < LEAST_SHARING or step.hit_rate > expected / 2:
        return said
    if tokens.cache_write > step.shared / 2:
        why = "the service wrote it again and again, so its entries ended early or were not found"
    else:
        why = "the service kept hardly any of it: it may be too short for this model, or not kept there"
    return f"{said}; {expected:.0%} were expected: {why}"


def unusable_text(receipt: Receipt) -> str:
    """`3 replies, counted at their worst case`."""
    replies = count(receipt.unusable_usage, "reply", "replies")
    return f"{replies}, counted at the worst case"
