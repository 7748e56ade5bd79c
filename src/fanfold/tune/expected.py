"""What a way may be expected to do on other items, when it is one of many that were tried on the same.

A share that was seen is true and chance together, and of the best of many more of it is chance. What is
known beforehand of each (`traits`) explains part of the shares of all; what it does not explain is chance
as far as so few items make it, and counts only for the rest (an empirical Bayes estimate).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pvariance

RIDGE = 1e-3  # of the number of ways, so that traits that go together do no harm
OWN = 0.5  # of the chance in a share; the rest is in all ways alike: they have the items in common


def expected_shares(
    traits: Sequence[Sequence[float]], shares: Sequence[float], items: int
) -> list[float]:
    """For each way, from its traits and the share that was right of so many items."""
    if not shares:
        return []
    weights = _fitted(traits, shares)
    explained = [sum(map(_product, row, weights)) for row in traits]
    rest = [share - part for share, part in zip(shares, explained, strict=True)]
    chance = [OWN * share * (1 - share) / items for share in shares]
    true = max(pvariance(rest) - fmean(chance), 1e-6)
    return [
        part + own * true / (true + noise)
        for part, own, noise in zip(explained, rest, chance, strict=True)
    ]


def _product(one: float, other: float) -> float:
    return one * other


def _fitted(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Ridge regression: the weights of the traits that explain the values best."""
    size = len(rows[0])
    square = [
        [
            sum(row[i] * row[j] for row in rows) + (RIDGE * len(rows) if i == j else 0.0)
            for j in range(size)
        ]
        + [sum(row[i] * value for row, value in zip(rows, values, strict=True))]
        for i in range(size)
    ]
    return _solved(square)


def _solved(square: list[list[float]]) -> list[float]:
    """Gauss and Jordan, with the largest pivot; the last column is the right side."""
    size = len(square)
    for at in range(size):
        pivot = max(range(at, size), key=lambda n: abs(square[n][at]))
        square[at], square[pivot] = square[pivot], square[at]
        head = [value / square[at][at] for value in square[at]]
        square[at] = head
        for n in range(size):
            if n != at and (factor := square[n][at]):
                square[n] = [own - factor * top for own, top in zip(square[n], head, strict=True)]
    return [row[-1] for row in square]
