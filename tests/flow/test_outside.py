"""A plan that somebody else wrote stays in its folder: what it writes, and what it reads to send."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.plans.load import load_plan
from fanfold.plans.rows import read_items
from fanfold.plans.write import write_value
from fanfold.work.files import replacing
from tests.faces.cli import fanfold

LEADS_OUT = ["../out.txt", "sub/../../out.txt", "{outside}/out.txt", "link/out.txt", "linked.txt"]
STEPS = {
    "write": "  - map: {{prompt: x}}\n  - write: {path}\n",
    "write in full": "  - map: {{prompt: x}}\n  - write: {{path: {path}}}\n",
    "prompt_file": "  - map: {{prompt_file: {path}}}\n",
    "schema_file": "  - map: {{prompt: x, schema_file: {path}}}\n",
    "system_file": "  - map: {{prompt: x, system_file: {path}}}\n",
    "context_file": "  - map: {{prompt: x, context_file: {path}}}\n",
    "a prompt of a reduce": (
        "  - map: {{prompt: x}}\n  - reduce: {{kind: ask, prompt_file: {path}}}\n"
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    outside, inside = tmp_path / "outside", tmp_path / "plan"
    outside.mkdir()
    inside.mkdir()
    for place in (tmp_path, outside):
        (place / "out.txt").write_text('{"type": "object"}')
    (inside / "sub").mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "linked.txt").symlink_to(outside / "out.txt")
    return inside


def stated(folder: Path, step: str, path: str) -> Path:
    where = path.format(outside=folder.parent / "outside")
    plan = folder / "plan.yaml"
    plan.write_text("input: {list: [a]}\nsteps:\n" + STEPS[step].format(path=where))
    return plan


@pytest.mark.parametrize("path", LEADS_OUT)
@pytest.mark.parametrize("step", STEPS)
def test_what_leads_out_of_the_folder_needs_a_word(folder: Path, step: str, path: str) -> None:
    plan = stated(folder, step, path)
    with pytest.raises(BadInput, match=r"leads out of the plan's folder.*--allow-outside") as wrong:
        load_plan(plan)
    assert wrong.value.line == len(plan.read_text().splitlines())
    assert load_plan(plan, allow_outside=True).allow_outside


def test_what_stays_inside_needs_none(folder: Path) -> None:
    (folder / "sub" / "prompt.md").write_text("Say.")
    assert load_plan(stated(folder, "prompt_file", "sub/../sub/prompt.md"))
    assert load_plan(stated(folder, "write", "new/deep/out.txt"))


def test_the_command_line_takes_the_word(folder: Path) -> None:
    (folder / "mine.py").write_text("def answer(data): return 'done'\n")
    (folder / "roster.yaml").write_text(
        "members: [{id: m, kind: function, target: 'mine:answer'}]\n"
    )
    plan = folder / "plan.yaml"
    plan.write_text(
        "input: {list: [a]}\nsteps:\n  - map: {}\n  - reduce: concat\n  - write: ../new.txt\n"
    )
    refused = fanfold(folder, "run", "plan.yaml", "--quiet")
    assert (refused.code, (folder.parent / "new.txt").exists()) == (2, False)
    assert refused.err.startswith("fanfold: plan.yaml:5: `write` ../new.txt leads out")
    assert fanfold(folder, "run", "plan.yaml", "--quiet", "--allow-outside").code == 0
    assert (folder.parent / "new.txt").read_text() == "done\n"


def test_a_link_that_is_made_later_is_not_followed(folder: Path) -> None:
    """The folder that a run writes to becomes a link while it runs."""
    (folder / "mine.py").write_text(
        "import os\ndef answer(data):\n    os.rmdir('sub'); os.symlink('../outside', 'sub')\n"
        "    return 'done'\n"
    )
    (folder / "roster.yaml").write_text(
        "members: [{id: m, kind: function, target: 'mine:answer'}]\n"
    )
    (folder / "plan.yaml").write_text(
        "input: {list: [a]}\nsteps:\n  - map: {}\n  - reduce: concat\n  - write: sub/new.txt\n"
    )
    done = fanfold(folder, "run", "plan.yaml", "--quiet")
    assert (done.code, (folder.parent / "outside" / "new.txt").exists()) == (1, False)
    assert "leads out of the plan's folder" in done.out + done.err


def test_a_temporary_file_follows_no_link_and_has_a_name_that_nobody_can_foresee(
    tmp_path: Path,
) -> None:
    """`OUT.part` was written through a link that lay there."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out.md"
    (tmp_path / "out.md.part").symlink_to(victim)
    names = set()
    for _ in range(3):
        write_value(out, "text")
        with replacing(out) as scratch:
            names.add(os.fspath(scratch.name) if isinstance(scratch.name, str) else "")
            names |= set(os.listdir(tmp_path))
            scratch.write(b"text")
    assert victim.read_text() == "precious"
    assert len([name for name in names if name.startswith(".out.md.")]) == 3
    assert sorted(os.listdir(tmp_path)) == ["out.md", "out.md.part", "victim"]


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("old")
    with pytest.raises(TypeError):
        write_value(tmp_path / "out.json", object())
    assert os.listdir(tmp_path) == ["out.json"]
    assert (tmp_path / "out.json").read_text() == "old"


def test_a_cell_is_never_a_formula(tmp_path: Path) -> None:
    """A spreadsheet would run it; the customary apostrophe makes it a text. Numbers stay numbers."""
    rows = [
        {"a": "=HYPERLINK(1)", "b": "+1+1", "=c": "-2+3", "d": "@SUM(A1)"},
        {"a": "\t=1", "b": -5, "=c": "-5", "d": "+3.5"},
        {"a": "plain", "b": "a=b", "=c": "", "d": [1]},
    ]
    write_value(tmp_path / "out.csv", rows)
    with (tmp_path / "out.csv").open(newline="") as file:
        found = list(csv.reader(file))
    assert found == [
        ["a", "b", "'=c", "d"],
        ["'=HYPERLINK(1)", "'+1+1", "'-2+3", "'@SUM(A1)"],
        ["'\t=1", "-5", "-5", "+3.5"],
        ["plain", "a=b", "", "[1]"],
    ]


BREAKS = [
    "a\rb",
    "a\nb",
    "a\r\nb",
    "fine\r=HYPERLINK(1)",
    "fine\n=1",
    "a\u2028b",
    "a\x85b",
    "a\x0cb",
]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_whatever_breaks_lines_in_a_cell_it_stays_one_cell(tmp_path: Path, ending: str) -> None:
    """Also for those who read our files, and for us: of a text that is a table already, too."""
    rows = [{"id": str(n), "text": one} for n, one in enumerate(BREAKS)]
    first, again = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    write_value(first, rows)
    write_value(again, first.read_bytes().decode())
    assert again.read_bytes() == first.read_bytes()
    for path in (first, again):
        with path.open(newline="", encoding="utf-8") as file:
            found = list(csv.DictReader(file, delimiter="," if ending == "csv" else "\t"))
        assert found == rows
        assert list(read_items(path)) == rows


def test_a_sign_in_another_form_is_the_sign(tmp_path: Path) -> None:
    write_value(
        tmp_path / "a.csv", [{"a": one} for one in ("＝1", "＋1", "－1", "＠x", "﹦1", "é=1")]
    )
    found = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert found == ["a", "'＝1", "'＋1", "'－1", "'＠x", "'﹦1", "é=1"]
