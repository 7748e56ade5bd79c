"""Does what `fanfold tune` chooses hold on other items? On recorded answers of real models.

    python bench/tuning.py DIR [SPLITS [SET…]]

DIR has recorded_zeroeval_gsm, recorded_zeroeval_crux, recorded_mmlu_pro and recorded_prices. In each
split a sample of at most 400 items, drawn from one half, chooses, and 200 of the other half give the bound
that is promised; figures are those of the whole other half. Lengths were recorded in characters: a cost
is an estimate, four of them to a token.
"""

from __future__ import annotations

import csv
import json
import sys
from math import log
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any, NamedTuple

from fanfold.tune.choose import Goal, chosen_way
from fanfold.tune.policy import Labelled, LabelledReply, Single, VoteInOrder, Way, total
from fanfold.work.vote import ballot

MOST, REPORTED = 400, 200
PANEL = 5
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


def rivals(sample: list[Labelled]) -> dict[str, Way]:
    """Chosen on the same sample: the best single member; the five best, by majority and weighted."""
    names = sorted({name for item in sample for name in item.replies})
    share = {name: total(Single(name), sample).right / len(sample) for name in names}
    best = tuple(sorted(names, key=lambda name: -share[name])[:PANEL])
    odds = tuple(round(max(0.05, log(share[name] / (1.001 - share[name]))), 2) for name in best)
    return {
        "best single": Single(best[0]),
        "majority of the five best": VoteInOrder(best),
        "weighted, five best": VoteInOrder(best, odds),
    }


def main() -> None:
    data, splits = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    for one in sets(data):
        for line in table(one, splits) if one.name in (sys.argv[3:] or [one.name]) else ():
            print(line, flush=True)


def table(one: Set, splits: int) -> list[str]:
    """Means over the splits: share that is right, dollars for 1,000; how often the promise held."""
    figures: dict[str, list[tuple[float, float]]] = {}
    held = promised = 0
    for seed in range(splits):
        items = Random(seed).sample(one.items, len(one.items))
        middle = len(items) // 2
        sample, others = items[:middle][:MOST], items[middle:]

        def add(name: str, way: Way, others: list[Labelled] = others) -> float:
            found = total(way, others)
            share = found.right / len(others)
            figures.setdefault(name, []).append((share, 1000 * found.usd / len(others)))
            return share

        for name, way in rivals(sample).items():
            add(name, way)
        for cap in one.caps:
            tuned = chosen_way(sample, others[:REPORTED], Goal(max_usd=cap))
            share = add(f"tuned, at most ${cap:.2f}", tuned.ways[tuned.recommended].way)
            held, promised = held + (share >= tuned.promised), promised + 1
        solved = [any(reply.right for reply in item.replies.values()) for item in others]
        figures.setdefault("oracle", []).append((mean(solved), 0.0))
    lines = [f"{one.name}: {len(one.items)} items, {splits} splits"]
    for name, found in figures.items():
        share, usd = (mean(values) for values in zip(*found, strict=True))
        lines.append(f"  {name:28} {share:.1%}  ${usd:.2f}")
    return [*lines, f"  the promised bound (95 %) held in {held} of {promised}"]


if __name__ == "__main__":
    main()
