"""The skill: what it says is true of this program, and it lands where the tools look."""

from __future__ import annotations

import re
import shlex
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest

from fanfold.faces.cli import main as cli
from fanfold.fleet.load import load_fleet
from fanfold.members.roster import load_roster
from fanfold.plans.prepare import Options, prepare
from fanfold.work.document import parse
from tests.faces.cli import Ended, fanfold

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "fanfold" / "SKILL.md"
TEXT = SKILL.read_text(encoding="utf-8")
FLEET = SKILL.with_name("FLEET.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CLAUDE, CODEX = ".claude/skills/fanfold/SKILL.md", ".agents/skills/fanfold/SKILL.md"


# ── what it says ─────────────────────────────────────────────────────────────────────────────


def shown(page: str = TEXT) -> list[list[str]]:
    """The words after `fanfold` of every command in it, in a block or in a line."""
    lines = [
        line.strip()
        for how, block in FENCE.findall(page)
        if how == "sh"
        for line in block.splitlines()
    ]
    spans = re.findall(r"`(fanfold [^`\n]+)`", FENCE.sub("", page))
    return [shlex.split(line)[1:] for line in [*lines, *spans]]


def unknown(words: list[str]) -> list[str]:
    """What the program would not understand."""
    context = click.Context(cli.cli)
    command: click.Command | None = cli.cli.get_command(context, words[0])
    if command is None:
        return [words[0]]
    known = {opt for param in command.params for opt in param.opts}
    return [word for word in words[1:] if word.startswith("-") and word not in known]


def test_every_command_in_it_exists_with_its_options() -> None:
    assert [wrong for words in shown() for wrong in unknown(words)] == []
    named = {words[0] for words in shown()}
    assert named >= {"members", "run", "report", "status", "resume", "graph"}
    assert ["run", "plan.yaml", "--dry-run"] in shown()


def test_every_command_of_the_page_on_fleets_exists_with_its_options() -> None:
    assert [wrong for words in shown(FLEET) for wrong in unknown(words)] == []
    named = {words[0] for words in shown(FLEET)}
    assert named == {"graph", "run", "launch", "status", "view", "feed", "report", "kill",
                     "relaunch", "resume"}  # fmt: skip


def test_its_fleet_loads(tmp_path: Path) -> None:
    (block,) = [text for how, text in FENCE.findall(FLEET) if how == "json"]
    (tmp_path / "fleet.json").write_text(block)
    for id in ("law", "prices", "report"):
        (tmp_path / "workers" / id).mkdir(parents=True)
        (tmp_path / "workers" / id / "prompt.md").write_text(f"You are {id}.\n")
    fleet = load_fleet(tmp_path)
    assert [(one.id, one.type, one.provider) for one in fleet.workers] == [
        ("law", "research", "claude"), ("prices", "research", "codex"), ("report", "write", "claude"),
    ]  # fmt: skip


def test_a_command_that_does_not_exist_would_be_noticed() -> None:
    assert unknown(["fly"]) == ["fly"]
    assert unknown(["run", "plan.yaml", "--dyr-run"]) == ["--dyr-run"]


def test_its_plan_and_roster_load_and_fit_together(tmp_path: Path) -> None:
    blocks = {("members" in parse(text, "skill").value): text
              for how, text in FENCE.findall(TEXT) if how == "yaml"}  # fmt: skip
    (tmp_path / "plan.yaml").write_text(blocks[False])
    (tmp_path / "roster.yaml").write_text(blocks[True])
    assert list(load_roster(tmp_path / "roster.yaml").entries) == ["haiku", "here"]
    job = prepare(str(tmp_path / "plan.yaml"), Options())
    assert (job.name, len(job.stored.plan.steps), job.budget.usd) == ("review", 3, 2.0)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one.py").write_text("print('hello')\n")
    ended = fanfold(tmp_path, "run", "plan.yaml", "--dry-run")
    assert (ended.code, ended.err) == (0, "")


def test_its_head_is_in_the_usual_form() -> None:
    """A name as its folder has it, and a description short enough for a list of skills."""
    _, head, body = TEXT.split("---\n", 2)
    found: dict[str, Any] = parse(head, "SKILL.md").value
    assert found.keys() == {"name", "description"}
    assert found["name"] == SKILL.parent.name == "fanfold"
    assert 100 < len(found["description"]) <= 1024
    assert len(body.splitlines()) < 200


# ── where it lands ───────────────────────────────────────────────────────────────────────────


def installed(folder: Path) -> dict[str, str]:
    return {
        name: (folder / name).read_text() for name in (CLAUDE, CODEX) if (folder / name).exists()
    }


def test_show_prints_it(tmp_path: Path) -> None:
    assert fanfold(tmp_path, "skill", "show") == Ended(0, TEXT, "")


def test_it_is_written_where_both_tools_look_and_again_changes_nothing(tmp_path: Path) -> None:
    first = fanfold(tmp_path, "skill", "install")
    assert first == Ended(0, f"{tmp_path / CLAUDE}: written\n{tmp_path / CODEX}: written\n", "")
    assert installed(tmp_path) == {CLAUDE: TEXT, CODEX: TEXT}
    assert (tmp_path / CLAUDE).with_name("FLEET.md").read_text() == FLEET
    stamps = [(tmp_path / name).stat().st_mtime_ns for name in (CLAUDE, CODEX)]
    again = fanfold(tmp_path, "skill", "install")
    assert again.out == f"{tmp_path / CLAUDE}: up to date\n{tmp_path / CODEX}: up to date\n"
    assert [(tmp_path / name).stat().st_mtime_ns for name in (CLAUDE, CODEX)] == stamps


@pytest.mark.parametrize(("tool", "file"), [("claude", CLAUDE), ("codex", CODEX)])
def test_for_one_tool_and_for_one_project(tmp_path: Path, tool: str, file: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    ended = fanfold(project, "skill", "install", "--for", tool, "--project", HOME=str(tmp_path))
    assert ended == Ended(0, f"{file}: written\n", "")
    assert (installed(project), installed(tmp_path)) == ({file: TEXT}, {})


def test_a_file_changed_by_hand_is_kept_and_nothing_is_written(tmp_path: Path) -> None:
    mine = tmp_path / CODEX
    mine.parent.mkdir(parents=True)
    mine.write_text("my own")
    refused = fanfold(tmp_path, "skill", "install")
    assert refused == Ended(2, "", f"fanfold: {mine} was changed by hand; --force overwrites it\n")
    assert installed(tmp_path) == {CODEX: "my own"}
    forced = fanfold(tmp_path, "skill", "install", "--force")
    assert forced.out == f"{tmp_path / CLAUDE}: written\n{mine}: brought up to date\n"
    mine.write_text(TEXT + "\nmy line\n")
    assert fanfold(tmp_path, "skill", "install", "--for", "codex").code == 2


def test_one_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path) -> None:
    """It is as it was installed, so nobody's work is lost."""
    fanfold(tmp_path, "skill", "install", "--for", "claude")
    file = tmp_path / CLAUDE
    earlier = "an earlier version\n"
    file.write_text(earlier)
    (file.parent / ".installed").write_text(_digest(earlier))
    ended = fanfold(tmp_path, "skill", "install", "--for", "claude")
    assert ended == Ended(0, f"{file}: brought up to date\n", "")
    assert installed(tmp_path) == {CLAUDE: TEXT}


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_a_place_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / ".claude").write_text("a file, not a folder")
    ended = fanfold(tmp_path, "skill", "install", "--for", "claude")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"fanfold: {tmp_path / CLAUDE}: cannot be ")
