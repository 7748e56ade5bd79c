"""Stdin, stdout and stderr as odd callers leave them: a run ends as it does, with its own exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faces.cli import environment, fanfold, runs

PLAN = """\
name: talk
input: {list: [{text: a}, {text: b}]}
steps:
  - map: {member: f}
"""


@pytest.fixture
def project(memory_path: Path) -> Path:
    (memory_path / "plan.yaml").write_text(PLAN)
    (memory_path / "roster.yaml").write_text(
        "members:\n  - {id: f, kind: function, target: 'own:f'}\n"
    )
    (memory_path / "own.py").write_text("def f(item):\n    return item['text'].index('a')\n")
    return memory_path


def ended(folder: Path, words: str) -> subprocess.CompletedProcess[str]:
    """`sh -c`, where `$f` is fanfold."""
    env = environment(folder, {"f": f"{sys.executable} -m fanfold"})
    return subprocess.run(
        ["sh", "-c", words], cwd=folder, env=env, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


def test_closed_streams_are_no_reason_to_fail(project: Path) -> None:
    """The event loop used to abort when a socket of its own took the place of stdin."""
    done = ended(project, "$f run plan.yaml --quiet <&- >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    (run,) = runs(project)
    assert (run["status"], run["passed"]) == ("flagged", 1)


def test_a_reader_that_leaves_does_not_change_the_exit_code(project: Path) -> None:
    """Not of a run, where 1 and 0 have a meaning; and looking is no failure."""
    reading, writing = os.pipe()
    os.close(reading)
    codes = {}
    for words in ("run plan.yaml", "members", "--help"):
        command = [sys.executable, "-m", "fanfold", *words.split()]
        done = subprocess.run(
            command, cwd=project, env=environment(project), stdin=subprocess.DEVNULL,
            stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
        codes[words] = (done.returncode, done.stderr)
    os.close(writing)
    assert codes == {"run plan.yaml": (1, ""), "members": (0, ""), "--help": (0, "")}


def test_output_that_cannot_be_written_is_said_in_one_line(project: Path) -> None:
    done = ended(project, "$f members > /dev/full")
    assert (done.returncode, done.stderr) == (
        3, "fanfold: the output cannot be written: no space left on device; make room\n",
    )  # fmt: skip


def test_what_an_encoding_does_not_have_is_written_as_an_escape(project: Path) -> None:
    """A word that is not UTF-8 comes from a shell with another encoding."""
    done = fanfold(project, "members", "--why", "--needs", "fran\udce7ais")
    assert (done.code, "fran\\udce7ais" in done.out + done.err) == (2, True), done


def test_a_folder_that_is_gone_is_named(project: Path) -> None:
    done = ended(project, "mkdir gone && cd gone && rmdir ../gone && $f members")
    assert (done.returncode, done.stderr) == (
        2, "fanfold: the current folder was removed; change to another one\n",
    )  # fmt: skip
