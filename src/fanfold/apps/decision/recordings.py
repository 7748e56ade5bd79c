"""The recordings: which letter each model chose, how long its answer was, and what that would cost.

    python recordings.py [FOLDER]

writes the files that the roster's `replay` members read, FOLDER/replies/MODEL.jsonl, from
FOLDER/predictions.csv, output_chars.csv and questions.jsonl (default: data).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from fanfold import FanfoldError, read_items

HERE = Path(__file__).parent
NO_ANSWER = ("", "NA")  # none could be read from the reply; the model was not asked
CHARS = 4  # of a token, about


class Voter(NamedTuple):
    """One of the panel, with its list price in dollars per million tokens."""

    model: str
    input: float
    output: float


class Question(NamedTuple):
    """`answers` and `lengths` (characters of the whole recorded reply) by model."""

    id: str
    category: str
    gold: str
    asked: int
    answers: dict[str, str]
    lengths: dict[str, int]


def panel() -> list[Voter]:
    """In the order in which they are asked, the same as in roster.yaml."""
    return [
        Voter(row["model"], float(row["usd_per_mtok_in"]), float(row["usd_per_mtok_out"]))
        for row in read_items(HERE / "panel.csv")
    ]


def load(folder: Path) -> list[Question]:
    """All questions with what was recorded, in the order of questions.jsonl."""
    said = _by_question(folder / "predictions.csv", "gold")
    long = _by_question(folder / "output_chars.csv")
    found = {}
    for item in items(folder / "questions.jsonl"):
        one = _question(item, said, long)
        if one.id in found:
            raise FanfoldError(
                f"{folder / 'questions.jsonl'}: the question {one.id} stands there twice"
            )
        found[one.id] = one
    return list(found.values())


def items(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of the plan's input."""
    return read_items(file, "qid", "category", "question", "options")


def _by_question(file: Path, *columns: str) -> _Rows:
    return _Rows(file, {row.pop("qid"): row for row in read_items(file, "qid", *columns)})


class _Rows(NamedTuple):
    """A table, by question."""

    file: Path
    by_question: dict[str, dict[str, str]]

    def of(self, id: str) -> dict[str, str]:
        if id not in self.by_question:
            raise FanfoldError(f"{self.file}: there is no row for the question {id}")
        return self.by_question[id]


def _question(item: dict[str, Any], said: _Rows, long: _Rows) -> Question:
    id = str(item["qid"])
    letters = {name: letter for name, letter in said.of(id).items() if letter not in NO_ANSWER}
    gold = letters.pop("gold", "")
    lengths = {
        name: int(float(chars)) for name, chars in long.of(id).items() if chars[:1].isdigit()
    }
    asked = len(item["question"]) + sum(len(option) + CHARS for option in item["options"])
    return Question(id, item["category"], gold, asked, letters, lengths)


def calibrates(id: str) -> bool:
    """The half that may choose who votes and in which order; the other one is reported on."""
    return sha256(id.encode()).digest()[0] % 2 == 0


def usage(question: Question, model: str) -> dict[str, int]:
    """About how many tokens the question and the recorded reply are."""
    return {
        "input": round(question.asked / CHARS),
        "output": round(question.lengths.get(model, 0) / CHARS),
    }


def dollars(question: Question, voter: Voter) -> float:
    """About what this answer costs at list price. Nothing if none was recorded."""
    if voter.model not in question.answers:
        return 0.0
    used = usage(question, voter.model)
    return (used["input"] * voter.input + used["output"] * voter.output) / 1_000_000


def write_replies(folder: Path) -> None:
    """One file for each of the panel, as the kind `replay` reads it."""
    questions = load(folder)
    for voter in panel():
        file = folder / "replies" / f"{voter.model}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(_lines(questions, voter.model)), encoding="utf-8")


def _lines(questions: list[Question], model: str) -> Iterator[str]:
    for question in questions:
        if model in question.answers:
            reply = {"answer": question.answers[model], "recorded": True}
            line = {"id": question.id, "reply": reply, "usage": usage(question, model)}
            yield json.dumps(line) + "\n"


if __name__ == "__main__":
    write_replies(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "data")
