"""`write` as its users have it: the right form, a file for each item, results beside the input; and
what cannot be written is found before anything is asked."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from tests.faces.cli import fanfold, lacking

CODE = """\
def answer(item):
    open("asked", "a").write("x")
    if item["text"] == "boom":
        raise ValueError("cannot")
    return {"size": len(item["text"]), "name": "theirs"}
"""
ROWS = "id,text,name\na/b,good,ours\nc,boom,ours\nd,=1+1,ours\n"
HEAD = "name: p\ninput: {csv: items.csv}\nsteps:\n  - map: {member: m}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "roster.yaml").write_text(
        "members: [{id: m, kind: function, target: 'mine:answer'}]\n"
    )
    (tmp_path / "items.csv").write_text(ROWS)
    return tmp_path


def plan(folder: Path, *writes: str, head: str = HEAD) -> None:
    (folder / "plan.yaml").write_text(head + "".join(f"  - write: {one}\n" for one in writes))


def refused(folder: Path, *words: str) -> str:
    """What is said; nothing was asked and no run is on record."""
    ended = fanfold(folder, "run", "plan.yaml", "--quiet", *words)
    assert (ended.code, ended.out) == (2, "")
    assert not (folder / "asked").exists()
    return ended.err.removeprefix("fanfold: ").rstrip("\n")


# ── what is written ──────────────────────────────────────────────────────────────────────────


def test_results_beside_the_input_keep_its_columns_its_order_and_all_its_items(
    folder: Path,
) -> None:
    plan(folder, "{path: out.csv, with: input}", "{name: b, path: out.jsonl, with: input}")
    ended = fanfold(folder, "run", "plan.yaml", "--quiet")
    assert ended.code == 1
    assert (folder / "out.csv").read_text() == (
        "id,text,name,size,result.name,state\n"
        "a/b,good,ours,4,theirs,passed\nc,boom,ours,,,failed\nd,'=1+1,ours,4,theirs,passed\n"
    )
    lines = [msgspec.json.decode(line) for line in (folder / "out.jsonl").read_bytes().splitlines()]
    assert lines == [
        {"id": "a/b", "text": "good", "name": "ours", "size": 4, "result.name": "theirs",
         "state": "passed"},
        {"id": "c", "text": "boom", "name": "ours", "state": "failed"},
        {"id": "d", "text": "=1+1", "name": "ours", "size": 4, "result.name": "theirs",
         "state": "passed"},
    ]  # fmt: skip
    assert "wrote out.csv, out.jsonl\n" in ended.out


def test_a_file_for_each_item_that_passed_and_nowhere_else(folder: Path) -> None:
    (folder / "items.csv").write_text(ROWS + "../../e,fine,ours\n")
    plan(folder, "{path: 'out/{{ item.id }}.json', each: item}")
    ended = fanfold(folder, "run", "plan.yaml", "--json")
    names = sorted(os.listdir(folder / "out"))
    assert [name[:4] for name in names] == ["_._.", "a_b-", "d.js"]
    assert (folder / "out" / "d.json").read_text() == '{\n  "size": 4,\n  "name": "theirs"\n}\n'
    assert ended.receipt["written"] == [{"path": str(folder / "out"), "files": 3}]
    assert not list(folder.parent.glob("e.json*"))


def test_the_closing_lines_name_what_was_written(folder: Path) -> None:
    plan(folder, "one.md", "{name: b, path: 'out/{{ item.id }}.md', each: item}")
    ended = fanfold(folder, "run", "plan.yaml", "--quiet")
    assert "wrote one.md, 2 files in out/\n" in ended.out


# ── what is refused ──────────────────────────────────────────────────────────────────────────


def test_two_items_with_the_same_file_are_refused(folder: Path) -> None:
    plan(folder, "{path: 'out/{{ item.name }}.md', each: item}")
    assert refused(folder) == (
        "plan.yaml:5: `write`: items `a/b` and `c` have the same file, ours.md;"
        " use a field that differs, as item.id does"
    )


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_field_that_an_item_lacks_is_found_first(folder: Path, words: tuple[str, ...]) -> None:
    plan(folder, "{path: 'out/{{ item.nmae }}.md', each: item}")
    assert refused(folder, *words) == (
        "plan.yaml:5: `write`: the path reads item.nmae, which item `a/b` does not have:"
        " did you mean `name`?"
    )


@pytest.mark.parametrize("path", ["out/deep/x.csv", "out/{{ item.id }}.md"])
def test_a_folder_that_cannot_be_written_to_is_found_first(folder: Path, path: str) -> None:
    """In a folder of the system's own nobody can make a file, not even root."""
    (folder / "out").symlink_to("/proc/self")
    each = ", each: item" if "item" in path else ""
    plan(folder, f"{{path: '{path}'{each}}}")
    said = refused(folder, "--allow-outside")
    assert said.startswith(f"plan.yaml:5: `write` {path} cannot be written: {folder}/out: ")


@pytest.mark.parametrize("path", ["items.csv", "plan.yaml", "./x/../items.csv"])
def test_what_the_run_reads_is_not_written_over(folder: Path, path: str) -> None:
    plan(folder, f"{{path: {path}}}")
    said = f"plan.yaml:5: `write` {path} would replace a file that the run reads"
    assert refused(folder) == said
    assert (folder / "items.csv").read_text() == ROWS


def test_files_of_the_input_are_not_written_over(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.txt").write_text("a")
    head = HEAD.replace("csv: items.csv", "files: in/*.txt")
    plan(folder, "in/a.txt", head=head)
    assert refused(folder) == (
        "plan.yaml:5: `write` in/a.txt would replace a file that the run reads"
    )
    plan(folder, "{path: 'in/{{ item.text }}.txt', each: item}", head=head)
    assert refused(folder) == (
        f"plan.yaml:5: `write`: {folder}/in/a.txt would replace a file that the run reads"
    )


BAD = [
    ("out.csv/", "plan.yaml:5: `write` must name a file; out.csv/ is a directory"),
    ("{path: x.md, each: items}", "plan.yaml:5: unknown each `items`: did you mean `item`?"),
    ("{path: x.md, each: item}",
     "plan.yaml:5: with `each: item` the path names the item, such as out/{{ item.id }}.md"),
    ("'out/{{ item.id }}.md'",
     "plan.yaml:5: a file for each item is `write: {path: 'out/{{ item.id }}.md', each: item}`"),
    ("{path: x.txt, with: input}",
     "plan.yaml:5: `with: input` makes records: x.txt must end in .csv, .html, .json, .jsonl, .md, "
     ".parquet, .tsv or .xlsx"),
    ("{path: '{{ item.id }}.md', each: item, with: input}",
     "plan.yaml:5: state `each` or `with`, not both"),
    ("{path: '../{{ item.id }}.md', each: item}",
     "plan.yaml:5: `path` ../x leads out of the plan's folder; if that is meant, allow it with "
     "--allow-outside"),
    ("{path: 'out/{{ vars.day }}.md'}",
     "plan.yaml:5: `path` reads `vars.day`, which is not there: the plan has no `vars`"),
]  # fmt: skip


@pytest.mark.parametrize(("stated", "said"), BAD)
def test_a_mistake_is_one_line(folder: Path, stated: str, said: str) -> None:
    plan(folder, stated)
    assert refused(folder) == said


def test_items_are_needed_for_what_is_written_of_each(folder: Path) -> None:
    head = "steps:\n  - ask: {prompt: x, member: m}\n"
    plan(folder, "{path: 'out/{{ item.id }}.md', each: item}", head=head)
    assert refused(folder) == (
        "plan.yaml:3: `each: item` needs a step before it that gives each item a reply, such as `map`"
    )
    over = HEAD + "  - map: {name: more, over: steps.map, member: m}\n"
    plan(folder, "{path: x.csv, with: input}", head=over)
    assert refused(folder) == (
        "plan.yaml:6: `with: input`: the items here are not those of the input"
    )


def test_a_missing_extra_is_named_first(folder: Path) -> None:
    for ending in ("xlsx", "parquet"):
        plan(folder, f"out.{ending}")
        ended = lacking({"openpyxl", "pyarrow"}, folder, "run", "plan.yaml", "--quiet")
        said = f"fanfold: plan.yaml:5: `write` out.{ending} needs an extra:"
        assert (ended.code, ended.err) == (2, f"{said} pip install 'fanfold[{ending}]'\n")
