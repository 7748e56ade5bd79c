"""Cell by cell against the clean tables: `python score.py [--data DIR]` prints one JSON object.

A copy of the application that has only the dirty tables is run, streaming and then as a batch, and
its changes are counted: *precision*, the share of changes that give the clean
cell; *recall*, the share of wrong cells that were put right; *damage*, how many of 1,000 right cells
were made wrong.
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
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import learn
import repair
from api import read_table

HERE = Path(__file__).resolve().parent
LARGE = 100  # rows from which a table has a figure of its own
Rows: TypeAlias = list[list[str]]


class Cell(NamedTuple):
    """`now` is what the run made of it."""

    table: str
    row: int
    dirty: str
    clean: str
    now: str


class Told(NamedTuple):
    """The receipt of a run, and its changes by table, row and column."""

    receipt: dict[str, Any]
    changes: dict[tuple[str, int, str], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    data = parser.parse_args().data.resolve()
    tables = sorted(path.parent for path in data.glob("*/clean.csv"))
    if not tables:
        refused(f"{data}: no table; a folder NAME with dirty.csv and clean.csv is expected")
    streaming, batch = carried_out(tables, "streaming"), carried_out(tables, "batch")
    cells = [cell for folder in tables for cell in compared(folder, streaming.changes)]
    held = [cell for cell in cells if half(cell) == "reporting"]
    told = {
        "app": "etl",
        "data": {"tables": len(tables), "rows": sum(len(read(t / "dirty.csv")) - 1 for t in tables)},
        "scores": {
            "all": {**measured(cells), **by_table(cells)},
            "fitting": measured(cell for cell in cells if half(cell) == "fitting"),
            "reporting": {**measured(held), **by_table(held)},
            "detail": {
                **{folder.name: measured(c for c in held if c.table == folder.name) for folder in tables},
                "without_first_hand": by_majority(tables),
                "modes": modes(streaming, batch),
            },
        },
        "default": "cleaning rules that learn from the table itself",
        "seconds": streaming.receipt["seconds"],
        "calls": streaming.receipt["calls"],
        "cost_usd": streaming.receipt["cost_usd"],
    }  # fmt: skip
    print(json.dumps(told, indent=2))


# ── the run ──────────────────────────────────────────────────────────────────────────────────


def carried_out(tables: list[Path], mode: str) -> Told:
    """The plan, in a copy of its folder that holds no clean table."""
    with tempfile.TemporaryDirectory() as scratch:
        app = Path(scratch) / "etl"
        shutil.copytree(HERE, app, ignore=shutil.ignore_patterns("data", "__pycache__", ".fanfold"))
        for folder in tables:
            (app / "data" / folder.name).mkdir(parents=True)
            shutil.copy(folder / "dirty.csv", app / "data" / folder.name)
        plan = app / "plan.yaml"
        plan.write_text(
            plan.read_text(encoding="utf-8").replace("mode: streaming", f"mode: {mode}")
        )
        receipt = _run(app, Path(scratch) / "store")
        with (app / "changes.csv").open(newline="", encoding="utf-8") as stream:
            changes = list(csv.DictReader(stream))
    return Told(receipt, {(c["table"], int(c["row"]), c["column"]): c["to"] for c in changes})


def _run(app: Path, store: Path) -> dict[str, Any]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environ = {name: value for name, value in os.environ.items() if name != "ETL_API"}
    words = ["run", "plan.yaml", "--json", "--quiet", "--store", str(store)]
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "fanfold", *words], cwd=app, env={**environ, "PATH": path},
        stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    if ended.returncode:
        refused(f"the run ended with {ended.returncode}")
    receipt: dict[str, Any] = json.loads(ended.stdout)
    return receipt


def modes(streaming: Told, batch: Told) -> dict[str, float]:
    differ = streaming.changes.items() ^ batch.changes.items()
    return {
        "streaming_seconds": streaming.receipt["seconds"],
        "batch_seconds": batch.receipt["seconds"],
        "cells_that_differ": len(differ),
    }


# ── the measure ──────────────────────────────────────────────────────────────────────────────


def read(path: Path) -> Rows:
    return read_table(path)[0]


def compared(folder: Path, changes: dict[tuple[str, int, str], str]) -> list[Cell]:
    columns, *dirty = read(folder / "dirty.csv")
    _, *clean = read(folder / "clean.csv")
    return [
        Cell(folder.name, at, was, truth, changes.get((folder.name, at, column), was))
        for at, (row, right) in enumerate(zip(dirty, clean, strict=True))
        for column, was, truth in zip(columns, row, right, strict=True)
    ]


def half(cell: Cell) -> str:
    digest = sha256(f"{cell.table}/{cell.row}".encode()).digest()
    return "reporting" if digest[0] % 2 else "fitting"


def measured(cells: Iterable[Cell]) -> dict[str, float]:
    listed = list(cells)
    wrong = sum(cell.dirty != cell.clean for cell in listed)
    changed = [cell for cell in listed if cell.now != cell.dirty]
    right = sum(cell.now == cell.clean for cell in changed)
    spoiled = sum(cell.dirty == cell.clean for cell in changed)
    precision, recall = _share(right, len(changed)), _share(right, wrong)
    return {
        "precision": precision,
        "recall": recall,
        "f1": _share(2 * precision * recall, precision + recall),
        "damage_per_1000": _share(1000 * spoiled, len(listed) - wrong),
    }


def by_table(cells: list[Cell]) -> dict[str, float]:
    """The F1 of each table that is large enough to learn anything from."""
    names = dict.fromkeys(cell.table for cell in cells)
    found = {name: [cell for cell in cells if cell.table == name] for name in names}
    large = {name: one for name, one in found.items() if one[-1].row + 1 >= LARGE}
    return {f"f1_{name}": measured(one)["f1"] for name, one in large.items()}


def by_majority(tables: list[Path]) -> dict[str, float]:
    """The same rules without the one that a thing's own report goes before the others."""
    changes: dict[tuple[str, int, str], str] = {}
    for folder in tables:
        columns, *rows = read(folder / "dirty.csv")
        signs = list(learn.signs(learn.learn(columns, rows, first_hand=False)))
        decided: Callable[[dict[str, Any]], dict[str, Any]] = repair.rows
        for change in decided({"rows": signs})["changes"]:
            changes[folder.name, change["row"], change["column"]] = change["to"]
    cells = [cell for folder in tables for cell in compared(folder, changes)]
    held = [cell for cell in cells if half(cell) == "reporting"]
    return {"f1": measured(held)["f1"], **by_table(held)}


def _share(part: float, whole: float) -> float:
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
