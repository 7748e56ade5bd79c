"""Whether a text takes back what it names: "not licensed under MIT", "no longer needs Docker"."""

from __future__ import annotations

import re

NEAR = 60  # characters before the words that are looked at, within their sentence
_DENIES = re.compile(
    r"\b(?:not|no longer|never|neither|nor|without|formerly|previously|unlike|instead of|rather than"
    r"|n[o']t (?:yet )?(?:support|need|require|offer|provide)\w*|no (?:need|support) (?:for|of)"
    r"|(?:don|doesn|isn|aren|wasn|won|can)[’']t)\b(?![^.!?\n]*\b(?:only|just|but)\b)",
    re.IGNORECASE,
)
_NONE = re.compile(r"\bno (?:\w+ )?$", re.IGNORECASE)  # "no official Docker image"
_AFTER = re.compile(
    r"\w*[^.!?;\n]{0,30}?\b(?:is|are|was|were)(?:n[’']t| (?:currently )?(?:not|no longer|never))\b"
    r"(?! (?:only|just))",
    re.IGNORECASE,
)  # "Docker is not supported"
_SENTENCE = re.compile(r"[.!?;:]\s|\n\s*\n|^\s*[-*#]", re.MULTILINE)


def denied(text: str, at: int) -> bool:
    """Whether a word of denial stands shortly before this place or after it, in the same sentence."""
    before = text[max(0, at - NEAR) : at]
    ends = list(_SENTENCE.finditer(before))
    own = before[ends[-1].end() :] if ends else before
    return bool(_DENIES.search(own) or _NONE.search(own) or _AFTER.match(text, at))
