"""Files that commands and agents need and leave: the same plan, whoever works on it and wherever. Runs,
workers and hosts have folders of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import postgres
from tests.faces.cli import Ended, Program, fanfold, started
from tests.faces.project import write_items
from tests.sshd import sshd

PLAN = """\
name: build
input: {jsonl: items.jsonl, id: id}
steps:
  - map:
      prompt: "{{ item.text }}"
      member: upper
      inputs: ["data/{{ item.id }}.txt"]
      outputs: ["out/{{ item.id }}.txt"]
"""
MEMBER = (
    "{{id: upper, kind: command, cmd: [{}, tool.py], price: {{call: 0.01}}, inputs: tool.py{}}}"
)
TOOL = """\
import pathlib, sys
said = sys.stdin.read()
id, _, rest = said.partition(" ")
pathlib.Path("out").mkdir(exist_ok=True)
if rest != "nothing":
    text = pathlib.Path(f"data/{id}.txt").read_text()
    pathlib.Path(f"out/{id}.txt").write_text(text.upper())
with open(pathlib.Path(sys.argv[0]).resolve().parent / "asked", "a") as asked: print(id, file=asked)
print("done", len(list(pathlib.Path("data").iterdir())))
"""


class Project:
    """`at`: where its member is asked; "" is here."""

    def __init__(self, folder: Path, items: int = 3, at: str = "", store: str = "") -> None:
        self.run, self.store = folder / "run", store
        (self.run / "data").mkdir(parents=True)
        (self.run / "plan.yaml").write_text(PLAN)
        (self.run / "tool.py").write_text(TOOL)
        write_items(self.run, [f"i{n} please" for n in range(items)])
        for n in range(items):
            (self.run / "data" / f"i{n}.txt").write_text(f"text of {n}")
        self.roster(at)

    def roster(self, at: str, more: str = "") -> None:
        place = f", at: {at}" if at else ""
        member = MEMBER.format(sys.executable, place + more)
        (self.run / "roster.yaml").write_text(f"members: [{member}]")

    @property
    def words(self) -> tuple[str, ...]:
        return ("--store", self.store) if self.store else ()

    def carry_out(self, *more: str) -> Ended:
        return fanfold(self.run, "run", "plan.yaml", "--json", *self.words, *more)

    @property
    def left(self) -> dict[str, str]:
        return {one.name: one.read_text() for one in sorted((self.run / "out").glob("*"))}


class Elsewhere:
    """Where the member of a project may be asked, by name; machines are started for it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack

    def __call__(self, name: str, items: int = 3) -> Project:
        member = MEMBER.format(sys.executable, "").replace(", inputs: tool.py", "")
        if name == "here":
            return Project(self._folder, items)
        if name == "ssh":
            host = self._stack.enter_context(sshd(self._folder / "host"))
            (host.home / "workers.yaml").write_text(f"members: [{member}]")
            return Project(self._folder, items, host.place)
        place = postgres.server().place()
        mill = self._folder / "mill"
        mill.mkdir()
        (mill / "workers.yaml").write_text(f"members: [{member}]")
        words = ("worker", "--queue", place, "--roster", "workers.yaml")
        self._stack.enter_context(started(mill, *words))
        return Project(self._folder, items, "workers", place)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    with ExitStack() as stack:
        yield Elsewhere(tmp_path, stack)


EVERYWHERE = pytest.mark.parametrize("where", ["here", "workers", "ssh"])


@EVERYWHERE
def test_files_are_there_before_and_in_their_places_after_wherever_the_work_is_done(
    elsewhere: Elsewhere, where: str
) -> None:
    project = elsewhere(where)
    ended = project.carry_out()
    assert (ended.code, ended.receipt["passed"], ended.receipt["calls"]) == (0, 3, 3), ended
    assert project.left == {f"i{n}.txt": f"TEXT OF {n}" for n in range(3)}
