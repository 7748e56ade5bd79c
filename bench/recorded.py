"""Recorded answers of real models with what each took, for `bench/routing.py`.

    python bench/recorded.py DIR

cuts the collections in DIR (recorded_zeroeval_gsm, recorded_routellm, recorded_prices) down to the
copies in tests/data. Both are read alike. Lengths were recorded in characters: a token is taken to
be four of them, so a cost is an estimate, not a bill.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fanfold.price import Price, cost

DATA = Path(__file__).parent.parent / "tests" / "data"
MIXTRAL, GPT4 = "mixtral-8x7b", "gpt-4-1106-preview"  # the two of RouteLLM
AGAIN = "Mixtral-8x7B-Instruct-v0.1"  # the same weak one, as ZeroEval has it
_ROUTELLM = {MIXTRAL: "mistralai/Mixtral-8x7B-Instruct-v0.1", GPT4: GPT4}
_GPT4_PRICE = Price(10.0, 30.0)  # OpenAI's list price; the table of prices does not have it
_COVERED = 0.95  # of the questions, to be read at all
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LETTER = 4  # characters of an answer to MMLU: one letter, one token


class Answer(NamedTuple):
    """`input` and `output` are tokens; an empty `text` is a reply without an answer."""

    text: str
    right: bool
    input: int
    output: int


class Question(NamedTuple):
    """`kind` is what is known about it beforehand: its subject, where there is one."""

    id: str
    kind: str
    chars: int
    answers: dict[str, Answer]


class Recorded(NamedTuple):
    questions: list[Question]
    prices: dict[str, Price]

    def cost(self, question: Question, model: str) -> int:
        """In nano-dollars, as the engine counts it."""
        answer = question.answers[model]
        return cost(self.prices[model], answer.input, answer.output)


def gsm(data: Path = DATA) -> Recorded:
    """GSM8K: the models of ZeroEval whose price is known, and the two of RouteLLM."""
    prices = _prices(data)
    two = {row["id"]: row for row in _two_rows(data)}
    rows = _gsm_rows(data, prices)
    return Recorded([_gsm_question(row, two[row["id"]]) for row in rows], prices)


def mmlu(data: Path = DATA) -> Recorded:
    """MMLU: the two of RouteLLM. Only whether they were right was recorded."""
    found = []
    for row in _mmlu_rows(data):
        for idx, chars, *right in row["questions"]:
            answers = {
                model: Answer(
                    "right" if ok else "wrong", bool(ok), _tokens(chars), _tokens(_LETTER)
                )
                for model, ok in zip((MIXTRAL, GPT4), right, strict=True)
            }
            found.append(Question(f"{row['subject']}-{idx}", row["subject"], chars, answers))
    return Recorded(found, _prices(data))


def _tokens(chars: int) -> int:
    return max(1, -(-chars // 4))


# ── questions ────────────────────────────────────────────────────────────────────────────────


def _gsm_question(row: dict[str, str], two: dict[str, str]) -> Question:
    """A question to ZeroEval's models had instructions around it. RouteLLM's had examples before
    it, which were not recorded: there the question alone is counted."""
    chars = int(row["question_chars"])
    answers = {
        **_answers(row, _models(row), int(row["prompt_chars"]), row["gold"]),
        **_answers(two, _models(two), chars, row["gold"]),
    }
    return Question(row["id"], "", chars, answers)


def _answers(
    row: dict[str, str], models: Iterable[str], prompt: int, gold: str
) -> dict[str, Answer]:
    return {
        model: Answer(
            row[model], _right(row[model], gold), _tokens(prompt), _tokens(int(row[f"{model} chars"]))
        )
        for model in models
    }  # fmt: skip


def _models(row: dict[str, str]) -> list[str]:
    return [name for name in row if f"{name} chars" in row]


def _right(answer: str, gold: str) -> bool:
    """The last number in the answer is the right one, however it is written."""
    numbers = _NUMBER.findall(answer.replace(",", ""))
    return bool(numbers) and float(numbers[-1]) == float(gold)


# ── rows: as the copies have them, or made from what was collected ───────────────────────────


def _csv(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _records(data: Path) -> list[dict[str, Any]]:
    lines = (data / "recorded_zeroeval_gsm" / "records.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in lines.splitlines()]


def _prices(data: Path) -> dict[str, Price]:
    listed = {
        row["recorded_model"]: Price(float(row["usd_per_mtok_in"]), float(row["usd_per_mtok_out"]))
        for row in _csv(data / "recorded_prices" / "prices.csv")
        if row["usd_per_mtok_in"]
    }
    return {**listed, MIXTRAL: listed[AGAIN], GPT4: _GPT4_PRICE}


def _gsm_rows(data: Path, prices: dict[str, Price]) -> list[dict[str, str]]:
    copy = data / "recorded_zeroeval_gsm" / "calls.csv"
    if copy.exists():
        return _csv(copy)
    records = _records(data)
    models = [
        model
        for model in records[0]["answers"].keys() & prices.keys()
        if sum(model in record["answers"] for record in records) >= _COVERED * len(records)
    ]
    return [_gsm_row(record, sorted(models)) for record in records]


def _gsm_row(record: dict[str, Any], models: Iterable[str]) -> dict[str, str]:
    row = {
        "id": record["id"],
        "gold": record["gold"].removeprefix("# ").replace(",", ""),
        "question_chars": str(len(record["question"])),
        "prompt_chars": str(record["prompt_chars"]),
    }
    for model in models:
        answer = record["answers"].get(model, {"a": "", "out_chars": 0})
        row |= {model: answer["a"] or "", f"{model} chars": str(answer["out_chars"])}
    return row


def _two_rows(data: Path) -> list[dict[str, str]]:
    copy = data / "recorded_routellm" / "gsm8k.csv"
    if copy.exists():
        return _csv(copy)
    ids = {record["question"]: record["id"] for record in _records(data)}
    rows = []
    for line in _csv(data / "recorded_routellm" / "gsm8k_two_models.csv"):
        row = {"id": ids[line["prompt"]]}
        for model, name in _ROUTELLM.items():
            reply = line[f"{name}_response"]
            row |= {model: _final(reply), f"{model} chars": str(len(reply))}
        rows.append(row)
    return rows


def _final(reply: str) -> str:
    """The answer in a reply: what stands behind ####, else its last number."""
    _, marked, behind = reply.replace(",", "").partition("####")
    numbers = _NUMBER.findall(behind if marked else reply.replace(",", ""))
    return (numbers[0] if marked else numbers[-1]) if numbers else ""


def _mmlu_rows(data: Path) -> list[dict[str, Any]]:
    copy = data / "recorded_routellm" / "mmlu.jsonl"
    if copy.exists():
        return [json.loads(line) for line in copy.read_text(encoding="utf-8").splitlines()]
    subjects: dict[str, list[list[int]]] = {}
    for line in _csv(data / "recorded_routellm" / "mmlu_two_models.csv"):
        right = [int(line[name] == "True") for name in _ROUTELLM.values()]
        one = [int(line["idx"]), len(line["prompt"]), *right]
        subjects.setdefault(line["subject"], []).append(one)
    return [{"subject": name, "questions": sorted(subjects[name])} for name in sorted(subjects)]


# ── the copies ───────────────────────────────────────────────────────────────────────────────


def cut(data: Path, into: Path = DATA) -> None:
    for folder in ("recorded_zeroeval_gsm", "recorded_routellm", "recorded_prices"):
        (into / folder).mkdir(parents=True, exist_ok=True)
    _write(into / "recorded_zeroeval_gsm" / "calls.csv", _gsm_rows(data, _prices(data)))
    _write(into / "recorded_routellm" / "gsm8k.csv", _two_rows(data))
    subjects = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in _mmlu_rows(data))
    (into / "recorded_routellm" / "mmlu.jsonl").write_text(subjects, encoding="utf-8")
    prices = into / "recorded_prices" / "prices.csv"
    shutil.copyfile(data / "recorded_prices" / "prices.csv", prices)


def _write(file: Path, rows: list[dict[str, str]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    cut(Path(sys.argv[1]))
