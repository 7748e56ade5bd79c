"""Who started what at which cost: runs, their steps, the attempts, and the runs these started.

Each dollar counts once. A run's own cost is that of its attempts; a tree's total is the sum over
the attempts of all runs in it, and each run is in it once. What an attempt cost is its own: a
program that starts runs in the same store must not report their cost as its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from fanfold.journal.answers import AttemptRecord, MemberTotal, Spent, StepOutcome
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import AttemptState, RunRecord
from fanfold.journal.questions import ReportQuestions
from fanfold.observe.amounts import count, duration, from_earlier, money, usd
from fanfold.observe.closing import NAMES
from fanfold.observe.detail import ids_text
from fanfold.observe.status import MemberAccount, Shown, accounts
from fanfold.observe.table import cut, one_line
from fanfold.price import dollars
from fanfold.run.orders import has_process
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES

SHOWN = 5  # attempts of one member at one step
ALL = 1 << 62
_NO_VERDICT: dict[AttemptState, str] = {
    "error": "error", "in_doubt": "in doubt", "started": "under way", "late": "came too late",
}  # fmt: skip


class Figures(msgspec.Struct, frozen=True):
    """What a run, or a tree of runs, took. `errors` and `in_doubt` are attempts without a reply,
    `repeats` those in doubt that were made again. Money in nano-dollars."""

    runs: int = 0
    calls: int = 0
    cost: int = 0
    usage: Usage = Usage()
    errors: int = 0
    in_doubt: int = 0
    repeats: int = 0
    bounds: int = 0

    @property
    def at_most(self) -> bool:
        """Some of the cost is a bound."""
        return self.bounds > 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.runs + other.runs, self.calls + other.calls, self.cost + other.cost,
            self.usage + other.usage, self.errors + other.errors, self.in_doubt + other.in_doubt,
            self.repeats + other.repeats, self.bounds + other.bounds,
        )  # fmt: skip


class AttemptNode(msgspec.Struct, frozen=True):
    """One attempt. `verdict`: how its items ended, where its reply is what they ended with; else
    what became of the attempt: kicked back, replied, came too late, error, in doubt, under way."""

    attempt: AttemptRecord
    span: str
    verdict: str
    children: tuple[RunNode, ...] = ()


class MemberNode(msgspec.Struct, frozen=True):
    """What one member did at one step. Of many attempts some are chosen; `more` are left out."""

    account: MemberAccount
    in_doubt: int
    repeats: int
    seconds: float
    attempts: tuple[AttemptNode, ...]
    more: int


class StepNode(msgspec.Struct, frozen=True):
    name: str
    members: tuple[MemberNode, ...]


class RunNode(msgspec.Struct, frozen=True):
    """A run. `own` are its figures, `whole` with all runs below it. `children` were started on its
    behalf, but by no attempt that is on record; those of attempts are with these."""

    run: RunRecord
    status: Shown
    outcomes: dict[str, int]
    own: Figures
    whole: Figures
    steps: tuple[StepNode, ...]
    children: tuple[RunNode, ...]


def tree(archive: StoreView, run: RunRecord, *, most: int = SHOWN) -> RunNode:
    """The tree below a run. Of each step and member at most `most` attempts are there (those
    without a reply first, then the most expensive), and all that started runs; the figures are of all."""
    return _TreeBuilder(archive, run, most).run_node(run.no)


class _TreeBuilder:
    """Reads all that is needed in a few passes, then builds nodes from the leaves up."""

    def __init__(self, archive: StoreView, root: RunRecord, most: int) -> None:
        self._read, self._alive = archive.read, archive.sessions.alive
        below = self._read.runs_below(root.no)
        self._records = {record.no: record for record in self._read.records(list(below))}
        numbers = {record.id: no for no, record in self._records.items()}
        self._children: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for no, span in below.items():
            if span is not None:
                parent, _, attempt = span.partition(":")
                self._children[numbers[parent]][int(attempt or 0)].append(no)
        self._totals: dict[int, list[MemberTotal]] = defaultdict(list)
        for total in self._read.member_totals(below):
            self._totals[total.run].append(total)
        self._attempts: dict[int, list[AttemptRecord]] = defaultdict(list)
        parents = {attempt for found in self._children.values() for attempt in found}
        chosen = {*self._read.attempts_to_show(below, most), *parents}
        for no, one in self._read.attempts_by_number(sorted(chosen)):
            self._attempts[no].append(one)

    def run_node(self, no: int) -> RunNode:
        record, totals = self._records[no], {(t.step, t.member): t for t in self._totals[no]}
        nodes = self._attempt_nodes(no)
        steps, own = _steps(self._read, record, totals, nodes)
        attached = {node.attempt.no for node in nodes}
        children = tuple(
            self.run_node(child)
            for attempt, found in self._children[no].items()
            if attempt not in attached
            for child in found
        )
        below = (*children, *(child for node in nodes for child in node.children))
        dead = record.status == "running" and not has_process(
            self._read, no, record.session, self._alive
        )
        return RunNode(
            record, "crashed" if dead else record.status, _tally(self._read, no), own,
            sum((child.whole for child in below), own), steps, children,
        )  # fmt: skip

    def _attempt_nodes(self, no: int) -> list[AttemptNode]:
        attempts, id = self._attempts[no], self._records[no].id
        items = {item for one in attempts for item in one.ids}
        settled = self._read.step_outcomes(no, items)
        return [
            AttemptNode(one, f"{id}:{one.no}", verdict(no, one, settled),
                 tuple(self.run_node(child) for child in self._children[no].get(one.no, ())))
            for one in attempts
        ]  # fmt: skip


def _steps(
    read: ReportQuestions,
    record: RunRecord,
    totals: dict[tuple[int, str], MemberTotal],
    nodes: Sequence[AttemptNode],
) -> tuple[tuple[StepNode, ...], Figures]:
    spent = {
        pair: Spent(t.calls, t.cost, t.usage, errors=t.errors, in_doubt=t.in_doubt, bounds=t.bounds)
        for pair, t in totals.items()
    }
    found = accounts(read, record, spent)
    members: dict[int, list[MemberNode]] = defaultdict(list)
    for one in found:
        own = tuple(
            t for t in nodes if (t.attempt.step, t.attempt.member) == (one.step, one.member)
        )
        members[one.step].append(_member_node(one, totals.get((one.step, one.member)), own))
    names = read.step_names(record.no)
    steps = tuple(StepNode(name, tuple(members[no])) for no, name in enumerate(names))
    calls = sum(one.calls for one in found)
    return steps, _figures(totals.values(), calls)


def _member_node(
    account: MemberAccount, total: MemberTotal | None, nodes: tuple[AttemptNode, ...]
) -> MemberNode:
    if total is None:
        return MemberNode(account, 0, 0, 0.0, nodes, 0)
    more = total.calls - len(nodes)
    return MemberNode(account, total.in_doubt, total.repeats, total.seconds, nodes, more)


def _figures(totals: Iterable[MemberTotal], calls: int) -> Figures:
    whole = Figures(runs=1, calls=calls)
    for t in totals:
        whole += Figures(0, 0, t.cost, t.usage, t.errors, t.in_doubt, t.repeats, t.bounds)
    return whole


def _tally(read: ReportQuestions, run: int) -> dict[str, int]:
    tally = read.tally(run)
    return {state: tally[state] for state in STATES if tally[state]}


def verdict(run: int, attempt: AttemptRecord, settled: dict[tuple[int, str], StepOutcome]) -> str:
    """What became of an attempt, in words."""
    if attempt.state != "ok":
        return _NO_VERDICT[attempt.state]
    words: Counter[str] = Counter()
    for id in attempt.ids:
        ended = settled.get((attempt.step, id))
        words[_word(run, attempt, ended)] += 1
    if len(words) == 1 and len(attempt.ids) == 1:
        return next(iter(words))
    return ", ".join(f"{n:,} {word}" for word, n in words.items()) or "replied"


def _word(run: int, attempt: AttemptRecord, ended: StepOutcome | None) -> str:
    if ended is None or ended.reply is None:
        return "replied"
    owner, member, at = ended.reply
    if (owner, member, at) == (run, attempt.member, attempt.ended):
        return ended.state
    return "kicked back" if owner == run and at > (attempt.ended or 0.0) else "replied"


# ── the tree as text ─────────────────────────────────────────────────────────────────────────

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
        parts.append(from_earlier(account.reused))
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
