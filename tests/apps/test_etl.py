"""The application `etl`: its score, its failing API, what a resumed run repeats, scripted models."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fanfold.members.target import resolve_target
from fanfold.testing.running import RunningServer, threaded_server
from tests.apps.etl_models import UNASKED
from tests.faces.cli import SRC, Ended, fanfold
from tests.waiting import LONG

pytestmark = pytest.mark.slow

FOLDER = SRC / "fanfold" / "apps" / "etl"
Api = resolve_target("api:Api", FOLDER)
Faults = resolve_target("api:Faults", FOLDER)
only_asked = resolve_target("checks:only_asked", FOLDER)

CITIES = [("Boston", "MA"), ("Denver", "CO"), ("Portland", "OR"), ("Reno", "NV")]
ROWS = 120


# ── the score ────────────────────────────────────────────────────────────────────────────────


def scored(*words: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, str(FOLDER / "score.py"), *words], env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return scored()


@pytest.mark.sweep
def test_both_tables_are_cleaned_well_and_hardly_a_right_cell_is_spoiled(
    told: dict[str, Any],
) -> None:
    whole = told["scores"]["all"]
    assert whole["f1_flights"] > 0.9 and whole["f1_beers"] > 0.97
    assert whole["damage_per_1000"] < 2
    assert told["data"] == {"tables": 3, "rows": 4792}
    assert (told["app"], told["cost_usd"]) == ("etl", 0.0)


@pytest.mark.sweep
def test_the_halves_differ_little(told: dict[str, Any]) -> None:
    halves = [told["scores"][name] for name in ("fitting", "reporting")]
    assert [one for one in halves if one["f1"] < 0.94 or one["precision"] < 0.95] == []


@pytest.mark.sweep
def test_streaming_and_batch_change_the_same_cells(told: dict[str, Any]) -> None:
    assert told["scores"]["detail"]["modes"]["cells_that_differ"] == 0


def test_the_score_takes_another_folder(tmp_path: Path) -> None:
    put_table(tmp_path / "pubs")
    found = scored("--data", str(tmp_path))
    assert found["data"] == {"tables": 1, "rows": ROWS}
    assert found["scores"]["all"] == found["scores"]["reporting"] == {
        "precision": 1.0, "recall": 1.0, "f1": 1.0, "damage_per_1000": 0.0, "f1_pubs": 1.0
    }  # fmt: skip


# ── small tables ─────────────────────────────────────────────────────────────────────────────


def put_table(folder: Path) -> None:
    """Pubs with the size of their glass in several spellings; one in four is dirty."""
    folder.mkdir(parents=True)
    clean = [["pub", "city", "state", "glass"]]
    dirty = [clean[0]]
    for n in range(ROWS):
        row = [f"The Pub {n}", *CITIES[n % 4], str(8 + n % 5)]
        clean.append(row)
        dirty.append([*row[:3], f"{row[3]}.0 oz" if n % 4 == 0 else row[3]])
    for name, rows in (("clean", clean), ("dirty", dirty)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(rows)


def copied(folder: Path, *tables: str) -> Path:
    app = folder / "etl"
    shutil.copytree(FOLDER, app, ignore=shutil.ignore_patterns("data", "__pycache__"))
    for table in tables:
        put_table(app / "data" / table)
    return app


def changes(app: Path) -> list[dict[str, str]]:
    with (app / "changes.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def steps(ended: Ended) -> dict[str, tuple[int, int]]:
    return {one["name"]: (one["calls"], one["reused"]) for one in ended.receipt["steps"]}


class Dead:
    """Pages that are never given, for as long as they stand in `pages`."""

    slow = 0.0

    def __init__(self, *pages: str) -> None:
        self.pages = {*pages}

    def draw(self, page: str, request: int) -> str | None:
        return "error" if page in self.pages else None


class Once:
    """Each table's first page fails once, each in its own way."""

    slow = 5.0
    kinds: ClassVar = {"bars/1": "error", "inns/1": "slow", "pubs/1": "torn"}

    def draw(self, page: str, request: int) -> str | None:
        return self.kinds.get(page) if request == 1 else None


# ── the API fails ────────────────────────────────────────────────────────────────────────────


def test_a_failed_page_is_asked_for_again_and_no_other(tmp_path: Path) -> None:
    """A 500, a slow answer and a torn one. The books are the API's own."""
    app = copied(tmp_path, "bars", "inns", "pubs")
    with Api(app / "data", Once()) as api:
        ended = fanfold(app, "run", "plan.yaml", "--json", "--quiet", ETL_API=api.url)
    assert (ended.code, ended.receipt["status"]) == (0, "complete")
    second = {f"{table}/2": 1 for table in ("bars", "inns", "pubs")}
    assert api.requests == Counter(dict.fromkeys(Once.kinds, 2) | second)
    assert ended.receipt["retries"] == 3
    assert steps(ended)["fetch.map"] == (9, 0)
    assert [steps(ended)[name] for name in ("learn", "analyse", "report")] == [(3, 0)] * 3
    report = (app / "report.md").read_text(encoding="utf-8")
    assert report.count("2 pages in 3 requests (1 failed and asked again)") == 3


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_resumed_run_fetches_only_what_it_lacks(tmp_path: Path, mode: str) -> None:
    app = copied(tmp_path, "inns", "pubs")
    plan = app / "plan.yaml"
    plan.write_text(plan.read_text().replace("mode: streaming", f"mode: {mode}"))
    faults = Dead("pubs/2")
    with Api(app / "data", faults) as api:
        held = fanfold(app, "run", "plan.yaml", "--json", "--quiet", ETL_API=api.url)
        assert (held.code, held.receipt["status"]) == (4, "paused")
        assert steps(held)["report"] == (1, 0), "the other table goes through all stages"
        before = Counter(api.requests)
        faults.pages.clear()
        ended = fanfold(app, "resume", "etl", "--json", "--quiet", ETL_API=api.url)
    assert (ended.code, ended.receipt["status"]) == (0, "complete")
    assert before == Counter({"inns/1": 1, "inns/2": 1, "pubs/1": 1, "pubs/2": 4})
    assert api.requests - before == Counter({"pubs/2": 1})
    assert [steps(ended)[name][0] for name in ("fetch.map", "learn", "report")] == [1, 1, 1]
    assert Counter(one["table"] for one in changes(app)) == {"inns": ROWS // 4, "pubs": ROWS // 4}


def test_failures_are_drawn_from_the_seed() -> None:
    drawn = [Faults(rate=0.3).draw(f"t/{n}", 1) for n in range(1000)]
    assert drawn == [Faults(rate=0.3).draw(f"t/{n}", 1) for n in range(1000)]
    many = Counter(drawn)
    assert 600 < many[None] < 800 and min(many[kind] for kind in ("error", "slow", "torn")) > 50
    assert Faults(rate=1.0, most=2).draw("t/1", 3) is None


def test_the_tables_and_their_pages_come_from_the_api(tmp_path: Path) -> None:
    app = copied(tmp_path, "pubs")
    with Api(app / "data", Dead()) as api:
        ended = subprocess.run(
            [sys.executable, "fetch.py"], cwd=app, env={**os.environ, "ETL_API": api.url},
            capture_output=True, text=True, timeout=LONG, check=True,
        )  # fmt: skip
    pages = [{"id": str(n), "table": "pubs", "page": n, "size": 100} for n in (1, 2)]
    assert json.loads(ended.stdout) == {"id": "pubs", "pages": pages}


def test_the_demo_runs_and_prints_what_was_changed(tmp_path: Path) -> None:
    ended = fanfold(tmp_path, "demo", "etl", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    assert "| ounces | form | 2,410 |" in " ".join(ended.out.split())
    report = (tmp_path / ".fanfold" / "demo" / "etl" / "report.md").read_text(encoding="utf-8")
    head = report.partition("<!-- more -->")[0].splitlines()
    assert len(head) <= 60 and max(map(len, head)) <= 100
    assert re.search(r"\d+ requests \([1-9]\d* failed and asked again\)", report)


def run_table(folder: Path, rows: list[str]) -> tuple[Path, str]:
    """One table through the plan: the application, and its report."""
    app = copied(folder)
    (app / "data" / "pubs").mkdir(parents=True)
    (app / "data" / "pubs" / "dirty.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    with Api(app / "data", Dead()) as api:
        ended = fanfold(app, "run", "plan.yaml", "--json", "--quiet", ETL_API=api.url)
    assert (ended.code, ended.receipt["status"]) == (0, "complete")
    return app, (app / "report.md").read_text(encoding="utf-8")


def test_the_cleaned_tables_are_written(tmp_path: Path) -> None:
    app = copied(tmp_path, "pubs")
    with Api(app / "data", Dead()) as api:
        fanfold(app, "run", "plan.yaml", "--json", "--quiet", ETL_API=api.url)
    cleaned, truth = app / "cleaned" / "pubs.csv", app / "data" / "pubs" / "clean.csv"
    with cleaned.open(newline="") as one, truth.open(newline="") as other:
        assert list(csv.reader(one)) == list(csv.reader(other))


def test_a_ragged_row_is_named_with_its_line_and_the_table_stays(tmp_path: Path) -> None:
    rows = ["pub,city", *(f"Pub {n},{CITIES[n % 4][0]}" for n in range(40))]
    rows[3], rows[9] = "Pub 2,Portland,OR", "Pub 8"
    app, report = run_table(tmp_path, rows)
    assert "pubs/dirty.csv:4: 3 cells for 2 columns; not judged." in report
    assert "pubs/dirty.csv:10: 1 cells for 2 columns; not judged." in report
    cleaned = (app / "cleaned" / "pubs.csv").read_text(encoding="utf-8").splitlines()
    assert (len(cleaned), cleaned[3], cleaned[9]) == (41, 'Pub 2,"Portland,OR"', "Pub 8,")


@pytest.mark.parametrize(("rows", "why"), [(6, "only 6 rows"), (60, "nothing in it repeats")])
def test_a_table_that_cannot_be_judged_says_so(tmp_path: Path, rows: int, why: str) -> None:
    words = [f"{sha256(str(n).encode()).hexdigest()[:12]} one" for n in range(rows)]
    _, report = run_table(tmp_path, ["title,author", *(f"{one} x,{one} y" for one in words)])
    assert f"This table cannot be judged: {why}. Errors in it stay unseen." in report
    assert "looks wrong" not in report and "no cell contradicts" not in report


def test_a_typo_in_a_nearly_constant_column_is_a_suspect(tmp_path: Path) -> None:
    rows = ["pub,open", *(f"The Pub {n},{'yes' if n % 9 else 'no'}" for n in range(80))]
    rows[5] = "The Pub 4,yxs"
    _, report = run_table(tmp_path, rows)
    assert "Still suspect, not changed: 1 in open." in report
    assert "First: row 5, open `yxs`: one sign from yes, which stands there 70 times" in report


# ── with models ──────────────────────────────────────────────────────────────────────────────


MODEL = """
  - id: model
    kind: openai
    model: test-model
    base_url: {url}
    key: none
    price: {{input: 1, output: 1}}
    max_tokens: 4000
    good_at: [cleaning]
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return copied(tmp_path, "pubs")


@contextmanager
def asked(app: Path, script: str) -> Iterator[tuple[Ended, RunningServer]]:
    with threaded_server(app / "books.jsonl", script=f"tests.apps.etl_models:{script}") as server:
        functions = (app / "roster.yaml").read_text().splitlines(keepends=True)
        kept = "".join(line for line in functions if "cleaning" not in line)
        (app / "models.yaml").write_text(kept + MODEL.format(url=server.url))
        words = ("run", "plan.yaml", "--roster", "models.yaml", "--json", "--quiet")
        yield fanfold(app, *words), server


def test_a_model_cleans_with_the_rows_and_the_profile_of_their_columns(app: Path) -> None:
    with asked(app, "careful") as (ended, server):
        assert (ended.code, ended.receipt["status"]) == (0, "complete")
        prompts = [entry.prompt for entry in server.books().asked]
    assert len(prompts) == 2  # 30 suspicious rows, 25 in one ask
    assert '"kind": "number"' in prompts[0] and '"plain": "8"' in "".join(prompts)
    found = changes(app)
    assert len(found) == ROWS // 4
    assert found[0] == {
        "table": "pubs", "row": "0", "column": "glass", "from": "8.0 oz", "to": "8",
        "rule": "form", "reason": "the others write it so",
    }  # fmt: skip


def test_a_change_nobody_asked_for_is_kicked_back_with_the_reason(app: Path) -> None:
    with asked(app, "meddling") as (ended, server):
        assert (ended.code, ended.receipt["status"]) == (0, "complete")
        prompts = [entry.prompt for entry in server.books().asked]
    kicked = [prompt for prompt in prompts if "this cell has no sign" in prompt]
    assert (len(prompts), len(kicked)) == (4, 2)
    assert "row 0, city: this cell has no sign, leave it as it is" in "".join(kicked)
    assert len(changes(app)) == ROWS // 4
    assert UNASKED not in (app / "changes.csv").read_text()


def test_prose_around_the_json_does_no_harm(app: Path) -> None:
    with asked(app, "talkative") as (ended, _):
        assert (ended.code, ended.receipt["status"]) == (0, "complete")
    assert len(changes(app)) == ROWS // 4


class Given:
    """An item as a gate sees it."""

    data: ClassVar = {"rows": [{"row": 4, "signs": [{"column": "glass", "value": "8 oz"}]}]}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({}, None),
        ({"row": 5}, "row 5, glass: this cell has no sign, leave it as it is"),
        ({"column": "city"}, "row 4, city: this cell has no sign, leave it as it is"),
        ({"from": "9 oz"}, "row 4, glass: it holds '8 oz', not '9 oz'"),
        ({"to": "8 oz"}, "row 4, glass: nothing is changed; name only cells that you change"),
        ({"reason": " "}, "row 4, glass: there is no reason"),
    ],
)
def test_only_cells_that_were_asked_about_may_change(
    wrong: dict[str, Any], why: str | None
) -> None:
    change = {"row": 4, "column": "glass", "from": "8 oz", "to": "8", "reason": "unit", **wrong}
    assert only_asked({"changes": [change]}, Given()) == (why or True)


def test_no_cell_may_change_twice() -> None:
    change = {"row": 4, "column": "glass", "from": "8 oz", "to": "8", "reason": "unit"}
    found = only_asked({"changes": [change, {**change, "to": "9"}]}, Given())
    assert found == "row 4, glass: changed twice"
