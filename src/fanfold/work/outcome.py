"""Verdicts, outcomes and the receipt: how each item ended, why, and the closing account of a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import Any, Literal

import msgspec

from fanfold.work.ask import Reply, Usage

# ── why items did not pass ───────────────────────────────────────────────────────────────────


MOST_GROUPS = 1000  # different reasons that are counted
_LONGEST = 400  # characters of a reason that are kept
_CODE = re.compile(r"(?:HTTP|status|code|exit|errno|signal)[ :]+\d+|\(\d{3}\)")
_KEEP = re.compile(r"^[\w.@/-]+: |[\w./-]+\.py:\d+")  # who says it; a line of a file
_QUOTED = re.compile(r"""(?<!\w)(["'])(?=[^"']*\s|[^"']{25,})[^"']*\1(?!\w)""")
_NUMBER = re.compile(r"[+-]?\b[\w-]*\d[\w.,:-]*")


class ReasonCount(msgspec.Struct, frozen=True):
    """A reason why items did not pass: how many, one of them, and the reason as that one has it."""

    reason: str
    items: int
    example: str


def count_reasons(ended: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[ReasonCount, ...]:
    """The most frequent first, of ids with the reasons of each. Reasons that differ only in the id,
    in numbers or in what they quote are one."""
    first: dict[str, tuple[str, str]] = {}
    items: Counter[str] = Counter()
    for id, reasons in ended:
        for kind, reason in {_kind(id, one): one for one in reversed(reasons)}.items():
            if kind in first or len(first) < MOST_GROUPS:
                first.setdefault(kind, (reason[:_LONGEST], id))
                items[kind] += 1
    return tuple(ReasonCount(first[kind][0], n, first[kind][1]) for kind, n in items.most_common())


def _kind(id: str, reason: str) -> str:
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return "\0"

    text = _CODE.sub(keep, " ".join(reason[:_LONGEST].split()))  # first: an id may be such a number
    if id in text and (len(id) > 1 or id.isdigit()):
        text = _without(id, text)
    text = _NUMBER.sub("#", _QUOTED.sub('"#"', _KEEP.sub(keep, text)))
    return text + "\n" + "\n".join(kept)


def _without(id: str, text: str) -> str:
    """The text with `#` in place of the id, where that is a word of its own; not where it is a line
    number (`:7`) or a code (`(7`). Without a pattern, which would be compiled for each item."""
    parts, at = [], 0
    while (found := text.find(id, at)) >= 0:
        end = found + len(id)
        before, after = text[found - 1 : found], text[end : end + 1]
        alone = not (before.isalnum() or before in ("_", ":", "(")) and not after.isalnum()
        parts.append(text[at:found] + ("#" if alone and after != "_" else id))
        at = end
    return "".join([*parts, text[at:]])


# ── verdicts and outcomes ────────────────────────────────────────────────────────────────────


State = Literal[
    "passed", "kicked", "failed", "skipped", "unjudged", "unfunded", "in_doubt", "cancelled"
]
STATES: tuple[State, ...] = (
    "passed", "kicked", "failed", "skipped", "unjudged", "unfunded", "in_doubt", "cancelled",
)  # fmt: skip
WENT_WRONG: tuple[State, ...] = ("kicked", "failed", "unjudged", "in_doubt")
"""Outcomes whose reasons are the item's own; the others follow from why the run stopped."""
UNTIL_RESUMED: tuple[State, ...] = ("unfunded", "in_doubt", "cancelled")
RunStatus = Literal["running", "complete", "flagged", "paused", "aborted", "killed", "removed"]


VerdictState = Literal["pass", "fail", "unjudged"]


class Verdict(msgspec.Struct, frozen=True):
    """The result of a gate. A reply that could not be judged is `unjudged`: never pass, never fail."""

    state: VerdictState
    reasons: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.state == "pass"


PASS = Verdict("pass")


def fail(*reasons: str) -> Verdict:
    return Verdict("fail", reasons)


def unjudged(*reasons: str) -> Verdict:
    return Verdict("unjudged", reasons)


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How one item ended. `cost` is in nano-dollars; `reused` says the reply came from the journal,
    `too_long` that no member takes so much at once. `usage`: of all replies behind it, where it is
    not that of the one. `by_parent`: it was not tried, since an item that it depends on did not pass."""

    id: str
    state: State
    reply: Reply | None = None
    reasons: tuple[str, ...] = ()
    member: str | None = None
    cost: int = 0
    calls: int = 0
    reused: bool = False
    position: int = -1
    too_long: bool = False
    usage: Usage | None = None
    by_parent: bool = False

    @property
    def value(self) -> Any:
        return None if self.reply is None else self.reply.value


class Part(msgspec.Struct, frozen=True, gc=False):
    """One passed reply on its way into a reduce, with the id of its item."""

    id: str
    position: int
    value: Any


class Missing(msgspec.Struct, frozen=True, gc=False):
    """A planned item that a result does not include, and why."""

    id: str
    position: int
    state: State | None
    reasons: tuple[str, ...] = ()
    by_parent: bool = False


class StepAccount(msgspec.Struct, frozen=True):
    """`at_most`: some of the cost is an upper bound. `note`: that it was not taken, say. `shared`: so
    many tokens of its calls, `sharing` in number, could be read from a cache, which saved so much."""

    name: str
    calls: int = 0
    reused: int = 0
    cost_usd: float = 0.0
    tokens: Usage = Usage()
    seconds: float = 0.0
    at_most: bool = False
    note: str = ""
    sharing: int = 0
    shared: int = 0
    saved_usd: float = 0.0

    @property
    def hit_rate(self) -> float:
        """How much of what could be read from a cache was."""
        return min(1.0, self.tokens.cache_read / self.shared) if self.shared else 0.0

    @property
    def label(self) -> str:
        """Its name, and what is to be said of it."""
        return f"{self.name}: {self.note}" if self.note else self.name


class Saving(msgspec.Struct, frozen=True):
    """A step that escalates: `settled` items never went to `member`, the better one. `cost_usd` is
    what the others cost there in all, `instead_usd` about what `member` would have cost for the
    settled ones; 0 when it is not known."""

    step: str
    member: str
    settled: int
    cost_usd: float = 0.0
    instead_usd: float = 0.0


class FilesWritten(msgspec.Struct, frozen=True):
    """A file that a run wrote; or the folder of those for each item, and how many."""

    path: str
    files: int | None = None


class StopCause(msgspec.Struct, frozen=True):
    """What a run lacked when it stopped. Of a budget: its `currency`, and the `step` that it belongs to
    (empty: the run). Of a cap: the `cap` that would suffice. Of drift: the `step` that is watched."""

    kind: Literal["budget", "monthly_budget", "approval", "cap", "drift"]
    currency: Literal["usd", "tokens", "calls", "seconds"] = "usd"
    step: str = ""
    cap: int = 0


class Receipt(msgspec.Struct, frozen=True):
    """The closing account. The eight outcomes add up to `planned`.

    `calls` and `reused` are of this invocation, `cost_usd` of the whole run. `hedged`: asks that
    got a second request; `hedged_usd`: at most what the answers cost that were not used.
    `unusable_usage`: replies whose reported usage cannot be true; they count with their worst case.
    `below_usd`: the cost of runs that were started on its behalf, such as by its workers; it counts
    within the budget too. `cost_at_most`: some of the cost is an upper bound: the end of a call is not known.
    `reasons`: why items did not pass, the most frequent first.
    `written`: the files that this invocation wrote. `cause`: what it lacked, where `reason` says so.
    """

    run: str
    name: str
    status: RunStatus
    reason: str | None = None
    planned: int = 0
    passed: int = 0
    kicked: int = 0
    failed: int = 0
    skipped: int = 0
    unjudged: int = 0
    unfunded: int = 0
    in_doubt: int = 0
    cancelled: int = 0
    calls: int = 0
    reused: int = 0
    retries: int = 0
    tokens: Usage = Usage()
    cost_usd: float = 0.0
    budget_usd: float | None = None
    overrun_usd: float = 0.0
    cost_at_most: bool = False
    below_usd: float = 0.0
    maybe_paid_twice: int = 0
    maybe_paid_twice_usd: float = 0.0
    unusable_usage: int = 0
    hedged: int = 0
    hedged_usd: float = 0.0
    seconds: float = 0.0
    steps: tuple[StepAccount, ...] = ()
    cascades: tuple[Saving, ...] = ()
    reasons: tuple[ReasonCount, ...] = ()
    written: tuple[FilesWritten, ...] = ()
    result: Any = None
    cause: StopCause | None = None

    def _repr_html_(self) -> str:
        """For notebooks."""
        budget = "" if self.budget_usd is None else f" of ${self.budget_usd:,.2f}"
        rows = {
            "run": f"{self.name} ({self.run})",
            "status": self.status + (f": {self.reason}" if self.reason else ""),
            "items": ", ".join([
                f"{self.passed} of {self.planned} passed",
                *(f"{many} {state}" for state in STATES[1:] if (many := getattr(self, state))),
            ]),
            "calls": f"{self.calls:,}, {self.reused:,} reused, {self.tokens.total:,} tokens",
            "cost": f"{'≤' if self.cost_at_most else ''}${self.cost_usd:,.4f}{budget}",
            "time": f"{self.seconds:,.1f} s",
            **{f"{one.items} did not pass": one.reason for one in self.reasons[:5]},
        }  # fmt: skip
        cells = (
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in rows.items()
        )
        return f"<table>{''.join(cells)}</table>"
