"""The form of a column's values, learned from the column itself, and a value put into that form.

A form is plain data, so that it can be handed on. `read` gives the value in the usual form, "" for
one that says nothing, and None for one that cannot be read as what the column holds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import dates
import numerals
import times

Form: TypeAlias = dict[str, Any]
Counts: TypeAlias = Counter[str]

NOTHING = {"", "n/a", "na", "n.a.", "null", "nan", "nil", "-", "--", "?", "#n/a", "missing", "\\n"}
MOST_SAMPLED = 5000
CODE_SHARE = 0.9
LONGEST_CODE = 24
USUAL = 0.9


def says_nothing(value: str) -> bool:
    return value.strip().lower() in NOTHING


def learn(counts: Counts) -> Form:
    """What the values of a column have in common. `counts`: how often each value occurs."""
    spoken = Counter({value: n for value, n in counts.items() if not says_nothing(value)})
    for learner in (times.learn, dates.learn, numerals.learn, _learn_code):
        form = learner(_sampled(spoken))
        if form is not None:
            return {**form, "placeholders": True}
    return _learn_text(spoken, counts)


def read(value: str, form: Form) -> str | None:
    if says_nothing(value):
        return "" if form["placeholders"] else value
    return _READERS[form["kind"]](value, form)


def _sampled(counts: Counts) -> Counts:
    """Every so many of the values, rare ones too: they are the ones in question."""
    step = len(counts) // MOST_SAMPLED + 1
    return counts if step == 1 else Counter(dict(list(counts.items())[::step]))


# ── codes: the same signs in the same places ─────────────────────────────────────────────────


def shape(value: str) -> str:
    """Digits as 9, letters as A and a, all else as it is."""
    return re.sub(r"\d", "9", re.sub(r"[a-z]", "a", re.sub(r"[A-Z]", "A", value)))


def _learn_code(counts: Counts) -> Form | None:
    """A column with one shape, in which digits and other signs have their fixed places."""
    shapes: Counter[str] = Counter()
    for value, n in counts.items():
        shapes[shape(value)] += n
    total = sum(shapes.values())
    if total < 10:
        return None
    usual, n = shapes.most_common(1)[0]
    telling = "9" in usual and len(usual) <= LONGEST_CODE and len(counts) > 1
    if not telling or n < CODE_SHARE * total:
        return None
    return {"kind": "code", "shape": usual}


def _read_code(value: str, form: Form) -> str | None:
    """The same letters and digits with other signs between them; white space around it."""
    usual, stripped = form["shape"], value.strip()
    if shape(stripped) == usual:
        return stripped
    if set(stripped) & {".", ","}:  # part of a number, perhaps
        return None
    bare = [sign for sign in stripped if sign.isalnum()]
    places = [sign for sign in usual if sign.isalnum()]
    if len(bare) != len(places) or usual == "".join(places) == shape("".join(bare)):
        return "".join(bare) if shape("".join(bare)) == usual else None
    rest = iter(bare)
    put = "".join(next(rest) if sign.isalnum() else sign for sign in usual)
    return put if shape(put) == usual else None


# ── texts ────────────────────────────────────────────────────────────────────────────────────


def _learn_text(spoken: Counts, counts: Counts) -> Form:
    """White space around a text is taken off where that is the usual state; placeholders are emptied where
    empty cells are usual too."""
    total = sum(spoken.values())
    tidy = sum(n for value, n in spoken.items() if value == _tidied(value))
    empty = counts.get("", 0)
    held = sum(counts.values()) - total - empty
    return {
        "kind": "text",
        "tidy": bool(total) and USUAL <= tidy / total < 1,
        "placeholders": 0 < held < empty,
    }


def _read_text(value: str, form: Form) -> str:
    return _tidied(value) if form["tidy"] else value


def _tidied(value: str) -> str:
    return value.strip()


_READERS: dict[str, Callable[[str, Form], str | None]] = {
    "time": times.read,
    "date": dates.read,
    "number": numerals.read,
    "code": _read_code,
    "text": _read_text,
}
