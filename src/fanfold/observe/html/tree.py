"""The tree of a run as a table: what started what, and a bar for what each took of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fanfold.observe.amounts import count, duration, from_earlier, money
from fanfold.observe.closing import NAMES
from fanfold.observe.detail import ids_text
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.plots import bar
from fanfold.observe.tree import AttemptNode, MemberNode, RunNode, StepNode
from fanfold.price import nanos

MOST_RUNS = 20
MOST_LINES = 200
DEEPEST = 8
_FIGURES = ("calls", "tokens", "time", "cost")


class _Line(msgspec.Struct, frozen=True):
    """`cost` in nano-dollars, `at_most` where some of it is a bound; `calls` None for what is a call
    itself."""

    depth: int
    text: str
    note_text: str = ""
    calls: int | None = None
    tokens: int = 0
    seconds: float = 0.0
    cost: int | None = None
    at_most: bool = False


def tree_table(node: RunNode) -> str:
    """At most so many lines; the figures are of all."""
    lines = []
    for line in _run(node, 0):
        lines.append(line)
        if len(lines) > MOST_LINES:
            break
    cut = len(lines) > MOST_LINES
    whole = node.whole
    rows = "\n".join(_row(line, whole.cost, whole.calls) for line in lines[:MOST_LINES])
    titles = "".join(
        f'<th scope="col"{style}>{title}</th>'
        for title, style in (
            ("run, step, member, attempt", ""), ("", ""),
            *((title, ' class="num"') for title in _FIGURES), ("", ' class="plot"'),
        )
    )  # fmt: skip
    table = (
        f'<div class="wide"><table class="tree stack"><thead><tr>{titles}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div>"
    )
    return table + (note(f"Only the first {MOST_LINES} lines are shown.") if cut else "")


def _row(line: _Line, cost: int, calls: int) -> str:
    share = _share(line, cost, calls)
    drawn = "" if share is None else bar([share], f"{share:.0%} of the whole")
    depth = min(line.depth, DEEPEST)
    figures = (
        "" if line.calls is None else f"{line.calls:,}",
        f"{line.tokens:,}" if line.tokens else "",
        duration(line.seconds) if line.seconds else "",
        "" if line.cost is None else money(line.cost, at_most=line.at_most),
    )
    numbers = "".join(
        f'<td class="num" data-title="{title}">{esc(text)}</td>'
        for title, text in zip(_FIGURES, figures, strict=True)
    )
    return (
        f'<tr><th scope="row" class="d{depth}">{esc(line.text)}</th><td>{esc(line.note_text)}</td>'
        f'{numbers}<td class="plot">{drawn}</td></tr>'
    )


def _share(line: _Line, cost: int, calls: int) -> float | None:
    """Of the cost; of the calls where nothing cost anything."""
    if cost:
        return None if line.cost is None else line.cost / cost
    return line.calls / calls if calls and line.calls else None


def _run(node: RunNode, depth: int) -> Iterator[_Line]:
    whole, own = node.whole, node.own
    ended = ", ".join(f"{n:,} {_name(state)}" for state, n in node.outcomes.items())
    notes = [node.status, ended]
    if whole.runs > 1:
        notes += [count(whole.runs, "run"), f"{money(own.cost, at_most=own.at_most)} its own"]
    yield _Line(
        depth, node.run.name, "; ".join(filter(None, notes)), whole.calls, whole.usage.total,
        node.run.active, whole.cost, whole.at_most,
    )  # fmt: skip
    for step in node.steps:
        if step.members:
            yield from _step(step, depth + 1)
    yield from _runs(node.children, depth + 1)


def _step(step: StepNode, depth: int) -> Iterator[_Line]:
    cost = sum(nanos(node.account.cost_usd) for node in step.members)
    calls = sum(node.account.calls for node in step.members)
    tokens = sum(node.account.tokens.total for node in step.members)
    seconds = sum(node.seconds for node in step.members)
    bound = any(node.account.at_most for node in step.members)
    yield _Line(depth, step.name, "", calls, tokens, seconds, cost, bound)
    for node in step.members:
        yield from _member(node, depth + 1)


def _member(node: MemberNode, depth: int) -> Iterator[_Line]:
    a = node.account
    counted = ((a.errors, "without a reply"), (node.in_doubt, "in doubt"))
    notes = [f"{n:,} {word}" for n, word in counted if n]
    note_text = ", ".join([from_earlier(a.reused), *notes] if a.reused else notes)
    cost = nanos(a.cost_usd)
    yield _Line(depth, a.member, note_text, a.calls, a.tokens.total, node.seconds, cost, a.at_most)
    for one in node.attempts:
        yield from _attempt(one, depth + 1)
    if node.attempts and node.more > 0:
        yield _Line(depth + 1, f"… and {count(node.more, 'attempt')} more")


def _attempt(node: AttemptNode, depth: int) -> Iterator[_Line]:
    one = node.attempt
    note_text = f"{node.verdict}: {one.error[:200]}" if one.error else node.verdict
    seconds = one.took or 0.0
    text = f"#{one.no} {ids_text(one, 60)}"
    yield _Line(depth, text, note_text, None, one.usage.total, seconds, one.cost, one.bound)
    yield from _runs(node.children, depth + 1)


def _runs(nodes: Sequence[RunNode], depth: int) -> Iterator[_Line]:
    """The most expensive, when there are many."""
    top = sorted(nodes, key=lambda one: -one.whole.cost)[:MOST_RUNS]
    chosen = {one.run.no for one in top}
    for one in nodes:
        if one.run.no in chosen:
            yield from _run(one, depth)
    if len(nodes) > len(chosen):
        left = [one.whole for one in nodes if one.run.no not in chosen]
        rest, bound = sum(one.cost for one in left), any(one.at_most for one in left)
        many = count(len(nodes) - len(chosen), "run")
        yield _Line(depth, f"… and {many} more", cost=rest, at_most=bound)


def _name(state: str) -> str:
    return next((shown for known, shown in NAMES.items() if known == state), state)
