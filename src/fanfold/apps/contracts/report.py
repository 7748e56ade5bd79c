"""The reduces: all findings in one order, and the risk report that a person reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any

LEVELS = ("high", "medium", "low")
WEIGHTS = {"high": 25, "medium": 5, "low": 1}  # of a contract's findings, to put contracts in order
FIRST = 6  # findings that the report begins with
SHOWN = 280  # signs of their quotes there; all of it stands below
WIDE = 98  # columns of a terminal
MORE = "<!-- more -->"  # `fanfold demo` prints what stands before this line
BY_RULES = (
    "Found by rules (cue phrases), not by a model and not by a lawyer: they miss clauses, and flag "
    "some that are harmless. README.md has their score."
)
BY_MODEL = (
    "Found by language models. Every quote was checked against its contract; the rest was not."
)


def ranked(parts: Iterable[Any]) -> list[dict[str, str]]:
    """All findings, worst first: by severity, then the contract with the most at stake, then its own
    order. Each with the id and title of its contract."""
    found = [_record(part, finding) for part in parts for finding in part.value["findings"]]
    stake: Counter[str] = Counter()
    for one in found:
        stake[one["contract"]] += WEIGHTS[one["severity"]]
    return sorted(found, key=lambda one: (
        LEVELS.index(one["severity"]), -stake[one["contract"]], one["contract"],
    ))  # fmt: skip


def told(parts: Iterable[Any]) -> str:
    """The risk report, as Markdown."""
    parts = list(parts)
    found = ranked(parts)
    lines = [*_head(parts, found), "", *_table(found), "", "## Top risks", ""]
    lines += [line for one in _varied(found)[:FIRST] for line in _at_a_glance(one)]
    lines += [MORE, "", *_body(found), *_clear(parts)]
    return "\n".join(lines)


def _record(part: Any, finding: dict[str, str]) -> dict[str, str]:
    return {
        "severity": finding["severity"], "category": finding["category"], "contract": part.id,
        "title": part.value["title"], "evidence": finding["evidence"], "why": finding["why"],
    }  # fmt: skip


def _head(parts: list[Any], found: list[dict[str, str]]) -> Iterator[str]:
    counts = Counter(one["severity"] for one in found)
    told = ", ".join(f"{counts[level]:,} {level}" for level in LEVELS)
    yield "# Contract risk report"
    yield ""
    yield f"{len(parts):,} contracts, {len(found):,} risk clauses: {told}. Each is quoted word for word."
    by_rules = all(part.value.get("reader") == "rules" for part in parts)
    yield from wrap(BY_RULES if by_rules else BY_MODEL, WIDE)


def _table(found: list[dict[str, str]]) -> Iterator[str]:
    """Counts by category, the category with the most serious ones first."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    contracts: dict[str, set[str]] = defaultdict(set)
    for one in found:
        counts[one["category"]][one["severity"]] += 1
        contracts[one["category"]].add(one["contract"])
    order = sorted(counts, key=lambda name: ([-counts[name][level] for level in LEVELS], name))
    wide = max(map(len, counts), default=8)
    yield f"| {'category':{wide}} |  high | medium |   low | contracts |"
    yield f"|{'-' * (wide + 2)}|------:|-------:|------:|----------:|"
    for name in order:
        high, medium, low = (counts[name][level] for level in LEVELS)
        yield f"| {name:{wide}} | {high:5} | {medium:6} | {low:5} | {len(contracts[name]):9} |"


def _varied(found: list[dict[str, str]]) -> list[dict[str, str]]:
    """The first finding of each category, in the order of all."""
    first: dict[str, dict[str, str]] = {}
    for one in found:
        first.setdefault(one["category"], one)
    return list(first.values())


def _at_a_glance(one: dict[str, str]) -> Iterator[str]:
    """A finding for the terminal: lines that fit, and a long quote cut where it says so."""
    heading, quote, blank = _quoted(one)
    if len(quote) > SHOWN:
        quote = quote[:SHOWN].rpartition(" ")[0] + " […]"
    yield from wrap(heading, WIDE, subsequent_indent="  ", break_on_hyphens=False)
    yield from wrap(quote, WIDE, subsequent_indent="  > ", break_on_hyphens=False)
    yield blank


def _quoted(one: dict[str, str]) -> Iterator[str]:
    quote = " ".join(one["evidence"].split())
    yield f"- **{one['severity']}: {one['category']}** in {one['contract']} ({one['title']}): {one['why']}"
    yield f"  > {quote}"
    yield ""


def _body(found: list[dict[str, str]]) -> Iterator[str]:
    """What is high and medium, contract by contract; what is low is in findings.json."""
    for level in LEVELS[:2]:
        of_level = [one for one in found if one["severity"] == level]
        yield f"## All that is {level}: {len(of_level):,}"
        yield ""
        for contract in dict.fromkeys(one["contract"] for one in of_level):
            own = [one for one in of_level if one["contract"] == contract]
            yield f"### {own[0]['title']} ({contract})"
            yield ""
            for one in own:
                yield from _quoted(one)
    low = sum(one["severity"] == "low" for one in found)
    yield f"{low:,} findings of low severity are in findings.json, with those above."
    yield ""


def _clear(parts: list[Any]) -> Iterator[str]:
    """The contracts in which nothing was found, so that nobody takes them for unread."""
    clear = [f"{part.value['title']} ({part.id})" for part in parts if not part.value["findings"]]
    yield f"## Nothing found: {len(clear):,}"
    yield ""
    yield from (f"- {name}" for name in clear)
