"""`attempts` in a plan: every step that asks states how often a call that fails is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.plans.load import load_plan
from fanfold.plans.plan import askings
from fanfold.plans.prepare import Options, prepare
from fanfold.plans.ready import Ready
from tests.flow.small_plans import executed

STEPS = """\
input: {count: 2}
steps:
  - map: {prompt: x, attempts: 2}
  - command: {cmd: [cat], attempts: 3}
  - ensemble: {prompt: x, members: [m, n], attempts: 5, judge: {member: m, attempts: 6}}
  - map_reduce: {over: item.files, map: {prompt: x, attempts: 7}, reduce: {kind: ask, prompt: y, attempts: 8}}
  - pipeline: {stages: [{map: {prompt: x, attempts: 9}}]}
  - reduce: {kind: ensemble, prompt: x, members: [m, n], attempts: 10}
  - scatter: {prompt: x, attempts: 11, over: [{id: a}], synthesise: {prompt: y, attempts: 12}}
  - graph: {attempts: 13, tasks: [{id: a, prompt: x}, {id: b, prompt: x, attempts: 14}]}
  - ask: {prompt: x, attempts: 15}
  - divide: {prompt: x, attempts: 16, combine: {prompt: y, attempts: 17}}
"""


def test_every_step_that_asks_states_them(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(STEPS)
    plan = load_plan(tmp_path / "p.yaml")
    ready = Ready(plan, {})
    found = {name: ready.terms(asking, name).attempts for name, asking in askings(plan)}
    assert found == {
        "map": 2, "command": 3, "ensemble": 5, "ensemble.judge": 6, "map_reduce.map": 7,
        "map_reduce.reduce": 8, "stage1": 9, "reduce": 10, "scatter": 11, "scatter.synthesise": 12,
        "graph.a": 13, "graph.b": 14, "ask": 15, "divide": 16, "divide.combine": 17,
    }  # fmt: skip


def test_a_conduct_states_them_too_and_four_is_the_default(tmp_path: Path) -> None:
    steps = "  - conduct: {prompt: x, attempts: 2}\n  - ask: {prompt: y}\n"
    (tmp_path / "p.yaml").write_text(f"input: {{count: 2}}\nsteps:\n{steps}")
    plan = load_plan(tmp_path / "p.yaml")
    found = [Ready(plan, {}).terms(asking, name).attempts for name, asking in askings(plan)]
    assert found == [2, 4]


@pytest.mark.parametrize(("stated", "what"), [
    ("0", "`attempts` must be 1 or more, not 0"),
    ("many", "`attempts` must be a whole number, not the text 'many'"),
])  # fmt: skip
def test_what_is_wrong_is_refused(tmp_path: Path, stated: str, what: str) -> None:
    (tmp_path / "p.yaml").write_text(f"steps:\n  - ask: {{prompt: x, attempts: {stated}}}\n")
    with pytest.raises(BadInput) as error:
        load_plan(tmp_path / "p.yaml")
    assert str(error.value) == f"{tmp_path}/p.yaml:2: {what}"


def test_a_call_is_tried_as_often_as_stated(tmp_path: Path) -> None:
    """One attempt: the failure is final at once, although it might pass."""
    (tmp_path / "busy.py").write_text(
        "from fanfold.errors import Transient\n\ndef now(item):\n    raise Transient('503')\n"
    )
    (tmp_path / "roster.yaml").write_text(
        "members:\n  - {id: m, kind: function, target: 'busy:now'}\n"
    )
    (tmp_path / "p.yaml").write_text(
        "input: {count: 3}\nsteps:\n  - map: {member: m, attempts: 1}\n"
    )
    job = prepare(str(tmp_path / "p.yaml"), Options(store=str(tmp_path / "store")))
    receipt = executed(job)
    assert (receipt.planned, receipt.failed, receipt.calls) == (3, 3, 3)
