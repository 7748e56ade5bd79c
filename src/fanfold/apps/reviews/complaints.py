"""What customers complain about, by the words they use for it."""

from __future__ import annotations

import re

_VERY = r"(?:(?:way|a bit|a little|a tad|just|far|much|really|so|very|slightly|somewhat|super) )*"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(rf"\b(?:{one})\b" for one in patterns))


COMPLAINTS = {
    "runs large": _any(
        rf"(?:runs?|ran|running|fits?) {_VERY}(?:large|big|huge)",
        rf"too {_VERY}(?:big|large|loose|baggy|roomy|wide)",
        r"(?:huge|enormous|swimming|swam|drowning) (?:on|in) (?:me|it|this)", r"(?:had to|should have|need to|have to) siz(?:e|ed) down",
    ),
    "runs small": _any(
        rf"(?:runs?|ran|running|fits?) {_VERY}(?:small|tight|snug|narrow)",
        rf"too {_VERY}(?:small|tight|snug|narrow)",
        r"(?:had to|should have|need to|have to) siz(?:e|ed) up",
        r"(?:couldn't|could not|can't|cannot|couldn’t) (?:even )?(?:get|zip|button|fit|close)[a-z ]{0,20}",
    ),
    "too short": _any(rf"too {_VERY}(?:short|cropped)", rf"(?:runs?|was|is|were) {_VERY}short",
                      r"shorter than (?:expected|shown|pictured|it looks)"),
    "too long": _any(rf"too {_VERY}long", r"longer than (?:expected|shown|pictured|it looks)",
                     r"(?:have|need|had|needs) (?:it |them |this )?(?:to be )?hemmed"),
    "unflattering": _any(
        r"(?:not|isn't|wasn't|un-?)\s?(?:very |at all |that |so )?flattering", r"unflattering", r"frumpy", r"matronly",
        r"(?:looks?|looked|look) (?:like a )?(?:tent|sack|potato sack|maternity|pregnant|dumpy|boxy|shapeless)",
        r"(?:made|makes) me look [a-z ]{0,12}(?:pregnant|wide|wider|bigger|larger|heavy|heavier|huge|fat|frumpy|old)",
        r"maternity", r"shapeless", r"(?:too|very|so) boxy", r"like a (?:tent|sack|potato sack)",
    ),
    "thin or see-through": _any(r"see[- ]through", r"(?:very|so|too|quite|pretty|super|extremely) (?:thin|sheer)",
                                r"transparent", r"flimsy", r"paper thin"),
    "itchy or stiff": _any(r"itch(?:y|es|ed|ing)?", r"scratch(?:y|es|ed)?", r"(?:stiff|rough|uncomfortable)",
                           r"irritat(?:ed|es|ing)"),
    "poor quality": _any(
        r"(?:poor|bad|low|cheap|terrible|inferior|lacking) (?:in )?quality", r"poorly (?:made|constructed|sewn|designed)",
        r"(?:looks?|looked|feels?|felt|seems?|seemed) (?:very |so |really |a bit |a little |kind of )?cheap(?:ly)?",
        r"cheaply made", r"fell apart", r"falling apart", r"(?:ripped|tore|torn|unravel(?:ed|ing|led|ling)?|snag(?:s|ged|ging)?|pill(?:s|ed|ing))",
        r"(?:hole|holes) in", r"defective", r"(?:zipper|button|seam|strap)s? (?:broke|came off|came apart|fell off|ripped)",
    ),
    "shrinks or fades": _any(r"shr[aiu]nk(?:s|en|ing|age)?", r"fad(?:es|ed|ing)", r"bled", r"stretched out", r"stretches out"),
    "not as pictured": _any(
        r"(?:not|nothing|doesn't look|didn't look|isn't) (?:like|as) (?:the )?(?:picture|pictured|photo|shown|model|online)[a-z]*",
        r"(?:different|differs) (?:from|than) (?:the )?(?:picture|photo|online|website)",
        r"(?:color|colour)s? (?:is|was|are|were) (?:not|nothing|off|very different|different|much (?:darker|lighter|brighter))",
        r"misleading", r"not what i expected", r"in (?:the )?(?:picture|photo)s? (?:it|they) look",
    ),
    "too expensive": _any(r"over ?-?priced", r"(?:not|isn't|wasn't) worth", r"too (?:expensive|pricey|much money)",
                          r"for (?:the|this|that) price[a-z ,]{0,20}(?:expect|disappoint|should|not)"),
    "sent back": _any(r"(?:going|went|goes|sending|sent|send|had to go|has to go|had to|will be|have to|am|i'm) (?:it |them |this |be )?"
                      r"(?:right |straight )?(?:back|return(?:ed|ing)?)", r"return(?:ed|ing) (?:it|this|them|both)",
                      r"took it back", r"returned"),
}  # fmt: skip
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
