"""Prompts that are sent as they stand, samples and pauses, as a plan states them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.journal import opening
from fanfold.members.roster import load_roster
from fanfold.plans.drawing.picture import picture
from fanfold.plans.load import load_plan
from fanfold.plans.plan import Plan
from fanfold.plans.prepare import Options, prepare
from fanfold.plans.preview.asks import Premises
from fanfold.plans.preview.estimate import estimate
from fanfold.plans.steps.ask import Once
from fanfold.plans.steps.graph import Graph
from tests.flow.small_plans import executed

ODD = "{{ parents.nobody }} {% endless {{ steps.x }} {#"
PLAN = """\
name: odd
steps:
  - graph:
      delay: 0.01
      tasks:
        - {id: a, verbatim: true, member: cat, prompt: "{{ parents.nobody }} {% endless {{ steps.x }} {#"}
        - {id: b, verbatim: true, member: cat, prompt_file: b.md, depends_on: a, sample: 2}
        - {id: c, verbatim: false, member: cat, prompt: "<{{ parents.a }}>", depends_on: a}
  - ask: {verbatim: true, member: cat, prompt: "{{ steps.graph }}"}
"""
ROSTER = """\
members:
  - {id: cat, kind: command, cmd: [cat], price: {call: 0}, version: 1}
"""


def written(folder: Path, text: str = PLAN) -> Path:
    (folder / "p.yaml").write_text(text)
    (folder / "b.md").write_text("{{ this }} is\n\nno template ")
    (folder / "roster.yaml").write_text(ROSTER)
    return folder / "p.yaml"


def loaded(folder: Path, text: str) -> Plan:
    return load_plan(written(folder, text))


def test_they_are_read_with_nothing_looked_at(tmp_path: Path) -> None:
    graph, ask = loaded(tmp_path, PLAN).steps
    assert isinstance(graph, Graph)
    assert isinstance(ask, Once)
    assert [(task.prompt, task.verbatim, task.sample) for task in graph.tasks] == [
        (ODD, True, 0), ("{{ this }} is\n\nno template ", True, 2), ("<{{ parents.a }}>", False, 0),
    ]  # fmt: skip
    assert (graph.delay, ask.prompt, ask.verbatim) == (0.01, "{{ steps.graph }}", True)


def test_they_are_sent_as_they_stand(tmp_path: Path) -> None:
    job = prepare(str(written(tmp_path)), Options(store=str(tmp_path / "store")))
    receipt = executed(job)
    assert (receipt.status, receipt.result) == ("complete", "{{ steps.graph }}")
    rest = "name: odd\n" + PLAN[PLAN.index("steps:") : PLAN.index("  - ask")]
    again = prepare(str(written(tmp_path, rest)), Options(store=str(tmp_path / "store")))
    receipt = executed(again)
    assert receipt.result == {
        "a": ODD, "b": "{{ this }} is\n\nno template ", "c": f"<{ODD}>",
    }  # fmt: skip
    assert (receipt.calls, receipt.reused) == (0, 3)


def test_the_preview_finds_the_reply_to_another_sample_on_record(tmp_path: Path) -> None:
    graph = "name: odd\n" + PLAN[PLAN.index("steps:") : PLAN.index("  - ask")]
    job = prepare(str(written(tmp_path, graph)), Options(store=str(tmp_path / "store")))
    executed(job)
    archive = opening.look(str(tmp_path / "store"))
    try:
        found = estimate(job.stored.plan, job.roster, None, archive, Premises())
    finally:
        archive.close()
    assert [(step.forecast.calls, step.forecast.reused) for step in found.steps] == [(0, 3)]


def test_preview_and_picture_take_them_too(tmp_path: Path) -> None:
    plan = loaded(tmp_path, PLAN)
    roster = load_roster(tmp_path / "roster.yaml")
    found = estimate(plan, roster, None, None, Premises())
    assert [(step.name, step.tasks) for step in found.steps] == [("graph", 3), ("ask", 1)]
    drawn = picture(plan, roster=roster)
    assert drawn.boxes[0].lines == ("3 tasks · longest path 2 · 8 at once · 0.01s between starts",)
    assert [(arrow.start, arrow.end) for arrow in drawn.arrows] == [
        (drawn.boxes[0].id, drawn.boxes[1].id)
    ]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            "steps:\n  - ask: {verbatim: true, member: m}\n",
            "p.yaml:2: `verbatim` needs a `prompt` or a `prompt_file`",
        ),
        (
            "steps:\n  - ask:\n      verbatim: true\n      prompt_file: none.md\n",
            "p.yaml:4: `prompt_file` none.md: no such file",
        ),
        (
            "steps:\n  - ask:\n      verbatim: 1\n      prompt: x\n",
            "p.yaml:3: `verbatim` must be true or false, not the number 1",
        ),
        (
            "steps:\n  - graph:\n      delay: -1\n      tasks: [{id: a, prompt: x}]\n",
            "p.yaml:3: `delay` must be 0 or more, not -1",
        ),
        (
            "steps:\n  - graph:\n      tasks:\n        - {id: a, prompt: x, sample: -1}\n",
            "p.yaml:4: `sample` must be 0 or more, not -1",
        ),
        (
            "input: {count: 2}\nsteps:\n  - map: {prompt: x, verbatim: true}\n",
            "p.yaml:3: unknown field `verbatim` in a map",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(BadInput) as raised:
        loaded(tmp_path, text)
    assert str(raised.value).removeprefix(f"{tmp_path}/").startswith(wrong)
