"""Plans that 0.1.0 stored are those of today: a run that it began can be resumed."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

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
