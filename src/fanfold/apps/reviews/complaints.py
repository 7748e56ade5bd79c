"""What customers complain about, by the words they use for it."""

from __future__ import annotations

import re

_VERY = r"(?:(?:way|a bit|a little|a tad|just|far|much|really|so|very|slightly|somewhat|super) )*"
_MUST = r"(?:had to|should have|need to|have to)"
_SEEMS = r"(?:looks?|looked|feels?|felt|seems?|seemed)"

_WORDS = {
    "runs large": (
        rf"(?:runs?|ran|running|fits?) {_VERY}(?:large|big|huge)",
        rf"too {_VERY}(?:big|large|loose|baggy|roomy|wide)",
        r"(?:huge|enormous|swimming|swam|drowning) (?:on|in) (?:me|it|this)",
        rf"{_MUST} siz(?:e|ed) down",
    ),
    "runs small": (
        rf"(?:runs?|ran|running|fits?) {_VERY}(?:small|tight|snug|narrow)",
        rf"too {_VERY}(?:small|tight|snug|narrow)",
        rf"{_MUST} siz(?:e|ed) up",
        r"(?:couldn't|could not|can't|cannot) (?:even )?(?:get|zip|button|fit|close)",
    ),
    "too short": (
        rf"too {_VERY}(?:short|cropped)",
        rf"(?:runs?|was|is|were) {_VERY}short",
        r"shorter than (?:expected|shown|pictured|it looks)",
    ),
    "too long": (
        rf"too {_VERY}long",
        r"longer than (?:expected|shown|pictured|it looks)",
        r"(?:have|need|had|needs) (?:it |them |this )?(?:to be )?hemmed",
    ),
    "unflattering": (
        r"(?:not|isn't|wasn't) (?:very |at all |that |so )?flattering",
        r"unflattering", r"frumpy", r"matronly", r"shapeless", r"maternity", r"(?:too|very|so) boxy",
        rf"{_SEEMS} (?:like a )?(?:tent|sack|potato sack|pregnant|dumpy|boxy)",
        r"like a (?:tent|sack|potato sack)",
        r"(?:made|makes) me look [a-z ]{0,12}(?:pregnant|wider?|bigger|larger|heav(?:y|ier)|huge|fat|old)",
    ),
    "thin or see-through": (
        r"see[- ]through", r"transparent", r"flimsy", r"paper thin",
        r"(?:very|so|too|quite|pretty|super|extremely) (?:thin|sheer)",
    ),
    "itchy or stiff": (
        r"itch(?:y|es|ed|ing)?", r"scratch(?:y|es|ed)?", r"irritat(?:ed|es|ing)",
        r"stiff", r"rough", r"uncomfortable",
    ),
    "poor quality": (
        r"(?:poor|bad|low|cheap|terrible|inferior|lacking) (?:in )?quality",
        r"poorly (?:made|constructed|sewn|designed)", r"cheaply made", r"defective",
        rf"{_SEEMS} (?:very |so |really |a bit |a little |kind of )?cheap(?:ly)?",
        r"fell apart", r"falling apart", r"ripped", r"tore", r"torn", r"holes? in",
        r"unravel(?:l?ed|l?ing)?", r"snag(?:s|ged|ging)?", r"pill(?:s|ed|ing)",
        r"(?:zipper|button|seam|strap)s? (?:broke|came off|came apart|fell off)",
    ),
    "shrinks or fades": (
        r"shr[aiu]nk(?:s|en|ing|age)?", r"fad(?:es|ed|ing)", r"bled", r"stretch(?:ed|es) out",
    ),
    "not as pictured": (
        r"(?:not|nothing|doesn't look|didn't look|isn't) (?:like|as) (?:the )?"
        r"(?:picture|pictured|photo|shown|model|online)[a-z]*",
        r"(?:different|differs) (?:from|than) (?:the )?(?:picture|photo|online|website)",
        r"colou?rs? (?:is|was|are|were) (?:not|nothing|off|(?:very )?different|much [a-z]+er)",
        r"misleading", r"not what i expected", r"in (?:the )?(?:picture|photo)s? (?:it|they) look",
    ),
    "too expensive": (
        r"over ?-?priced", r"(?:not|isn't|wasn't) worth", r"too (?:expensive|pricey|much money)",
        r"for (?:the|this|that) price[a-z ,]{0,20}(?:expect|disappoint|should|not)",
    ),
    "sent back": (
        r"(?:going|went|goes|go|sending|sent|send|took) (?:it |them |this )?(?:right |straight )?back",
        r"return(?:ed|ing)", r"(?:had to|have to|will be|will|must) return",
    ),
}  # fmt: skip
COMPLAINTS = {
    name: re.compile("|".join(rf"\b(?:{one})\b" for one in said)) for name, said in _WORDS.items()
}
"""Each with a pattern over the text in small letters."""

_TAKEN_BACK = re.compile(
    r"\b(?:not|isn't|wasn't|never|don't think|doesn't|didn't|no|without|nor)(?: \w+)?\W*$"
)
_BEFORE = 24  # signs in which what follows is taken back: "not at all itchy"


def complaints(text: str) -> list[str]:
    """Which of them a text has, in the order above."""
    low = " ".join(text.lower().replace("’", "'").split())
    return [name for name, pattern in COMPLAINTS.items() if _said(pattern, low)]


def _said(pattern: re.Pattern[str], low: str) -> bool:
    return any(
        not _TAKEN_BACK.search(low[max(0, one.start() - _BEFORE) : one.start()])
        for one in pattern.finditer(low)
    )
