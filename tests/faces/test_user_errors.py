"""Mistakes in the user's own code: a run says in which line of which file, and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

import fanfold as ff
from tests.faces.cli import fanfold
from tests.places import place

CODE = """\
def fine(item):
    return item["text"]

def member(item):
    return item["price"]

def gate(value):
    return value["price"]

def fold(parts):
    raise ValueError("no total")

async def waits(value):
    raise ValueError("too late")
"""
ROSTER = "members: [{id: m, kind: function, target: 'rules:fine'}]"
PLAN = """\
name: mistakes
input: {{list: [{{id: a, text: one}}, {{id: b, text: two}}]}}
steps:
  - map: {{member: m{more}}}
  - reduce: {reduce}
"""
WRONG = {
    "member": ("", "count", "KeyError: 'price' (rules.py:5)"),
    "gate": (
        ", gate: [{python: 'rules:gate'}]",
        "count",
        "the gate raised TypeError: string indices must be integers, not 'str' (rules.py:8)",
    ),
    "gate that waits": (
        ", gate: [{python: 'rules:waits'}]",
        "count",
        "the gate raised ValueError: too late (rules.py:14)",
    ),
    "reduce": (
        "",
        "{kind: python, target: 'rules:fold'}",
        "reduce raised ValueError: no total (rules.py:11)",
    ),
}


def write(folder: Path, case: str) -> str:
    """A plan with one mistake in its code; what is said of it."""
    more, reduce, said = WRONG[case]
    roster = ROSTER.replace("fine", "member") if case == "member" else ROSTER
    (folder / "rules.py").write_text(CODE)
    (folder / "roster.yaml").write_text(roster)
    (folder / "plan.yaml").write_text(PLAN.format(more=more, reduce=reduce))
    return said


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_in_code_of_the_users_names_its_file_and_line(tmp_path: Path, case: str) -> None:
    said = write(tmp_path, case)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--quiet")
    assert (ended.code, ended.err) == (1, "")
    assert said in ended.out


@pytest.mark.parametrize("case", WRONG)
def test_debug_shows_each_mistake_once_with_its_traceback(tmp_path: Path, case: str) -> None:
    """After the command too, and however many items stumble over it."""
    said = write(tmp_path, case)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--quiet", "--debug")
    assert ended.code == 1
    assert ended.err.count("Traceback (most recent call last)") == 1
    line = said.rpartition(":")[2].rstrip(")")
    assert f'rules.py", line {line}, in ' in ended.err


def test_a_filter_in_a_script_names_its_line_too(tmp_path: Path) -> None:
    def keep(value: object) -> bool:
        return bool(1 / 0)

    async def main() -> ff.Folded:
        async with ff.open_run(
            "script", members=[ff.function(str)], store=tmp_path / "store"
        ) as run:
            return await ff.map_reduce(run, ["a", "b"], keep=keep)

    (why,) = ff.run_sync(main()).receipt.reasons
    assert (why.reason, why.items) == (
        f"the filter raised ZeroDivisionError: division by zero{place(keep)}",
        2,
    )


@pytest.mark.parametrize("words", ["status", "local status", "skill show"])
def test_every_command_takes_debug_after_its_name(tmp_path: Path, words: str) -> None:
    ended = fanfold(tmp_path, *words.split(), "--debug")
    assert "no such option" not in ended.err.lower()
