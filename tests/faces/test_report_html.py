"""Accounts of runs as pages: `fanfold report`, `run --report`, `write: report.html`, the browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fanfold.observe.html.account import result_page
from tests.faces.browser import opened
from tests.faces.cli import fanfold
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage
from tests.unit.fleet.talk import said
from tests.unit.observe.html.parsed import Parsed

ATTACK = "<script>document.title='owned'</script><img src=http://127.0.0.1:9/x onerror=alert(1)>"
RULES = f"""\
ATTACK = {ATTACK!r}

def look(item):
    if item["text"] == "bad":
        return {{"kind": "none", "size": 0, "quote": ATTACK}}
    return {{"kind": "even" if item["n"] % 2 == 0 else "odd", "size": item["n"], "quote": item["text"]}}
"""
ROSTER = "members: [{id: rules, kind: function, target: 'rules:look', tier: local}]\n"
PLAN = """\
name: sizes
input: {jsonl: items.jsonl, id: id}
steps:
  - map: {member: rules, gate: [{quotes: quote}], revise: 0}
  - reduce: {kind: sort, by: size}
  - write: out/page.html
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve items; what is said of the last one is not in it, and means harm."""
    folder = tmp_path_factory.mktemp("project")
    items = [{"id": f"i{n}", "text": f"text {n} {ATTACK}", "n": n} for n in range(11)]
    items.append({"id": "worst", "text": "bad", "n": 99})
    (folder / "items.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, items)))
    (folder / "rules.py").write_text(RULES, encoding="utf-8")
    (folder / "roster.yaml").write_text(ROSTER, encoding="utf-8")
    (folder / "plan.yaml").write_text(PLAN, encoding="utf-8")
    ended = fanfold(folder, "run", "plan.yaml", "--quiet", "--report", "account.html")
    assert (ended.code, ended.out.splitlines()[-1], ended.err) == (1, "report: account.html", "")
    return folder


def read(path: Path) -> Parsed:
    return Parsed(path.read_text(encoding="utf-8"))


def test_the_account_is_written_when_the_run_has_ended(project: Path) -> None:
    page = read(project / "account.html")
    assert page.text.startswith("sizes sizes flagged 1 of 12 items did not pass")
    assert "worst kicked" in page.text
    assert ATTACK in page.text
    assert len(page.all("script")) == 1
    assert page.all("img") == []


def test_report_gives_the_same_page_and_the_ending_chooses_the_form(project: Path) -> None:
    told = fanfold(project, "report", "sizes", "--html")
    assert (told.code, told.err) == (0, "")
    assert told.out.rstrip("\n") + "\n" == (project / "account.html").read_text(encoding="utf-8")
    assert fanfold(project, "report", "sizes", "-o", "x.html").code == 0
    assert (project / "x.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert fanfold(project, "report", "sizes", "-o", "x.md").code == 0
    assert (project / "x.md").read_text(encoding="utf-8").startswith("# sizes\n")
    assert fanfold(project, "report", "sizes", "--html", "-o", "x.page").code == 0
    assert (project / "x.page").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_plan_writes_a_page_of_its_own_result(project: Path) -> None:
    page = read(project / "out" / "page.html")
    assert page.text.startswith("sizes sizes Result Number by kind even even: 6 6 odd odd: 5 5")
    assert "Receipt" not in page.text
    assert page.all("img") == []


def test_without_a_reduce_the_items_are_on_the_page(project: Path) -> None:
    plan = PLAN.replace("  - reduce: {kind: sort, by: size}\n", "").replace("out/page", "out/items")
    (project / "items.yaml").write_text(plan.replace("sizes", "items"), encoding="utf-8")
    assert fanfold(project, "run", "items.yaml", "--quiet").code == 1
    page = read(project / "out" / "items.html")
    assert [one["scope"] for one in page.all("th")].count("col") == 4  # id and three fields
    assert "i10 odd" not in page.text
    assert "i10 even 10 text 10" in page.text


@pytest.mark.parametrize(("path", "said"), [
    ("x.pdf", "--report x.pdf: name a file that ends with .html or .md"),
    ("nowhere/x.html", "--report nowhere/x.html: cannot be written; name a file in a folder that is there"),
    ("out", "--report out: name a file that ends with .html or .md"),
])  # fmt: skip
def test_an_account_that_cannot_be_written_is_refused_first(
    project: Path, path: str, said: str
) -> None:
    ended = fanfold(project, "run", "plan.yaml", "--name", "never", "--report", path)
    assert (ended.code, ended.out, ended.err) == (2, "", f"fanfold: {said}\n")
    assert fanfold(project, "status", "never").code == 2


def test_with_json_the_place_is_told_on_stderr(project: Path, tmp_path: Path) -> None:
    own = shutil.copytree(project, tmp_path / "own")  # it writes the plan's page once more
    words = ("--quiet", "--json", "--name", "again", "--report", "again.md")
    ended = fanfold(own, "run", "plan.yaml", *words)
    assert ended.receipt["name"] == "again"
    assert ended.err == "report: again.md\n"
    assert (own / "again.md").read_text(encoding="utf-8").startswith("# again\n")


# ── fleets ──


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "fleet", [worker("scout"), worker("build", "scout")])
    made.works("scout", made.starts("scout", 0), said("hello"))
    made.hosted("scout", alive=True)
    yield made
    made.close()


def test_the_page_of_a_fleet_has_its_workers(stage: Stage) -> None:
    assert fanfold(stage.root, "report", "demo", "-o", "fleet.html").code == 0
    page = read(stage.root / "fleet.html")
    titles = [one["id"] for one in page.all("h2")]
    assert titles == [
        "workers", "output-files", "errors", "billing", "sessions", "receipt", "what-the-gate-caught",
        "cost-and-time", "tree",
    ]  # fmt: skip
    assert "Worker Status Files Cost Turns Duration scout RUNNING" in page.text
    assert "build PENDING" in page.text


# ── in a browser ──


def test_in_a_real_browser_all_is_there_and_nothing_runs(project: Path, tmp_path: Path) -> None:
    """No complaint, no request but for the file itself, text to be read, in any width and light."""
    file = project / "account.html"
    with opened(tmp_path) as browser:
        for width, scheme in ((1200, "light"), (500, "light"), (420, "dark")):
            seen = browser.look(file, width=width, scheme=scheme)
            assert seen.title == "sizes"
            assert seen.requests == [file.absolute().as_uri()]
            assert seen.complaints == []
            assert seen.width <= width
            assert browser.cut_off() == []
            for words in ("1 of 12 items did not pass", "worst", "Receipt", "Tree", ATTACK):
                assert words in seen.text, words
        assert browser.sorted_by("kind") == ["even"] * 6 + ["odd"] * 5


def test_in_a_real_browser_pages_are_turned_and_all_rows_are_sorted_and_found(
    tmp_path: Path,
) -> None:
    rows = [{"n": n, "text": f"row {n} {ATTACK}", "size": n * 7 % 1000} for n in range(1000)]
    file = tmp_path / "rows.html"
    file.write_text(result_page("rows", rows), encoding="utf-8")
    with opened(tmp_path) as browser:
        assert browser.look(file).complaints == []
        said, cells = browser.turned("")
        assert (said, cells) == ("1–50 of 1,000", [str(n) for n in range(50)])
        said, cells = browser.turned('press("Next")')
        assert (said, cells[0]) == ("51–100 of 1,000", "50")
        said, cells = browser.turned('press("size"); press("size")')
        assert (said, cells[:2]) == ("1–50 of 1,000", ["857", "714"])
        said, cells = browser.turned('find("row 777 ")')
        assert (said, cells) == ("1–1 of 1", ["777"])
        assert browser.turned('find("nowhere")') == ["nothing found", []]
