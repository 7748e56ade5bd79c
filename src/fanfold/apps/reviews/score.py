"""How good is the embedded member at sentiment, at the mean of a department, at aspects?

    python score.py [--data DIR] [--local N]

DIR has reviews.csv and aspect_sentences.jsonl, or only the first of them (default: data beside this
file). The plan is run as it
stands in a temporary copy, on the reviews and, as if they were reviews, on the sentences; one JSON
object comes out. `--local N` also has the embedded model label N reviews, by sentiment.yaml.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fit import macro_f1
from halves import HERE, Sentence, fits, label_of, reviews, sentences
from measure import as_review, aspect_counts, spoken
from reading import label

from fanfold import FanfoldError

DONE = (0, 1)  # exit codes of a run that came to its end
FEW = 30  # reviews of a department from which its mean is compared
COLUMNS = ("id", "title", "text", "department")

Rows = list[dict[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="score.py")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--local", type=int, default=0, metavar="N")
    asked = parser.parse_args()
    rows, labelled = reviews(asked.data), sentences(asked.data)
    if not rows:
        raise FanfoldError(f"{asked.data / 'reviews.csv'}: there is no review")
    with tempfile.TemporaryDirectory(prefix="fanfold-score-") as name:
        app = Path(name) / "reviews"
        shutil.copytree(HERE, app, ignore=shutil.ignore_patterns("data", "__pycache__", ".fanfold"))
        receipt = run(app, rows)
        read = _json(app / "summary.json")
        run(app, [as_review(n, one) for n, one in enumerate(labelled)])
        found = {
            "app": "reviews",
            "data": {"reviews": len(rows), "sentences": len(labelled)},
            "scores": {**_halves(rows, labelled, read, _json(app / "summary.json"))},
            "default": "a fitted linear model and patterns",
            "seconds": receipt["seconds"], "calls": receipt["calls"], "cost_usd": receipt["cost_usd"],
        }  # fmt: skip
        if asked.local:
            found["scores"]["embedded model"] = _local(app, rows, asked.local)
    print(json.dumps(found, indent=2))


# ── runs ─────────────────────────────────────────────────────────────────────────────────────


def run(app: Path, rows: Rows, plan: str = "plan.yaml", *more: str) -> dict[str, Any]:
    """The plan on these rows, without what is to be found out: nobody sees the stars."""
    (app / "data").mkdir(exist_ok=True)
    file = app / "data" / "reviews.csv.gz"
    with gzip.open(file, "wt", 1, encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, COLUMNS, extrasaction="ignore", restval="")
        table.writeheader()
        table.writerows(rows)
    command = [sys.executable, "-P", "-m", "fanfold", "run", plan, "--json", "--quiet", *more]
    ended = subprocess.run(
        [*command, "--store", str(app / "store")], cwd=app, stdout=subprocess.PIPE, check=False
    )
    if ended.returncode not in DONE:
        sys.exit(ended.returncode)
    receipt: dict[str, Any] = json.loads(ended.stdout)
    return receipt


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


# ── figures ──────────────────────────────────────────────────────────────────────────────────


def _halves(rows: Rows, labelled: list[Sentence], read: Any, heard: Any) -> dict[str, Any]:
    said = {review["id"]: review for review in read["reviews"]}
    heard_in = spoken(heard)
    numbered = list(enumerate(labelled))
    found = {}
    for name, wanted in (("all", (True, False)), ("fitting", (True,)), ("reporting", (False,))):
        own = [row for row in rows if fits(row["id"]) in wanted]
        about = [(heard_in[str(n)], one) for n, one in numbered if fits(one.id) in wanted]
        found[name] = _sentiment(own, said) | (_aspects(about) if labelled else {})
    detail = _departments([row for row in rows if not fits(row["id"])], said)
    return found | {"detail": detail}


def _sentiment(rows: Rows, said: dict[str, Any]) -> dict[str, float]:
    """A review that was not read counts as neutral, one that was not judged as wrong; both are left out
    of the means."""
    labels = [said[row["id"]]["sentiment"] if row["id"] in said else "neutral" for row in rows]
    means = _means(rows, said)
    errors = [abs(true - guess) for _, true, guess in means]
    return {
        "sentiment_macro_f1": round(macro_f1(map(label_of, rows), labels), 4),
        "two_labels_balanced": round(_balanced(rows), 4),
        "department_mean_error": round(_mean(errors), 4),
    }


def _balanced(rows: Rows) -> float:
    """Content or not, as sentiment.yaml has it: the mean of the shares of both sides that are right;
    reviews with 3 stars are on neither."""
    right: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        if (truth := label_of(row)) != "neutral":
            right[truth].append(label(row)["sentiment"] == truth)
    return _mean(map(_mean, right.values()))


def _means(rows: Rows, said: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Of each department that has a few reviews: the stars that were given, and those guessed."""
    groups: dict[str, Rows] = defaultdict(list)
    for row in rows:
        if row["id"] in said and said[row["id"]]["stars"] is not None:
            groups[row.get("department") or "other"].append(row)
    return [
        (name, _mean(float(row["rating"]) for row in own), _mean(said[row["id"]]["stars"] for row in own))
        for name, own in sorted(groups.items())
        if len(own) >= FEW
    ]  # fmt: skip


def _departments(rows: Rows, said: dict[str, Any]) -> dict[str, float]:
    found = {}
    for name, true, guess in _means(rows, said):
        found[f"{name}: stars"] = round(true, 3)
        found[f"{name}: guessed"] = round(guess, 3)
    return found


def _aspects(about: list[tuple[dict[str, int], Sentence]]) -> dict[str, float]:
    counts = aspect_counts(about)
    return {
        "aspect_precision": round(counts.right / max(1, counts.found), 4),
        "aspect_recall": round(counts.met / max(1, counts.there), 4),
        "aspect_sign": round(counts.signs / max(1, counts.met), 4),
    }


def _mean(values: Iterable[float]) -> float:
    held = list(values)
    return sum(held) / len(held) if held else 0.0


# ── the embedded model ───────────────────────────────────────────────────────────────────────


def _local(app: Path, rows: Rows, many: int) -> dict[str, float]:
    """Two labels, over reviews of the reporting half without 3 stars, as many of each; and those of
    the fitted weights for the same ones."""
    sides = {
        name: [row for row in rows if label_of(row) == name and not fits(row["id"])][: many // 2]
        for name in ("negative", "positive")
    }
    taken = [*sides["negative"], *sides["positive"]]
    truth = [label_of(row) for row in taken]
    receipt = run(app, taken, "sentiment.yaml", "--roster", "local.yaml")
    small = _right(truth, taken, app)
    run(app, taken, "sentiment.yaml")
    fitted = _right(truth, taken, app)
    return {
        "reviews": len(taken),
        "right": round(_mean(small), 4),
        "fitted weights right": round(_mean(fitted), 4),
        "only the model right": sum(a and not b for a, b in zip(small, fitted, strict=True)),
        "only the weights right": sum(b and not a for a, b in zip(small, fitted, strict=True)),
        "seconds": receipt["seconds"],
    }


def _right(truth: list[str], rows: Rows, app: Path) -> list[bool]:
    said = {one["id"]: one["value"]["sentiment"] for one in _json(app / "labels.json")}
    return [said.get(row["id"]) == one for row, one in zip(rows, truth, strict=True)]


if __name__ == "__main__":
    try:
        main()
    except FanfoldError as error:
        print(f"score.py: {error}", file=sys.stderr)
        sys.exit(2)
