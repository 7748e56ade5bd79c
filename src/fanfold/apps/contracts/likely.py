"""How likely a quote of the rules lies in a clause that lawyers would mark, by the words it has.

The weights are fitted (`fit.py`) on the fitting half of the labelled contracts. They put findings in
order; they drop none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from math import exp
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent / "weights.json"
LIKELY = 0.7  # a finding is shown as likely from here on
_WORD = re.compile(r"[a-z]{2,}")
_DUTY = re.compile(r"\b(?:shall|will|may|must|agrees?|hereby|can|cannot)\b")
_SHORT, _LONG = 12, 110  # words


def features(finding: Mapping[str, str]) -> list[str]:
    """What the weights are for: the category, the form of the quote, its words."""
    category, quote = finding["category"], finding["evidence"]
    small, words = quote.lower(), quote.split()
    letters = [one for one in quote if one.isalpha()]
    forms = {
        "duty": _DUTY.search(small) is not None,
        "capitals": sum(map(str.isupper, letters)) * 2 > len(letters),
        "short": len(words) < _SHORT,
        "long": len(words) > _LONG,
    }
    return [f"category {category}", *(f"form {name}" for name, one in forms.items() if one),
            *sorted(set(_WORD.findall(small)))]  # fmt: skip


def chance(finding: Mapping[str, str]) -> float:
    bias, weights = _model()
    return round(logistic(bias + sum(weights.get(one, 0.0) for one in features(finding))), 3)


def logistic(score: float) -> float:
    return 1 / (1 + exp(-max(-30.0, min(30.0, score))))


@cache
def _model() -> tuple[float, dict[str, float]]:
    made = _file()
    return made["bias"], made["weights"]


def measured() -> dict[str, list[int]]:
    """On the reporting half: quotes in a clause of the lawyers', and all quotes; of all, of the likely
    ones, of each category."""
    found: dict[str, list[int]] = _file()["reporting"]
    return found


def _file() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return made


def fit(rows: list[list[str]], truth: list[bool], penalty: float) -> tuple[float, dict[str, float]]:
    """A logistic regression with an L2 penalty, by gradient descent with momentum."""
    names = sorted({name for row in rows for name in row})
    number = {name: n for n, name in enumerate(names)}
    given = [[number[name] for name in row] for row in rows]
    weights, speed = [0.0] * (len(names) + 1), [0.0] * (len(names) + 1)
    for _ in range(400):
        slope = _slope(given, truth, weights, penalty)
        for n, one in enumerate(slope):
            speed[n] = 0.9 * speed[n] - 0.2 * one / len(rows)
            weights[n] += speed[n]
    return weights[-1], dict(zip(names, weights, strict=False))


def _slope(
    given: list[list[int]], truth: list[bool], weights: list[float], penalty: float
) -> Iterable[float]:
    slope = [penalty * one for one in weights]
    slope[-1] = 0.0  # the bias, last, is not penalised
    for row, true in zip(given, truth, strict=True):
        off = logistic(weights[-1] + sum(weights[n] for n in row)) - true
        slope[-1] += off
        for n in row:
            slope[n] += off
    return slope
