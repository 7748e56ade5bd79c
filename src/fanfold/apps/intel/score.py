"""The matrix against truth.csv: `python score.py [--data DIR]` prints one JSON object.

Scored are the cells that the material can answer, by these rules: the licence, where there is the
beginning of a licence file or a README that speaks of a licence; the language, years and number of
commits, where git's counts are there; the releases, where there are tags with a version; Docker and
Kubernetes, where there is a README, but of one that was cut only what can be seen in it. Commits of the
last 365 days and the number of authors cannot be answered by any of it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Container, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import licences

HERE = Path(__file__).resolve().parent


def _same(value: str) -> str:
    return value.strip().lower()


def _year(value: str) -> str:
    return value[:4]


def _said(value: str) -> str:
    return "yes" if value == "True" else "not stated"


# Of truth.csv: the field of the matrix it is compared with, and how it is written there.
COLUMNS: dict[str, tuple[str | None, Callable[[str], str]]] = {
    "licence": ("licence", _same),
    "main_language": ("language", _same),
    "first_commit": ("since", _year),
    "last_commit": ("data_end", _year),
    "commits": ("commits", _same),
    "version_tags": ("tags", _same),
    "latest_tag": ("latest_tag", _same),
    "readme_mentions_docker": ("docker", _said),
    "readme_mentions_kubernetes": ("kubernetes", _said),
    "commits_last_365d": (None, _same),
    "distinct_author_emails": (None, _same),
}


class Cell(NamedTuple):
    product: str
    column: str
    answerable: bool
    right: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    data = parser.parse_args().data.resolve()
    with (data / "truth.csv").open(newline="", encoding="utf-8-sig") as stream:
        truth = {row["product"]: row for row in csv.DictReader(stream)}
    receipt, matrix = carried_out(data)
    cells = [cell for name in truth for cell in compared(data, truth[name], matrix.get(name, {}))]
    held = [cell for cell in cells if half(cell.product) == "reporting"]
    print(json.dumps({
        "app": "intel",
        "data": {"products": len(truth), "cells": len(cells), "answerable": len(answered(cells))},
        "scores": {
            "all": measured(cells, matrix),
            "fitting": measured((one for one in cells if half(one.product) == "fitting"), matrix),
            "reporting": measured(held, matrix),
            "detail": {
                column: measured(cell for cell in held if cell.column == column)
                for column in dict.fromkeys(cell.column for cell in answered(held))
            }
            | {"licence_from_readme_alone": readme_alone(data, {
                name: one for name, one in truth.items() if half(name) == "reporting"
            })},
        },
        "default": "reading rules: licence texts, file endings, words of a README",
        "seconds": receipt["seconds"],
        "calls": receipt["calls"],
        "cost_usd": receipt["cost_usd"],
    }, indent=2))  # fmt: skip


def carried_out(data: Path) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """The plan, in a copy of its folder that does not hold the truth; the matrix by product."""
    with tempfile.TemporaryDirectory() as scratch:
        app = Path(scratch) / "intel"
        shutil.copytree(HERE, app, ignore=shutil.ignore_patterns("data", "__pycache__", ".fanfold"))
        for folder in ("texts", "evidence"):
            if (data / folder).is_dir():
                shutil.copytree(data / folder, app / "data" / folder)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        words = ["run", "plan.yaml", "--json", "--quiet", "--store", str(Path(scratch) / "store")]
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "fanfold", *words], cwd=app, env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE, check=False,
        )  # fmt: skip
        if ended.returncode not in (0, 1):  # 1: a product is missing, and named
            refused(f"the run ended with {ended.returncode}")
        receipt = json.loads(ended.stdout)
    return receipt, {row["product"]: row for row in receipt["result"]}


# ── the measure ──────────────────────────────────────────────────────────────────────────────


def compared(data: Path, truth: dict[str, str], row: dict[str, str]) -> list[Cell]:
    name = truth["product"]
    told = _material(data, name)
    return [
        Cell(name, column, told.answers(column, truth), _right(row, field, form, truth[column]))
        for column, (field, form) in COLUMNS.items()
    ]


def _right(row: dict[str, str], field: str | None, form: Callable[[str], str], truth: str) -> bool:
    return field is not None and _same(row.get(field, "")) == form(truth)


class Material(NamedTuple):
    """What there is to read about a product."""

    readme: str
    known: dict[str, Any]
    versions: bool

    def answers(self, column: str, truth: dict[str, str]) -> bool:
        """Whether this can answer a column of truth.csv, by the rules above."""
        match column:
            case "licence":
                return bool(self.known.get("licence_file_head")) or "licen" in self.readme
            case "main_language":
                return bool(self.known.get("bytes_by_extension"))
            case "first_commit" | "last_commit" | "commits":
                return bool(self.known.get("commits_by_year"))
            case "version_tags" | "latest_tag":
                return self.versions
            case "readme_mentions_docker" | "readme_mentions_kubernetes":
                seen = column.rpartition("_")[2] in self.readme
                return bool(self.readme) and (seen or truth["readme_truncated"] != "True")
            case _:
                return False


def _material(data: Path, name: str) -> Material:
    readme, known = data / "texts" / f"{name}.md", data / "evidence" / f"{name}.json"
    tags = data / "evidence" / f"{name}.tags.txt"
    lines = tags.read_text(encoding="utf-8").splitlines() if tags.exists() else []
    return Material(
        readme.read_text(encoding="utf-8").lower() if readme.exists() else "",
        json.loads(known.read_text(encoding="utf-8")) if known.exists() else {},
        any(any(sign.isdigit() for sign in line.partition(" ")[2]) for line in lines),
    )


def readme_alone(data: Path, truth: dict[str, dict[str, str]]) -> dict[str, float]:
    """The licence, read as if there were no licence file."""
    readmes = {name: data / "texts" / f"{name}.md" for name in truth}
    found = {
        name: licences.of_readme(path.read_text(encoding="utf-8"))
        for name, path in readmes.items()
        if path.exists()
    }
    said = {name: one.name for name, one in found.items() if one is not None}
    right = sum(_same(one) == _same(truth[name]["licence"]) for name, one in said.items())
    return {"right": _share(right, len(said)), "right_of_all": _share(right, len(truth))}


def half(product: str) -> str:
    return "reporting" if sha256(product.encode()).digest()[0] % 2 else "fitting"


def answered(cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.answerable]


def measured(cells: Iterable[Cell], matrix: Container[str] | None = None) -> dict[str, float]:
    """The share of answerable cells that are right, and of all cells those that are; how many can be
    answered; the share of products that the matrix names."""
    listed = list(cells)
    open_to = answered(listed)
    found = {
        "right": _share(sum(cell.right for cell in open_to), len(open_to)),
        "right_of_all": _share(sum(cell.right for cell in listed), len(listed)),
    }
    if matrix is None:
        return found
    names = {cell.product for cell in listed}
    named = _share(sum(name in matrix for name in names), len(names))
    return {**found, "cells": len(open_to), "named": named}


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def refused(why: str) -> NoReturn:
    """One line, and the exit code of bad input."""
    sys.stderr.write(f"score.py: {why}\n")
    sys.exit(2)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, LookupError) as error:
        refused(f"the data cannot be scored: {type(error).__name__}: {error}")
