"""The embedded member: finds risk clauses by rules, and quotes each of them word for word.

It stands in for a language model: no key, no cost, the same answer every time. What it knows is in
`rules.py`; what it does not know is what a model is for.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from likely import chance
from rule import Rule, Severity
from rules import RULES
from sentences import CONTENTS, Sentence, levelled, sentences

LONGEST_TITLE = 90
LONGEST = 900  # signs of a clause that are quoted
LEAD = 300  # of them before the cue, when it is longer
SHORTEST = 40  # a shorter piece is a heading or a line of the contents, not a clause
NEAR = 200  # signs around a cue in which it may be taken back
MOST = 3  # findings of one category in one contract

_LEVELS: tuple[Severity, ...] = ("low", "medium", "high")
_HEADED = 14  # words that a heading has at most
_VERB = re.compile(
    r"\b(?:shall|will|may|must|agrees?|is|are|be|been|was|has|have|had|hereby|can|cannot|does|do"
    r"|grants?|terminates?|applies|apply)\b"
)
_APART = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=,)(?=\S)")  # words of a file name without spaces
_SUB_CLAUSE = re.compile(r"[;:]\s")
_DEFINES = re.compile(
    r'[\s\d.()a-z]{0,12}"[^"]{1,60}"[^"]{0,40}?\b(?:means?|shall mean|has the meaning)\b'
)
"""A definition imposes no duty: that is where the word is used."""


def flag_risks(data: dict[str, Any]) -> dict[str, Any]:
    """The risk clauses of one contract: `{title, reader, findings: [{category, severity, evidence,
    why}]}`."""
    found = [one for each in candidates(str(data["text"])) for one in _likeliest(each)]
    return {"title": _title(data), "reader": "rules", "findings": found}


def candidates(text: str) -> list[list[dict[str, str]]]:
    """All that each rule finds, rule by rule."""
    contract = Contract(text)
    return [contract.findings(rule) for rule in RULES]


def _likeliest(found: list[dict[str, str]]) -> list[dict[str, str]]:
    """The few that most likely are such clauses, in the order of the text."""
    best = sorted(range(len(found)), key=lambda at: -chance(found[at]))[:MOST]
    return [found[at] for at in sorted(best)]


def _title(data: dict[str, Any]) -> str:
    """Who and what, from a file name such as `AcmeInc_2001-EX-10-Supply Agreement.txt`; without one
    the first line of the text."""
    pieces = [piece.strip() for piece in re.split(r"[_-]", Path(str(data.get("file", ""))).stem)]
    named = [_APART.sub(" ", piece) for piece in (pieces[0], pieces[-1]) if piece]
    if named:
        return ": ".join(dict.fromkeys(named))[:LONGEST_TITLE]
    lines = (line.strip() for line in str(data["text"]).splitlines())
    return next((line[:LONGEST_TITLE] for line in lines if line), "untitled")


class Contract:
    """A text, levelled for searching, with its sentences."""

    def __init__(self, text: str) -> None:
        self._text, self._level = text, levelled(text)
        self._sentences = sentences(text, self._level)
        self._starts = [one.start for one in self._sentences]

    def findings(self, rule: Rule) -> list[dict[str, str]]:
        """All clauses of one category, in the order of the text."""
        places = (self._clause(rule, sentence) for sentence in self._anchored(rule))
        return [
            self._finding(rule, *place)
            for place in places
            if place is not None and not _is_heading(self._text[slice(*place)])
        ]

    def _anchored(self, rule: Rule) -> Iterator[Sentence]:
        """The sentences that hold one of the rule's anchors, each once."""
        at = {
            bisect_right(self._starts, hit) - 1
            for anchor in rule.anchors
            for hit in _all(self._level, anchor)
        }
        return (self._sentences[one] for one in sorted(at) if one >= 0)

    def _clause(self, rule: Rule, sentence: Sentence) -> tuple[int, int] | None:
        """Where the sentence says what the rule looks for; None when it does not."""
        start, end = sentence
        if end - start < SHORTEST or self._level.find(CONTENTS, start, end) >= 0:
            return None
        if _DEFINES.match(self._level, start, end):
            return None
        if rule.sure and (hit := rule.sure.search(self._level, start, end)):
            return self._around(sentence, *hit.span())
        for hit in rule.cue.finditer(self._level, start, end):
            first, last = self._around(sentence, *hit.span())
            near = max(first, hit.start() - NEAR), min(last, hit.end() + NEAR)
            if rule.unless is None or not rule.unless.search(self._level, *near):
                return first, last
        return None

    def _around(self, sentence: Sentence, start: int, end: int) -> tuple[int, int]:
        """The sub-clause, or the sub-clauses, that a hit lies in: what is quoted and looked at."""
        begins = [cut.end() for cut in _SUB_CLAUSE.finditer(self._level, sentence.start, start)]
        after = _SUB_CLAUSE.search(self._level, end, sentence.end)
        first = begins[-1] if begins else sentence.start
        last = after.start() + 1 if after else sentence.end
        if last - first <= LONGEST:
            return first, last
        if start - first > LEAD:
            first = self._level.find(" ", start - LEAD, start) + 1 or start
        return first, min(last, max(end, self._level.rfind(" ", end, first + LONGEST)))

    def _finding(self, rule: Rule, start: int, end: int) -> dict[str, str]:
        clause = self._level[start:end]
        shift = _found(rule.worse, clause) - _found(rule.milder, clause)
        level = min(max(_LEVELS.index(rule.severity) + shift, 0), len(_LEVELS) - 1)
        evidence = self._text[start:end].strip()
        return {
            "category": rule.category, "severity": _LEVELS[level], "evidence": evidence,
            "why": rule.why,
        }  # fmt: skip


def _is_heading(quote: str) -> bool:
    """A title, such as "2.3 Duty Not To Compete.": it says where a duty is, not which."""
    words = [word for word in re.findall(r"[^\W\d_][\w'-]*", quote) if len(word) > 1]
    if len(words) <= 3:
        return True
    if len(words) > _HEADED or _VERB.search(quote.lower()):
        return False
    return all(word[0].isupper() for word in words if len(word) > 3 and word != "without")


def _all(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _found(pattern: re.Pattern[str] | None, text: str) -> int:
    return int(pattern is not None and pattern.search(text) is not None)
