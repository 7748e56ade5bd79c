"""A rule: how a risk clause of one category is known, as phrases and what must not be around them.

The phrases are regular expressions over text in small letters. In them a blank stands for any white
space, `…` for up to 160 signs and `…..` for up to 400, all within one sentence.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["low", "medium", "high"]

_SHORT_FORMS = (
    ("…..", r"[\s\S]{0,400}?"), ("…", r"[\s\S]{0,160}?"), (" ?", r"\s*"), (" ", r"\s+"),
)  # fmt: skip

NOT = r"\b(?:not|neither|nor|never|no|none|cannot|refrain(?:s|ed)?)\b"
OR_NOT = r"\b(?:except|excluding|other than|save for|exception of|without limiting|subject to)\b"
MAY = (
    r"\b(?:may|can|shall have the right|will have the right|has the right|have the right"
    r"|right to|entitled to|option to|elect to)\b"
)
MUST = r"\b(?:shall|will|must|agrees?|undertakes?|covenants?)\b"
LICENCE = r"\b(?:sub)?licen[sc]es?\b"


class Rule(NamedTuple):
    """A clause of `category`: an anchor and a cue in one sentence, and `unless` not around the cue.

    `anchors` are plain words that make it worth looking. `sure` are cues that need no second look.
    `worse` and `milder` shift the severity by one level.
    """

    category: str
    severity: Severity
    why: str
    anchors: tuple[str, ...]
    cue: re.Pattern[str]
    sure: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    worse: re.Pattern[str] | None = None
    milder: re.Pattern[str] | None = None


def _phrases(*phrases: str) -> re.Pattern[str]:
    told = "|".join(f"(?:{phrase})" for phrase in phrases)
    for short, meant in _SHORT_FORMS:
        told = told.replace(short, meant)
    return re.compile(told)


def rule(
    category: str,
    severity: Severity,
    why: str,
    *,
    anchors: str,
    cue: tuple[str, ...],
    **more: tuple[str, ...],
) -> Rule:
    """A rule from its words: `anchors` with bars between them, and phrases for each other field."""
    shaped = {name: _phrases(*phrases) for name, phrases in more.items()}
    return Rule(category, severity, why, tuple(anchors.split("|")), _phrases(*cue), **shaped)
