"""The application `reviews`: its score, its tree and report, and its plan with scripted models."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fanfold.members.roster import load_roster
from fanfold.members.target import resolve_target
from fanfold.testing.running import threaded_server
from tests.apps.review_models import REVIEWS, answer
from tests.faces.cli import SRC, fanfold
from tests.waiting import LONG

pytestmark = pytest.mark.slow

FOLDER = SRC / "fanfold" / "apps" / "reviews"
read = resolve_target("reading:read", FOLDER)
opinions = resolve_target("reading:opinions", FOLDER)
complaints = resolve_target("complaints:complaints", FOLDER)
sentiment = resolve_target("sentiment:sentiment", FOLDER)
adds_up = resolve_target("checks:adds_up", FOLDER)
merged = resolve_target("merge:merged", FOLDER)
clauses = resolve_target("words:clauses", FOLDER)
words = resolve_target("words:words", FOLDER)


def python(*words: str, seconds: float = LONG) -> str:
    ended = subprocess.run(
        [sys.executable, *words], env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def scored(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(python(str(FOLDER / "score.py"), *words))
    return found


def rows() -> list[dict[str, str]]:
    file = FOLDER / "data" / "reviews.csv.gz"
    with gzip.open(file, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


# ── the embedded default ─────────────────────────────────────────────────────────────────────


@pytest.mark.sweep
def test_it_reads_well_what_its_weights_were_not_fitted_on() -> None:
    told = scored()
    other = told["scores"]["reporting"]
    assert other["sentiment_macro_f1"] > 0.63
    assert other["department_mean_error"] < 0.06
    assert other["two_labels_balanced"] > 0.90
    assert other["aspect_precision"] > 0.42 and other["aspect_recall"] > 0.51
    assert other["aspect_sign"] > 0.69
    assert told["data"] == {"reviews": 10_000, "sentences": 3944}
    assert (told["app"], told["cost_usd"]) == ("reviews", 0.0)


@pytest.mark.sweep
def test_the_weights_are_what_fit_makes_of_the_data(tmp_path: Path) -> None:
    python(str(FOLDER / "fit.py"), "--to", str(tmp_path))
    for name in ("sentiment.json", "aspects.json", "measured.json"):
        assert (tmp_path / name).read_bytes() == (FOLDER / "weights" / name).read_bytes()


def test_the_stars_of_a_review_are_not_read() -> None:
    some = rows()[:60]
    without = [{name: one[name] for name in ("id", "title", "text")} for one in some]
    turned = [{**one, "rating": "1"} for one in some]
    assert read({"items": some}) == read({"items": without}) == read({"items": turned})


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Terrible quality, it fell apart. Very disappointed, returned it.", "negative"),
        ("I love this dress, it is so comfortable and I get many compliments!", "positive"),
    ],
)
def test_sentiment_of_plain_words(text: str, label: str) -> None:
    assert sentiment("", text)[0] == label


def test_a_clause_ends_where_a_sentence_ends_or_turns() -> None:
    said = list(clauses(words("Nice color, but the fabric itches. Sadly!")))
    assert said == [["nice", "color", ","], ["but", "the", "fabric", "itches"], ["sadly"]]


def test_praise_and_blame_in_one_sentence_are_told_apart() -> None:
    found = opinions("I love the color, but the fabric is cheap and itchy and I am disappointed.")
    assert (found["color"], found["fabric"]) == (True, False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It runs really large and is way too long.", ["runs large", "too long"]),
        ("Not itchy at all, and it was not too short.", []),
        ("Poorly made. I’m sending it back", ["poor quality", "sent back"]),
        (
            "The sleeves are see-through and I could not zip it.",
            ["runs small", "thin or see-through"],
        ),
    ],
)
def test_complaints_by_their_words(text: str, found: list[str]) -> None:
    assert complaints(text) == found


@pytest.mark.parametrize(
    "text",
    ["", " !!! 5/5", "Das Kleid ist sehr schön, aber leider zu klein.", "素敵なドレスです",
     "Très belle robe, mais la taille est trop petite et le tissu gratte."],
)  # fmt: skip
def test_a_text_without_words_or_in_another_language_is_not_judged(text: str) -> None:
    found = read({"items": [{"id": "1", "text": text}]})
    assert found["reviews"] == [{"id": "1", "sentiment": "not judged", "stars": None}]
    assert (found["aspects"], found["complaints"]) == ([], [])
    assert resolve_target("reading:label", FOLDER)({"text": text})["sentiment"] == "not judged"


def test_no_review_of_the_data_counts_as_foreign() -> None:
    judgeable = resolve_target("sentiment:judgeable", FOLDER)
    assert [row["id"] for row in rows() if not judgeable(row["title"], row["text"])] == []


def test_weights_can_be_fitted_without_3_star_ratings(tmp_path: Path) -> None:
    """The cut between the two labels is fitted too."""
    given = [row for row in rows() if row["rating"] != "3"][:600]
    with (tmp_path / "reviews.csv").open("w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, ["id", "title", "text", "rating", "department"])
        table.writeheader()
        table.writerows(given)
    python(str(FOLDER / "fit.py"), "--data", str(tmp_path), "--to", str(tmp_path / "made"))
    made = json.loads((tmp_path / "made" / "sentiment.json").read_text(encoding="utf-8"))
    assert 0 < made["content"] < 1 and all(abs(one) < 10 for one in made["stars"])


# ── the gate and the tree ────────────────────────────────────────────────────────────────────


def leaf(*ids: str) -> Any:
    return SimpleNamespace(id="leaf", data={"items": [{"id": id} for id in ids]})


def test_a_reply_about_all_reviews_of_its_leaf_passes() -> None:
    assert adds_up(answer(["r1", "r2"]), leaf("r1", "r2")) is True


def test_all_that_does_not_add_up_is_named_at_once() -> None:
    said = answer(["r1", "r1", "r4"])
    said["reviews"] = [*said["reviews"], said["reviews"][0]]
    said["aspects"][0]["praised"] = ["r8"]
    assert adds_up(said, leaf("r1", "r2", "r3")) == (
        "`reviews` leaves out: r2, r3; `reviews` has more than once: r1; "
        "`reviews` has ids that were not given: r4; "
        "aspect `Fit ` has ids that were not given: r4, r8; "
        "complaint `poor  quality` has ids that were not given: r4"
    )


def test_a_long_list_of_ids_is_cut() -> None:
    many = [f"x{n:02}" for n in range(10)]
    said = {"reviews": [], "aspects": [], "complaints": []}
    assert adds_up(said, leaf(*many)) == (
        "`reviews` leaves out: x00, x01, x02, x03, x04, x05, x06, x07 and 2 more"
    )


def test_what_is_merged_can_be_merged_again() -> None:
    ids = list(REVIEWS)
    parts = [SimpleNamespace(value=answer(ids[at : at + 2])) for at in (0, 2, 4)]
    halfway = SimpleNamespace(value=merged(parts[:2]))
    whole = merged(parts)
    assert merged([halfway, parts[2]]) == whole
    assert whole["complaints"] == [{"complaint": "poor quality", "ids": ["r1", "r4", "r6"]}]
    assert whole["aspects"] == [
        {"aspect": "fit", "praised": ["r2", "r3", "r5"], "criticised": ["r1", "r4", "r6"]}
    ]
    assert [one["id"] for one in whole["reviews"]] == ids and whole["by"] == "models"
    assert merged([]) == {"by": "", "reviews": [], "aspects": [], "complaints": []}


# ── the plan ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    assert fanfold(tmp_path, "new", "mine", "--from", "reviews").code == 0
    return tmp_path / "mine"


def write_rows(folder: Path, given: list[dict[str, str]]) -> None:
    file = folder / "data" / "reviews.csv.gz"
    with gzip.open(file, "wt", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, ["id", "title", "text", "rating", "department"])
        table.writeheader()
        table.writerows(given)


def write_six(folder: Path) -> None:
    write_rows(folder, [
        {"id": id, "title": "", "text": text, "rating": str(stars), "department": department}
        for id, (department, stars, text) in REVIEWS.items()
    ])  # fmt: skip


def test_every_figure_names_the_reviews_that_it_rests_on(mine: Path) -> None:
    given = rows()[:120]
    write_rows(mine, given)
    ended = fanfold(mine, "run", "plan.yaml", "--json", "--quiet")
    assert (ended.code, ended.receipt["passed"], ended.receipt["cost_usd"]) == (0, 120, 0.0)
    assert ended.receipt["steps"][0]["calls"] == 3  # leaves of at most 50
    ids = [row["id"] for row in given]
    summary = json.loads((mine / "summary.json").read_text(encoding="utf-8"))
    assert [one["id"] for one in summary["reviews"]] == ids
    found = ended.receipt["result"]
    assert {one["kind"] for one in found} == {"complaint", "aspect"}
    for one in found:
        assert set(one["ids"]) <= set(ids) and one["reviews"] == len(one["ids"])
        assert sum(one["departments"].values()) == one["reviews"]
    report = (mine / "report.md").read_text(encoding="utf-8")
    head, _, body = report.partition("<!-- more -->")
    assert "All 120 reviews stand behind this; none was left out." in head
    assert "On reviews that these were not made with, 83% are judged as their stars say." in head
    for line in head.partition("## In their words")[2].split("- **")[1:]:
        name, _, said = line.partition("** [")
        assert name in complaints(said.partition("] ")[2]), "what is quoted says it"
    rated = [
        one for one in found if f"| {one['reviews']:7,} | {one['reviews'] / 120:5.1%} |" in head
    ]
    assert len(rated) >= 5, "a rate stands beside each count"
    first = next(one for one in found if one["kind"] == "complaint")
    assert f"- **{first['name']}**: {first['reviews']} reviews: {', '.join(first['ids'])}" in body


@pytest.mark.parametrize("plan", ["plan.yaml", "sentiment.yaml"])
def test_id_and_text_are_enough(mine: Path, plan: str) -> None:
    (mine / "data" / "reviews.csv.gz").write_bytes(gzip.compress(
        b"id,text\n1,I love this dress so much and it fits great\n2,\n3,It fell apart and I sent it back\n"
    ))  # fmt: skip
    ended = fanfold(mine, "run", plan, "--json", "--quiet")
    assert (ended.code, ended.receipt["passed"]) == (0, 3)
    if plan == "plan.yaml":
        report = (mine / "report.md").read_text(encoding="utf-8")
        assert "1 are not judged, no words or another language: 2." in report
        found = {one["name"]: (one["reviews"], one["share"]) for one in ended.receipt["result"]}
        assert found["sent back"] == (1, 0.5), "a rate is of those that were judged"


def test_a_report_of_another_input_says_which_line_to_change(mine: Path) -> None:
    (mine / "mine.csv").write_text("id,text\nx1,I love this dress\n", encoding="utf-8")
    ended = fanfold(mine, "run", "plan.yaml", "--input", "mine.csv", "--quiet")
    assert ended.code == 4
    assert (
        "reviews.csv has no review x1: REVIEWS in report.py must name the plan's input" in ended.out
    )


@pytest.mark.sweep
def test_the_demo_shows_a_report_that_fits_a_terminal(tmp_path: Path) -> None:
    ended = fanfold(tmp_path, "demo", "reviews", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    folder = tmp_path / ".fanfold" / "demo" / "reviews"
    head, mark, _ = (folder / "report.md").read_text(encoding="utf-8").partition("<!-- more -->\n")
    assert mark and head.rstrip() in ended.out and "All 10,000 reviews stand behind this" in head
    assert len(head.splitlines()) <= 66 and max(map(len, head.splitlines())) <= 100


def test_another_folder_of_the_same_layout_is_scored(tmp_path: Path) -> None:
    """Also as two folders with more columns, as the data come."""
    (tmp_path / "reviews_clothing").mkdir()
    (tmp_path / "reviews_aspects").mkdir()
    table = ["id,age,title,text,rating,department"]
    table += [f'{id},40,,"{text}",{n},{where}' for id, (where, n, text) in REVIEWS.items()]
    file = tmp_path / "reviews_clothing" / "reviews.csv"
    file.write_text("\n".join(table) + "\n", encoding="utf-8")
    sentence = {
        "product": "p", "review": 0, "text": "the battery life is great .",
        "aspects": [{"aspect": "battery life", "score": 2, "flags": []}],
    }  # fmt: skip
    file = tmp_path / "reviews_aspects" / "aspect_sentences.jsonl"
    file.write_text(json.dumps(sentence) + "\n", encoding="utf-8")
    told = scored("--data", str(tmp_path))
    assert told["data"] == {"reviews": 6, "sentences": 1}
    whole = told["scores"]["all"]
    assert (whole["aspect_precision"], whole["aspect_recall"], whole["aspect_sign"]) == (
        1.0,
        1.0,
        1.0,
    )


def test_one_label_each_by_the_plan_that_the_embedded_model_serves(mine: Path) -> None:
    write_six(mine)
    ended = fanfold(mine, "run", "sentiment.yaml", "--json", "--quiet")
    assert (ended.code, ended.receipt["passed"]) == (0, 6)
    said = {one["id"]: one["value"]["sentiment"] for one in ended.receipt["result"]}
    assert [said[id] for id in ("r2", "r3", "r4", "r5")] == [
        "positive", "positive", "negative", "positive",
    ]  # fmt: skip
    (small,) = load_roster(mine / "local.yaml").entries.values()
    assert (small.traits.kind, small.traits.good_at) == ("local", ("sentiment",))


# ── with models ──────────────────────────────────────────────────────────────────────────────

ROSTER = """\
members:
  - {{id: model, kind: {kind}, model: test-model, base_url: "{url}", key: none,
     price: {{input: 1, output: 1}}, max_tokens: 2000, good_at: [reviews]}}
  - {{id: teller, kind: function, target: "report:told", good_at: [telling]}}
  - {{id: lister, kind: function, target: "report:findings", good_at: [listing]}}
"""


class Read:
    """The plan in a copy, with leaves of two reviews, and a model that follows a script."""

    def __init__(self, mine: Path, script: str, kind: str) -> None:
        self.folder = mine
        write_six(mine)
        plan = (mine / "plan.yaml").read_text(encoding="utf-8")
        (mine / "plan.yaml").write_text(plan.replace("items: 50", "items: 2"), encoding="utf-8")
        where = f"tests.apps.review_models:{script}"
        with threaded_server(mine.parent / "books", script=where) as server:
            url = server.url if kind == "anthropic" else f"{server.url}/v1"
            roster = ROSTER.format(url=url, kind=kind)
            (mine / "models.yaml").write_text(roster, encoding="utf-8")
            self.ended = fanfold(
                mine, "run", "plan.yaml", "--roster", "models.yaml", "--json", "--quiet"
            )
            server.wait_idle()
            self.prompts = [entry.prompt for entry in server.books().asked]

    @property
    def outcome(self) -> tuple[int, int, int]:
        """Exit code, reviews that passed, and calls of the model."""
        receipt = self.ended.receipt
        return self.ended.code, receipt["passed"], receipt["steps"][0]["calls"]

    @property
    def complaints(self) -> dict[str, list[str]]:
        found = self.ended.receipt["result"]
        return {one["name"]: one["ids"] for one in found if one["kind"] == "complaint"}


@pytest.fixture
def reads(mine: Path) -> Callable[..., Read]:
    return lambda script, kind="openai": Read(mine, script, kind)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_each_leaf_is_asked_about_once_and_no_stars_are_shown(
    reads: Callable[..., Read], kind: str
) -> None:
    done = reads("careful", kind)
    assert done.outcome == (0, 6, 3)
    assert done.complaints == {"poor quality": ["r1", "r4", "r6"]}
    assert "rating" not in "".join(done.prompts)
    assert '<review id="r1" department="Dresses">\nAwful.' in "".join(done.prompts)
    report = (done.folder / "report.md").read_text(encoding="utf-8")
    assert "Read by models." in report and "No language model" not in report
    assert "3 of 6 reviews stand behind no complaint." in report


def test_a_leaf_that_forgot_a_review_is_kicked_back_with_the_reason(
    reads: Callable[..., Read],
) -> None:
    done = reads("forgetful")
    assert done.outcome == (0, 6, 4)
    (back,) = [prompt for prompt in done.prompts if "leaves out" in prompt]
    assert "`reviews` leaves out: r2" in back
    summary = json.loads((done.folder / "summary.json").read_text(encoding="utf-8"))
    assert [one["id"] for one in summary["reviews"]] == list(REVIEWS)


def test_an_invented_id_is_kicked_back_with_the_reason(reads: Callable[..., Read]) -> None:
    done = reads("inventive")
    assert done.outcome == (0, 6, 6)
    reason = "complaint `poor  quality` has ids that were not given: r99"
    assert sum(reason in prompt for prompt in done.prompts) == 3
    assert done.complaints == {"poor quality": ["r1", "r4", "r6"]}


def test_reviews_of_a_leaf_that_never_adds_up_are_named_as_missing(
    reads: Callable[..., Read],
) -> None:
    done = reads("stubborn")
    assert done.outcome == (1, 4, 4)
    assert done.complaints == {"poor quality": ["r1", "r6"]}
    report = (done.folder / "report.md").read_text(encoding="utf-8")
    assert "**2 reviews do not stand behind this: r3, r4.**" in report
    assert "# What 4 customers say" in report


def test_prose_around_the_json_does_no_harm(reads: Callable[..., Read]) -> None:
    done = reads("talkative")
    assert done.outcome == (0, 6, 3)
    assert done.complaints == {"poor quality": ["r1", "r4", "r6"]}
