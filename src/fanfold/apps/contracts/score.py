"""How well the clauses are found: `python score.py [--data DIR] [--roster FILE]` prints one object.

The plan is run on the contracts in DIR, and what it found is compared with what lawyers labelled:
is there a clause of this category in this contract, yes or no. Where DIR has the lawyers' own
clauses too, each quote is looked up in them: `quote_precision` is the share of all quotes that are from
a clause of the same category, `likely_precision` that of the findings that the report calls likely.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from likely import LIKELY
from rules import CATEGORIES

from fanfold import FanfoldError, read_items

HERE = Path(__file__).resolve().parent
NOT_CATEGORIES = ("id", "chars", "governing_law")
WORDS = 8  # in a row, that a quote and a lawyer's clause must share

Quotes: TypeAlias = dict[tuple[str, str], list[str]]
"""What was quoted, by contract and category."""


class Counted(NamedTuple):
    right: int = 0
    wrong: int = 0
    missed: int = 0

    def __add__(self, other: Counted) -> Counted:  # type: ignore[override]
        return Counted(*(one + two for one, two in zip(self, other, strict=True)))

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right else 0.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.right / (2 * self.right + self.wrong + self.missed) if self.right else 0.0


def main() -> None:
    options = _options()
    data = Path(options.data).resolve()
    labels = _labels(data / "labels_yesno.csv")
    known = [name for name in next(iter(labels.values())) if name not in NOT_CATEGORIES]
    covered = [name for name in known if options.roster or name in CATEGORIES]
    if not covered:
        raise FanfoldError(
            f"{data / 'labels_yesno.csv'}:1: there is no category that the rules know"
        )
    clauses = clauses_of(data / "labels.jsonl")
    receipt = _run(data, options)
    quotes: Quotes = defaultdict(list)
    found = receipt["result"] or []
    for one in found:
        quotes[one["contract"], one["category"]].append(one["evidence"])

    def scores(ids: Iterable[str]) -> dict[str, float]:
        own = [*ids]
        counted = _scores(own, covered, labels, quotes)
        return counted | _quote_scores(set(own), found, clauses) if clauses else counted

    held = [id for id in labels if not fits(id)]

    print(json.dumps({
        "app": "contracts",
        "data": {"contracts": len(labels), "labels": len(labels) * len(covered),
                 "categories": len(covered)},
        "scores": {
            "all": scores(labels),
            "fitting": scores(id for id in labels if fits(id)),
            "reporting": scores(held),
            "detail": {name: _told(_counted(held, [name], labels, quotes)) for name in covered},
        },
        "covers": covered,
        "leaves_out": [name for name in known if name not in covered],
        "default": "models" if options.roster else "a clause finder written as rules",
        "seconds": round(receipt["seconds"], 1), "calls": receipt["calls"],
        "cost_usd": receipt["cost_usd"],
    }, indent=1))  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Score the application on labelled contracts.")
    parser.add_argument("--data", default=HERE / "data", help="a folder like data/")
    parser.add_argument("--roster", help="other members than the embedded default")
    return parser.parse_args()


# ── the run ──────────────────────────────────────────────────────────────────────────────────


def _run(data: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The plan's receipt on these contracts, carried out in a copy of this folder."""
    with tempfile.TemporaryDirectory(prefix="fanfold-score-") as scratch:
        folder = Path(scratch) / "app"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("data", ".*", "__pycache__"))
        _lay_out(data, folder / "data")
        command = [sys.executable, "-P", "-m", "fanfold", "run", "plan.yaml", "--json", "--quiet"]
        if options.roster:
            command += ["--roster", str(Path(options.roster).resolve()), "--allow-paid"]
        ended = subprocess.run(
            [*command, "--store", f"{scratch}/store"], cwd=folder, capture_output=True, text=True
        )
    sys.stderr.write(ended.stderr.replace(f"{folder}/data/", f"{data}/"))
    if not ended.stdout:
        sys.exit(ended.returncode or 1)
    receipt: dict[str, Any] = json.loads(ended.stdout)
    return receipt


def _lay_out(data: Path, to: Path) -> None:
    """The contracts under the name that the plan has for them, packed as they are there."""
    plain = data / "contracts.jsonl"
    if not plain.exists() and not packed(plain).exists():
        raise FanfoldError(f"{plain}: no such file")
    to.mkdir()
    if not plain.exists():
        (to / packed(plain).name).symlink_to(packed(plain))
        return
    with plain.open("rb") as texts, gzip.open(to / packed(plain).name, "wb", 1) as out:
        shutil.copyfileobj(texts, out)


def packed(file: Path) -> Path:
    return file.with_name(f"{file.name}.gz")


# ── the truth ────────────────────────────────────────────────────────────────────────────────


def _labels(file: Path) -> dict[str, dict[str, str]]:
    """By contract: 1 where it has a clause of the category, 0 where it has none."""
    labels = {row["id"]: row for row in read_items(file, "id")}
    if not labels:
        raise FanfoldError(f"{file}: there is no contract")
    for id, row in labels.items():
        for name, label in row.items():
            if name in CATEGORIES and label not in ("0", "1"):
                raise FanfoldError(f"{file}: {id}, {name}: {label!r}; 0 or 1 is expected")
    return labels


def clauses_of(file: Path) -> Quotes:
    """The lawyers' clauses, if there are any: what they left out lies between the pieces."""
    found: Quotes = {}
    there = file.exists() or packed(file).exists()
    for row in read_items(file, "id", "labels") if there else ():
        for name, label in row["labels"].items():
            pieces = [piece for clause in label["clauses"] for piece in clause.split("<omitted>")]
            found[row["id"], name] = pieces
    return found


def fits(id: str) -> bool:
    """Whether a contract belongs to the half that the rules were made with."""
    return sha256(id.encode()).digest()[0] % 2 == 0


# ── the comparison ───────────────────────────────────────────────────────────────────────────


def _scores(
    ids: list[str], names: list[str], labels: dict[str, dict[str, str]], quotes: Quotes
) -> dict[str, float]:
    by_name = [_counted(ids, [name], labels, quotes) for name in names]
    told = _told(sum(by_name, Counted()), "micro_")
    told["macro_f1"] = _rounded(sum(one.f1 for one in by_name) / len(names))
    return told


def _quote_scores(ids: set[str], found: list[dict[str, Any]], clauses: Quotes) -> dict[str, float]:
    """Of each quote by itself, also where contract and category are wrong; with 95 % intervals."""
    own = [one for one in found if one["contract"] in ids]
    likely = [one for one in own if one["chance"] is None or one["chance"] >= LIKELY]
    told: dict[str, float] = {}
    for name, count, some in (("quote", "quotes", own), ("likely", "likely_quotes", likely)):
        right = sum(
            shares([one["evidence"]], clauses.get((one["contract"], one["category"]), []))
            for one in some
        )
        low, high = interval(right, len(some))
        told |= {
            f"{name}_precision": _rounded(right / len(some)) if some else 0.0,
            f"{name}_precision_from": _rounded(low), f"{name}_precision_to": _rounded(high),
            count: len(some),
        }  # fmt: skip
    return told


def interval(right: int, of: int) -> tuple[float, float]:
    """Wilson's, at 95 %."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, right / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return middle - half, middle + half


def _counted(
    ids: Iterable[str], names: list[str], labels: dict[str, dict[str, str]], quotes: Quotes
) -> Counted:
    counted = Counted()
    for id in ids:
        for name in names:
            there, found = labels[id][name] == "1", (id, name) in quotes
            counted += Counted(there and found, found and not there, there and not found)
    return counted


def shares(quotes: list[str], clauses: list[str]) -> bool:
    """Whether so many words in a row stand in both."""
    return not _runs(quotes).isdisjoint(_runs(clauses))


def _runs(texts: list[str]) -> set[tuple[str, ...]]:
    """All that stands in a row in these texts, so many words at a time."""
    words = [text.lower().split() for text in texts]
    return {
        tuple(one[at : at + WORDS]) for one in words for at in range(max(1, len(one) - WORDS + 1))
    }


def _told(counted: Counted, prefix: str = "") -> dict[str, float]:
    named: dict[str, Callable[[Counted], float]] = {
        "precision": lambda one: one.precision, "recall": lambda one: one.recall, "f1": lambda one: one.f1,
    }  # fmt: skip
    return {prefix + name: _rounded(measure(counted)) for name, measure in named.items()}


def _rounded(share: float) -> float:
    return round(share, 3)


if __name__ == "__main__":
    try:
        main()
    except FanfoldError as error:
        print(f"score.py: {error}", file=sys.stderr)
        sys.exit(2)
