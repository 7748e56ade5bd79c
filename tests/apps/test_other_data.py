"""`score.py` on other data than the shipped ones: as others write it, and as it should not be."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faces.cli import SRC
from tests.waiting import LONG

pytestmark = pytest.mark.slow

APPS = SRC / "fanfold" / "apps"
MARK = "\ufeff"  # as some programs begin a text
CLAUSE = (
    "Neither party may assign this Agreement without the prior written consent of the other party. "
)
Files = dict[str, str]


def score(app: str, data: Path) -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, str(APPS / app / "score.py"), "--data", str(data)],
        env={**os.environ, "PYTHONPATH": str(SRC)}, capture_output=True, text=True, timeout=LONG,
        check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


def jsonl(*records: Any) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


CONTRACTS: Files = {
    "contracts.jsonl": jsonl(
        {"id": "a", "text": CLAUSE * 3},
        {"id": "ü 2", "text": "The seller will deliver.", "more": 1},
    ),
    "labels_yesno.csv": "id,Anti-Assignment,Other\na,1,0\nü 2,0,0\n",
}
QUESTION = jsonl(
    {"qid": 7, "category": "sums", "question": "1 + 1?", "options": ["1", "2"], "more": 1}
)
DECISION: Files = {
    "questions.jsonl": QUESTION,
    "predictions.csv": "qid,gold,gemini-1.5-pro-002,gemini-1.5-flash-002,nobody\n7,B,B,B,A\n",
    "output_chars.csv": "qid,gemini-1.5-pro-002,gemini-1.5-flash-002\n7,40.0,80\n",
}
REVIEWS: Files = {
    "reviews.csv": "id,more,text,rating\nü1,,I love it and it fits,5.0\n2,x,Awful. It fell apart,1\n"
}
GOOD = {"contracts": CONTRACTS, "decision": DECISION, "reviews": REVIEWS}


def written(folder: Path, files: Files) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
    return folder


def other_line_ends(name: str, text: str) -> tuple[str, bytes]:
    return name, (MARK + text.replace("\n", "\r\n")).encode()


def packed_with_blank_lines(name: str, text: str) -> tuple[str, bytes]:
    return f"{name}.gz", gzip.compress(text.replace("\n", "\n\n").encode())


@pytest.mark.parametrize("app", GOOD)
@pytest.mark.sweep
def test_the_same_data_in_another_form_have_the_same_score(app: str, tmp_path: Path) -> None:
    code, out, err = score(app, written(tmp_path / "plain", GOOD[app]))
    assert (code, err) == (0, "")
    found = json.loads(out)
    for form in (other_line_ends, packed_with_blank_lines):
        other = written(tmp_path / form.__name__, {})
        for one in GOOD[app].items():
            name, content = form(*one)
            (other / name).write_bytes(content)
        again = score(app, other)
        assert (again[0], again[2]) == (0, ""), form
        assert json.loads(again[1])["scores"] == found["scores"], form
    first = {"contracts": "micro_f1", "decision": "accuracy", "reviews": "sentiment_macro_f1"}[app]
    assert found["scores"]["all"][first] == (0.6667 if app == "reviews" else 1.0)


NOT_THERE = ": no such file"


@pytest.mark.parametrize(
    ("app", "name", "text", "told"),
    [
        ("contracts", "labels_yesno.csv", None, NOT_THERE),
        ("contracts", "contracts.jsonl", None, NOT_THERE),
        ("contracts", "labels_yesno.csv", "id,Anti-Assignment\n", ": there is no contract"),
        ("contracts", "labels_yesno.csv", "id,Other\na,1\n", ":1: there is no category that the rules know"),
        ("contracts", "labels_yesno.csv", "id,Insurance\na,x\n", ": a, Insurance: 'x'; 0 or 1 is expected"),
        ("contracts", "labels.jsonl", "\n{}\n", ":2: there is no field id, labels"),
        ("decision", "questions.jsonl", "", ": there is no question"),
        ("decision", "questions.jsonl", "[]\n", ":1: must be an object"),
        ("decision", "questions.jsonl", QUESTION * 2, ": the question 7 stands there twice"),
        ("decision", "predictions.csv", "", ":1: needs a first line with the names of the columns"),
        ("decision", "output_chars.csv", "qid,a\n", ": there is no row for the question 7"),
        ("reviews", "reviews.csv", "id,text\n1,x\n", ":2: there is no field rating"),
        ("reviews", "reviews.csv", "id,text,rating\n", ": there is no review"),
        ("reviews", "reviews.csv", "id,text,rating\n1,x,good\n", ": 1: rating 'good'; 1 to 5 is expected"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_scored_are_one_line(
    app: str, name: str, text: str | None, told: str, tmp_path: Path
) -> None:
    files = {one: said for one, said in GOOD[app].items() if one != name}
    data = written(tmp_path / "data", files if text is None else {**files, name: text})
    assert score(app, data) == (2, "", f"score.py: {data}/{name}{told}\n")


@pytest.mark.parametrize("app", ["contracts", "reviews"])
def test_what_the_plan_refuses_ends_with_2(app: str, tmp_path: Path) -> None:
    name = {"contracts": "contracts.jsonl", "reviews": "reviews.csv"}[app]
    head, _, last = GOOD[app][name].removesuffix("\n").rpartition("\n")
    twice = f"{head}\n{last}\n{last}\n"
    data = written(tmp_path / "data", {**GOOD[app], name: twice})
    code, out, err = score(app, data)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("fanfold: duplicate id ")
