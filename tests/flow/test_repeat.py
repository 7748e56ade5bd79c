"""`repeat`: steps round after round until a condition holds, bounded, each round with asks of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.plans.drawing.picture import picture
from fanfold.plans.load import load_plan
from fanfold.plans.preview.estimate import estimate, readable_input
from fanfold.testing.script import Asked, Says
from fanfold.work.outcome import Receipt
from tests.examples import seeds
from tests.flow.killed_plans import carried_through
from tests.flow.small_plans import Functions

CODE = """\
seen = []

def draft(given):
    before = given["steps"].get("draft") or ""
    return before + "x"

def check(given):
    return {"good": len(given["steps"]["draft"]) >= 3}

def longer(item):
    return str(item["steps"].get("grow") or item["text"]) + "!" if "steps" in item else item["text"] + "!"

def lister(given):
    if given["steps"].get("each") == "bad":
        raise ValueError("no list")
    return [{"id": "a"}, {"id": "b"}]

def same(item):
    return item["id"]
"""
DRAFT = """\
  - repeat:
      name: refine
      steps:
        - ask: {name: draft, prompt: "draft", member: draft}
        - ask: {name: check, prompt: "check", member: check}
      until: steps.check.good
      at_most: 5
"""


FUNCTIONS = Functions("draft", "check", "longer", "lister", "same", code=CODE)
written, carried = FUNCTIONS.written, FUNCTIONS.carried


def notes(receipt: Receipt) -> dict[str, str]:
    return {one.name: one.note for one in receipt.steps if one.note}


def test_rounds_go_on_until_the_condition_holds(tmp_path: Path) -> None:
    """A step sees what it, and those after it, gave in the round before."""
    receipt = carried(tmp_path, DRAFT)
    assert (receipt.status, receipt.calls) == ("complete", 6)
    assert notes(receipt) == {"refine": "3 of at most 5 rounds"}
    assert [one.name for one in receipt.steps] == [
        "draft", "check", "draft#2", "check#2", "draft#3", "check#3", "refine",
    ]  # fmt: skip


def test_there_are_never_more_rounds_than_stated(tmp_path: Path) -> None:
    """The run goes on, and later steps can ask whether it was enough."""
    after = "  - ask: {name: more, prompt: x, member: draft, when: not steps.refine.done}\n"
    receipt = carried(tmp_path, DRAFT.replace("at_most: 5", "at_most: 2") + after)
    assert (receipt.status, receipt.calls) == ("complete", 5)
    assert notes(receipt) == {"refine": "2 of at most 2 rounds, and still not steps.check.good"}


def test_the_same_prompt_is_asked_anew_in_each_round(tmp_path: Path) -> None:
    """The key of an ask has its round: else the reply of the first would stand in all of them."""
    steps = DRAFT.replace("until: steps.check.good", "until: round == 4")
    assert carried(tmp_path, steps).calls == 8


GROW = """\
  - repeat:
      steps:
        - map: {name: grow, member: longer}
        - reduce: {name: texts, kind: concat, sep: ""}
      until: steps.texts | length > 8
      at_most: 4
"""


def test_items_in_the_flow_go_from_round_to_round_and_end_once(tmp_path: Path) -> None:
    head = "input: {list: [{id: p, text: a}, {id: q, text: b}]}\n"
    receipt = carried(tmp_path, GROW + "  - map: {name: last, member: longer}\n", head)
    assert (receipt.status, receipt.planned, receipt.passed) == ("complete", 2, 2)
    assert notes(receipt) == {"repeat": "4 of at most 4 rounds"}
    assert receipt.result == "a!!!!b!!!!"
    alone = carried(tmp_path, GROW, head)
    assert (alone.status, alone.planned, alone.passed) == ("complete", 2, 2)


def test_a_group_after_the_rounds_has_the_replies_of_the_last_one(tmp_path: Path) -> None:
    head = "input: {list: [{id: p, text: a}, {id: q, text: b}]}\n"
    receipt = carried(tmp_path, GROW + "  - group: {by: item.id, reduce: collect}\n", head)
    assert receipt.status == "complete"
    assert [[part["value"] for part in group["value"]] for group in receipt.result] == [
        ["a!!!!"], ["b!!!!"],
    ]  # fmt: skip


def test_each_round_works_on_a_list_of_its_own(tmp_path: Path) -> None:
    steps = (
        "  - repeat:\n      steps:\n"
        "        - ask: {name: plan, prompt: x, member: lister}\n"
        "        - conduct: {name: each, over: steps.plan, member: same}\n"
        "      until: 'round == 3'\n      at_most: 9\n"
    )
    receipt = carried(tmp_path, steps)
    assert (receipt.status, receipt.planned, receipt.passed) == ("complete", 6, 6)


def test_a_step_without_a_result_ends_the_rounds_and_flags_the_run(tmp_path: Path) -> None:
    steps = DRAFT.replace(
        "member: check}", "member: longer, on_failure: partial}"
    )  # raises: it gets no text
    receipt = carried(tmp_path, steps)
    assert (receipt.status, receipt.calls) == ("flagged", 2)


def test_what_a_step_within_is_not_taken_is_said_by_round(tmp_path: Path) -> None:
    steps = DRAFT.replace('prompt: "check", ', 'prompt: "check", when: round > 1, ').replace(
        "steps.check.good", "steps.check and steps.check.good"
    )
    receipt = carried(tmp_path, steps)
    assert notes(receipt)["check"] == "not run: its condition is false: round > 1"
    assert receipt.calls == 5


BAD = [
    (DRAFT.replace("      until: steps.check.good\n", ""), "until"),
    (DRAFT.replace("      at_most: 5\n", ""), "at_most"),
    (DRAFT.replace("at_most: 5", "at_most: 0"), "`at_most` must be 1 or more"),
    (DRAFT.replace("steps.check.good", "steps.chek.good"), "reads `steps.chek`"),
    (DRAFT.replace("- ask: {name: check, prompt: \"check\", member: check}", "- write: x.json"),
     "`write` cannot be within a `repeat`"),
    (DRAFT.replace("name: check,", "name: draft,"), "a second step `draft`"),
    (DRAFT + "  - ask: {name: draft, prompt: x, member: draft}\n", "a second step `draft`"),
    (re.sub(r"steps:\n(        - .*\n)+", "steps: []\n", DRAFT), "`steps` is empty"),
    ("  - repeat: {steps: [{conduct: {member: draft}}], until: 'true', at_most: 2}\n",
     "in a `repeat`, `conduct` needs `over: steps.NAME`"),
    ("  - repeat: {steps: [{map: {member: draft}}, {ask: {prompt: x, member: lister}},"
     " {map: {name: b, over: steps.ask, member: draft}}], until: 'true', at_most: 2}\n",
     "state `over: steps.NAME` in both"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "why"), BAD)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, steps: str, why: str) -> None:
    head = "input: {count: 1}\n" if "conduct" in steps or "map" in steps else ""
    with pytest.raises(BadInput) as error:
        load_plan(written(tmp_path, steps, head))
    assert why in str(error.value) and re.search(r"p\.yaml:\d+: ", str(error.value))


def test_the_preview_counts_all_rounds_and_the_picture_shows_the_way_back(tmp_path: Path) -> None:
    plan = load_plan(written(tmp_path, DRAFT + GROW, "input: {count: 3}\n"))
    made = estimate(plan, load_roster(tmp_path / "roster.yaml"), readable_input(plan), None)
    assert [(one.name, one.tasks) for one in made.steps] == [
        ("draft", 5),
        ("check", 5),
        ("grow", 12),
    ]
    assert made.total.most_calls is not None and made.total.most_calls >= 22
    box = picture(plan, items=3).boxes[1]
    assert box.lines == ("until steps.check.good", "at most 5 rounds") and box.inside is not None
    assert box.inside.arrows[-1].kind == "back"


# ── over HTTP, killed and resumed ────────────────────────────────────────────────────────────

PLAN = """\
name: killed
input: {count: 4}
steps:
  - repeat:
      name: refine
      steps:
        - map: {name: text, prompt: "write {{ item.n }} after {{ steps.text }}", member: m}
        - reduce: {name: all, kind: concat, sep: " "}
        - ask: {name: check, prompt: "check {{ steps.all }}", member: m, schema: {type: object}}
      until: steps.check.good
      at_most: 6
  - repeat:
      name: search
      steps:
        - ask: {name: plan, prompt: "list after {{ steps.found }}", member: m, schema: {type: array}}
        - map: {name: look, over: steps.plan, prompt: "look at {{ item.text }}", member: m}
        - reduce: {name: found, kind: concat, sep: " "}
      until: round == 2
      at_most: 3
"""


def answered(asked: Asked) -> Says:
    prompt = asked.prompt
    if prompt.startswith("check"):
        return Says(data={"good": prompt.count("+++") >= 4})
    if prompt.startswith("list"):
        return Says(data=[f"{n}{prompt.count('seen')}" for n in "ab"])
    if prompt.startswith("look"):
        return Says(text=f"seen {prompt[-3:]}")
    return Says(text=f"{prompt.rpartition('after ')[2].strip('[]')}+")


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_killed_and_resumed_the_rounds_are_the_same_and_nothing_is_asked_twice(
    tmp_path: Path, seed: int
) -> None:
    ended = carried_through(tmp_path, PLAN, answered, seed)
    ended.check()
    receipt = ended.receipt
    assert (ended.kills, receipt.status, receipt.planned, receipt.passed) == (3, "complete", 8, 8)
    assert notes(receipt) == {"refine": "3 of at most 6 rounds", "search": "2 of at most 3 rounds"}
    assert len(ended.asked) == 3 * 5 + 2 * 3
