"""Does what `fanfold tune` chooses hold on other items? On recorded answers of real models.

    python bench/tuning.py DIR [SPLITS [SET… | promises]]

DIR has recorded_zeroeval_gsm, recorded_zeroeval_crux, recorded_mmlu_pro and recorded_prices. In each
split a sample of at most 400 items, drawn from one half, chooses, and 200 of the other half give the bound
that is promised; figures are those of the whole other half. Lengths were recorded in characters: a cost
is an estimate, four of them to a token.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from random import Random
from statistics import mean, stdev
from typing import Any, NamedTuple

from rivals import oracle, rivals

from fanfold.tune.choose import Goal, chosen_way
from fanfold.tune.policy import Labelled, LabelledReply, total
from fanfold.work.vote import ballot

MOST, REPORTED = 400, 200
UNLIMITED = ("best single", "majority of the five best", "weighted, five best")
Prices = dict[str, tuple[float, float]]


class Set(NamedTuple):
    name: str
    items: list[Labelled]
    caps: tuple[float, ...]  # dollars for 1,000


def sets(data: Path) -> list[Set]:
    prices = {
        row["recorded_model"]: (float(row["usd_per_mtok_in"]), float(row["usd_per_mtok_out"]))
        for row in _rows(data / "recorded_prices" / "prices.csv")
        if row["usd_per_mtok_in"]
    }
    return [
        Set("GSM8K", _zeroeval(data / "recorded_zeroeval_gsm", prices), (0.45,)),
        Set("CRUX", _zeroeval(data / "recorded_zeroeval_crux", prices), (7.50,)),
        Set("MMLU-Pro", _mmlu(data / "recorded_mmlu_pro", prices), (0.55, 0.95)),
    ]


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _reply(answer: Any, right: bool, chars: tuple[float, float], price: tuple[float, float]) -> Any:
    usd = (chars[0] * price[0] + chars[1] * price[1]) / 4e6
    return LabelledReply(ballot(answer) if answer else None, right, usd)


def _zeroeval(folder: Path, prices: Prices) -> list[Labelled]:
    found = []
    for line in (folder / "records.jsonl").read_text(encoding="utf-8").split("\n")[:-1]:
        row = json.loads(line)
        replies = {
            name: _reply(one["a"], bool(one["ok"]), (row["prompt_chars"], one["out_chars"]), prices[name])
            for name, one in row["answers"].items()
            if name in prices
        }  # fmt: skip
        found.append(
            Labelled(row["id"], replies, {"length": str(min(4, len(row["question"]) // 120))})
        )
    return found


def _mmlu(folder: Path, prices: Prices) -> list[Labelled]:
    said = {row["qid"]: row for row in _rows(folder / "predictions.csv")}
    long = {row["qid"]: row for row in _rows(folder / "output_chars.csv")}
    found = []
    for line in (folder / "questions.jsonl").read_text(encoding="utf-8").split("\n")[:-1]:
        row = json.loads(line)
        id, asked = (
            str(row["qid"]),
            len(row["question"]) + sum(len(one) + 4 for one in row["options"]),
        )
        replies = {
            name: _reply(one, one == said[id]["gold"], (asked, _chars(long[id].get(name, ""))), prices[name])
            for name, one in said[id].items()
            if name in prices and one != "NA"
        }  # fmt: skip
        found.append(Labelled(id, replies, {"subject": row["category"]}))
    return found


def _chars(text: str) -> float:
    return float(text) if text[:1].isdigit() else 0.0


def main() -> None:
    data, splits = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    if sys.argv[3:] == ["promises"]:
        print(promises(sets(data)[-1], splits))
        return
    for one in sets(data):
        for line in table(one, splits) if one.name in (sys.argv[3:] or [one.name]) else ():
            print(line, flush=True)


Figures = dict[str, list[tuple[float, float]]]


class Promise(NamedTuple):
    """How often a bound held, of those that were promised; and a target that was expected to be met."""

    held: int = 0
    of: int = 0


def table(one: Set, splits: int) -> list[str]:
    """Means over the splits: share that is right, dollars for 1,000; how often the promise held."""
    figures: Figures = {}
    promises = [_split(one, seed, figures) for seed in range(splits)]
    held, of = (sum(values) for values in zip(*promises, strict=True))
    lines = [f"{one.name}: {len(one.items)} items, {splits} splits"]
    for name, found in figures.items():
        share, usd = (mean(values) for values in zip(*found, strict=True))
        spread = stdev(value for value, _ in found) if len(found) > 1 else 0.0
        lines.append(f"  {name:44} {share:.1%} ±{spread:.1%}  ${usd:.2f}")
    return [*lines, f"  the promised bound (95 %) held in {held} of {of}"]


def promises(one: Set, splits: int) -> str:
    """100 items choose, 200 others give the bound, all others say whether it holds."""
    held = 0
    for seed in range(splits):
        items = Random(seed).sample(one.items, len(one.items))
        choose, report, check = items[:100], items[100:300], items[300:]
        tuned = chosen_way(choose, report, Goal(max_usd=one.caps[-1]))
        right = total(tuned.ways[tuned.recommended].way, check).right
        held += right / len(check) >= tuned.promised
    return f"{one.name}: the promised bound (95 %) held in {held} of {splits} splits"


def _split(one: Set, seed: int, figures: Figures) -> Promise:
    """One half chooses, by at most 400 items; the other reports."""
    items = Random(seed).sample(one.items, len(one.items))
    middle = len(items) // 2
    sample, others = items[:middle][:MOST], items[middle:]
    held = 0
    for cap in one.caps:
        limit = f", at most ${cap:.2f}"
        for rival in rivals(sample, cap):
            tried = [rival.tried(item) for item in others]
            share = sum(one.right for one in tried) / len(others)
            limited = limit if rival.name not in UNLIMITED else ""
            if limited or cap == one.caps[0]:
                usd = 1000 * sum(one.usd for one in tried) / len(others)
                figures.setdefault(rival.name + limited, []).append((share, usd))
        tuned = chosen_way(sample, others[:REPORTED], Goal(max_usd=cap))
        found = total(tuned.ways[tuned.recommended].way, others)
        share = found.right / len(others)
        figures.setdefault(f"tuned{limit}", []).append((share, 1000 * found.usd / len(others)))
        held += share >= tuned.promised
    figures.setdefault("oracle", []).append(oracle(others))
    return Promise(held, len(one.caps))


if __name__ == "__main__":
    main()
