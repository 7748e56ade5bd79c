"""Ensembles scored on recorded answers of real models, through the engine and `replay` members.

    python bench/ensembles.py [--data DIR]

Prints a Markdown table. DIR holds the folders recorded_zeroeval_gsm and recorded_mmlu_pro; by
default the copies in tests/data, which have the answers of the models used here. The first half of
the questions chooses the voters, their order and their weights; accuracy is on the second half.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple

from fanfold.observe.script import open_run
from fanfold.patterns.ensemble import ensemble

DATA = Path(__file__).parent.parent / "tests" / "data"
VOTERS = 5
COVERED = 0.95  # of the questions, to be chosen
SMALL = {  # open models of up to 14 billion parameters, one of a family
    "gsm": ("Meta-Llama-3.1-8B-Instruct", "Mistral-Nemo-Instruct-2407", "Phi-3.5-mini-instruct",
            "Qwen2-7B-Instruct", "Yi-1.5-9B-Chat", "gemma-2-9b-it"),
    "mmlu": ("Meta-Llama-3_1-8B-Instruct", "Mistral-7B-Instruct-v0.2", "Phi-3-mini-4k-instruct",
             "Qwen1.5-7B-Chat", "gemma-7b", "mathstral-7B"),
}  # fmt: skip
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Row(NamedTuple):
    id: str
    gold: str
    answers: dict[str, str]


class Recorded(NamedTuple):
    """`options`: how many answers a question offers; 0 is any number."""

    name: str
    options: int
    rows: list[Row]

    @property
    def halves(self) -> tuple[list[Row], list[Row]]:
        middle = len(self.rows) // 2
        return self.rows[:middle], self.rows[middle:]

    def right(self, row: Row, answer: Any) -> bool:
        """Scored leniently: the last number in the text. Votes are compared more strictly."""
        if answer is None:
            return False
        if self.options:
            return str(answer) == row.gold
        numbers = _NUMBER.findall(str(answer).replace(",", ""))
        return bool(numbers) and float(numbers[-1]) == float(row.gold)

    def accuracy(self, rows: Iterable[Row], answers: dict[str, Any]) -> float:
        scored = [self.right(row, answers.get(row.id)) for row in rows]
        return sum(scored) / len(scored)

    def of_one(self, rows: Iterable[Row], model: str) -> float:
        return self.accuracy(rows, {row.id: row.answers.get(model) for row in self.rows})


# ── what was recorded ────────────────────────────────────────────────────────────────────────


def load(data: Path) -> list[Recorded]:
    return [
        Recorded("gsm", 0, _rows(data / "recorded_zeroeval_gsm")),
        Recorded("mmlu", 10, _rows(data / "recorded_mmlu_pro")),
    ]


def _rows(folder: Path) -> list[Row]:
    """As they were collected, or as the copies have them: one column for each model."""
    if (folder / "records.jsonl").exists():
        lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
        return [_record(json.loads(line)) for line in lines]
    whole = folder / "predictions.csv"
    file = whole if whole.exists() else folder / "answers.csv"
    with file.open(encoding="utf-8", newline="") as stream:
        return [_line(line) for line in csv.DictReader(stream)]


def _record(record: dict[str, Any]) -> Row:
    answers = {name: one["a"] for name, one in record["answers"].items() if one["a"]}
    return Row(record["id"], record["gold"].removeprefix("# ").replace(",", ""), answers)


def _line(line: dict[str, str]) -> Row:
    """An empty field: no answer could be read; NA: the model was not asked."""
    id, gold, *answers = line.items()
    return Row(id[1], gold[1], {name: said for name, said in answers if said not in ("", "NA")})


# ── who votes ────────────────────────────────────────────────────────────────────────────────


def panels(recorded: Recorded) -> dict[str, list[str]]:
    """The five that do best on the first half; and the five best of the small ones."""
    first, _ = recorded.halves
    models = sorted({name for row in recorded.rows for name in row.answers})
    covered = [
        name
        for name in models
        if sum(name in row.answers for row in recorded.rows) >= COVERED * len(recorded.rows)
    ]
    small = [name for name in models if name in SMALL[recorded.name]]

    def best(names: list[str]) -> list[str]:
        return sorted(names, key=lambda name: -recorded.of_one(first, name))[:VOTERS]

    return {"best": best(covered), "small": best(small)}


def weights(recorded: Recorded, members: Sequence[str]) -> dict[str, float]:
    """The log-odds of being right on the first half, against one of the other options."""
    first, _ = recorded.halves
    found = {}
    for name in members:
        right = recorded.of_one(first, name) * len(first)
        odds = (right + 1) / (len(first) - right + 1)
        found[name] = max(0.0, log(odds * max(1, recorded.options - 1)))
    return found


# ── voting ───────────────────────────────────────────────────────────────────────────────────


class Held(NamedTuple):
    answers: dict[str, Any]
    calls: int


async def hold(folder: Path, rows: Sequence[Row], members: Sequence[str], **knobs: Any) -> Held:
    """A vote on each question by the real engine, in a store of its own."""
    roster = _roster(folder, rows, members)
    with tempfile.TemporaryDirectory(dir=folder) as store:
        async with open_run("vote", roster=roster, store=store, max_concurrency=512) as run:
            folded = await ensemble(
                run, [{"id": row.id} for row in rows], prompt="{{ item.id }}", members=members,
                concurrency=64, attempts=1, **knobs,
            )  # fmt: skip
    return Held({one["id"]: one["answer"] for one in folded.value}, folded.receipt.calls)


def _roster(folder: Path, rows: Sequence[Row], members: Sequence[str]) -> Path:
    """A file of recorded replies for each member."""
    listed = []
    for name in members:
        file = folder / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.jsonl"
        replies = [
            {"id": row.id, "reply": row.answers[name]} for row in rows if name in row.answers
        ]
        file.write_text("".join(json.dumps(reply) + "\n" for reply in replies), encoding="utf-8")
        limits = {"concurrency": 512}
        listed.append({"id": name, "kind": "replay", "file": file.name, "limits": limits})
    roster = folder / "roster.yaml"
    roster.write_text(json.dumps({"members": listed}), encoding="utf-8")  # JSON is YAML
    return roster


async def ways(folder: Path, recorded: Recorded, members: list[str]) -> dict[str, Held]:
    """Each way to decide, over the second half."""
    _, second = recorded.halves
    fitted = {"decide": "weighted", "weights": weights(recorded, members)}
    knobs: dict[str, dict[str, Any]] = {
        "plurality": {"decide": "plurality"},
        "plurality, early stop": {"decide": "plurality", "stop_early": True},
        "weighted": fitted,
        "weighted, early stop": {**fitted, "stop_early": True},
        "two agree": {"decide": "plurality", "confidence": 1.0, "quorum": 2},
    }
    held = {"best single": await hold(folder, second, members[:1])}
    for name, knob in knobs.items():
        held[name] = await hold(folder, second, members, **knob)
    return held


# ── the table ────────────────────────────────────────────────────────────────────────────────


def table(recorded: Recorded, panel: str, held: dict[str, Held]) -> list[str]:
    _, second = recorded.halves
    full = len(second) * VOTERS
    lines = []
    for way, found in held.items():
        accuracy = recorded.accuracy(second, found.answers)
        saved = (
            "" if found.calls >= full or way == "best single" else f"{1 - found.calls / full:.1%}"
        )
        lines.append(
            f"| {recorded.name} | {panel} | {way} | {accuracy:.2%} | {found.calls} | {saved} |"
        )
    return lines


async def main(data: Path) -> None:
    print("| data | voters | way | accuracy | calls | calls saved |")
    print("|---|---|---|---:|---:|---:|")
    notes = []
    with tempfile.TemporaryDirectory(prefix="fanfold-ensembles-") as name:
        for recorded in load(data):
            _, second = recorded.halves
            for panel, members in panels(recorded).items():
                held = await ways(Path(name), recorded, members)
                print("\n".join(table(recorded, panel, held)), flush=True)
                hindsight = max(recorded.of_one(second, member) for member in members)
                shown = ", ".join(f"{k} {v:.2f}" for k, v in weights(recorded, members).items())
                notes.append(
                    f"{recorded.name}, {panel}: {len(second)} questions; weights {shown};"
                    f" the best single one in hindsight: {hindsight:.2%}"
                )
    print("\n" + "\n".join(f"- {note}" for note in notes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench/ensembles.py")
    parser.add_argument("--data", type=Path, default=DATA)
    asyncio.run(main(parser.parse_args().data))
