"""Join, resolve and rank scored against ground truth, through the engine, with function members.

    python bench/operators.py

Prints Markdown tables: how many of the true pairs blocking keeps and how many pairs are asked about,
the F1 of a fitted matcher and of one that knows the truth; and how well a ranking of reviews agrees
with their stars, by the number of asks. Which half a record belongs to follows from a hash of its id:
weights are fitted on one half, and figures are of the other.
"""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from math import exp, log, sqrt
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import fanfold as ff
from fanfold.work.blocking import Block, blocked_record, pairs_between
from fanfold.work.ranking import agreement

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data" / "entity_matching"
REVIEWS = HERE.parent / "src" / "fanfold" / "apps" / "reviews"
RANKED = 200
_WORD = re.compile(r"\w+")
Record = dict[str, Any]
Features = dict[str, float]


class Matching(NamedTuple):
    """Two lists, and the labelled pairs of them."""

    name: str
    left: list[Record]
    right: list[Record]
    labels: dict[tuple[str, str], bool]


def load(name: str, data: Path = DATA) -> Matching:
    left, right = (
        [
            json.loads(line)
            for line in (data / name / f"{side}.jsonl").read_text("utf-8").splitlines()
        ]
        for side in ("left", "right")
    )
    with (data / name / "pairs.csv").open(encoding="utf-8") as file:
        labels = {(row["left"], row["right"]): row["match"] == "1" for row in csv.DictReader(file)}
    return Matching(name, left, right, labels)


def fits(id: str) -> bool:
    """The half that weights may be fitted on; the other one is reported on."""
    return sha256(id.encode()).digest()[0] % 2 == 0


class Score(NamedTuple):
    """Over the labelled pairs. A pair that was not asked about counts as different."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def scored(found: Iterable[tuple[str, str]], labels: dict[tuple[str, str], bool]) -> Score:
    said = {pair for pair in found if pair in labels}
    right = sum(labels[pair] for pair in said)
    return Score(right / (len(said) or 1), right / sum(labels.values()))


# ── blocking ─────────────────────────────────────────────────────────────────────────────────


def blocking(data: Matching, block: Block) -> tuple[float, int]:
    """Which share of the matches is among the pairs, and how many pairs these are."""
    left, right = ([blocked_record(row, block) for row in rows] for rows in (data.left, data.right))
    pairs = {
        (data.left[pair.a]["id"], data.right[pair.b]["id"])
        for pair in pairs_between(left, right, block).pairs
    }
    return scored(pairs, data.labels).recall, len(pairs)


# ── the embedded matcher: a logistic regression over how similar the fields are ──────────────────


class Matcher:
    """Fitted on labelled pairs; asked about a pair, it says whether the two are the same."""

    def __init__(self, data: Matching) -> None:
        everyone = [*data.left, *data.right]
        self._frequent = Counter(word for row in everyone for word in set(_words(_whole(row))))
        self._many = len(everyone)
        of = {row["id"]: row for row in everyone}
        rows = [
            (self.features(of[a], of[b]), same) for (a, b), same in data.labels.items() if fits(a)
        ]
        self._weights = _fitted(rows)
        self._least = _threshold([(self._chance(found), same) for found, same in rows])

    def __call__(self, item: Record) -> Record:
        chance = self._chance(self.features(item["left"], item["right"]))
        return {"same": chance >= self._least, "chance": round(chance, 3)}

    def features(self, a: Record, b: Record) -> Features:
        found: Features = {"": 1.0}
        for name in sorted({*a, *b} - {"id", "steps"}):
            one, other = str(a.get(name, "")), str(b.get(name, ""))
            found[f"{name} words"] = self._alike(_words(one), _words(other))
            found[f"{name} grams"] = _overlap(_grams(one), _grams(other))
            found[f"{name} absent"] = float(not one or not other)
        whole, others = _words(_whole(a)), _words(_whole(b))
        found["words"] = self._alike(whole, others)
        found["grams"] = _overlap(_grams(_whole(a)), _grams(_whole(b)))
        codes, own = _codes(_whole(a)), _codes(_whole(b))
        shared = any(x.startswith(y) or y.startswith(x) for x in codes for y in own)
        found["code"] = float(shared)
        found["other code"] = float(bool(codes and own) and not shared)
        numbers, of_other = ({w for w in said if w.isdigit()} for said in (whole, others))
        found["numbers"] = _overlap(numbers, of_other)
        return found

    def _alike(self, one: Sequence[str], other: Sequence[str]) -> float:
        """The share of the rarer words that both have."""

        def weight(words: set[str]) -> float:
            return sum(log(1 + self._many / self._frequent[word]) for word in words if word)

        return weight({*one} & {*other}) / (sqrt(weight({*one}) * weight({*other})) or 1.0)

    def _chance(self, found: Features) -> float:
        return _sigmoid(sum(self._weights.get(name, 0.0) * x for name, x in found.items()))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _whole(row: Record) -> str:
    return " ".join(str(value) for name, value in row.items() if name not in ("id", "steps"))


def _grams(text: str) -> set[str]:
    joined = "".join(_words(text))
    return {joined[n : n + 4] for n in range(max(1, len(joined) - 3))}


def _codes(text: str) -> set[str]:
    """Words that name a model: letters and digits in one."""
    said = (word.replace("-", "").replace("/", "") for word in text.casefold().split())
    return {w for w in said if len(w) > 3 and any(map(str.isdigit, w)) and any(map(str.isalpha, w))}


def _overlap(one: set[str], other: set[str]) -> float:
    return len(one & other) / (sqrt(len(one) * len(other)) or 1.0)


def _sigmoid(x: float) -> float:
    return 1 / (1 + exp(-max(-30.0, min(30.0, x))))


def _fitted(rows: Sequence[tuple[Features, bool]], steps: int = 400, rate: float = 1.0) -> Features:
    """By gradient descent; a match counts as often as all that are none."""
    names = sorted({name for found, _ in rows for name in found})
    weights = dict.fromkeys(names, 0.0)
    matches = sum(same for _, same in rows)
    for _ in range(steps):
        slope = {name: 0.002 * weight for name, weight in weights.items()}
        for found, same in rows:
            said = _sigmoid(sum(weights[name] * x for name, x in found.items()))
            share = (said - same) / (2 * (matches if same else len(rows) - matches))
            for name, x in found.items():
                slope[name] += share * x
        weights = {name: weight - 8 * rate * slope[name] for name, weight in weights.items()}
    return weights


def _threshold(said: Sequence[tuple[float, bool]]) -> float:
    """That with the best F1."""

    def f1(least: float) -> float:
        right = sum(same for chance, same in said if chance >= least)
        both = sum(chance >= least for chance, _ in said) + sum(same for _, same in said)
        return 2 * right / (both or 1)

    return max((chance for chance, _ in said), key=f1)


def knows(data: Matching) -> Callable[[Record], bool]:
    """A member that answers by the labels; two of one list are the same if both are the same as one
    of the other."""
    other: dict[str, set[str]] = defaultdict(set)
    for pair, same in data.labels.items():
        for one, partner in (pair, pair[::-1]) if same else ():
            other[one].add(partner)

    def answer(pair: Record) -> bool:
        a, b = pair["left"]["id"], pair["right"]["id"]
        return b in other[a] or not other[a].isdisjoint(other[b])

    return answer


async def joined(
    data: Matching, member: Callable[[Record], Any], block: Block
) -> tuple[int, Score]:
    """The left records of the reporting half with all of the right: how many asks, and the score."""
    left = [row for row in data.left if not fits(row["id"])]
    labels = {pair: same for pair, same in data.labels.items() if not fits(pair[0])}
    with tempfile.TemporaryDirectory() as folder:
        members = [ff.function(member, id="matcher")]
        async with ff.open_run("join", members=members, store=folder, progress=False) as run:
            found = await ff.join(run, left, data.right, member="matcher", block=block)
            calls = found.receipt.calls
    return calls, scored(((one["left"]["id"], one["right"]["id"]) for one in found.value), labels)


async def merged(
    data: Matching, member: Callable[[Record], Any], block: Block
) -> tuple[int, Score]:
    """The same records as one list: how many asks, and the score of what is in one entity."""
    rows = [*(row for row in data.left if not fits(row["id"])), *data.right]
    labels = {pair: same for pair, same in data.labels.items() if not fits(pair[0])}

    def asked(pair: Record) -> Any:
        first, second = sorted((pair["a"], pair["b"]), key=lambda row: row["id"])
        return member({"left": first, "right": second})

    with tempfile.TemporaryDirectory() as folder:
        members = [ff.function(asked, id="matcher")]
        async with ff.open_run("resolve", members=members, store=folder, progress=False) as run:
            found = await ff.resolve(run, rows, member="matcher", block=block)
            calls = found.receipt.calls
    together = ((a, b) for one in found.value["entities"] for a in one["ids"] for b in one["ids"])
    return calls, scored(together, labels)


def across(data: Matching, member: Callable[[Record], Any]) -> Callable[[Record], Any]:
    """Two of one list, of which it has seen none when it was fitted, are different to it."""
    of_left = {row["id"] for row in data.left}

    def answer(pair: Record) -> Any:
        sides = {row["id"] in of_left for row in pair.values()}
        return member(pair) if len(sides) == 2 else {"same": False}

    return answer


# ── rank ─────────────────────────────────────────────────────────────────────────────────────


def reviews(many: int = RANKED) -> list[Record]:
    """Of the reporting half of the application, the same number of each rating."""
    with gzip.open(REVIEWS / "data" / "reviews.csv.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not fits(row["id"])]
    by_stars = [[row for row in rows if row["rating"] == str(stars)] for stars in range(1, 6)]
    return [row for same in by_stars for row in Random(0).sample(same, many // 5)]


def better(worth: Callable[[Record], float]) -> Callable[[Record], Record]:
    def compare(item: Record) -> Record:
        best = sorted(item["choices"], key=lambda one: -worth(one["item"]))
        return {"order": [one["label"] for one in best]}

    return compare


async def ranked(
    rows: list[Record], worth: Callable[[Record], float], window: int, rounds: int
) -> tuple[int, float]:
    """How many asks, and how well the order agrees with the stars."""
    with tempfile.TemporaryDirectory() as folder:
        members = [ff.function(better(worth), id="judge")]
        async with ff.open_run("rank", members=members, store=folder, progress=False) as run:
            made = await ff.rank(run, rows, member="judge", window=window, rounds=rounds)
    scores = {one["id"]: one["score"] for one in made.value}
    truth = [float(row["rating"]) for row in rows]
    return made.receipt.calls, agreement([scores[row["id"]] for row in rows], truth)


# ── tables ───────────────────────────────────────────────────────────────────────────────────


async def main() -> None:
    print("| data | pairs in all | neighbours | asked about | matches among them |")
    print("|---|---|---|---|---|")
    for name in ("abt_buy", "beer"):
        data = load(name)
        whole = len(data.left) * len(data.right)
        for neighbours in (1, 2, 3, 5):
            recall, many = blocking(data, Block(neighbours=neighbours))
            print(
                f"| {name} | {whole:,} | {neighbours} | {many:,} ({many / whole:.2%}) | {recall:.3f} |"
            )
    print(
        "\n| data | asks | fitted matcher: precision | recall | F1 | one that knows the truth: F1 |"
    )
    print("|---|---|---|---|---|---|")
    for name in ("abt_buy", "beer"):
        data = load(name)
        calls, made = await joined(data, Matcher(data), Block())
        _, best = await joined(data, knows(data), Block())
        said = (made.precision, made.recall, made.f1, best.f1)
        print(f"| {name} | {calls:,} | {' | '.join(f'{share:.3f}' for share in said)} |")
    print("\n| data | neighbours | asks | of all pairs | fitted: precision | recall | F1"
          " | truth: recall | F1 |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for name, neighbours in (("abt_buy", 3), ("abt_buy", 15), ("beer", 3)):
        data, block = load(name), Block(neighbours=neighbours)
        many = sum(not fits(row["id"]) for row in data.left) + len(data.right)
        calls, made = await merged(data, across(data, Matcher(data)), block)
        _, best = await merged(data, knows(data), block)
        said = (made.precision, made.recall, made.f1, best.recall, best.f1)
        asks = f"{calls:,} | {calls / (many * (many - 1) / 2):.2%}"
        print(f"| {name} | {neighbours} | {asks} | {' | '.join(f'{x:.3f}' for x in said)} |")
    sys.path.insert(0, str(REVIEWS))
    from sentiment import content  # the application's, fitted on the other half

    rows = reviews()
    ways: dict[str, Callable[[Record], float]] = {
        "fitted": lambda row: content(row["title"] or "", row["text"]),
        "truth": lambda row: float(row["rating"]),
    }
    alone = agreement([ways["fitted"](row) for row in rows], [float(row["rating"]) for row in rows])
    print(
        f"\n{len(rows)} reviews, as many of each rating; the fitted weights alone agree {alone:.3f}.\n"
    )
    print("| window | rounds | asks | agreement: fitted weights | one that knows the stars |")
    print("|---|---|---|---|---|")
    for window, rounds in ((2, 1), (2, 3), (2, 6), (2, 10), (5, 2), (5, 4), (10, 2), (10, 4)):
        calls, share = await ranked(rows, ways["fitted"], window, rounds)
        _, best_share = await ranked(rows, ways["truth"], window, rounds)
        print(f"| {window} | {rounds} | {calls:,} | {share:.3f} | {best_share:.3f} |")


if __name__ == "__main__":
    asyncio.run(main())
