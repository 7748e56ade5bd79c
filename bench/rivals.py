"""What others would choose from the same sample: for the table of bench/tuning.py.

Each is the idea of its paper on what is recorded here, not the authors' program: the recordings have no
texts of replies and no token probabilities, so what scores a question or a reply is a logistic model over
its group (subject, class of length), its length and the length of the reply, learned from the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from math import exp, log
from typing import NamedTuple

from fanfold.tune.policy import Labelled, LabelledReply, Single, Tried, VoteInOrder, total

PANEL = 5
CASCADE = 3  # members of a FrugalGPT-style cascade
GRID = tuple(n / 20 for n in range(21))
Score = Callable[[Labelled, str], float]


class Rival(NamedTuple):
    """A way, as far as a table needs it."""

    name: str
    tried: Callable[[Labelled], Tried]


def rivals(sample: Sequence[Labelled], cap: float) -> list[Rival]:
    """Chosen on the sample; those that can be held to a price are held to `cap` dollars for 1,000."""
    found = {name: total(Single(name), sample) for item in sample for name in item.replies}
    many = len(sample)
    share = {name: one.right / many for name, one in found.items()}
    usd = {name: 1000 * one.usd / many for name, one in found.items()}
    best = sorted(share, key=lambda name: -share[name])
    odds = [round(max(0.05, log(share[name] / (1.001 - share[name]))), 2) for name in best[:PANEL]]
    cheap = [name for name in best if usd[name] <= cap]
    made = [
        Rival("best single", Single(best[0]).tried),
        Rival("best single under the limit", Single(cheap[0]).tried),
        Rival("majority of the five best", VoteInOrder(tuple(best[:PANEL])).tried),
        Rival("weighted, five best", VoteInOrder(tuple(best[:PANEL]), tuple(odds)).tried),
    ]
    weak = max(
        (name for name in cheap if usd[name] <= cap / 3), key=lambda n: share[n], default=cheap[-1]
    )
    strong = best[0]
    score = _scores(sample, (weak, *best[:PANEL]))
    made.append(_mixed(weak, strong, usd, cap))
    made.append(_threshold(weak, strong, _scores(sample, (weak,), reply=False), sample, cap))
    made.append(_cascade([weak, *best[:PANEL]], score, sample, cap))
    made.append(_agreeing(weak, strong, score, sample, cap))
    return made


def oracle(items: Sequence[Labelled]) -> tuple[float, float]:
    """Anybody is right; the cheapest who is, is paid, else the cheapest."""
    right, usd = 0, 0.0
    for item in items:
        good = [one.usd for one in item.replies.values() if one.right]
        right += bool(good)
        usd += min(good or [one.usd for one in item.replies.values()])
    return right / len(items), 1000 * usd / len(items)


def _mixed(weak: str, strong: str, usd: dict[str, float], cap: float) -> Rival:
    """The strong one by chance, as often as the limit bears it; what is expected of that."""
    part = (
        min(1.0, max(0.0, (cap - usd[weak]) / (usd[strong] - usd[weak])))
        if usd[strong] > usd[weak]
        else 1.0
    )

    def tried(item: Labelled) -> Tried:
        one, other = Single(weak).tried(item), Single(strong).tried(item)
        sums = ((1 - part) * a + part * b for a, b in zip(_pair(one), _pair(other), strict=True))
        return Tried(*sums)  # type: ignore[arg-type]

    return Rival("random mixing", tried)


def _pair(one: Tried) -> tuple[float, float]:
    return one.right, one.usd


def _threshold(
    weak: str, strong: str, score: Score, sample: Sequence[Labelled], cap: float
) -> Rival:
    """RouteLLM: from the question alone, is the weak one good enough? The threshold by the limit."""

    def at(limit: float) -> Rival:
        def tried(item: Labelled) -> Tried:
            return Single(weak if score(item, weak) >= limit else strong).tried(item)

        return Rival("RouteLLM-style threshold", tried)

    return _best([at(limit) for limit in GRID], sample, cap)


def _cascade(names: list[str], score: Score, sample: Sequence[Labelled], cap: float) -> Rival:
    """FrugalGPT: the cheapest first; a reply that scores too low goes to the next one."""

    def at(order: tuple[str, ...], limits: tuple[float, float]) -> Rival:
        def tried(item: Labelled) -> Tried:
            usd = 0.0
            for name, limit in zip(order, (*limits, 0.0), strict=True):
                one = item.replies.get(name, LabelledReply(None, False))
                usd += one.usd
                if one.answer is not None and score(item, name) >= limit:
                    break
            return Tried(int(one.right), usd)

        return Rival("FrugalGPT-style cascade", tried)

    limits = [(a, b) for a in GRID[8::3] for b in GRID[8::3]]
    names = list(dict.fromkeys(names))[:4]
    return _best(
        [at(order, pair) for order in permutations(names, CASCADE) for pair in limits], sample, cap
    )


def _agreeing(
    weak: str, strong: str, score: Score, sample: Sequence[Labelled], cap: float
) -> Rival:
    """DocETL: a cheap one where its score is high, else the strong one, who is taken as right: the
    threshold is the one by which most answers are those of the strong one."""

    def at(limit: float) -> Callable[[Labelled], Tried]:
        def tried(item: Labelled) -> Tried:
            one = Single(weak).tried(item)
            if score(item, weak) >= limit:
                return one
            better = Single(strong).tried(item)
            return Tried(better.right, one.usd + better.usd)

        return tried

    def worth(limit: float) -> tuple[bool, float]:
        usd = 1000 * sum(at(limit)(item).usd for item in sample) / len(sample)
        same = sum(
            score(item, weak) < limit
            or Single(weak).answer(item) == Single(strong).answer(item) is not None
            for item in sample
        )
        return usd <= cap, same if usd <= cap else -usd

    return Rival("DocETL-style cascade", at(max(GRID, key=worth)))


def _best(choices: Sequence[Rival], sample: Sequence[Labelled], cap: float) -> Rival:
    def worth(one: Rival) -> tuple[bool, float]:
        tried = [one.tried(item) for item in sample]
        usd = 1000 * sum(t.usd for t in tried) / len(sample)
        return usd <= cap, sum(t.right for t in tried) if usd <= cap else -usd

    return max(choices, key=worth)


# ── what scores a question, or a reply ───────────────────────────────────────────────────────


def _scores(sample: Sequence[Labelled], names: Sequence[str], reply: bool = True) -> Score:
    groups = sorted({value for item in sample for value in item.features.values()})
    usual = {
        name: log(1e-9 + sum(_usd(item, name) for item in sample) / len(sample)) for name in names
    }

    def row(item: Labelled, name: str) -> list[float]:
        own = [1.0, *(float(group in item.features.values()) for group in groups)]
        return [*own, log(1e-9 + _usd(item, name)) - usual[name]] if reply else own

    weights = {
        name: _logistic(
            [row(item, name) for item in sample],
            [float(name in item.replies and item.replies[name].right) for item in sample],
        )
        for name in dict.fromkeys(names)
    }
    return lambda item, name: _chance(row(item, name), weights[name])


def _usd(item: Labelled, name: str) -> float:
    return item.replies[name].usd if name in item.replies else 0.0


def _chance(row: Sequence[float], weights: Sequence[float]) -> float:
    return 1 / (1 + exp(-sum(a * b for a, b in zip(row, weights, strict=True))))


def _logistic(rows: list[list[float]], right: list[float], ridge: float = 0.02) -> list[float]:
    """Gradient descent with a ridge; a few hundred rows."""
    weights, many = [0.0] * len(rows[0]), len(rows)
    for _ in range(60):
        off = [_chance(row, weights) - one for row, one in zip(rows, right, strict=True)]
        for at in range(len(weights)):
            slope = sum(miss * row[at] for miss, row in zip(off, rows, strict=True)) / many
            weights[at] -= 1.5 * (slope + ridge * weights[at] * (at > 0))
    return weights
