"""What the pages show is true: sessions print what is printed there, scripts run, plans load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.plans.load import load_plan
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.work.document import Node, parse
from fanfold.work.routed import read_route
from tests.docs.pages import ROOT, Block, all_blocks, blocks, pages, write_file, write_files
from tests.faces.cli import WARM, python
from tests.waiting import LONG

SRC = ROOT / "src"
SERVER = "http://127.0.0.1:8765"  # as the quickstart has it

# It looks again and again in one process, so that it is not slower than the run that it waits for.
WAIT = """
import contextlib, io, re, time
from fanfold.faces.cli.main import main
text = ''
while not re.search(r' [1-9][0-9]*/400 ', text):
    with contextlib.redirect_stdout(out := io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            main(['status'])
    text = out.getvalue()
    time.sleep(0.01)
"""

# What differs from run to run: ids, times of day, durations.
_CHANGES = [
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "WHEN"),
    (re.compile(r"\b(\d+[dhm] \d\d[hms]|\d+(\.\d+)?m?s)\b"), "TIME"),
]


# ── sessions at a terminal ───────────────────────────────────────────────────────────────────


def sessions() -> list[tuple[str, list[Block]]]:
    """What is done in each project, in the order of its page: files are written, commands typed."""
    found: dict[str, list[Block]] = {}
    for page in pages():
        shown = [block for block in blocks(page) if block.file or block.language == "console"]
        for name in {_project(block) for block in shown if not block.file}:
            own = [block for block in shown if block.file or _project(block) == name]
            found[f"{own[0].page}:{name}"] = own
    return sorted(found.items())


def _project(block: Block) -> str:
    word, _, rest = block.note.partition(": ")
    assert word == "run", f"{block}: a console block says `run: PROJECT` before it"
    return rest.split()[0]


@pytest.fixture
def terminal(tmp_path: Path) -> dict[str, str]:
    """An environment in which `fanfold` and `python` are this project's.

    What is killed is started as users start it; all other commands are forked, which says the same.
    `sleep` waits until a run has recorded something, which is what the pages mean by it.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    WARM.write_program(folder / "forked")
    started = f'exec "{sys.executable}" -m fanfold "$@"'
    _script(folder / "fanfold", f'test -n "$IS_KILLED" && {started}; exec forked "$@"')
    _script(folder / "python", f'exec "{sys.executable}" "$@"')
    _script(folder / "sleep", f'exec "{sys.executable}" -c "{WAIT}"')
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(SRC), "LANG": "C.UTF-8"}


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books", latency_ms=5) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("shown", [pytest.param(own, id=name) for name, own in sessions()])
def test_a_session_prints_what_the_page_shows(
    shown: list[Block], terminal: dict[str, str], server: RunningServer, tmp_path: Path
) -> None:
    folder = at = tmp_path / "project"
    folder.mkdir()
    for block in shown:
        if block.file:
            write_file(block, folder, {SERVER: server.url})
            continue
        about = block.note.endswith(" about")
        for command, expected in _commands(block):
            if command.startswith("cd "):
                at = at / command.removeprefix("cd ")
                continue
            said = _run(command, at, terminal)
            assert (command, _same(said, about)) == (command, _same(expected, about)), block


def _commands(block: Block) -> list[tuple[str, str]]:
    """Each `$ command` with the lines that it prints."""
    first, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not first
    return [(command, said) for command, _, said in (part.partition("\n") for part in parts)]


def _run(command: str, folder: Path, env: dict[str, str]) -> str:
    """What it prints on stdout; progress goes to stderr."""
    ended = subprocess.run(
        ["bash", "-c", command], cwd=folder, stdin=subprocess.DEVNULL,
        env={**env, "IS_KILLED": "yes"} if "kill" in command else env,
        capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.stdout


def _same(text: str, about: bool) -> list[str]:
    for pattern, word in _CHANGES:
        text = pattern.sub(word, text)
    if about:
        text = re.sub(r"[0-9][0-9,.]*", "N", text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


# ── Python ───────────────────────────────────────────────────────────────────────────────────


def scripts() -> list[Block]:
    return [block for block in all_blocks("python") if not block.note]


@pytest.mark.slow
@pytest.mark.parametrize("block", scripts(), ids=str)
def test_a_script_runs_and_what_it_asserts_is_true(block: Block, tmp_path: Path) -> None:
    write_files(ROOT / block.page, tmp_path)
    ended = python(tmp_path, block.text, env={**os.environ, "PYTHONPATH": str(SRC)})
    assert (ended.code, ended.err) == (0, "")


# ── YAML ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=str)
def test_yaml_on_a_page_is_a_roster_a_route_a_plan_or_a_piece_of_one(
    block: Block, tmp_path: Path
) -> None:
    write_files(ROOT / block.page, tmp_path)
    value = parse(block.text, str(block)).value
    shown = tmp_path / (block.file or "shown.yaml")
    if isinstance(value, dict) and "members" in value:
        shown.write_text(block.text, encoding="utf-8")
        assert len(load_roster(shown).entries) == len(value["members"])
    elif isinstance(value, list) and "invoke" in value[0]:  # TangleBrain's
        shown.write_text(block.text, encoding="utf-8")
        assert len(load_roster(shown).entries) == len(value)
    elif isinstance(value, dict) and "rules" in value:
        shown.write_text(block.text, encoding="utf-8")
        assert read_route(Node({"route": shown.name}, "", {}).child("route"), tmp_path).members
    else:
        shown.write_text(_as_plan(value, block.text), encoding="utf-8")
        assert load_plan(shown).steps


def _as_plan(value: object, text: str) -> str:
    """A list is a plan's steps; fields of a map go into one; a plan may lack its input."""
    if isinstance(value, list):
        return _with_input(value, f"steps:\n{text}")
    assert isinstance(value, dict)
    if "steps" not in value:
        inner = "".join(f"      {line}\n" for line in text.splitlines())
        return f"input: {{count: 1}}\nsteps:\n  - map:\n{inner}"
    return text if "input" in value else _with_input(value["steps"], text)


def _with_input(steps: list[dict[str, Any]], text: str) -> str:
    """Only where a step wants items: an input that nobody uses is refused."""
    kind, told = next(iter(steps[0].items()))
    if kind == "repeat":
        return _with_input(told["steps"], text)
    own = kind in ("list_files", "graph", "ask") or (kind == "scatter" and "over" in told)
    return text if own else f"input: {{count: 1}}\n{text}"


def test_yaml_that_is_neither_would_be_noticed(tmp_path: Path) -> None:
    """So that the test above cannot pass by taking anything for a plan."""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(_as_plan({"promt": "x"}, "promt: x"), encoding="utf-8")
    with pytest.raises(BadInput, match="unknown field `promt`"):
        load_plan(wrong)


# ── the patterns ─────────────────────────────────────────────────────────────────────────────

PATTERNS = ROOT / "docs" / "patterns.md"
SEVEN = (
    "map_reduce", "divide_and_conquer", "scatter_gather", "pipeline", "ensemble", "graph",
    "conduct",
)  # fmt: skip
MOST_LINES = 15


@pytest.mark.parametrize("name", SEVEN)
def test_each_pattern_has_a_short_example_in_python_and_as_a_plan(name: str) -> None:
    """The first of its own section, so that it can be copied from there."""
    own = [block for block in blocks(PATTERNS) if _section(block) == name]
    python = [block for block in own if block.language == "python"]
    plans = [block for block in own if block.language == "yaml"]
    assert python and plans and f"ff.{name}(" in python[0].text
    for block in (python[0], plans[0]):
        assert len(block.text.splitlines()) <= MOST_LINES, block


def test_every_plan_on_the_page_of_patterns_is_run_there() -> None:
    shown = [block for block in blocks(PATTERNS) if block.language == "yaml"]
    plans = {block.file for block in shown if "steps:" in block.text}
    sessions = [block.text for block in blocks(PATTERNS) if block.language == "console"]
    run = {name for text in sessions for name in re.findall(r"fanfold run (\S+\.yaml)", text)}
    assert plans == run


def _section(block: Block) -> str:
    above = PATTERNS.read_text(encoding="utf-8").splitlines()[: block.line]
    return next(line[3:] for line in reversed(above) if line.startswith("## "))


# ── nothing is left out ──────────────────────────────────────────────────────────────────────


def test_the_pages_have_examples_of_each_sort() -> None:
    """So that none of the tests above passes by finding nothing."""
    readme = {block.note.split(":")[0] for block in blocks(ROOT / "README.md")}
    assert readme >= {"file", "run"}
    assert len(sessions()) >= 3
    assert len(scripts()) >= 6
    assert len(all_blocks("yaml")) >= 10


def test_every_block_says_its_language() -> None:
    """A fence without one is only for drawings."""
    known = {"python", "yaml", "json", "text", "console", "sh", "sql", "diff"}
    assert {block.language for page in pages() for block in blocks(page)} <= known
