"""Are answers still right as often as was promised? A test that may be looked at after each check.

A test for a fixed number of checks, looked at again and again, finds something by chance in the end.
This one does not: it bets on error rates that are too high, and the odds that it has won by chance are
bounded however long it goes on (a mixture of likelihood ratios; Ville's inequality).
"""

from __future__ import annotations

from hashlib import sha256
from math import exp, log

RISK = 0.01  # that it says so of answers that are right as often as they should be, in a whole run
STEP = 1.25  # from one error rate that is bet on to the next
LEAST_ERRORS = 1e-6


def in_sample(id: str, rate: float) -> bool:
    """Whether an item is checked: by a hash of its id, so always the same ones."""
    drawn = int.from_bytes(sha256(f"watch {id}".encode()).digest()[:8], "big")
    return drawn < rate * 2.0**64


class DriftTest:
    """Whether less than `target` of the answers are right, as far as so many checks can say."""

    def __init__(self, target: float, risk: float = RISK) -> None:
        self.target = target
        self.right = self.checked = 0
        self._risk = risk
        usual = max(1 - target, LEAST_ERRORS)
        rates = [usual * STEP]
        while rates[-1] * STEP < 1:
            rates.append(rates[-1] * STEP)
        rates = [min(rate, 1 - 1e-9) for rate in rates]
        self._won = [log((1 - rate) / (1 - usual)) if usual < 1 else 0.0 for rate in rates]
        self._lost = [log(rate / usual) for rate in rates]
        self._sums = [0.0] * len(rates)

    def add(self, right: bool) -> None:
        self.checked += 1
        self.right += right
        steps = self._won if right else self._lost
        self._sums = [own + step for own, step in zip(self._sums, steps, strict=True)]

    @property
    def drifted(self) -> bool:
        """With a probability of at most `risk` it is ever true of answers that reach the target."""
        top = max(self._sums)
        mean = sum(exp(own - top) for own in self._sums) / len(self._sums)
        return top + log(mean) >= -log(self._risk)

    @property
    def share(self) -> float:
        return self.right / self.checked if self.checked else 1.0
