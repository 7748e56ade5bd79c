"""Where a quote stands in its contract: its offset, and the number of the section it is in."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from likely import chance

CLOSE = 150  # characters between headings; in a table of contents it is less
LISTED = 6  # headings that a table of contents has at least
_NUMBERED = re.compile(
    r"\b(?:(?P<word>S(?:ection|ECTION)|A(?:rticle|RTICLE))\s+"
    r"(?P<named>[IVXLC]{1,6}|\d{1,2}(?:\.\d{1,2}){0,3})"
    r"|(?<![.,$§/-])(?P<number>\d{1,2}(?:\.\d{1,2}){1,3}|\d{1,2}(?=\.\s)))\b\.?[\s:–—-]{1,40}[\"“(]?(?=[A-Z])"
)
_REFERS = re.compile(
    r"\b(?:see|per|from|section|sections|article|articles|paragraph|clause|exhibit|schedule|under|in|of|to|and|or|by"
    r"|with|this|no|page)\s*$",
    re.IGNORECASE,
)


def placed(item: dict[str, Any]) -> dict[str, Any]:
    """The reviewed contract, with the place of each quote: `offset` counts characters from 0. Findings
    of the rules also get the `chance` that they are right."""
    text, reviewed = str(item["text"]), item["steps"]["review"]
    headings = _without_contents(list(_headings(text)))
    by_rules = reviewed.get("reader") == "rules"
    found = [
        {
            **one,
            **_place(text, headings, one["evidence"]),
            "chance": chance(one) if by_rules else None,
        }
        for one in reviewed["findings"]
    ]
    return {**reviewed, "chars": len(text), "findings": found}


def _place(text: str, headings: list[tuple[int, str]], quote: str) -> dict[str, Any]:
    """The gate let the quote differ in white space only."""
    at = text.find(quote)
    if at < 0 and (hit := re.search(r"\s+".join(map(re.escape, quote.split())), text)):
        at = hit.start()
    if at < 0 or not quote:
        return {"section": None, "offset": None}
    inside = at + 12  # a quote that begins with its own number
    last = bisect_right(headings, inside, key=lambda one: one[0])
    return {"section": headings[last - 1][1] if last else None, "offset": at}


def _without_contents(headings: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Those of a table of contents are left out: many stand close together, and come again later."""
    last = {name: at for at, name in headings}
    kept: list[tuple[int, str]] = []
    run: list[tuple[int, str]] = []
    for one in [*headings, (10**9, "")]:
        if run and one[0] - run[-1][0] >= CLOSE:
            again = sum(last[name] > run[-1][0] for _, name in run)
            kept += run if len(run) < LISTED or again < len(run) / 2 else []
            run = []
        run.append(one)
    return kept


def _headings(text: str) -> Iterator[tuple[int, str]]:
    """Numbers that a heading or a clause begins with; not those of a reference ("in Section 5")."""
    for hit in _NUMBERED.finditer(text):
        if not _REFERS.search(text[max(0, hit.start() - 12) : hit.start()]):
            yield (
                hit.start(),
                f"{(hit['word'] or 'Section').title()} {hit['named'] or hit['number']}",
            )
