"""The tree of a run as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fanfold.observe.amounts import count, duration, money, usd
from fanfold.observe.closing import NAMES
from fanfold.observe.detail import ids_text
from fanfold.observe.table import cut, one_line
from fanfold.observe.tree import Branch, Figures, Limb, StepBranch, Twig
from fanfold.work.ask import Usage

MOST_RUNS = 20  # child runs of one attempt that are drawn


class _Line(msgspec.Struct, frozen=True):
    """A line, and what hangs below it."""

    text: str
    below: Sequence[_Line] = ()


def draw_tree(branch: Branch, width: int = 100, *, everything: bool = False) -> str:
    """A line for each run, step, member and attempt that is shown; the first one has the total."""
    most = None if everything else MOST_RUNS
    root = _run(branch, most)
    lines = [root.text, *_drawn(root.below, "")]
    return "\n".join(cut(line, width) for line in lines)


def _drawn(lines: Sequence[_Line], indent: str) -> Iterator[str]:
    for n, line in enumerate(lines):
        last = n == len(lines) - 1
        yield f"{indent}{'└─ ' if last else '├─ '}{line.text}"
        yield from _drawn(line.below, indent + ("   " if last else "│  "))


def _run(branch: Branch, most: int | None) -> _Line:
    run, whole = branch.run, branch.whole
    parts = [count(whole.runs, "run")] if whole.runs > 1 else []
    own = "" if whole.cost == branch.own.cost else f" ({_money(branch.own)} its own)"
    parts += [*_took(whole.calls, whole.usage, _money(whole) + own), *_trouble(whole)]
    parts.append(duration(run.active))
    ended = ", ".join(f"{n:,} {_name(state)}" for state, n in branch.outcomes.items())
    text = f"{one_line(run.name, 60)} {run.id} {branch.status}: {', '.join(parts)}"
    steps = [_step(step, most) for step in branch.steps if step.members]
    below = [*steps, *_runs(branch.children, most)]
    return _Line(f"{text} ({ended})" if ended else text, below)


def _runs(branches: Sequence[Branch], most: int | None) -> list[_Line]:
    """The dearest, when there are many."""
    dearest = sorted(branches, key=lambda one: -one.whole.cost)[:most]
    shown = {one.run.no for one in dearest}
    lines = [_run(one, most) for one in branches if one.run.no in shown]
    left = [one for one in branches if one.run.no not in shown]
    if left:
        rest = sum((one.whole for one in left), Figures())
        lines.append(_Line(f"… and {count(len(left), 'run')} more, {_money(rest)}"))
    return lines


def _step(step: StepBranch, most: int | None) -> _Line:
    return _Line(one_line(step.name, 60), [_limb(limb, most) for limb in step.members])


def _limb(limb: Limb, most: int | None) -> _Line:
    account = limb.account
    parts = _took(account.calls, account.tokens, usd(account.cost_usd, at_most=account.at_most))
    if account.reused:
        parts.append(f"{account.reused:,} reused")
    parts += _trouble(Figures(0, 0, 0, Usage(), account.errors, limb.in_doubt, limb.repeats))
    if limb.seconds:
        parts.append(duration(limb.seconds))
    below = [_twig(twig, most) for twig in limb.attempts]
    if below and limb.more:
        below.append(_Line(f"… and {count(limb.more, 'attempt')} more"))
    return _Line(f"{one_line(account.member, 40)}: {', '.join(parts)}", below)


def _twig(twig: Twig, most: int | None) -> _Line:
    one = twig.attempt
    parts = [twig.verdict, *_tokens(one.usage), money(one.cost, at_most=one.bound)]
    if one.took is not None:
        parts.append(duration(one.took))
    if one.repeats:
        parts.append(f"repeats {count(one.repeats, 'attempt')} in doubt")
    text = f"#{one.no} {ids_text(one)}: {', '.join(parts)}"
    if one.error:
        text += f": {one_line(one.error, 120)}"
    return _Line(text, _runs(twig.children, most))


def _money(figures: Figures) -> str:
    return money(figures.cost, at_most=figures.at_most)


def _took(calls: int, usage: Usage, cost: str) -> list[str]:
    return [count(calls, "call"), *_tokens(usage), cost]


def _tokens(usage: Usage) -> list[str]:
    return [count(usage.total, "token")] if usage.total else []


def _trouble(figures: Figures) -> list[str]:
    said = [(figures.errors, "error"), (figures.in_doubt, "in doubt"), (figures.repeats, "repeat")]
    return [f"{n:,} in doubt" if word == "in doubt" else count(n, word) for n, word in said if n]


def _name(state: str) -> str:
    return next((shown for known, shown in NAMES.items() if known == state), state)
