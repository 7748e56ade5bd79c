"""Fits the weights of the embedded member, on the fitting half of the data.

    python fit.py [--data DIR] [--to FOLDER]

About a minute, in Python alone; the same data give the same files. Nothing that it writes is about
a single review: only words and pairs that occur in several are kept.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log, sqrt
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import aspects
import reading
import sentiment
from halves import HERE, LABELS, Sentence, fits, label_of, reviews, sentences
from measure import as_review, aspect_counts, spoken
from words import clauses, singular

SEED = 20
FOLDS = 3
LEAST = 3  # reviews in which a feature must occur
LEAST_ASPECT = 2
LEAST_KNOWN = 5  # reviews in which a word of the language must occur
SMALL = 0.05  # a weight that is nearer to 0 is left out
GRID = [step / 8 for step in range(-8, 25)]


class Way(NamedTuple):
    """Of going downhill: AdaGrad steps, and the mean of the weights after each round."""

    rounds: int = 5
    rate: float = 0.2
    decay: float = 0.001
    heavier: float = 1.0  # how much more an example counts that is true
    level: bool = True  # long examples weigh no more than short ones


class Examples(NamedTuple):
    """`rows`: the numbers of each example's features. `scale`: what each feature is multiplied by."""

    names: list[str]
    rows: list[list[int]]
    scale: list[float]


def logistic(given: Examples, truth: Sequence[bool], way: Way) -> tuple[list[float], float]:
    """Weights and bias of a logistic regression."""
    many = len(given.names)
    weights, means, squares, bias = [0.0] * many, [0.0] * many, [1e-4] * many, 0.0
    order, random = list(range(len(given.rows))), Random(SEED)
    for _ in range(way.rounds):
        random.shuffle(order)
        for at in order:
            row = given.rows[at]
            size = sqrt(len(row) or 1) if way.level else 1.0
            score = bias + sum(weights[n] * given.scale[n] for n in row) / size
            off = (sentiment.chance(score) - truth[at]) * (way.heavier if truth[at] else 1.0)
            bias -= 0.05 * off
            for n in row:
                slope = off * given.scale[n] / size + way.decay * weights[n]
                squares[n] += slope * slope
                weights[n] -= way.rate * slope / sqrt(squares[n])
        for n, weight in enumerate(weights):
            means[n] += weight / way.rounds
    return [weight * scale for weight, scale in zip(means, given.scale, strict=True)], bias


def examples(found: list[list[str]], least: int) -> Examples:
    counts = Counter(name for one in found for name in one)
    names = sorted(name for name, count in counts.items() if count >= least)
    number = {name: n for n, name in enumerate(names)}
    rows = [[number[name] for name in one if name in number] for one in found]
    return Examples(names, rows, [1.0] * len(names))


def by_ratio(given: Examples, truth: Sequence[bool]) -> Examples:
    """Each feature scaled by how much more common it is where the truth is true (naive Bayes)."""
    true, false = [1.0] * len(given.names), [1.0] * len(given.names)
    for row, one in zip(given.rows, truth, strict=True):
        counts = true if one else false
        for n in row:
            counts[n] += 1
    yes, no = sum(truth) + 2, len(truth) - sum(truth) + 2
    return given._replace(scale=[log(a / yes * no / b) for a, b in zip(true, false, strict=True)])


# ── sentiment ────────────────────────────────────────────────────────────────────────────────


def fit_sentiment(rows: list[dict[str, str]]) -> dict[str, Any]:
    """The weights of all rows. The limits between the labels, and the worth in stars, are chosen on
    scores of rows that the weights behind them were not fitted on."""
    unseen: list[tuple[tuple[float, float], dict[str, str]]] = []
    for fold in range(FOLDS):
        made = _weigh([row for n, row in enumerate(rows) if n % FOLDS != fold])
        held = rows[fold::FOLDS]
        unseen += [(sentiment.scores(_features(row), made), row) for row in held]
    below = _limits(unseen)
    stars = _stars(unseen)
    counts = Counter(
        word for row in rows for word in {*re.findall(r"[^\W\d_]+", _said(row).lower())}
    )
    made = _weigh(rows)
    kept = {
        name: [round(low, 2), round(high, 2)]
        for name, (low, high) in made.weights.items()
        if max(abs(low), abs(high)) >= SMALL
    }
    return {
        "bias": _rounded(made.bias), "below": below, "stars": stars, "content": _content(unseen),
        "known": " ".join(sorted(word for word, many in counts.items() if many >= LEAST_KNOWN)),
        "weights": kept,
    }  # fmt: skip


def _content(unseen: list[tuple[tuple[float, float], dict[str, str]]]) -> float:
    """Of two labels: from which probability on a customer is content, so that as many of the content
    as of the others are told right on average. Reviews with 3 stars are neither."""
    sides = [
        (sum(map(sentiment.chance, pair)) / 2, label_of(row))
        for pair, row in unseen
        if label_of(row) != LABELS[1]
    ]
    shares = Counter(label for _, label in sides)

    def worth(limit: float) -> float:
        right = Counter(
            label for chance, label in sides if (chance >= limit) == (label == LABELS[2])
        )
        return sum(right[label] / many for label, many in shares.items())

    return max((step / 100 for step in range(1, 100)), key=worth)


def _said(row: dict[str, str]) -> str:
    return f"{row.get('title') or ''} {row['text']}"


def _features(row: dict[str, str]) -> list[str]:
    return sentiment.features(row.get("title") or "", row["text"])


def _weigh(rows: list[dict[str, str]]) -> sentiment.Model:
    given = examples([_features(row) for row in rows], LEAST)
    both = []
    for least in LABELS[1:]:
        truth = [LABELS.index(label_of(row)) >= LABELS.index(least) for row in rows]
        both.append(logistic(by_ratio(given, truth), truth, Way()))
    (low, low_bias), (high, high_bias) = both
    weights = dict(zip(given.names, zip(low, high, strict=True), strict=True))
    return sentiment.Model(weights, (low_bias, high_bias), (0.0, 0.0), (0.0, 0.0, 0.0))


def _limits(unseen: list[tuple[tuple[float, float], dict[str, str]]]) -> list[float]:
    """Where the labels part, so that the mean F1 of the three is highest."""
    truth = [label_of(row) for _, row in unseen]

    def worth(pair: tuple[float, float]) -> float:
        said = [
            "negative" if low < pair[0] else "neutral" if high < pair[1] else "positive"
            for (low, high), _ in unseen
        ]
        return macro_f1(truth, said)

    pairs = [(low, high) for low in GRID for high in GRID]
    best = max(pairs, key=worth)
    return [*best]


def macro_f1(truth: Iterable[str], said: Iterable[str]) -> float:
    pairs = Counter(zip(truth, said, strict=True))
    found = []
    for label in LABELS:
        wrong = sum(many for (one, two), many in pairs.items() if (one == label) != (two == label))
        right = pairs[label, label]
        found.append(2 * right / (2 * right + wrong) if right else 0.0)
    return sum(found) / len(found)


def _stars(unseen: list[tuple[tuple[float, float], dict[str, str]]]) -> list[float]:
    """Least squares: a constant and the two probabilities."""
    rows = [((1.0, *map(sentiment.chance, pair)), float(row["rating"])) for pair, row in unseen]
    left = [[sum(x[i] * x[j] for x, _ in rows) for j in range(3)] for i in range(3)]
    right = [sum(x[i] * y for x, y in rows) for i in range(3)]
    return _rounded(_solved(left, right))


def _solved(left: list[list[float]], right: list[float]) -> list[float]:
    """Three equations, by elimination."""
    rows = [[*row, value] for row, value in zip(left, right, strict=True)]
    for n, row in enumerate(rows):
        row[n] += 1e-6  # without ratings of 3 stars both probabilities are the same
    for n, pivot in enumerate(rows):
        for other in rows:
            if other is not pivot:
                by = other[n] / pivot[n]
                other[:] = [a - by * b for a, b in zip(other, pivot, strict=True)]
    return [row[-1] / row[n] for n, row in enumerate(rows)]


# ── aspects ──────────────────────────────────────────────────────────────────────────────────


def fit_aspects(rows: list[Sentence]) -> dict[str, Any]:
    """Which words are (part of) an aspect that the sentence has an opinion about. The limit above
    which one is taken is chosen on sentences that the weights behind it were not fitted on."""
    unseen: list[tuple[float, bool]] = []
    for fold in range(FOLDS):
        made = _mark([row for n, row in enumerate(rows) if n % FOLDS != fold])
        for found, part in _words(rows[fold::FOLDS]):
            unseen.append((made.bias + sum(made.weights.get(name, 0.0) for name in found), part))
    made = _mark(rows)
    kept = {
        name: round(weight, 2) for name, weight in made.weights.items() if abs(weight) >= 2 * SMALL
    }
    return {"bias": round(made.bias, 4), "above": _limit(unseen), "weights": kept}


def _mark(rows: list[Sentence]) -> aspects.Model:
    seen = list(_words(rows))
    given = examples([found for found, _ in seen], LEAST_ASPECT)
    way = Way(rounds=6, heavier=1.5, level=False)
    weights, bias = logistic(given, [part for _, part in seen], way)
    return aspects.Model(dict(zip(given.names, weights, strict=True)), bias, 0.0)


def _limit(unseen: list[tuple[float, bool]]) -> float:
    """Where the F1 of the words is highest."""

    def worth(limit: float) -> float:
        right = sum(part for score, part in unseen if score > limit)
        taken, there = sum(score > limit for score, _ in unseen), sum(part for _, part in unseen)
        return 2 * right / (taken + there)

    return max((step / 8 for step in range(-16, 9)), key=worth)


def _words(rows: list[Sentence]) -> Iterator[tuple[list[str], bool]]:
    """Each word where it stands, by clauses as they are read later, and whether it is part of one."""
    for row in rows:
        for clause in clauses(row.said):
            for at, part in enumerate(_parts(clause, row.aspects)):
                if aspects.may_be(clause[at]):
                    yield aspects.features(clause, at), part


def _parts(said: list[str], named: Iterable[str]) -> list[bool]:
    own = list(map(singular, said))
    part = [False] * len(own)
    for name in named:
        term = name.split()
        for at in range(len(own) - len(term) + 1):
            if own[at : at + len(term)] == term:
                part[at : at + len(term)] = [True] * len(term)
    return part


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(value, 4) for value in values]


# ── files ────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    parser = argparse.ArgumentParser(prog="fit.py")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--to", type=Path, default=HERE / "weights")
    asked = parser.parse_args()
    asked.to.mkdir(parents=True, exist_ok=True)
    rows, labelled = reviews(asked.data), sentences(asked.data)
    _write(asked.to / "sentiment.json", fit_sentiment, [row for row in rows if fits(row["id"])])
    sentiment.FILE = asked.to / "sentiment.json"  # the aspects look at its opinions
    known = [row for row in labelled if fits(row.id)]
    if known:  # else the aspects stay as they are
        _write(asked.to / "aspects.json", fit_aspects, known)
        aspects.FILE = asked.to / "aspects.json"
    file = asked.to / "measured.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps(before | measured(rows, labelled)) + "\n", encoding="utf-8")


def measured(rows: list[dict[str, str]], labelled: list[Sentence]) -> dict[str, list[int]]:
    """What the report says of the weights, counted on the other half: reviews that are judged as their
    stars say; words that are aspects indeed; aspects that are praised or criticised as people said."""
    others = [row for row in rows if not fits(row["id"])]
    read = reading.read({"items": others})["reviews"]
    right = sum(one["sentiment"] == label_of(row) for one, row in zip(read, others, strict=True))
    found = {"sentiment": [right, len(others)]}
    unseen = [row for row in labelled if not fits(row.id)]
    if unseen:
        heard = spoken(reading.read({"items": [as_review(*one) for one in enumerate(unseen)]}))
        counts = aspect_counts([(heard[str(n)], one) for n, one in enumerate(unseen)])
        found |= {"aspects": [counts.right, counts.found], "signs": [counts.signs, counts.met]}
    return found


def _write(file: Path, fit: Callable[[Any], dict[str, Any]], rows: list[Any]) -> None:
    """JSON with a line for each weight."""
    made = fit(rows)
    weights = made.pop("weights")
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in made.items()]
    each = [f"{json.dumps(name)}:{_short(value)}" for name, value in weights.items()]
    lines.append('"weights": {\n' + ",\n".join(each) + "\n}")
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _short(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()
