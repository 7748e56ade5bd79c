"""Plans that 0.1.0 stored are those of today: a run that it began can be resumed."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from fanfold.plans.load import load_plan
from fanfold.plans.plan import Plan, comparable

STORED = Path(__file__).parent / "stored"


def test_a_plan_stored_by_0_1_0_is_the_plan_that_is_read_today(tmp_path: Path) -> None:
    """Of every kind, with its lines; so `resume` finds that the file has not changed."""
    shutil.copy(STORED / "plan.yaml", tmp_path)
    (tmp_path / "lists.py").write_text("def some(x):\n    return x\n")
    read = load_plan(tmp_path / "plan.yaml")
    text = (STORED / "plan-0.1.0.json").read_text().replace("FOLDER", str(tmp_path))
    stored = msgspec.json.decode(text, type=Plan)
    assert stored == read
    assert comparable(stored) == comparable(read)


def test_what_is_stored_today_is_what_0_1_0_stored(tmp_path: Path) -> None:
    shutil.copy(STORED / "plan.yaml", tmp_path)
    (tmp_path / "lists.py").write_text("def some(x):\n    return x\n")
    made = msgspec.json.decode(msgspec.json.encode(load_plan(tmp_path / "plan.yaml")))
    before = (STORED / "plan-0.1.0.json").read_text().replace("FOLDER", str(tmp_path))
    assert made == msgspec.json.decode(before)


PLACED = """\
name: placed
input: {jsonl: a.jsonl}
steps:
  - map: {prompt: x, member: m, tools: ["lists:some", {command: [echo], name: echo}]}
  - join: {right: {jsonl: b.jsonl}, member: m, block: {on: id}}
"""


def test_where_a_plan_is_written_is_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the folder, where another machine takes part; anything else is."""
    for name, text in ("one", PLACED), ("two", f"# below a comment\n{PLACED}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "p.yaml").write_text(text)
        (tmp_path / name / "lists.py").write_text("def some(x: str) -> str:\n    return x\n")
    whole, elsewhere = (load_plan(tmp_path / name / "p.yaml") for name in ("one", "two"))
    monkeypatch.chdir(tmp_path / "one")
    assert comparable(load_plan("p.yaml")) == comparable(whole) != comparable(elsewhere)
    assert comparable(whole, anywhere=True) == comparable(elsewhere, anywhere=True)
    (tmp_path / "two" / "p.yaml").write_text(PLACED.replace("b.jsonl", "c.jsonl"))
    other = load_plan(tmp_path / "two" / "p.yaml")
    assert comparable(other, anywhere=True) != comparable(elsewhere, anywhere=True)
