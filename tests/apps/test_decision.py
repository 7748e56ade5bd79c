"""The application `decision`: its score, its report, and its plan with scripted models."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fanfold.members.roster import load_roster
from fanfold.members.target import resolve_target
from fanfold.testing.running import threaded_server
from tests.faces.cli import SRC, fanfold
from tests.waiting import LONG

pytestmark = pytest.mark.slow

FOLDER = SRC / "fanfold" / "apps" / "decision"
panel = resolve_target("recordings:panel", FOLDER)
load = resolve_target("recordings:load", FOLDER)
calibrates = resolve_target("recordings:calibrates", FOLDER)
write_replies = resolve_target("recordings:write_replies", FOLDER)

PRO, FLASH, LLAMA, SEEK = (voter.model for voter in panel())
OPTIONS = ["red", "green", "blue"]


def scored(*words: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, str(FOLDER / "score.py"), *words], env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


# ── the recordings ───────────────────────────────────────────────────────────────────────────


@pytest.mark.sweep
def test_the_vote_is_better_than_the_best_single_model_on_both_halves() -> None:
    told = scored()
    halves = told["scores"]
    won = {name: halves[name]["won"] for name in halves if name != "detail"}
    assert won["all"] > 0.035 and won["fitting"] > 0.05 and won["reporting"] > 0.01
    held = halves["reporting"]
    assert held["won_from"] < 0 < held["won_to"], "which the README says too"
    assert held["judged"] < held["accuracy"], "the judge stands beside the vote"
    assert told["best_single"] == PRO
    whole = halves["all"]
    assert (
        whole["calls_each"] < 2.9 and 0 < whole["best_single_usd_1000"] < whole["usd_1000"] < 1.25
    )
    assert halves["detail"]["right when 2 of 2 agree"] > 0.85
    assert halves["detail"]["right when 1 of 3 agree"] < 0.4
    assert told["data"] == {"questions": 1200, "models": 29}
    assert (told["app"], told["cost_usd"]) == ("decision", 0.0)


def test_the_chance_of_a_decision_is_measured_on_the_half_that_it_is_not_in() -> None:
    chance, judge_chance, half, known = (
        resolve_target(f"chances:{name}", FOLDER)
        for name in ("chance", "judge_chance", "half", "known")
    )
    ids = {half(one.id): one.id for one in load(FOLDER / "data")}
    counts = {
        "fitting": {"2 of 2": counted(30, 30, 40), "the judge picked another": counted(5, 8, 20)},
        "reporting": {"2 of 2": counted(9, 9, 10), "1 of 4": counted(1, 1, 5)},
    }
    two = {"agreed": 2, "answered": 2}
    told = chance({"id": ids["reporting"], **two}, counts)
    assert (told["right"], told["of"], told["share"]) == (30, 40, 0.75)
    assert told["from"] < 0.75 < told["to"]
    assert chance({"id": ids["fitting"], **two}, counts)["of"] == 10
    assert chance({"id": ids["fitting"], "agreed": 1, "answered": 4}, counts) is None, "too few"
    judged = {"id": ids["reporting"], "decision": "A", "judged": "B"}
    assert (judge_chance(judged, counts)["right"], judge_chance(judged, counts)["of"]) == (8, 20)
    assert judge_chance({**judged, "judged": "A"}, counts) is None, "it says what the vote says"
    shipped = [cell for one in known().values() for name, cell in one.items() if " of " in name]
    assert sum(cell["of"] for cell in shipped) == 1200


def counted(vote: int, judge: int, of: int) -> dict[str, int]:
    return {"vote": vote, "judge": judge, "of": of}


def test_the_first_page_states_the_chance_of_each_decision_and_what_the_judge_picked(
    tmp_path: Path,
) -> None:
    ended = fanfold(tmp_path, "demo", "decision", "--quiet")
    page = ended.out.partition("# 591 decisions by vote")[2].partition("\npage: ")[0]
    assert 0 < page.count("\n") < 60 and max(map(len, page.split("\n"))) <= 100
    known = resolve_target("chances:known", FOLDER)()["fitting"]
    flat = " ".join(page.split())
    one = known["1 of 4"]
    assert flat.count(f"right in {one['vote']} of {one['of']} such cases of the other half") == 3
    for name, cell in known.items():  # by agreement, the vote and the judge side by side
        if " of " in name and cell["of"] >= 10 and name != "2 of 2":
            (row,) = (line for line in page.split("\n") if line.startswith(f"| {name} |"))
            assert [f"{cell[by]} of {cell['of']}:" in row for by in ("vote", "judge")] == [True] * 2
    other = known["the judge picked another"]
    told = f"picked another one in {other['of']}, and was right in {other['judge']} of them"
    assert (
        f"{told}, the vote in {other['vote']}." in flat and "None was recorded as a judge" in flat
    )
    found = (tmp_path / ".fanfold" / "demo" / "decision" / "decisions.json").read_text("utf-8")
    made = json.loads(found)
    assert all("chance" in one and one["judged"] for one in made)
    assert all(one["judged"] == one["decision"] for one in made if not one["dissent"])


def test_a_fourth_judges_where_they_differ_and_what_was_said_is_not_asked_again(mine: Path) -> None:
    write_data(mine / "data", ("q1", "q2", "q3"))
    subprocess.run([sys.executable, "recordings.py"], cwd=mine, check=True)
    ended = fanfold(mine, "run", "plan.yaml", "--json", "--quiet")
    assert ended.code == 0
    assert [one["judged"] for one in ended.receipt["result"]] == ["B", "C", "A"]
    steps = {one["name"]: one for one in ended.receipt["steps"]}
    assert steps["judged.judge"]["calls"] == 2, "on q1 the first two agree"
    report = (mine / "report.md").read_text(encoding="utf-8")
    assert "Where they differ, in 2 questions" in report and "- judge: the same" in report


def test_the_panel_is_the_best_of_the_calibration_half_in_that_order() -> None:
    questions = [one for one in load(FOLDER / "data") if calibrates(one.id)]
    right: dict[str, int] = {}
    for one in questions:
        for name, letter in one.answers.items():
            right[name] = right.get(name, 0) + (letter == one.gold)
    assert sorted(right, key=lambda name: -right[name])[:4] == [PRO, FLASH, LLAMA, SEEK]
    assert list(load_roster(FOLDER / "roster.yaml").entries) == [PRO, FLASH, LLAMA, SEEK, "judge"]


def test_the_replies_are_those_of_the_recordings(tmp_path: Path) -> None:
    made = tmp_path / "data"
    shutil.copytree(FOLDER / "data", made, ignore=shutil.ignore_patterns("replies"))
    write_replies(made)
    shipped = {one.name: one.read_bytes() for one in (FOLDER / "data" / "replies").iterdir()}
    assert {one.name: one.read_bytes() for one in (made / "replies").iterdir()} == shipped


def test_the_questions_do_not_have_their_answers() -> None:
    lines = (FOLDER / "data" / "questions.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert {tuple(json.loads(line)) for line in lines} == {
        ("qid", "category", "question", "options")
    }


# ── a small panel ────────────────────────────────────────────────────────────────────────────

ANSWERS = {  # the letters of the four, "" where none could be read, NA where it was not asked
    "q1": ("B", "B", "A", "A"),
    "q2": ("A", "C", "C", "NA"),
    "q3": ("A", "B", "C", "NA"),
    "q4": ("A", "", "NA", "NA"),
}


def write_data(folder: Path, names: tuple[str, ...]) -> None:
    """Questions with three options, and what the four answered; the right one is always B."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    items = [
        {"qid": name, "category": "colors", "question": f"Question {name}?", "options": OPTIONS}
        for name in names
    ]
    text = "".join(json.dumps(item) + "\n" for item in items)
    (folder / "questions.jsonl").write_text(text, encoding="utf-8")
    four = (PRO, FLASH, LLAMA, SEEK)
    write_csv(folder / "predictions.csv", [("qid", "gold", *four)] + [
        (name, "B", *ANSWERS[name]) for name in names
    ])  # fmt: skip
    write_csv(folder / "output_chars.csv", [("qid", *four)] + [
        (name, "400", "400", "400", "400") for name in names
    ])  # fmt: skip


def write_csv(file: Path, rows: list[tuple[str, ...]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    assert fanfold(tmp_path, "new", "mine", "--from", "decision").code == 0
    return tmp_path / "mine"


def test_each_decision_says_who_agreed_who_dissented_and_what_it_cost(mine: Path) -> None:
    write_data(mine / "data", ("q1", "q2", "q3"))
    subprocess.run([sys.executable, "recordings.py"], cwd=mine, check=True)
    ended = fanfold(mine, "run", "plan.yaml", "--json", "--quiet")
    assert (ended.code, ended.receipt["passed"], ended.receipt["cost_usd"]) == (0, 5, 0.0)
    first, second, third = ended.receipt["result"]
    assert first == {
        "id": "q1", "subject": "colors", "question": "Question q1?", "decision": "B", "means": "green",
        "agreed": 2, "answered": 2, "asked": 2, "dissent": [], "absent": [], "why_not": "",
        "usd": 0.0005419, "judged": "B", "judge_means": "green",
        "chance": first["chance"], "judge_chance": None,
    }  # fmt: skip
    names = ("decision", "agreed", "answered", "asked")
    assert [second[name] for name in names] == ["C", 2, 3, 4]
    assert second["dissent"] == [{"member": PRO, "answer": "A", "means": "red"}]
    assert (third["decision"], third["agreed"], third["asked"]) == ("A", 1, 4)
    assert [one["member"] for one in third["dissent"]] == [FLASH, LLAMA]
    assert third["absent"] == [SEEK]
    report = (mine / "report.md").read_text(encoding="utf-8")
    head, _, body = report.partition("<!-- more -->")
    assert "nothing was paid" in " ".join(head.split())
    assert head.index("**q3**") < head.index("**q2**")  # the least sure first
    assert f"- {FLASH} said B: green" in head
    assert f"| q2: Question q2? | colors | C: blue | 2 of 3 | {PRO}: A | C | " in body


def test_a_question_with_fewer_than_two_answers_is_not_decided_and_is_named(mine: Path) -> None:
    write_data(mine / "data", ("q1", "q4"))
    subprocess.run([sys.executable, "recordings.py"], cwd=mine, check=True)
    ended = fanfold(mine, "run", "plan.yaml", "--json", "--quiet")
    assert (ended.code, ended.receipt["passed"], ended.receipt["failed"]) == (1, 1, 1)
    assert [(one["id"], one["decision"]) for one in ended.receipt["result"]] == [
        ("q1", "B"), ("q4", None),
    ]  # fmt: skip
    report = (mine / "report.md").read_text(encoding="utf-8")
    assert "- **no decision** on q4: 1 of 4 voters answered, 2 are needed" in report


def test_a_report_of_another_input_says_which_line_to_change(mine: Path) -> None:
    item = {"qid": "zz", "category": "x", "question": "1 + 1?", "options": ["1", "2"]}
    (mine / "mine.jsonl").write_text(json.dumps(item) + "\n", encoding="utf-8")
    ended = fanfold(mine, "run", "plan.yaml", "--input", "mine.jsonl", "--quiet")
    assert ended.code == 1
    assert "has no question zz: QUESTIONS in report.py must name the plan's input" in ended.out


def test_another_folder_of_the_same_layout_is_scored(tmp_path: Path) -> None:
    """Also with no replies in it, and one level down. q1 is right, two others are not."""
    write_data(tmp_path / "recorded_mmlu_pro", ("q1", "q2", "q3"))
    told = scored("--data", str(tmp_path))
    assert told["data"] == {"questions": 3, "models": 4}
    whole = told["scores"]["all"]
    assert (whole["accuracy"], whole["calls_each"]) == (0.3333, 3.33)


# ── with models ──────────────────────────────────────────────────────────────────────────────

MODEL = """\
  - {{id: {id}, kind: {kind}, model: {id}, base_url: "{url}", key: none, price: {{input: 1, output: 1}},
     max_tokens: 1000, good_at: [{good_at}]}}
"""


class Decided:
    """The plan as it is, in a copy, on three questions; three models and a judge follow a script."""

    def __init__(self, mine: Path, script: str, kind: str) -> None:
        self.folder = mine
        write_data(mine / "data", ("q1", "q2", "q3"))
        where = f"tests.apps.decision_models:{script}"
        with threaded_server(mine.parent / "books", script=where) as server:
            url = server.url if kind == "anthropic" else f"{server.url}/v1"
            good = dict.fromkeys(("ada", "bob", "cyd"), "figures, panel") | {"dan": "judging"}
            models = [
                MODEL.format(id=id, kind=kind, url=url, good_at=known) for id, known in good.items()
            ]
            (mine / "models.yaml").write_text("members:\n" + "".join(models), encoding="utf-8")
            self.ended = fanfold(
                mine, "run", "plan.yaml", "--roster", "models.yaml", "--json", "--quiet"
            )
            server.wait_idle()
            self.prompts = [entry.prompt for entry in server.books().asked]

    @property
    def outcome(self) -> tuple[int, int, int]:
        receipt = self.ended.receipt
        return self.ended.code, receipt["passed"], receipt["calls"]

    @property
    def decisions(self) -> list[tuple[str, int, int]]:
        return [
            (one["decision"], one["agreed"], one["answered"])
            for one in self.ended.receipt["result"]
        ]


@pytest.fixture
def decide(mine: Path) -> Callable[..., Decided]:
    return lambda script, kind="openai": Decided(mine, script, kind)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_two_that_agree_are_enough_and_a_third_is_asked_when_they_do_not(
    decide: Callable[..., Decided], kind: str
) -> None:
    done = decide("careful", kind)
    assert done.outcome == (0, 5, 10)  # two of three are judged too, by one call each
    assert done.decisions == [("B", 2, 2), ("C", 2, 3), ("A", 1, 3)]
    assert done.ended.receipt["result"][1]["dissent"] == [
        {"member": "ada", "answer": "A", "means": "red"}
    ]
    report = (done.folder / "report.md").read_text(encoding="utf-8")
    assert "recordings" not in report and "usd" not in report
    assert "The answers were given by the members of the roster" in report
    prompt = done.prompts[0]
    assert "A. red\n" in prompt and "C. blue\n" in prompt and "D. " not in prompt


def test_an_option_that_is_not_there_is_kicked_back_with_the_reason(
    decide: Callable[..., Decided],
) -> None:
    done = decide("wild")
    assert done.outcome == (0, 5, 11)
    assert done.decisions == [("B", 2, 2), ("C", 2, 3), ("A", 1, 3)]
    (back,) = [prompt for prompt in done.prompts if "there is no option" in prompt]
    assert "there is no option H: this question has A to C" in back


def test_one_that_keeps_naming_what_is_not_there_is_absent(decide: Callable[..., Decided]) -> None:
    done = decide("stubborn")
    assert done.outcome[:2] == (0, 5)
    assert done.decisions == [("B", 1, 2), ("C", 2, 2), ("B", 1, 2)]
    assert {one["absent"][0] for one in done.ended.receipt["result"]} == {"ada"}


def test_prose_around_the_json_does_no_harm(decide: Callable[..., Decided]) -> None:
    done = decide("talkative")
    assert done.outcome == (0, 5, 10)  # two of three are judged too, by one call each
    assert done.decisions == [("B", 2, 2), ("C", 2, 3), ("A", 1, 3)]


def test_one_answer_alone_is_no_decision(decide: Callable[..., Decided]) -> None:
    done = decide("lonely")
    assert (done.ended.code, done.ended.receipt["passed"], done.ended.receipt["failed"]) == (
        1,
        0,
        3,
    )
    assert [one[0] for one in done.decisions] == [None, None, None]
