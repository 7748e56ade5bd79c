"""A member that reads contracts: finds risk clauses by rules, and quotes each of them.

It stands in for a language model, so that the demo needs no key and costs nothing. Every finding
carries the sentence it was found in, word for word, so that a gate can check it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

LONGEST = 700  # characters of a sentence that are shown as evidence
MOST = 3  # findings of one category in one contract

SHORTEST = 40  # a shorter piece is a heading or a line of the contents, not a clause

_BREAK = re.compile(r"(?<=[.;:])\s+(?=[A-Z(\"“\[\d])|\n\s*\n")


class Rule(NamedTuple):
    """A clause is where `anchor` is found, in a sentence in which `also` is found, and `never` not."""

    category: str
    severity: str
    anchor: re.Pattern[str]
    also: re.Pattern[str]
    never: re.Pattern[str] | None = None


def _rule(category: str, severity: str, anchor: str, also: str, never: str | None = None) -> Rule:
    one = re.compile(anchor, re.IGNORECASE)
    return Rule(category, severity, one, _in_sentence(also), _in_sentence(never) if never else None)


def _in_sentence(pattern: str) -> re.Pattern[str]:
    """`…` in a pattern stands for up to 160 characters of the same sentence."""
    return re.compile(pattern.replace("…", ".{0,160}?"), re.IGNORECASE)


RULES = (
    _rule(
        "Cap On Liability",
        "low",
        r"liab|damages",
        r"(?:no event|no circumstances?|not|neither|nor)\b…(?:liable|liability|responsible)…"
        r"(?:exceed|in excess of|greater than|consequential|incidental|indirect|special|punitive)"
        r"|liability…(?:shall|will|is|be)\b…(?:limited to|not exceed)",
    ),
    _rule(
        "Liquidated Damages",
        "high",
        r"liquidated\s+damages?|termination\s+fee|late\s+delivery|penalty",
        r"(?:as|be|pay|of|deemed)\b…liquidated damages?|liquidated damages…(?:shall|will|pay)"
        r"|pay…termination fee|termination fee…(?:equal|\$|paid|payable)",
        r"not…(?:a )?penalt(?:y|ies)…(?:remedy|sole)$",
    ),
    _rule(
        "Non-Compete",
        "high",
        r"compet",
        r"\b(?:not|neither|nor|refrain)\b…(?:engage|compete|own|market|sell|develop|distribute"
        r"|manufacture|promote|offer|operate|participate|carry|interest|solicit|represent|license)"
        r"…\bcompet(?:e|es|ing|itive|itor|itors)\b|\bnot (?:directly or indirectly )?compete\b"
        r"|covenant not to compete|\bnon-?compet",
        r"competitive bid|competitive disadvantage|competitive pric|unfair compet",
    ),
    _rule(
        "Exclusivity",
        "medium",
        r"exclusiv",
        r"(?:grant|appoint|engage|retain|designat|agree|purchase|shall|will)…\bexclusive(?:ly)?\b…"
        r"(?:right|licen[sc]e|distribut|basis|supplier|provider|agent|dealer|territory|sponsor|sell"
        r"|market|purchase|represent)",
        r"non\W*exclusiv|\bno exclusiv|not (?:an |be )?exclusiv|exclusively (?:own|govern|belong|used)"
        r"|exclusive (?:jurisdiction|venue|remed|property|owner|control|responsib|use of)"
        r"|exclusive (?:agreement|statement|purpose)|exclusive of|belong…exclusiv|owned exclusiv"
        r"|inure|infring|arbitrat|prosecut|\bwhereas\b|goodwill",
    ),
    _rule(
        "Termination For Convenience",
        "medium",
        r"terminate|cancel",
        r"(?:may|right to|entitled to|can)\b…(?:terminated?|cancel(?:led)?)\b…(?:without cause"
        r"|with(?:out)? or without|for convenience|for any (?:or no )?reason|without…reason"
        r"|at any time|sole discretion|(?:its|their|sole) (?:option|election|convenience))"
        r"|(?:may|right to|entitled to) (?:terminate|cancel) this \w+ (?:by|upon|on|with) (?:giving )?"
        r"(?:at least |not less than )?…days['’]? (?:prior )?(?:advance )?(?:written )?notice",
        r"breach|default|insolven|bankrupt|\bfail|following|\bif\b|in the event|change of control"
        r"|surviv",
    ),
    _rule(
        "Change Of Control",
        "medium",
        r"control|ownership|substantially\s+all",
        r"change (?:of|in) (?:the )?(?:control|ownership)…(?:terminat|consent|assign|notice|notify)"
        r"|(?:terminat|consent|notice|notify)…change (?:of|in) (?:the )?(?:control|ownership)"
        r"|terminat…(?:sale|transfer) of (?:all or )?substantially all",
    ),
    _rule(
        "Anti-Assignment",
        "low",
        r"assign|transfer",
        r"\b(?:not|neither|nor|no)\b…\b(?:assign|transfer|delegate)…(?:agreement|rights|obligations"
        r"|interest|duties|hereunder|license)"
        r"|(?:agreement|rights|obligations|duties|interest|license)…(?:not be|not)…assign"
        r"|\bassign…without…consent",
    ),
    _rule(
        "Ip Ownership Assignment",
        "high",
        r"assign|work[s]?\s+made\s+for\s+hire|works?\s+for\s+hire|property\s+of|owned\s+by",
        r"(?:hereby|shall|will|agrees? to)…\bassigns?\b…(?:right, title|rights, title|intellectual"
        r"|copyright|patent|invention|trademark|work product|developments)"
        r"|works? (?:made )?for hire",
        r"\bnot…assign",
    ),
    _rule(
        "Audit Rights",
        "low",
        r"audit|inspect|examin",
        r"(?:right|may|entitled|permit|allow|access|shall|upon)…(?:audit|inspect|examin)…"
        r"(?:books|records|accounts|facilit|premises|ledger|documents)"
        r"|(?:books|records|accounts)…(?:audit|inspect|examin)",
        r"audited financial statements",
    ),
    _rule(
        "Insurance",
        "low",
        r"insurance",
        r"(?:maintain|obtain|carr(?:y|ies)|procure|keep|take out|provide|secure|effect)…\binsurance\b"
        r"|insurance…(?:not less than|minimum|in the amount|at least|\$)",
        r"insurance compan(?:y|ies) (?:law|act)",
    ),
)


def flag_risks(data: dict[str, Any]) -> dict[str, Any]:
    """The risk clauses of one contract: `{"findings": [{"category", "severity", "evidence"}]}`."""
    text = data["text"]
    starts = [0, *(found.end() for found in _BREAK.finditer(text)), len(text)]
    found = (islice(_findings(rule, text, starts), MOST) for rule in RULES)
    return {"findings": list(chain.from_iterable(found))}


def _findings(rule: Rule, text: str, starts: list[int]) -> Iterator[dict[str, str]]:
    seen: set[int] = set()
    for hit in rule.anchor.finditer(text):
        at = bisect_right(starts, hit.start()) - 1
        if at in seen:
            continue
        seen.add(at)
        if _applies(rule, text[starts[at] : starts[at + 1]]):
            evidence = _evidence(text, starts[at], starts[at + 1], hit.start())
            yield {"category": rule.category, "severity": rule.severity, "evidence": evidence}


def _applies(rule: Rule, sentence: str) -> bool:
    plain = " ".join(sentence.split())
    if len(plain) < SHORTEST:
        return False
    return rule.also.search(plain) is not None and not (rule.never and rule.never.search(plain))


def _evidence(text: str, start: int, end: int, hit: int) -> str:
    """The sentence; of a very long one the part around the hit. Always a piece of the text as is."""
    if end - start > LONGEST:
        start = max(start, hit - LONGEST // 2)
        end = min(end, start + LONGEST)
    return text[start:end].strip()
