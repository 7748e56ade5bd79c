"""Exact bounds of a share: what can be said of a rate from so many cases."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, lgamma, log


def lower(right: int, of: int, risk: float) -> float:
    """The true share is below this with a probability of at most `risk` (Clopper and Pearson)."""
    if right <= 0:
        return 0.0
    return _root(lambda share: _at_least(right, of, share) - risk)


def upper(right: int, of: int, risk: float) -> float:
    """The true share is above this with a probability of at most `risk`."""
    return 1.0 - lower(of - right, of, risk)


def _root(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return low


def _at_least(right: int, of: int, share: float) -> float:
    """The probability of so many or more, of so many cases. Exact, term by term."""
    if share <= 0.0 or share >= 1.0:
        return float(share >= 1.0)
    odds = log(share), log(1 - share)
    return sum(
        exp(lgamma(of + 1) - lgamma(k + 1) - lgamma(of - k + 1) + k * odds[0] + (of - k) * odds[1])
        for k in range(right, of + 1)
    )
