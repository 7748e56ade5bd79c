"""How content a customer is: a linear model over words and pairs of words, fitted by fit.py.

Two scores, each a sum of weights: against `negative`, and for `positive`. Between them is neutral.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from math import exp, sqrt
from pathlib import Path
from typing import NamedTuple

from words import words

FILE = Path(__file__).parent / "weights" / "sentiment.json"
_LEFT_OUT = frozenset(".,;:()")
_TITLE = "^"
_LETTERS = re.compile(r"[^\W\d_]+")
LEAST_KNOWN = 0.4  # of the words; the least of a review that was fitted on is 0.75


class Model(NamedTuple):
    """`weights`: for each feature its part in the two scores. `below`: under the first of them a
    review is negative; else, under the second, neutral. `stars`: a constant and the worth of the two
    probabilities. `content`: from this probability on a customer counts as content, where only two
    labels are asked for. `known`: the usual words of the language."""

    weights: dict[str, tuple[float, float]]
    bias: tuple[float, float]
    below: tuple[float, float]
    stars: tuple[float, float, float]
    content: float = 0.5
    known: frozenset[str] = frozenset()


@cache
def model() -> Model:
    stated = json.loads(FILE.read_text(encoding="utf-8"))
    weights = {name: (pair[0], pair[1]) for name, pair in stated["weights"].items()}
    bias, below, stars = (tuple(stated[name]) for name in ("bias", "below", "stars"))
    known = frozenset(stated["known"].split())
    return Model(weights, bias, below, stars, stated["content"], known)


def judgeable(title: str, text: str) -> bool:
    """Whether there is something to judge: words, and most of them of the language that was learned."""
    said = _LETTERS.findall(f"{title} {text}".lower())
    return bool(said) and sum(word in model().known for word in said) >= LEAST_KNOWN * len(said)


def features(title: str, text: str) -> list[str]:
    """Each once: words and pairs of the text, those of the title marked, its words as such too."""
    body, head = _plain(text), _plain(title)
    found = [*body, *_pairs(body), *head]
    found += [_TITLE + one for one in (*head, *_pairs(head))]
    return list(dict.fromkeys(found))


def _plain(text: str) -> list[str]:
    return [word for word in words(text) if word not in _LEFT_OUT]


def _pairs(said: list[str]) -> list[str]:
    return [f"{one} {two}" for one, two in pairwise(said)]


def scores(found: list[str], made: Model) -> tuple[float, float]:
    weighed = [made.weights[name] for name in found if name in made.weights]
    size = sqrt(len(weighed) or 1)
    low, high = (sum(pair[n] for pair in weighed) / size for n in (0, 1))
    return made.bias[0] + low, made.bias[1] + high


def sentiment(title: str, text: str) -> tuple[str, float]:
    """`negative`, `neutral` or `positive`, and about how many stars."""
    made = model()
    low, high = scores(features(title, text), made)
    label = "negative" if low < made.below[0] else "neutral" if high < made.below[1] else "positive"
    constant, first, second = made.stars
    stars = constant + first * chance(low) + second * chance(high)
    return label, round(min(5.0, max(1.0, stars)), 2)


def content(title: str, text: str) -> float:
    """How likely it is that the customer is content: the mean of both probabilities."""
    low, high = scores(features(title, text), model())
    return (chance(low) + chance(high)) / 2


def chance(score: float) -> float:
    return 1 / (1 + exp(-max(-30.0, min(30.0, score))))


def leaning(clause: list[str]) -> float:
    """Whether a few words praise (above 0) or blame (below)."""
    made = model()
    own = [word for word in clause if word not in _LEFT_OUT]
    known = (made.weights.get(name) for name in (*own, *_pairs(own)))
    return sum(pair[0] + pair[1] for pair in known if pair is not None)
