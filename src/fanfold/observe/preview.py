"""What a plan will do and take, before it starts: a table for people, an object for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fanfold.observe.amounts import count, duration, money, usd
from fanfold.observe.table import Column, aligned, one_line
from fanfold.price import dollars, nanos
from fanfold.run.forecast import Forecast, Preview, StepPreview, in_words

UNKNOWN = "?"
_WATCHED = "* measured again before it begins, and held to the limits of `govern`"
_encode = msgspec.json.Encoder().encode


def preview_text(preview: Preview, width: int = 100) -> str:
    """A line for each step and one for all, how that fits the budget, and what was assumed."""
    lines = [f"{one_line(preview.name)}: a preview; nothing is asked, paid or written", ""]
    lines += aligned(_columns(preview), width)
    more = [*_budget_lines(preview), *_notes(preview)]
    return "\n".join([*lines, "", *more] if more else lines)


def _columns(preview: Preview) -> list[Column]:
    steps = preview.steps
    cells = [_Cells(step.forecast, step.tasks is not None) for step in steps]
    cells.append(_Cells(preview.total, True, partly=not preview.sized))
    names = [one_line(step.name, 40) + ("*" if step.watched else "") for step in steps]
    who = [one_line(", ".join(step.who), 60) for step in steps]
    return [
        Column("step", [*names, "total"], least=10),
        Column("who", [*who, ""], rank=3, least=8),
        Column("tasks", [*map(_tasks, steps), ""], right=True),
        Column("calls", [one.calls for one in cells], right=True),
        Column("reused", [one.reused for one in cells], right=True, rank=2),
        Column("tokens", [one.tokens for one in cells], right=True, rank=1),
        Column("p50", [one.p50 for one in cells], right=True),
        Column("p90", [one.p90 for one in cells], right=True),
        Column("worst", [one.worst for one in cells], right=True),
        Column("time", [one.time for one in cells], right=True),
    ]


def _tasks(step: StepPreview) -> str:
    if step.tasks is not None:
        return f"{step.tasks:,}"
    return UNKNOWN if step.most is None else f"≤ {step.most:,}"


class _Cells:
    """One forecast as texts. `sized` False: it has only bounds. `partly`: some of it is unknown."""

    def __init__(self, made: Forecast, sized: bool, *, partly: bool = False) -> None:
        self._sized, self._least = sized, "≥ " if partly else ""
        self.calls = self._number(made.calls)
        self.reused = f"{made.reused:,}" if sized else UNKNOWN
        self.tokens = UNKNOWN if made.untold else self._number(made.tokens)
        self.p50, self.p90 = self._money(made.p50), self._money(made.p90)
        self.worst = UNKNOWN if made.worst is None else money(made.worst)
        self.time = self._time(made)

    def _number(self, number: int) -> str:
        return f"{self._least}{number:,}" if self._sized else UNKNOWN

    def _money(self, amount: int | None) -> str:
        known = self._sized and amount is not None
        return f"{self._least}{money(amount or 0)}" if known else UNKNOWN

    def _time(self, made: Forecast) -> str:
        if not self._sized or made.seconds is None:
            return UNKNOWN if made.most_calls or not self._sized else "-"
        return f"{'≥ ' if made.at_least or self._least else ''}{duration(made.seconds)}"


# ── the budget, and what was assumed ─────────────────────────────────────────────────────────


def _budget_lines(preview: Preview) -> Iterator[str]:
    """Cases for each currency: more is expected than there is; it may become more; it suffices."""
    made, budget = preview.total, preview.budget
    if budget.usd is None:
        if made.most_calls and made.worst != 0:
            yield "no budget is stated: `--budget USD` or the plan's `budget` holds the run to one"
    elif made.p50 is None:
        yield (
            f"a budget of {usd(budget.usd)} needs every price: give those members a `price` in the"
            " roster"
        )
    else:
        likely = made.p50 if made.p90 is None else max(made.p50, made.p90)
        yield from _held(
            (made.p50, likely), nanos(budget.usd), money, f"the budget {usd(budget.usd)}"
        )
    for name, likely, limit in (
        ("calls", made.calls, budget.calls),
        ("tokens", made.tokens, budget.tokens),
    ):
        if limit is not None:
            shown = f"{{:,}} {name}".format
            yield from _held((likely, likely), limit, shown, f"the budget {limit:,}")
    seconds = budget.seconds
    if seconds is not None and made.seconds is not None and made.seconds > seconds:
        yield (
            f"expected {duration(made.seconds)} exceeds the budget {duration(seconds)}:"
            " the run will pause"
        )


def _held(amounts: tuple[int, int], limit: int, shown: Any, budget: str) -> Iterator[str]:
    expected, likely = amounts
    if expected > limit:
        yield f"expected {shown(expected)} exceeds {budget}: the run will pause"
    elif likely > limit:
        yield f"p90 {shown(likely)} exceeds {budget}: the run may pause"


def _bounds(preview: Preview) -> Iterator[str]:
    """The worst case is hardly ever reached: where what is likely fits the budget, it is a note."""
    made, budget, sized = preview.total, preview.budget, preview.sized
    cases: list[tuple[int | None, float | None, Any]] = [
        (made.worst, None if budget.usd is None else nanos(budget.usd), money),
        (made.most_calls if sized else None, budget.calls, "{:,} calls".format),
        (made.most_tokens if sized else None, budget.tokens, "{:,} tokens".format),
    ]
    for worst, limit, shown in cases:
        if limit is None or (shown is money and made.p50 is None):
            continue
        if worst is None:
            yield f"the worst case is not known; at {shown(limit)}, the budget, the run pauses"
        elif worst > limit:
            yield f"the worst case, {shown(worst)}, is over the budget: at {shown(limit)} the run pauses"


def _notes(preview: Preview) -> Iterator[str]:
    if any(step.watched for step in preview.steps):
        yield _WATCHED
    if preview.total.most_calls > preview.total.calls and preview.total.worst:
        bound = count(preview.total.most_calls, "call")
        yield f"worst: {bound}, every reply as long as it may be and kicked back as often as allowed"
    yield from (f"- {one_line(note)}" for note in (*_bounds(preview), *in_words(preview.notes)))


# ── for programs ─────────────────────────────────────────────────────────────────────────────


def preview_json(preview: Preview) -> bytes:
    """The same as one object. What is not known is null; amounts of money are dollars."""
    return _encode(
        {
            "name": preview.name,
            "steps": [
                {
                    "name": step.name,
                    "kind": step.kind,
                    "members": step.who,
                    "tasks": step.tasks,
                    "tasks_at_most": step.most if step.tasks is None else step.tasks,
                    "governed": step.watched,
                    **_amounts(step.forecast, sized=step.tasks is not None),
                }
                for step in preview.steps
            ],
            "total": _amounts(preview.total, sized=True),
            "sized": preview.sized,
            "budget": preview.budget,
            "warnings": list(_budget_lines(preview)),
            "notes": [*_bounds(preview), *in_words(preview.notes)],
        }
    )


def _amounts(made: Forecast, *, sized: bool) -> dict[str, Any]:
    return {
        "calls": made.calls if sized else None,
        "calls_at_most": made.most_calls if sized or made.most_calls else None,
        "reused": made.reused if sized else None,
        "tokens": {"input": made.input, "output": made.output}
        if sized and not made.untold
        else None,
        "cache": {
            "read": made.cache_read,
            "written": made.cache_write,
            "saved_usd": _usd(made.saved),
        }
        if sized
        else None,
        "p50_usd": _usd(made.p50) if sized else None,
        "p90_usd": _usd(made.p90) if sized else None,
        "worst_usd": _usd(made.worst),
        "seconds": None if made.seconds is None or not sized else round(made.seconds, 3),
        "seconds_at_least": made.at_least,
        "measured": made.measured,
    }


def _usd(amount: int | None) -> float | None:
    return None if amount is None else dollars(amount)
