"""`fanfold init`: files to begin with, which run at once and are never written over others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fanfold.faces.cli.examples import STARTER
from fanfold.members.roster import load_roster
from tests.faces.cli import fanfold


def test_what_it_makes_runs_at_once_without_a_key(tmp_path: Path) -> None:
    made = fanfold(tmp_path, "init", "my plan")
    folder = tmp_path / "my plan"
    assert made.code == 0 and sorted(path.name for path in folder.iterdir()) == sorted(STARTER)
    assert "  cd 'my plan'\n  fanfold run plan.yaml\n" in made.out
    assert fanfold(folder, "run", "plan.yaml", "--dry-run").code == 0
    receipt = fanfold(folder, "run", "plan.yaml", "--json").receipt
    assert (receipt["status"], receipt["passed"], receipt["cost_usd"]) == ("complete", 3, 0.0)
    assert (folder / "summary.md").read_text(encoding="utf-8").count("\n\n") == 2


def test_the_folder_is_this_one_unless_another_is_named(tmp_path: Path) -> None:
    assert "cd" not in fanfold(tmp_path, "init").out.split()
    assert fanfold(tmp_path, "run", "plan.yaml", "--json").receipt["passed"] == 3


@pytest.mark.parametrize("taken", STARTER)
def test_no_file_is_written_over(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine", encoding="utf-8")
    ended = fanfold(tmp_path, "init")
    said = f"fanfold: {taken} is there already; name another folder: fanfold init FOLDER\n"
    assert (ended.code, ended.out, ended.err) == (2, "", said)
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert left == {taken} and (tmp_path / taken).read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ended = fanfold(tmp_path, "init", "file/below")
    assert (ended.code, ended.err) == (
        2,
        "fanfold: file/below: not a directory; name another folder\n",
    )


def test_the_models_in_the_comments_can_be_put_in_as_they_are(tmp_path: Path) -> None:
    """Each with a price that is known, so that the budget holds."""
    fanfold(tmp_path, "init")
    text = (tmp_path / "roster.yaml").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^  # (?:-|  )\s?\w+:.*\n)+", text, re.MULTILINE)
    kinds = []
    for block in blocks:
        own = "members:\n" + block.replace("  # ", "  ", 1).replace("\n  # ", "\n  ")
        (tmp_path / "roster.yaml").write_text(own, encoding="utf-8")
        entry = load_roster(tmp_path / "roster.yaml").entry("writer")
        assert entry.traits.price is not None
        kinds.append(entry.traits.kind)
    assert kinds == ["openai", "anthropic"]
