"""The tree of a run: lines for a terminal, an object for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fanfold.observe.amounts import count, duration, money, usd
from fanfold.observe.closing import NAMES
from fanfold.observe.detail import ids_text
from fanfold.observe.table import cut, one_line
from fanfold.observe.tree import AttemptNode, Figures, MemberNode, RunNode, StepNode
from fanfold.price import dollars
from fanfold.work.ask import Usage

MOST_RUNS = 20  # child runs of one attempt that are drawn


class _Line(msgspec.Struct, frozen=True):
    """A line, and those below it."""

    text: str
    below: Sequence[_Line] = ()


def draw_tree(node: RunNode, width: int = 100, *, everything: bool = False) -> str:
    """A line for each run, step, member and attempt that is shown; the first one has the total."""
    most = None if everything else MOST_RUNS
    root = _run(node, most)
    lines = [root.text, *_drawn(root.below, "")]
    return "\n".join(cut(line, width) for line in lines)


def _drawn(lines: Sequence[_Line], indent: str) -> Iterator[str]:
    for n, line in enumerate(lines):
        last = n == len(lines) - 1
        yield f"{indent}{'└─ ' if last else '├─ '}{line.text}"
        yield from _drawn(line.below, indent + ("   " if last else "│  "))


def _run(node: RunNode, most: int | None) -> _Line:
    run, whole = node.run, node.whole
    parts = [count(whole.runs, "run")] if whole.runs > 1 else []
    own = "" if whole.cost == node.own.cost else f" ({_money(node.own)} its own)"
    parts += [*_took(whole.calls, whole.usage, _money(whole) + own), *_trouble(whole)]
    parts.append(duration(run.active))
    ended = ", ".join(f"{n:,} {_name(state)}" for state, n in node.outcomes.items())
    text = f"{one_line(run.name, 60)} {run.id} {node.status}: {', '.join(parts)}"
    steps = [_step(step, most) for step in node.steps if step.members]
    below = [*steps, *_runs(node.children, most)]
    return _Line(f"{text} ({ended})" if ended else text, below)


def _runs(nodes: Sequence[RunNode], most: int | None) -> list[_Line]:
    """The most expensive, when there are many."""
    top = sorted(nodes, key=lambda one: -one.whole.cost)[:most]
    shown = {one.run.no for one in top}
    lines = [_run(one, most) for one in nodes if one.run.no in shown]
    others = [one for one in nodes if one.run.no not in shown]
    if others:
        rest = sum((one.whole for one in others), Figures())
        lines.append(_Line(f"… and {count(len(others), 'run')} more, {_money(rest)}"))
    return lines


def _step(step: StepNode, most: int | None) -> _Line:
    return _Line(one_line(step.name, 60), [_member(node, most) for node in step.members])


def _member(node: MemberNode, most: int | None) -> _Line:
    account = node.account
    parts = _took(account.calls, account.tokens, usd(account.cost_usd, at_most=account.at_most))
    if account.reused:
        parts.append(f"{account.reused:,} reused")
    parts += _trouble(Figures(0, 0, 0, Usage(), account.errors, node.in_doubt, node.repeats))
    if node.seconds:
        parts.append(duration(node.seconds))
    below = [_attempt(node, most) for node in node.attempts]
    if below and node.more:
        below.append(_Line(f"… and {count(node.more, 'attempt')} more"))
    return _Line(f"{one_line(account.member, 40)}: {', '.join(parts)}", below)


def _attempt(node: AttemptNode, most: int | None) -> _Line:
    one = node.attempt
    parts = [node.verdict, *_tokens(one.usage), money(one.cost, at_most=one.bound)]
    if one.took is not None:
        parts.append(duration(one.took))
    if one.repeats:
        parts.append(f"repeats {count(one.repeats, 'attempt')} in doubt")
    text = f"#{one.no} {ids_text(one)}: {', '.join(parts)}"
    if one.error:
        text += f": {one_line(one.error, 120)}"
    return _Line(text, _runs(node.children, most))


def _money(figures: Figures) -> str:
    return money(figures.cost, at_most=figures.at_most)


def _took(calls: int, usage: Usage, cost: str) -> list[str]:
    return [count(calls, "call"), *_tokens(usage), cost]


def _tokens(usage: Usage) -> list[str]:
    return [count(usage.total, "token")] if usage.total else []


def _trouble(figures: Figures) -> list[str]:
    counts = [
        (figures.errors, "error"),
        (figures.in_doubt, "in doubt"),
        (figures.repeats, "repeat"),
    ]
    return [f"{n:,} in doubt" if word == "in doubt" else count(n, word) for n, word in counts if n]


def _name(state: str) -> str:
    return next((shown for known, shown in NAMES.items() if known == state), state)


# ── for programs ─────────────────────────────────────────────────────────────────────────────


def tree_json(node: RunNode) -> dict[str, Any]:
    run = node.run
    return {
        "run": run.id, "name": run.name, "parent": run.parent, "status": node.status,
        "reason": run.reason, "seconds": round(run.active, 3), "outcomes": node.outcomes,
        "own": _figures_json(node.own), "total": _figures_json(node.whole),
        "steps": [_step_json(step) for step in node.steps],
        "children": [tree_json(child) for child in node.children],
    }  # fmt: skip


def _figures_json(figures: Figures) -> dict[str, Any]:
    return {
        "runs": figures.runs, "calls": figures.calls, "tokens": _tokens_json(figures.usage),
        "cost_usd": dollars(figures.cost), "errors": figures.errors,
        "in_doubt": figures.in_doubt, "repeats": figures.repeats, "at_most": figures.at_most,
    }  # fmt: skip


def _tokens_json(usage: Usage) -> dict[str, int]:
    return msgspec.structs.asdict(usage)


def _step_json(step: StepNode) -> dict[str, Any]:
    return {
        "name": step.name,
        "members": [
            {"member": node.account.member, "calls": node.account.calls,
             "reused": node.account.reused, "tokens": _tokens_json(node.account.tokens),
             "cost_usd": node.account.cost_usd, "at_most": node.account.at_most,
             "seconds": round(node.seconds, 3),
             "errors": node.account.errors, "in_doubt": node.in_doubt, "repeats": node.repeats,
             "not_shown": node.more}
            for node in step.members
        ],
        "attempts": [_attempt_json(one) for node in step.members for one in node.attempts],
    }  # fmt: skip


def _attempt_json(node: AttemptNode) -> dict[str, Any]:
    one = node.attempt
    seconds = None if one.took is None else round(one.took, 3)
    return {
        "attempt": one.no, "span": node.span, "member": one.member, "items": one.ids,
        "state": one.state, "verdict": node.verdict, "tokens": _tokens_json(one.usage),
        "cost_usd": dollars(one.cost), "at_most": one.bound, "seconds": seconds,
        "error": one.error, "why": one.why,
        "repeats": one.repeats, "children": [tree_json(child) for child in node.children],
    }  # fmt: skip
