"""A kind of step is one module and one line in a table: shown with one that is not shipped."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.plans.drawing.picture import picture
from fanfold.plans.file import plan_schema
from fanfold.plans.load import load_plan
from fanfold.plans.prepare import Options, prepare
from fanfold.plans.preview.estimate import estimate, readable_input
from fanfold.plans.steps.table import KINDS
from fanfold.work.outcome import Receipt
from tests.docs.pages import ROOT, blocks
from tests.flow.small_plans import executed

PAGE = ROOT / "docs" / "decisions" / "0023-one-module-for-each-kind-of-step.md"
MOST_LINES = 120
PLAN = """\
name: again
input: {list: [{id: a, text: one}, {id: b, text: two}]}
steps:
  - several: {times: 3, member: tally}
  - map: {name: after, member: seen, prompt: "{{ steps.several }}"}
  - write: out.json
"""
ROSTER = """\
members:
  - {id: tally, kind: function, target: "both:tally"}
  - {id: seen, kind: function, target: "both:seen"}
"""
CODE = """\
calls = []

def tally(item):
    calls.append(item["id"])
    return item["text"]

def seen(item):
    return item["steps"]["several"]
"""


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> str:
    """The module of the page, put into the table."""
    (block,) = (one for one in blocks(PAGE) if one.language == "python")
    module = ModuleType("newcomers_several")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block.text, "several.py", "exec"), module.__dict__)
    monkeypatch.setitem(KINDS, "several", module.__dict__["Several"])
    return block.text


def written(folder: Path, plan: str = PLAN) -> str:
    (folder / "p.yaml").write_text(plan)
    (folder / "roster.yaml").write_text(ROSTER)
    (folder / "both.py").write_text(CODE)
    return str(folder / "p.yaml")


def test_the_example_is_small(several: str) -> None:
    assert len(several.splitlines()) <= MOST_LINES


def test_it_is_read_with_the_messages_of_all_kinds(tmp_path: Path, several: str) -> None:
    found = load_plan(written(tmp_path)).steps[0]
    assert (type(found).__name__, found.name, found.times) == ("Several", "several", 3)  # type: ignore[attr-defined]
    for wrong, message in [
        ("several: {tmies: 3}", "3: unknown field `tmies` in a several: did you mean `times`?"),
        ("several: {times: 0}", "3: `times` must be 1 or more, not 0"),
        ("sveral: {}", "3: unknown step `sveral`: did you mean `several`?"),
    ]:
        plan = f"input: {{count: 1}}\nsteps:\n  - {wrong}\n"
        with pytest.raises(BadInput) as error:
            load_plan(written(tmp_path, plan))
        assert str(error.value).endswith(f"p.yaml:{message}")


def test_it_is_in_the_schema(several: str) -> None:
    fields = plan_schema()["$defs"]["SeveralFields"]["properties"]
    assert fields["times"] == {"type": "integer", "minimum": 1, "default": 2}
    assert "prompt" in fields


def test_it_is_previewed_and_drawn(tmp_path: Path, several: str) -> None:
    plan = load_plan(written(tmp_path))
    roster = load_roster(tmp_path / "roster.yaml")
    made = estimate(plan, roster, readable_input(plan), None)
    assert [(one.name, one.kind, one.tasks) for one in made.steps] == [
        ("several", "several", 6),
        ("after", "map", 2),
    ]
    box = picture(plan).boxes[1]
    assert (box.title, box.lines[0]) == ("several", "tally")
    assert box.inside is not None
    assert [one.title for one in box.inside.boxes] == ["time 1", "time 2", "time 3", "gate"]


def test_it_runs(tmp_path: Path, several: str) -> None:
    options = Options(store=str(tmp_path / "store"))
    job = prepare(written(tmp_path), options)
    receipt: Receipt = executed(job)
    assert (receipt.status, receipt.planned, receipt.passed, receipt.calls) == ("complete", 2, 2, 8)
    out = json.loads((tmp_path / "out.json").read_text())
    assert out == [
        {"id": "a", "value": ["one", "one", "one"]},
        {"id": "b", "value": ["two", "two", "two"]},
    ]
