"""Which column says what another one holds: learned from the table, noise and all.

Two kinds. *rule*: rows that agree in one column nearly always agree in the other, and what deviates
stands alone. *reports*: several sources report on the same thing, so there is one truth for each
thing, however much the sources differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias
from zlib import crc32

Table: TypeAlias = Sequence[Sequence[str]]
Groups: TypeAlias = dict[str, Counter[str]]

MOST_ROWS = 20_000  # looked at for one column; whole groups of it
LEAST_ROWS = 20
RULE_HOLDS = 0.9
RULE_LIFT = 0.8
MOST_REPEATED = 0.3
REPORTS_HOLD = 0.4
LEAST_GROUP = 3.0
SOLE = 0.99
ONCE = 0.9  # of the rows: each source reports a thing once, but some rows stand there twice
DENSE = 0.3


class Dependency(NamedTuple):
    """`by` says `of`. For reports, `source` is the column that names who reports."""

    kind: Literal["rule", "reports"]
    by: int
    of: int
    holds: float
    source: int | None = None


class Fit(NamedTuple):
    """How well groups agree: the share that goes with its group, how much of that chance does not
    explain, and how many of the deviating values occur more than once in their group."""

    holds: float
    lift: float
    repeated: float
    rows: int


def dependencies(table: Table, width: int) -> list[Dependency]:
    """All that hold, between two columns each."""
    filled = [Counter(row[n] for row in table if row[n]) for n in range(width)]
    layout = _reports(table, filled)
    found = []
    for by in range(width):
        if not _groups_rows(filled[by]):
            continue
        rows = _sample(table, by)
        for of in range(width):
            if of != by and len(filled[of]) > 1:
                fit = fit_of(rows, by, of, filled[of])
                kind = _kind(fit, layout is not None and by == layout[0] and of != layout[1])
                if kind:
                    source = layout[1] if layout and kind == "reports" else None
                    found.append(Dependency(kind, by, of, round(fit.holds, 4), source))
    return found


def _kind(fit: Fit, reported: bool) -> Literal["rule", "reports"] | None:
    if fit.rows < LEAST_ROWS:
        return None
    if reported and fit.holds >= REPORTS_HOLD and fit.lift >= REPORTS_HOLD:
        return "reports"
    if fit.holds >= RULE_HOLDS and fit.lift >= RULE_LIFT and fit.repeated <= MOST_REPEATED:
        return "rule"
    return None


def fit_of(rows: Table, by: int, of: int, filled: Counter[str]) -> Fit:
    """Empty cells agree with everything; groups of one say nothing. `filled`: all values of the
    column `of`, for what chance alone would do."""
    kept = total = repeated = 0
    for counts in groups(rows, by, of).values():
        size = counts.total()
        if size > 1:
            most, *others = sorted(counts.values(), reverse=True)
            kept, total = kept + most, total + size
            repeated += sum(n for n in others if n > 1)
    if not total:
        return Fit(0.0, 0.0, 0.0, 0)
    chance = max(filled.values()) / filled.total()
    lift = (kept / total - chance) / (1 - chance) if chance < 1 else 0.0
    return Fit(kept / total, lift, repeated / (total - kept) if total > kept else 0.0, total)


def groups(rows: Table, by: int, of: int) -> Groups:
    """For each value of one column, how often each value of the other goes with it."""
    found: Groups = defaultdict(Counter)
    for row in rows:
        if row[by] and row[of]:
            found[row[by]][row[of]] += 1
    return found


def _groups_rows(filled: Counter[str]) -> bool:
    return 1 < len(filled) <= filled.total() / 1.2


def _sample(table: Table, by: int) -> Table:
    """Of a long table the rows of some values of the column, and of those all."""
    part = len(table) // MOST_ROWS + 1
    if part == 1:
        return table
    return [row for row in table if crc32(row[by].encode()) % part == 0]


def _reports(table: Table, filled: list[Counter[str]]) -> tuple[int, int] | None:
    """A column of things and one of sources: each pair at most once, and a good part of all pairs
    there. The columns beside them follow the thing, not the source, and not quite."""
    for by, source in _pairs(table, filled):
        pairs = {(row[by], row[source]) for row in table}
        if len(pairs) < ONCE * len(table):
            continue
        others = [of for of in range(len(filled)) if of not in (by, source) and len(filled[of]) > 1]
        fits = [fit_of(table, by, of, filled[of]) for of in others]
        against = [fit_of(table, source, of, filled[of]) for of in others]
        told = [f for f, a in zip(fits, against, strict=True) if _told(f) and f.lift > 2 * a.lift]
        if len(told) >= 2:
            return by, source
    return None


def _told(fit: Fit) -> bool:
    """More than chance, and less than a rule: the sources differ."""
    return RULE_HOLDS > fit.holds >= REPORTS_HOLD and fit.lift >= REPORTS_HOLD


def _pairs(table: Table, filled: list[Counter[str]]) -> Iterator[tuple[int, int]]:
    many = [
        n for n, counts in enumerate(filled)
        if len(counts) >= 3 and counts.total() >= SOLE * len(table)
        and len(table) / len(counts) >= LEAST_GROUP
    ]  # fmt: skip
    for by in many:
        for source in many:
            if by != source and len(table) >= DENSE * len(filled[by]) * len(filled[source]):
                yield by, source
