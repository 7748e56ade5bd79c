"""`when`: a step that is taken only on a condition. What is not taken gives an empty list, is shown as
such, and loses no item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.observe.closing import closing
from fanfold.plans.drawing.picture import picture
from fanfold.plans.file import plan_schema
from fanfold.plans.load import load_plan
from fanfold.plans.preview.estimate import estimate, readable_input
from fanfold.testing.script import Asked, Says
from tests.examples import seeds
from tests.flow.killed_plans import carried_through
from tests.flow.small_plans import Functions

CODE = """\
def check(given):
    return {"open": 2, "list": ["p", "q"]}

def word(item):
    if item.get("n") == 1:
        raise ValueError("no word for 1")
    return "word " + str(item.get("n", item.get("text", "")))
"""


FUNCTIONS = Functions("check", "word", code=CODE)
written, carried = FUNCTIONS.written, FUNCTIONS.carried


ASK = "  - ask: {name: first, prompt: x, member: check}\n"
TAKEN = [
    ("steps.first.open > 1", True),
    ("steps.first.open > 2", False),
    ("steps.first.list | length == 2 and vars.deep", True),
    ("not vars.deep", False),
    ("task == 'go'", True),
]


@pytest.mark.parametrize(("when", "taken"), TAKEN)
def test_a_step_is_taken_when_its_condition_holds(tmp_path: Path, when: str, taken: bool) -> None:
    step = f'  - ask: {{name: second, prompt: y, member: word, when: "{when}"}}\n'
    receipt = carried(tmp_path, ASK + step, "task: go\nvars: {deep: true}\n")
    assert (receipt.status, receipt.calls) == ("complete", 1 + taken)
    note = "" if taken else f"not run: its condition is false: {when}"
    assert {one.name: one.note for one in receipt.steps} == {"first": "", "second": note}
    assert (f"second: {note}" in closing(receipt, None)) == (not taken)


def test_counts_of_items_are_read_by_the_name_of_a_step(tmp_path: Path) -> None:
    steps = (
        "  - map: {name: words, member: word}\n"
        "  - ask: {name: a, prompt: x, member: check, when: counts.words.failed == 1}\n"
        "  - ask: {name: b, prompt: x, member: check, when: counts.words.passed == 3}\n"
        "  - ask: {name: c, prompt: x, member: check, when: counts.words.planned > 3}\n"
    )
    receipt = carried(tmp_path, steps, "input: {count: 3}\n")
    assert (receipt.passed, receipt.failed) == (2, 1)
    assert [one.name for one in receipt.steps if one.note] == ["b", "c"]


NO = "when: steps.first.open > 9"
LEFT_OUT = [
    # an item goes on as it came to the step, to the next one
    (f"  - map: {{name: a, member: word}}\n  - map: {{name: b, member: word, {NO}}}\n"
     "  - map: {name: c, member: word}\n", {"passed": 2}, 4),
    # or ends with the reply that it has
    (f"  - map: {{name: a, member: word}}\n  - map: {{name: b, member: word, {NO}}}\n", {"passed": 2}, 2),
    (f"  - map: {{name: a, member: word}}\n  - conduct: {{member: word, {NO}}}\n", {"passed": 2}, 2),
    # without any it was filtered out
    (f"  - map: {{name: a, member: word, {NO}}}\n", {"skipped": 2}, 0),
    (f"  - pipeline: {{stages: [{{map: {{member: word}}}}], {NO}}}\n", {"skipped": 2}, 0),
    (f"  - divide: {{member: word, fits: {{items: 1}}, combine: concat, {NO}}}\n", {"skipped": 2}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "outcomes", "calls"), LEFT_OUT)
def test_no_item_is_lost_by_a_step_that_is_not_taken(
    tmp_path: Path, steps: str, outcomes: dict[str, int], calls: int
) -> None:
    head = "input: {list: [{id: u, n: 5}, {id: v, n: 6}]}\n"
    receipt = carried(tmp_path, ASK + steps, head)
    found = {name: getattr(receipt, name) for name in ("passed", "skipped", "failed", "cancelled")}
    assert {name: many for name, many in found.items() if many} == outcomes
    assert (receipt.status, receipt.planned, receipt.calls) == ("complete", 2, 1 + calls)


def test_the_result_of_a_step_that_is_not_taken_is_an_empty_list(tmp_path: Path) -> None:
    """A step over it has no items, a prompt shows it."""
    steps = (
        f"  - ask: {{name: some, prompt: x, member: check, {NO}}}\n"
        "  - map: {name: each, over: steps.some, member: word}\n"
        "  - reduce: collect\n"
        "  - ask: {name: last, prompt: 'got {{ steps.some }}', member: word}\n"
    )
    receipt = carried(tmp_path, ASK + steps)
    assert (receipt.status, receipt.planned, receipt.calls) == ("complete", 0, 2)


def test_a_list_that_is_not_worked_on_leaves_no_items_of_others(tmp_path: Path) -> None:
    """The steps after it were written for the items of the list, not for those before."""
    steps = (
        "  - map: {name: a, member: word}\n"
        f"  - map: {{name: each, over: steps.first, member: word, {NO}}}\n"
        "  - map: {name: then, member: word}\n"
    )
    receipt = carried(tmp_path, ASK + steps, "input: {list: [{id: u, n: 5}]}\n")
    assert (receipt.status, receipt.planned, receipt.passed, receipt.calls) == ("complete", 1, 1, 2)


def test_a_condition_that_cannot_be_decided_loses_its_step(tmp_path: Path) -> None:
    step = "  - ask: {name: second, prompt: y, member: word, when: steps.first.nothing.here > 1}\n"
    receipt = carried(tmp_path, ASK + step)
    assert receipt.status == "flagged" and "second: " in (receipt.reason or "")


BAD = [
    ("ask: {name: b, prompt: y, member: word, when: steps.frist.open}", "reads `steps.frist`", 4),
    ("ask: {name: b, prompt: y, member: word, when: counts.first.x and counts.z}", "`counts.z`", 4),
    (
        "ask: {name: b, prompt: y, member: word, when: 'counts.first.pased > 0'}",
        "`when` reads `counts.first.pased`: did you mean `passed`?",
        4,
    ),
    (
        "repeat: {until: 'counts.b.pased > 0', at_most: 2, steps: [ask: {name: b, prompt: y, member: word}]}",
        "`until` reads `counts.b.pased`: did you mean `passed`?",
        4,
    ),
    ("ask: {name: b, prompt: y, member: word, when: 'steps.first >'}", "", 4),
    ("ask: {name: b, prompt: y, member: word, when: 3}", "`when` must be an expression", 4),
    ("ask: {name: b, prompt: y, member: word, when: vars.depth}", "depth", 4),
    ("ask: {name: b, prompt: y, member: word, when: item.x}", "item", 4),
    ("list_files: {path: ., pattern: '*', when: 'true'}", "must be the first step", 4),
    ("pipeline: {stages: [{map: {member: word, when: 'true'}}]}", "unknown field `when`", 4),
    (
        "map: {member: word, when: steps.first.open}\n  - reduce: concat",
        "`map` may not be taken",
        5,
    ),
]


@pytest.mark.parametrize(("step", "why", "line"), BAD)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, step: str, why: str, line: int
) -> None:
    plan = written(tmp_path, f"{ASK}  - {step}\n", "input: {count: 1}\n").read_text()
    plan = plan.replace("input: {count: 1}\n", "" if "map" not in step else "input: {count: 1}\n")
    (tmp_path / "p.yaml").write_text(plan)
    with pytest.raises(BadInput) as error:
        load_plan(tmp_path / "p.yaml")
    assert why in str(error.value)
    assert f"p.yaml:{line + ('input' in plan)}" in str(error.value)


def test_a_map_and_its_reduce_may_share_a_condition(tmp_path: Path) -> None:
    steps = f"  - map: {{member: word, {NO}}}\n  - reduce: {{kind: concat, {NO}}}\n"
    receipt = carried(tmp_path, ASK + steps, "input: {count: 2}\n")
    assert (receipt.status, receipt.skipped) == ("complete", 2)


def test_the_preview_and_the_picture_say_so(tmp_path: Path) -> None:
    """What depends on replies is counted as taken; what is decided already is not."""
    steps = (
        ASK + "  - ask: {name: b, prompt: y, member: word, when: steps.first.open > 1}\n"
        "  - ask: {name: c, prompt: z, member: word, when: 'vars.deep == {}'}\n"
    )
    plan = load_plan(written(tmp_path, steps, "vars: {deep: false}\n"))
    made = estimate(plan, load_roster(tmp_path / "roster.yaml"), readable_input(plan), None)
    assert [one.name for one in made.steps] == ["first", "b"]
    assert [note.what.format(note.step) for note in made.notes] == [
        "b: counted, but run only when steps.first.open > 1",
        "c: not run: its condition is false: vars.deep == {}",
    ]
    lines = [box.lines for box in picture(plan).boxes]
    assert "only when steps.first.open > 1" in lines[1] and "only when vars.deep == {}" in lines[2]


def test_every_kind_has_it_in_the_schema() -> None:
    known: dict[str, Any] = plan_schema()["$defs"]
    for kind in ("Map", "Conduct", "Graph", "Ask", "Write", "Pipeline", "Scatter"):
        assert "when" in known[f"{kind}Fields"]["properties"], kind


# ── over HTTP, killed and resumed ────────────────────────────────────────────────────────────

PLAN = """\
name: killed
input: {count: 6}
steps:
  - map: {name: rate, prompt: "rate {{ item.n }}", member: m, schema: {type: object}}
  - map: {name: never, prompt: "never {{ item.n }}", member: m, when: counts.rate.passed < 6}
  - map: {name: again, prompt: "again {{ item.n }}{{ steps.never }}", member: m, when: counts.rate.passed > 5}
  - ask: {name: sum, prompt: "sum up", member: m, schema: {type: object}}
  - map: {name: more, prompt: "more {{ item.n }}", member: m, when: steps.sum.value > 100}
"""


def rated(asked: Asked) -> Says:
    return Says(data={"value": 7}) if asked.schema else Says(text=asked.prompt)


@pytest.mark.parametrize("seed", seeds(range(2), quick=1))
def test_killed_and_resumed_the_same_steps_are_taken(tmp_path: Path, seed: int) -> None:
    ended = carried_through(tmp_path, PLAN, rated, seed, requests=13)
    ended.check()
    assert (ended.kills, ended.receipt.status, ended.receipt.passed) == (3, "complete", 6)
    assert len(ended.asked) == 13
    assert [one.name for one in ended.receipt.steps if one.note] == ["never", "more"]
