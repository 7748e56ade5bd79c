"""The reduces: all findings in one order, the risk report that a person reads, a page per contract."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any, TypeAlias

from likely import LIKELY, measured

LEVELS = ("high", "medium", "low")
FIRST = 6  # findings on the first page
ROWS = 12  # categories in its table
SHOWN = 270  # characters of their quotes there; the contract's own page has all of it
WIDE = 98  # columns of a terminal
MORE = "<!-- more -->"  # `fanfold demo` prints what stands before this line
BY_RULES = (
    "Found by rules (cue phrases), not by a model and not by a lawyer; they also miss clauses."
)
BY_MODEL = (
    "Found by language models. Every quote was checked against its contract; the rest was not."
)

_READ = re.compile(r"\b(?P<name>[A-Z\d]{3,}?|OF|TO)(?P<form>INC|CORP|LTD|LLC|PLC|CO)?\b(?!\.)")
_SMALL = frozenset({"and", "of", "the", "to"})

Finding: TypeAlias = dict[str, Any]


def ranked(parts: Iterable[Any]) -> list[Finding]:
    """All findings, worst first: by severity, then those that are most likely right, as measured on
    other contracts; findings of models have no such measure and stay in their order."""
    found = [_record(part, finding) for part in parts for finding in part.value["findings"]]
    return sorted(found, key=lambda one: (LEVELS.index(one["severity"]), -(one["chance"] or 0)))


def told(parts: Iterable[Any]) -> str:
    """The risk report, as Markdown."""
    parts = list(parts)
    found = ranked(parts)
    lines = [*_head(parts, found), "", "## Read these first", ""]
    lines += [line for one in _varied(found)[:FIRST] for line in _at_a_glance(one)]
    lines += ["## By category", "", *_table(found, ROWS), "", MORE, "", *_contracts(parts)]
    lines += ["## All categories", "", *_table(found), "", *_body(found)]
    return "\n".join(lines)


def readable(title: str) -> str:
    """Names of files in capitals, `CORIOINC: HOSTING AGREEMENT`, as people write them."""
    pieces = title.split(": ")
    return ": ".join(_READ.sub(_as_written, one) if one.isupper() else one for one in pieces)


def _as_written(word: re.Match[str]) -> str:
    name, form = word["name"], word["form"] or ""
    if name.lower() in _SMALL:
        return name.lower()
    return f"{name.capitalize()}{' ' if name and form else ''}{form.capitalize()}"


def _record(part: Any, finding: Finding) -> Finding:
    return {
        "severity": finding["severity"], "category": finding["category"], "contract": part.id,
        "title": readable(part.value["title"]), "section": finding["section"], "offset": finding["offset"],
        "evidence": finding["evidence"], "why": finding["why"], "chance": finding["chance"],
    }  # fmt: skip


def _head(parts: list[Any], found: list[Finding]) -> Iterator[str]:
    yield "# Contract risk report"
    yield ""
    yield f"{len(parts):,} contracts, {len(found):,} possible risk clauses: {_counted(found)}."
    if not all(part.value.get("reader") == "rules" for part in parts):
        yield from wrap(BY_MODEL, WIDE)
        return
    (right, of), (sure, sure_of) = (measured()[name] for name in ("all", "likely"))
    yield from wrap(
        f"{BY_RULES} Quotes are word for word. On contracts that the rules were not made with, {right} "
        f"of {of} quotes ({right / of:.0%}) were from a clause that lawyers had marked for the same "
        f"category; of those shown as likely, {sure} of {sure_of} ({sure / sure_of:.0%}).",
        WIDE,
    )


def _counted(found: list[Finding]) -> str:
    counts = Counter(one["severity"] for one in found)
    return ", ".join(f"{counts[level]:,} {level}" for level in LEVELS)


def _table(found: list[Finding], most: int | None = None) -> Iterator[str]:
    """Counts by category, the category with the most serious ones first."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    contracts: dict[str, set[str]] = defaultdict(set)
    for one in found:
        counts[one["category"]][one["severity"]] += 1
        contracts[one["category"]].add(one["contract"])
    order = sorted(counts, key=lambda name: ([-counts[name][level] for level in LEVELS], name))
    wide = max(map(len, counts), default=8)
    rates = measured() if any(one["chance"] is not None for one in found) else {}
    if rates:
        yield from (
            "`quotes right`: in clauses that lawyers marked, on contracts not used to make the rules.",
            "",
        )
    yield f"| {'category':{wide}} |  high | medium |   low | contracts |{' quotes right |' if rates else ''}"
    yield f"|{'-' * (wide + 2)}|------:|-------:|------:|----------:|{'-------------:|' if rates else ''}"
    for name in order[:most]:
        high, medium, low = (counts[name][level] for level in LEVELS)
        line = f"| {name:{wide}} | {high:5} | {medium:6} | {low:5} | {len(contracts[name]):9} |"
        right, of = rates.get(name, (0, 0))
        yield f"{line} {f'{right} of {of}':>12} |" if rates else line
    if rest := order[most or len(order) :]:
        high = sum(counts[name]["high"] for name in rest)
        yield from ("", f"{len(rest)} more categories ({high:,} high) are in report.md.")


def _varied(found: list[Finding]) -> list[Finding]:
    """In the order of all, at most one of each contract and one of each category."""
    chosen: list[Finding] = []
    taken: set[str] = set()
    for one in found:
        if taken.isdisjoint((one["contract"], one["category"])):
            taken |= {one["contract"], one["category"]}
            chosen.append(one)
    return chosen


def _at_a_glance(one: Finding) -> Iterator[str]:
    """A finding for the terminal: lines that fit, and a long quote cut where it says so."""
    heading = (
        f"- **{one['category']}**, {one['title']} ({one['contract']}), {_where(one)}: {one['why']}"
    )
    quote = " ".join(one["evidence"].split())
    if len(quote) > SHOWN:
        quote = quote[:SHOWN].rpartition(" ")[0] + " […]"
    yield from wrap(heading, WIDE, subsequent_indent="  ", break_on_hyphens=False)
    yield from wrap(f"  > {quote}", WIDE, subsequent_indent="  > ", break_on_hyphens=False)
    yield ""


def _where(one: Finding) -> str:
    place = f"character {one['offset']:,}" if one["offset"] is not None else "place unknown"
    return f"{one['section']}, {place}" if one["section"] else place


def _contracts(parts: list[Any]) -> Iterator[str]:
    """One line for each contract, those with the most that is high first; also those with nothing."""

    def counts(part: Any) -> list[int]:
        levels = Counter(one["severity"] for one in part.value["findings"])
        return [levels[level] for level in LEVELS]

    yield f"## The contracts: {len(parts):,}"
    yield ""
    yield "| contract | high | medium | low |"
    yield "|---|--:|--:|--:|"
    for part in sorted(parts, key=lambda part: ([-one for one in counts(part)], part.id)):
        high, medium, low = counts(part)
        yield f"| [{_cell(readable(part.value['title']))}](pages/{part.id}.md) | {high} | {medium} | {low} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("[", "(").replace("]", ")")


def _body(found: list[Finding]) -> Iterator[str]:
    """What is high and likely; the pages of the contracts and findings.json have the rest."""
    shown = [one for one in found if one["severity"] == "high" and _likely(one)]
    yield f"## All that is high{' and likely' if _rated(found) else ''}: {len(shown):,}"
    yield ""
    for one in shown:
        yield f"- **{one['category']}**, [{_cell(one['title'])}](pages/{one['contract']}.md), {_where(one)}"
        yield f"  > {' '.join(one['evidence'].split())}"
        yield ""
    yield "All other findings are on the page of their contract and in findings.json."


def _likely(one: Finding) -> bool:
    return one["chance"] is None or one["chance"] >= LIKELY


def _rated(found: list[Finding]) -> bool:
    return any(one["chance"] is not None for one in found)


# ── a page for each contract ─────────────────────────────────────────────────────────────────


def page(item: dict[str, Any]) -> str:
    """All findings of one contract, in the order of its text, likely ones apart from the others."""
    placed = item["steps"]["place"]
    found = sorted(placed["findings"], key=lambda one: one["offset"] or 0)
    likely = [one for one in found if _likely(one)]
    lines = [f"# {readable(placed['title'])}", "", f"Contract {item['id']}, {placed['chars']:,} characters: "
             f"{len(found)} possible risk clauses ({_counted(found)}).", ""]  # fmt: skip
    lines += [line for one in likely for line in _entry(one)]
    if unlikely := [one for one in found if not _likely(one)]:
        lines += ["## Less likely", "", "Similar wording was often no such clause.", ""]
        lines += [line for one in unlikely for line in _entry(one)]
    return "\n".join(
        lines if found else [*lines, "Nothing was found, which is no proof of absence."]
    )


def _entry(one: Finding) -> Iterator[str]:
    yield f"- **{one['category']}** ({one['severity']}), {_where(one)}: {one['why']}"
    yield f"  > {' '.join(one['evidence'].split())}"
    yield ""
