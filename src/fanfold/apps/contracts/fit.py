"""Fits `weights.json` on the fitting half of the labelled contracts: `python fit.py [--data DIR]`.

A few seconds, in Python alone; the same data give the same file. Only words that are quoted from
several contracts are kept. What the report says of the quotes is measured on the other half and kept
beside the weights. After a change of the rules it is run again.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import likely
from clauses import candidates, flag_risks
from score import HERE, Quotes, clauses_of, fits, shares

from fanfold import read_items

LEAST = 6  # contracts in which a word must be quoted
PENALTY = 10.0  # chosen by cross-validation over the contracts of the fitting half


def main() -> None:
    parser = argparse.ArgumentParser(prog="fit.py")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    data = parser.parse_args().data
    labelled = clauses_of(data / "labels.jsonl")
    contracts = list(read_items(data / "contracts.jsonl", "id", "text"))
    made = fitted([one for one in contracts if fits(one["id"])], labelled)
    _write(made)
    others = [one for one in contracts if not fits(one["id"])]
    _write({"reporting": counted(others, labelled), **made})


def fitted(contracts: list[dict[str, Any]], labelled: Quotes) -> dict[str, Any]:
    """The weights, from all that the rules find, not only from what is shown of it."""
    rows: list[list[str]] = []
    truth: list[bool] = []
    seen: dict[str, set[str]] = defaultdict(set)
    for contract in contracts:
        found = list(chain.from_iterable(candidates(contract["text"])))
        truth += _truth(contract["id"], found, labelled)
        for one in found:
            rows.append(likely.features(one))
            for name in rows[-1]:
                seen[name].add(contract["id"])
    kept = {name for name, ids in seen.items() if len(ids) >= LEAST or name.startswith("category ")}
    bias, weights = likely.fit(
        [[name for name in row if name in kept] for row in rows], truth, PENALTY
    )
    return {
        "bias": round(bias, 3), "weights": {name: round(one, 3) for name, one in weights.items()}
    }  # fmt: skip


def counted(contracts: list[dict[str, Any]], labelled: Quotes) -> dict[str, list[int]]:
    """As `likely.measured` describes it."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for contract in contracts:
        found = flag_risks(contract)["findings"]
        for one, right in zip(found, _truth(contract["id"], found, labelled), strict=True):
            groups = ["all", one["category"]]
            for name in [*groups, "likely"] if likely.chance(one) >= likely.LIKELY else groups:
                counts[name] = [counts[name][0] + right, counts[name][1] + 1]
    return dict(sorted(counts.items()))


def _truth(id: str, found: list[dict[str, Any]], labelled: Quotes) -> Iterator[bool]:
    return (shares([one["evidence"]], labelled.get((id, one["category"]), [])) for one in found)


def _write(made: dict[str, Any]) -> None:
    lines = (f"{json.dumps(name)}: {_spread(one)}" for name, one in made.items())
    likely.FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    likely._model.cache_clear()


def _spread(value: Any) -> str:
    """A line for each entry of an object."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "\n}"


if __name__ == "__main__":
    main()
