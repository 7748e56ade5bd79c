"""`fanfold demo` and `fanfold new`: the applications that there are, and copies of them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from fanfold.faces.cli import examples
from tests.faces.cli import SRC, Ended, fanfold
from tests.faces.disk import fill, small_disk
from tools.score import KEPT, between, grouped, line, overview, own_table, shown

APPS = SRC / "fanfold" / "apps"
FILES = ("README.md", "data/ORIGIN.md", "models.yaml", "plan.yaml", "roster.yaml", "score.py")


def refused(text: str) -> Ended:
    return Ended(2, "", f"fanfold: {text}\n")


# ── what there is ────────────────────────────────────────────────────────────────────────────


def test_the_list_comes_from_the_folders() -> None:
    assert examples.names() == sorted(plan.parent.name for plan in APPS.glob("*/plan.yaml"))
    assert "contracts" in examples.names()


@pytest.mark.parametrize("name", examples.names())
def test_an_application_has_what_a_fork_needs(name: str) -> None:
    assert [file for file in FILES if not (APPS / name / file).is_file()] == []


def test_the_folder_at_the_top_leads_to_the_applications() -> None:
    assert (SRC.parent / "apps").resolve() == APPS.resolve()


# ── demo ─────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    assert fanfold(tmp_path, "demo", "contract") == refused(
        "no application 'contract': did you mean `contracts`?"
    )
    ended = fanfold(tmp_path, "demo", "xyz")
    assert ended == refused(f"no application 'xyz': known: {', '.join(examples.names())}")
    assert list(tmp_path.glob(".fanfold")) == []


@pytest.mark.slow
def test_a_demo_prints_the_head_of_its_report_and_says_where_all_is(tmp_path: Path) -> None:
    """And asked for again, nothing is done again."""
    first = fanfold(tmp_path, "demo", "--json").receipt
    assert (first["planned"], first["passed"], first["cost_usd"]) == (163, 163, 0.0)
    ended = fanfold(tmp_path, "demo", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    receipt, _, rest = ended.out.partition("\n\n")
    assert receipt.splitlines()[:2] == ["contract-review complete", "163 of 163 done: 163 passed"]
    assert "0 calls, 489 reused, " in receipt
    folder = tmp_path / ".fanfold" / "demo" / "contracts"
    report = (folder / "report.md").read_text(encoding="utf-8")
    head, mark, body = report.partition("<!-- more -->\n")
    assert mark and rest.startswith(head.rstrip())
    assert len(head.splitlines()) <= 66 and max(map(len, head.splitlines())) <= 100
    assert len(body) > 50_000
    assert len(list((folder / "pages").iterdir())) == 163
    found = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    levels = [one["severity"] for one in found]
    assert levels == sorted(levels, key=["high", "medium", "low"].index)
    assert f"163 contracts, {len(found):,} possible risk clauses" in head
    assert re.findall(r"^(\w+): ", rest, re.MULTILINE)[-3:] == ["page", "report", "yours"]
    assert "wrote .fanfold/demo/contracts/report.md" in receipt
    account = re.findall(r"^report: +fanfold (.+)$", rest, re.MULTILINE)[0].split()
    assert fanfold(tmp_path, *account).out.startswith("# contract-review\n\n**complete**\n")


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        fill(disk)
        ended = fanfold(tmp_path, "demo", "--store", f"{disk}/store")
        where = f"{disk}/store/demo/contracts"
        assert ended == refused(f"{where}: the disk is full; use --store DIR")
        mine = f"{disk}/mine"
        ended = fanfold(tmp_path, "new", mine, "--from", "contracts")
        assert ended == refused(f"{mine}: the disk is full; name another folder")
        assert not Path(mine).exists()


# ── new ──────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_is_whole_and_runs(tmp_path: Path) -> None:
    ended = fanfold(tmp_path, "new", "my review", "--from", "contracts")
    assert ended == Ended(
        0,
        "my review: a copy of contracts; its README.md says what to change. To run it:\n"
        "  cd 'my review'\n"
        "  fanfold run plan.yaml\n",
        "",
    )
    mine = tmp_path / "my review"
    assert contents(mine) == contents(APPS / "contracts")
    data = mine / "data" / "contracts.jsonl.gz"
    few = gzip.decompress(data.read_bytes()).splitlines(keepends=True)[:2]
    data.write_bytes(gzip.compress(b"".join(few)))
    assert fanfold(mine, "run", "plan.yaml", "--json", "--quiet").receipt["passed"] == 2


def contents(folder: Path) -> dict[str, bytes]:
    """But for what Python and tools leave behind where they run."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    own = [one for one in files if one.parts[0][0] != "." and "__pycache__" not in one.parts]
    return {one.as_posix(): (folder / one).read_bytes() for one in own}


def test_an_empty_folder_may_be_filled_and_a_full_one_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert fanfold(tmp_path, "new", "empty", "--from", "contracts").code == 0
    again = fanfold(tmp_path, "new", "empty", "--from", "contracts")
    assert again == refused("empty is not empty; name a new folder")
    (tmp_path / "file").write_text("")
    other = fanfold(tmp_path, "new", "file", "--from", "contracts")
    assert other == refused("file is not empty; name a new folder")


def test_new_says_what_is_wrong_with_its_words(tmp_path: Path) -> None:
    known = "|".join(examples.names())
    assert fanfold(tmp_path, "new", "x") == refused(
        f"say which application to begin with: --from {known}"
    )
    assert fanfold(tmp_path, "new", "x", "--from", "contrcts") == refused(
        "no application 'contrcts': did you mean `contracts`?"
    )
    assert fanfold(tmp_path, "new", "a/file/x", "--from", "contracts").code == 0
    (tmp_path / "file").write_text("")
    assert fanfold(tmp_path, "new", "file/x", "--from", "contracts") == refused(
        "file/x: not a directory; name another folder"
    )


# ── the tables of scores ─────────────────────────────────────────────────────────────────────


def test_the_tables_are_those_that_the_runs_gave() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    page = (APPS / "README.md").read_text(encoding="utf-8")
    assert f"<!-- scores -->\n{overview(kept)}\n<!-- /scores -->" in page
    for name, told in kept.items():
        own = (APPS / name / "README.md").read_text(encoding="utf-8")
        assert f"<!-- score -->\n{own_table(told)}\n<!-- /score -->" in own


def test_a_page_claims_what_the_reporting_half_gave_and_nothing_else() -> None:
    told = {
        "default": "x", "data": {"items": 2}, "seconds": 1, "calls": 2, "cost_usd": 0.0,
        "scores": {"all": {"f1": 0.8}, "fitting": {"f1": 0.9}, "reporting": {"f1": 0.7}},
    }  # fmt: skip
    assert line(told["scores"]) == "f1 0.7"
    for page in (overview({"a": told}), own_table(told)):
        assert "0.7" in page and "0.8" not in page and "0.9" not in page


def test_scores_are_grouped_and_told_in_one_line() -> None:
    assert grouped({"f1": 0.5, "b": {"f1": 1.0}}) == {"all": {"f1": 0.5}, "b": {"f1": 1.0}}
    assert line({"all": {"micro_f1": 0.5}, "b": {"n": 3}, "detail": {"x": {"f1": 1.0}}}) == (
        "micro f1 0.5; b: n 3"
    )
    assert [shown(one) for one in (0.123, 0.5, 1.0, 1234, "x")] == [
        "0.123",
        "0.5",
        "1",
        "1,234",
        "x",
    ]


def test_only_what_is_between_the_marks_is_rewritten(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- score -->\nold\n<!-- /score -->\nafter\n", encoding="utf-8")
    between(page, "score", "new")
    between(page, "score", "newer")
    assert page.read_text(encoding="utf-8") == (
        "before\n<!-- score -->\nnewer\n<!-- /score -->\nafter\n"
    )
