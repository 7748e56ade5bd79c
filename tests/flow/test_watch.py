"""`watch`: a sample of the answers is checked while a step works; drift flags the run or pauses it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput, RunStopped
from fanfold.members.roster import load_roster
from fanfold.plans.drawing.picture import picture
from fanfold.plans.load import check_plan, load_plan
from fanfold.testing.script import Asked, Says
from fanfold.work.drift import in_sample
from tests.examples import seeds
from tests.faces.cli import fanfold
from tests.flow.killed_plans import carried_through

ITEMS = [{"id": f"i{n}", "text": f"t{n}", "label": ("yes", "no")[n % 2]} for n in range(120)]


def right(item: dict[str, Any]) -> str:
    return str(item["label"])


def wrong(item: dict[str, Any]) -> str:
    """Wrong in two of five."""
    n = int(item["id"][1:])
    return ("yes", "no")[(n + (n % 5 < 2)) % 2]


MODELS = """\
def right(item):
    return item["label"]


def strong(item):
    return right(item)


def wrong(item):
    n = int(item["id"][1:])
    return ("yes", "no")[(n + (n % 5 < 2)) % 2]
"""
ROSTER = """\
members:
  - {id: good, kind: function, target: "models:right", price: {call: 0.001}}
  - {id: bad, kind: function, target: "models:wrong", price: {call: 0.001}}
  - {id: large, kind: function, target: "models:strong", price: {call: 0.01}}
"""
PLAN = """\
name: watched
roster: roster.yaml
input: {jsonl: items.jsonl}
steps:
  - map:
      member: %s
      prompt: "yes or no? {{ item.text }}"
      watch: {%s}
  - reduce: {kind: count}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "roster.yaml").write_text(ROSTER)
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ITEMS))
    labels = "".join(f"{one['id']},{one['label']}\n" for one in ITEMS)
    (tmp_path / "labels.csv").write_text(f"item,truth\n{labels}")
    return tmp_path


def checked(rate: float) -> int:
    return sum(in_sample(str(one["id"]), rate) for one in ITEMS)


def note(receipt: dict[str, Any]) -> str:
    return next(str(one["note"]) for one in receipt["steps"] if one["name"].endswith(".watch"))


@pytest.mark.parametrize(
    ("stated", "many", "calls"),
    [
        ("truth: member:large, rate: 0.5, target: 0.9", checked(0.5), checked(0.5)),
        ("truth: item.label, target: 0.9", 120, 0),
        ("truth: labels.csv, target: 0.9, rate: 0.5", checked(0.5), 0),
        ("truth: gate, target: 0.9", 120, 0),
        ("gate: {judge: {member: judge, prompt: Good?}}, rate: 0.5, target: 0.9", checked(0.5), checked(0.5)),
    ],
)  # fmt: skip
def test_answers_that_are_right_are_checked_at_the_rate_and_the_run_is_complete(
    folder: Path, stated: str, many: int, calls: int
) -> None:
    (folder / "judge.py").write_text("def judge(item):\n    return {'pass': True}\n")
    judge = '  - {id: judge, kind: function, target: "judge:judge", price: {call: 0.01}}\n'
    (folder / "roster.yaml").write_text(ROSTER + judge)
    (folder / "plan.yaml").write_text(PLAN % ("good", stated))
    receipt = fanfold(folder, "run", "plan.yaml", "--json").receipt
    assert (receipt["status"], receipt["result"]) == ("complete", 120)
    assert note(receipt).startswith(f"{many} of {many} checked were right (100.0%, wanted 90.0%)")
    assert receipt["calls"] == 120 + calls


@pytest.mark.parametrize("truth", ["item.label", "labels.csv", "member:large"])
def test_drift_flags_the_run_or_pauses_it_and_a_resume_goes_on(folder: Path, truth: str) -> None:
    stated = f"truth: '{truth}', rate: 1, target: 0.9"
    (folder / "plan.yaml").write_text(PLAN % ("bad", stated))
    ended = fanfold(folder, "run", "plan.yaml", "--json", "--name", "flagged")
    assert (ended.code, ended.receipt["status"]) == (1, "flagged")
    assert ended.receipt["reason"] == (
        "map: 72 of 120 checked were right (60.0%, wanted 90.0%): fewer than chance explains"
    )
    (folder / "plan.yaml").write_text(PLAN % ("bad", f"{stated}, on_drift: pause"))
    ended = fanfold(folder, "run", "plan.yaml", "--json", "--name", "paused", "--fresh")
    assert (ended.code, ended.receipt["cause"]["kind"]) == (4, "drift")
    assert ended.receipt["passed"] < 120
    for _ in range(10):  # what the operator has seen is no reason to pause again
        before = ended.receipt["passed"]
        ended = fanfold(folder, "resume", "paused", "--json")
        if ended.receipt["status"] != "paused":
            break
        assert ended.receipt["passed"] > before
    assert ended.receipt["passed"] == 120


def test_its_budget_bounds_what_checks_cost_and_the_run_goes_on(folder: Path) -> None:
    stated = "truth: member:large, rate: 1, target: 0.9, budget: 0.055"
    (folder / "plan.yaml").write_text(PLAN % ("good", stated))
    receipt = fanfold(folder, "run", "plan.yaml", "--json").receipt
    assert (receipt["status"], receipt["passed"]) == ("complete", 120)
    (step,) = [one for one in receipt["steps"] if one["name"] == "map.watch"]
    assert (step["calls"], step["cost_usd"]) == (5, 0.05)
    assert "115 could not be checked (its budget is used up)" in step["note"]


def test_the_preview_counts_what_it_would_ask_and_the_picture_names_it(folder: Path) -> None:
    (folder / "plan.yaml").write_text(
        PLAN % ("good", "truth: member:large, rate: 0.5, target: 0.9")
    )
    shown = fanfold(folder, "run", "plan.yaml", "--dry-run", "--json").out
    lines = {one["name"]: one for one in json.loads(shown)["steps"]}
    assert lines["map.watch"]["tasks"] == checked(0.5)
    assert lines["map.watch"]["members"] == ["large"]
    assert "watched: member:large, 90.0% right" in str(picture(load_plan(folder / "plan.yaml")))


VOTED = """\
name: killed
roster: roster.yaml
input:
  list: %s
steps:
  - ensemble:
      prompt: "Question <{{ item.n }}>"
      members: [a, b, c]
      concurrency: 3
      watch: {truth: member:large, rate: 0.6, target: 0.5}
  - write: votes.json
"""


def models(*names: str) -> str:
    line = '  - {{{{id: {0}, kind: openai, model: {0}, base_url: "{{url}}/v1", max_tokens: 50, {1}}}}}\n'
    return "members:\n" + "".join(
        line.format(name, "price: {{input: 1, output: 1}}") for name in names
    )


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_killed_and_resumed_no_check_is_paid_twice_and_all_of_them_count(
    tmp_path: Path, seed: int
) -> None:
    def says(asked: Asked) -> Says:
        found = re.search(r"<(\d+)>", asked.prompt)
        assert found is not None
        return Says(text="odd" if int(found[1]) % 2 else "even")

    items = [{"id": f"i{n}", "n": n} for n in range(15)]
    roster = models("a", "b", "c", "large")
    ended = carried_through(tmp_path, VOTED % items, says, seed, roster=roster)
    ended.check()
    many = sum(in_sample(f"i{n}", 0.6) for n in range(15))
    assert len(ended.asked) == 15 * 3 + many
    (told,) = [one.note for one in ended.receipt.steps if one.name == "ensemble.watch"]
    assert told == f"{many} of {many} checked were right (100.0%, wanted 50.0%)"


def test_in_python_a_map_and_a_vote_are_watched_too(tmp_path: Path) -> None:
    async def main() -> None:
        members = [ff.function(right, id="good"), ff.function(wrong, id="bad"),
                   ff.function(right, id="large")]  # fmt: skip
        watch = {"truth": "member:large", "rate": 1, "target": 0.9, "budget": ff.Budget(calls=500)}
        async with ff.open_run("r", members=members, store=tmp_path) as run:
            folded = await ff.map_reduce(run, ITEMS, member="good", watch=watch, step="a")
            (step,) = [one for one in run.receipt().steps if one.name == "a.watch"]
            assert step.note == "120 of 120 checked were right (100.0%, wanted 90.0%)"
            assert folded.receipt.passed == 120
            gate = ff.predicate(lambda value: value == "yes")
            half = {"gate": gate, "rate": 1, "target": 0.9, "on_drift": "pause"}
            with pytest.raises(BadInput, match="state `truth` or `gate`, not both"):
                await ff.map_reduce(run, ITEMS, member="good", watch={**watch, **half}, step="b")
            for given, said in _MISTAKES:
                with pytest.raises(BadInput, match=said):
                    await ff.ensemble(run, ITEMS, members=["good", "bad"], watch=given, step="c")
            await ff.ensemble(run, ITEMS, members=["good", "bad"], watch=half, step="d")

    with pytest.raises(RunStopped, match=r"paused: d: \d+ of \d+ checked were right"):
        ff.run_sync(main())


_MISTAKES: list[tuple[Any, str]] = [
    ({"truth": "gate"}, "a watch needs the field `target`"),
    ({"target": 0.9}, "what is right"),
    ({"truth": "gate", "target": 1.5}, "`target` is a share"),
    ({"truth": "gate", "target": 0.9, "rate": 2}, "`rate` is a share"),
    ({"truth": "other", "target": 0.9}, "give a table"),
    ({"truth": "member:nobody", "target": 0.9}, "nobody"),
    ({"truth": "gate", "target": 0.9, "often": 1}, "often"),
    ({"gate": 3, "target": 0.9}, "must be a gate"),
    ("large", "watch"),
]


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("target: 0.9", "a watch needs `truth` or `gate`: what is right?"),
        ("truth: item.label", "a watch needs the field `target`"),
        ("truth: member:nobody, target: 0.9", "there is no member `nobody` in the roster"),
        ("truth: none.csv, target: 0.9", "none.csv: no such file"),
        ("truth: label, target: 0.9", "`truth` label: give a table"),
        ("truth: gate, target: 93", "`target` is a share, at most 1, not 93"),
        ("truth: gate, target: 0.9, on_drift: stop", "unknown on_drift `stop`"),
        ("truth: gate, target: 0.9, rat: 1", "did you mean `rate`?"),
        ("gate: {judge: {member: nobody, prompt: x}}, target: 0.9", "no member `nobody`"),
    ],
)
def test_a_mistake_names_its_line(folder: Path, stated: str, said: str) -> None:
    (folder / "plan.yaml").write_text(PLAN % ("good", stated))
    with pytest.raises(BadInput) as refused:
        check_plan(load_plan(folder / "plan.yaml"), load_roster(folder / "roster.yaml"))
    assert (refused.value.line, said in str(refused.value)) == (8, True), refused.value


def test_items_without_a_label_are_not_checked_and_the_note_says_how_many(folder: Path) -> None:
    rows = [
        one if n < 50 else {"id": one["id"], "text": "", "label": ""} for n, one in enumerate(ITEMS)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (folder / "models.py").write_text(MODELS.replace('item["label"]', 'item["label"] or "yes"'))
    (folder / "plan.yaml").write_text(PLAN % ("good", "truth: item.label, target: 0.9"))
    receipt = fanfold(folder, "run", "plan.yaml", "--json").receipt
    assert note(receipt) == (
        "50 of 50 checked were right (100.0%, wanted 90.0%); 70 could not be checked"
    )
