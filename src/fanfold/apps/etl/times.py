"""Times of day: found inside longer texts, written as the column usually writes them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

TIME = re.compile(
    r"(?<![\d:])(\d{1,2}):([0-5]\d)(?!\d)(?::[0-5]\d)?(\s*)(?:([ap])(\.?)(m?)(\.?)|(noon|midnight))?",
    re.IGNORECASE,
)
KNOWN = 0.8
WHOLE = 0.3


def learn(counts: Counter[str]) -> dict[str, Any] | None:
    """A column in which nearly every value holds a time; its style is that of the commonest form."""
    total = sum(counts.values())
    styles: Counter[str] = Counter()
    found = 0
    for value, n in counts.items():
        match = TIME.search(value)
        if match is None:
            continue
        found += n
        if match[0].strip() == value.strip():
            styles[_style(match)] += n
    if total < 5 or found < KNOWN * total or sum(styles.values()) < WHOLE * total:
        return None
    return {"kind": "time", "style": styles.most_common(1)[0][0]}


def read(value: str, form: dict[str, Any]) -> str | None:
    """The first time in the text. A text without one says when nothing is known: it is empty."""
    match = TIME.search(value)
    if match is None:
        return ""
    hour = _hour(match)
    return None if hour is None else _written(hour, match[2], form["style"])


def _style(match: re.Match[str]) -> str:
    """As a pattern: `h:mm a.m.`, `hh:mm`, `h:mmAM` and the like."""
    hour = "hh" if match[1].startswith("0") or not match[4] else "h"
    if not match[4]:
        return f"{hour}:mm"
    return f"{hour}:mm{match[3]}{match[4]}{match[5]}{match[6]}{match[7]}".replace("p", "a").replace(
        "P", "A"
    )


def _hour(match: re.Match[str]) -> int | None:
    hour = int(match[1])
    half = (match[4] or "").lower() or {"noon": "p", "midnight": "a"}.get((match[8] or "").lower())
    if half:
        return None if not 1 <= hour <= 12 else hour % 12 + (12 if half == "p" else 0)
    return hour if hour < 24 else None


def _written(hour: int, minutes: str, style: str) -> str:
    shown, _, half = style.partition(":mm")
    if not half:
        return f"{hour:02d}:{minutes}"
    twelve = (hour + 11) % 12 + 1
    said = half if hour < 12 else half.replace("a", "p", 1).replace("A", "P", 1)
    return f"{twelve:02d}:{minutes}{said}" if shown == "hh" else f"{twelve}:{minutes}{said}"
