"""Any list feeds any step: what an earlier step produced is conducted, divided, piped, scattered or run
as a graph, governed as everything that nobody foresaw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.patterns.divide import divided
from fanfold.plans.drawing.picture import picture
from fanfold.plans.load import load_plan
from fanfold.plans.prepare import Options, prepare
from fanfold.plans.preview.estimate import estimate, readable_input
from fanfold.testing.script import Asked, Says
from fanfold.work.outcome import Receipt
from fanfold.work.pieces import Fits
from tests.examples import seeds
from tests.flow.killed_plans import carried_through
from tests.flow.small_plans import executed

ROSTER = """\
members:
  - {id: lister, kind: function, target: "work:lister"}
  - {id: worker, kind: function, target: "work:worker"}
"""
CODE = """\
import json
TASKS = [
    {"id": "a", "topic": "x"},
    {"id": "b", "topic": "y", "depends_on": ["a"]},
    {"id": "c", "topic": "y", "depends_on": "a"},
]

def lister(data):
    return TASKS

def worker(item):
    if "parents" in item:
        return item["item"]["topic"] + "".join(sorted(item["parents"].values()))
    if "items" in item:
        return ",".join(one["topic"] for one in item["items"])
    return item["topic"]

def joined(parts):
    return "+".join(str(part.value) for part in parts)

def no_two_alike(parts):
    seen = {}
    for part in parts:
        seen.setdefault(part.value, []).append(part.id)
    return {id: "said before" for ids in seen.values() for id in ids[1:]}

def one_by_one(data):
    return [{**data, "topic": sign} for sign in data["topic"]]
"""


def plan(step: str, head: str = "") -> str:
    return f"""\
name: fed
{head}steps:
  - ask: {{name: plan, prompt: list, member: lister}}
  - {step}
"""


def carried(folder: Path, text: str, **options: Any) -> Receipt:
    (folder / "p.yaml").write_text(text)
    (folder / "roster.yaml").write_text(ROSTER)
    (folder / "work.py").write_text(CODE)
    job = prepare(str(folder / "p.yaml"), Options(store=str(folder / "store"), **options))
    return executed(job)


FEEDS = [
    ("conduct: {over: steps.plan, member: worker}", [
        {"id": "a", "value": "x"}, {"id": "b", "value": "y"}, {"id": "c", "value": "y"}]),
    ("scatter: {over: steps.plan, member: worker}", [
        {"id": "a", "value": "x"}, {"id": "b", "value": "y"}, {"id": "c", "value": "y"}]),
    ('divide: {over: steps.plan, member: worker, fits: {items: 2}, combine: "work:joined"}', "x,y+y"),
    ("graph: {over: steps.plan, member: worker}", {"a": "x", "b": "yx", "c": "yx"}),
    ("pipeline: {over: steps.plan, stages: [{map: {member: worker}}]}\n  - reduce: collect", [
        {"id": "a", "value": "x"}, {"id": "b", "value": "y"}, {"id": "c", "value": "y"}]),
]  # fmt: skip


@pytest.mark.parametrize(("step", "result"), FEEDS)
def test_each_kind_works_on_a_list_that_a_step_made(tmp_path: Path, step: str, result: Any) -> None:
    receipt = carried(tmp_path, plan(step))
    assert (receipt.status, receipt.planned, receipt.passed) == ("complete", 3, 3)
    assert receipt.result == result


@pytest.mark.parametrize("step", [step for step, _ in FEEDS])
def test_the_size_is_not_in_the_preview_and_the_picture_says_over(
    tmp_path: Path, step: str
) -> None:
    (tmp_path / "roster.yaml").write_text(ROSTER)
    (tmp_path / "work.py").write_text(CODE)
    (tmp_path / "p.yaml").write_text(
        plan(step, "input: {count: 7}\n").replace(
            "  - ask",
            "  - map: {name: first, member: worker}\n"
            "  - reduce: {name: count, kind: count}\n  - ask",
        )
    )
    loaded = load_plan(tmp_path / "p.yaml")
    made = estimate(loaded, load_roster(tmp_path / "roster.yaml"), readable_input(loaded), None)
    of = next(one for one in made.steps if one.name not in ("first", "count", "plan"))
    assert (of.tasks, of.watched) == (None, True)
    boxes = picture(loaded, items=7).boxes
    assert [box.title for box in boxes if "over steps.plan" in box.lines] == [step.split(":")[0]]
    assert "ask 7" not in str(boxes[4])


MANY = [
    "conduct: {over: steps.plan, prompt: 'on {{ item.text }}', member: m}",
    "scatter: {over: steps.plan, prompt: 'on {{ item.text }}', member: m}",
    "divide: {over: steps.plan, prompt: 'on {{ item.text }}', member: m, combine: concat}",
    "graph: {over: steps.plan, prompt: 'on {{ item.text }}', member: m}",
    "pipeline: {over: steps.plan, stages: [{map: {prompt: 'on {{ item.text }}', member: m}}]}",
]


@pytest.mark.parametrize("step", MANY)
def test_more_than_the_governor_allows_pauses_before_the_first_ask(
    tmp_path: Path, step: str
) -> None:
    """Nobody foresaw how many there are: 9 tasks where 5 are allowed."""
    (tmp_path / "p.yaml").write_text(plan(step, "govern: {max_tasks: 5}\n"))
    (tmp_path / "work.py").write_text("def lister(data):\n    return list('abcdefghi')\n")
    (tmp_path / "roster.yaml").write_text(
        'members:\n  - {id: lister, kind: function, target: "work:lister"}\n'
        '  - {id: m, kind: openai, model: x, base_url: "http://127.0.0.1:9/v1", context: 9000,'
        " price: {input: 1, output: 1}}\n"
    )
    job = prepare(str(tmp_path / "p.yaml"), Options(store=str(tmp_path / "store")))
    receipt = executed(job)
    assert (receipt.status, receipt.calls) == ("paused", 1)
    assert "would ask 9 tasks that were not in the preview" in (receipt.reason or "")


@pytest.mark.parametrize(("tasks", "why"), [
    ('[{"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}]', "steps.plan: "),
    ('[{"id": "a", "depends_on": ["z"]}]', "`z`"),
    ('[{"id": "a", "depends_on": {"z": 1}}]', "its `depends_on` must be a list of ids"),
    ('[{"id": "a"}, {"id": "a"}]', "steps.plan: "),
    ('{"id": "a"}', "steps.plan is no list"),
])  # fmt: skip
def test_a_list_of_tasks_that_cannot_be_carried_out_flags_the_run(
    tmp_path: Path, tasks: str, why: str
) -> None:
    """Whoever wrote it may have written anything: the step has no result, and the rest goes on."""
    text = plan(
        "graph: {over: steps.plan, member: worker}\n  - ask: {name: after, prompt: x, member: lister}"
    )
    (tmp_path / "p.yaml").write_text(text)
    (tmp_path / "roster.yaml").write_text(ROSTER)
    (tmp_path / "work.py").write_text(
        f"def lister(data):\n    return {tasks}\ndef worker(item):\n    return 1\n"
    )
    job = prepare(str(tmp_path / "p.yaml"), Options(store=str(tmp_path / "store")))
    receipt = executed(job)
    assert receipt.status == "flagged"
    assert why in (receipt.reason or "") and (receipt.reason or "").startswith("graph: ")
    assert receipt.result is not None  # that of the step after it


def test_more_specs_than_most_lose_the_step_and_not_the_run(tmp_path: Path) -> None:
    receipt = carried(tmp_path, plan("conduct: {over: steps.plan, member: worker, most: 2}"))
    assert (receipt.status, receipt.reason) == (
        "flagged", "conduct: steps.plan: there are more than 2 specs; raise `most`, or conduct them"
        " in phases",
    )  # fmt: skip


def test_a_check_over_the_whole_batch_is_a_field_of_a_plan(tmp_path: Path) -> None:
    """Two results say the same: the second is kicked back, says it again, and is left out."""
    step = 'conduct: {over: steps.plan, member: worker, over_all: "work:no_two_alike"}'
    receipt = carried(tmp_path, plan(step))
    assert (receipt.status, receipt.passed, receipt.kicked) == ("flagged", 2, 1)
    assert receipt.result == [{"id": "a", "value": "x"}, {"id": "b", "value": "y"}]
    box = picture(load_plan(tmp_path / "p.yaml")).boxes[1]
    assert box.inside is not None
    gate = next(one for one in box.inside.boxes if one.id == "gate")
    assert gate.lines[-1] == "over all: work:no_two_alike"


DIVIDED = """\
name: fed
input: {list: [{id: a, topic: xyz}, {id: b, topic: u}]}
steps:
  - pipeline:
      stages:
        - divide:
            {name: parts, member: worker, fits: {tokens: 1}, split: "work:one_by_one", combine: "work:joined"}
        - map: {name: after, member: worker}
  - reduce: collect
"""


def test_a_divide_is_a_stage_of_a_pipeline(tmp_path: Path) -> None:
    """Each item by itself: its value is the combined one, and pieces are no planned items."""
    text = DIVIDED.replace("tokens: 1", "items: 1").replace('split: "work:one_by_one", ', "")
    receipt = carried(tmp_path, text)
    assert (receipt.status, receipt.planned, receipt.passed) == ("complete", 2, 2)
    assert receipt.result == [{"id": "a", "value": "xyz"}, {"id": "b", "value": "u"}]


def test_an_item_whose_pieces_do_not_all_pass_does_not_pass_the_stage(tmp_path: Path) -> None:
    """One token is too little for any piece: each fails with the reason, and the run goes on."""
    receipt = carried(tmp_path, DIVIDED)
    assert (receipt.status, receipt.planned, receipt.failed) == ("flagged", 2, 2)


def test_the_same_in_python(tmp_path: Path) -> None:
    """`divided` is the handler of a stage; what a stage makes of a long text is one value."""

    def longest(item: dict[str, Any]) -> str:
        return max(item["text"].split(), key=len)

    async def main() -> tuple[Receipt, Any]:
        async with ff.open_run("py", store=str(tmp_path), members=[ff.function(longest)]) as run:
            by = divided(combine=ff.concat("+"), fits=Fits(tokens=40), member="longest")
            texts = ["a bc " * 20 + "\n\n" + "def ghij " * 10, "one"]
            found = await ff.pipeline(
                run, texts, ff.stage(step="words", by=by), reduce=ff.concat("|")
            )
            return found.receipt, found.value

    receipt, value = ff.run_sync(main())
    assert (receipt.planned, receipt.passed, value) == (2, 2, "bc+ghij|one")


BAD = [
    ("conduct: {over: steps.plam, member: worker}", "`over` names `steps.plam`"),
    (
        "divide: {over: plan, member: worker, combine: concat}",
        "`over` is items, files or steps.NAME",
    ),
    ("graph: {member: worker}", "a graph needs `tasks`, or `over: steps.NAME`"),
    ("graph: {over: steps.plan, tasks: [], member: worker}", "a graph needs `tasks`, or"),
    (
        "graph: {tasks: [{id: a}], prompt: x, member: worker}",
        "`prompt` of a graph goes with `over`",
    ),
    ("conduct: {over_all: nowhere, member: worker}", "nowhere"),
    (
        "pipeline: {stages: [{map: {over: steps.plan, member: worker}}]}",
        "`over` has no use in a stage",
    ),
]


@pytest.mark.parametrize(("step", "why"), BAD)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, step: str, why: str) -> None:
    (tmp_path / "p.yaml").write_text(plan(step, "input: {count: 1}\n"))
    with pytest.raises(BadInput) as error:
        load_plan(tmp_path / "p.yaml")
    assert why in str(error.value) and "p.yaml:5" in str(error.value)


# ── over HTTP, killed and resumed ────────────────────────────────────────────────────────────

HAND_OFF = """\
name: killed
steps:
  - ask: {name: plan, prompt: "split it into five", member: m, schema: {type: array}}
  - conduct: {over: steps.plan, prompt: "conduct {{ item.what }}", member: m, synthesise: {prompt: one, member: m}}
  - scatter: {over: steps.plan, prompt: "scatter {{ item.what }}", member: m}
  - graph: {over: steps.plan, prompt: "graph {{ item.what }} after {{ parents }}", member: m}
  - divide: {over: steps.plan, prompt: "divide {{ items }}", member: m, fits: {items: 2}, combine: {prompt: whole, member: m}}
  - pipeline:
      over: steps.plan
      stages:
        - map: {name: first, prompt: "first {{ item.what }}", member: m}
        - divide: {name: parts, prompt: "part {{ item.text }}", member: m, fits: {tokens: 12}, split: paragraphs, combine: concat}
"""  # noqa: E501


def handed_off(asked: Asked) -> Says:
    if asked.prompt.startswith("split it"):
        words = "one two three four five six seven eight nine ten"
        tasks: list[dict[str, Any]] = [
            {"id": f"t{n}", "what": f"task {n}", "text": f"{n} {words}\n\n{n} {words}"}
            for n in range(5)
        ]
        tasks[4]["depends_on"] = ["t0", "t1"]
        return Says(data=tasks)
    return Says(text=f"done: {asked.prompt[:40]}")


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_the_hand_off_killed_and_resumed_asks_nothing_twice(tmp_path: Path, seed: int) -> None:
    ended = carried_through(tmp_path, HAND_OFF, handed_off, seed)
    ended.check()
    assert ended.kills == 3
    assert (ended.receipt.status, ended.receipt.planned) == ("complete", 25)
