"""Files that commands and agents need and leave: the same plan, whoever works on it and wherever. Runs,
workers and hosts have folders of their own."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from fanfold.journal import opening
from tests import postgres
from tests.faces.cli import Ended, Program, fanfold, started
from tests.faces.project import write_items
from tests.flow.proxy import Proxy
from tests.sshd import sshd
from tests.waiting import wait_until

PLAN = """\
name: build
input: {jsonl: items.jsonl, id: id}
steps:
  - map:
      prompt: "{{ item.text }}"
      member: upper
      attempts: 1
      inputs: ["data/{{ item.id }}.txt"]
      outputs: ["out/{{ item.id }}.txt"]
"""
MEMBER = (
    "{{id: upper, kind: command, cmd: [{}, tool.py], price: {{call: 0.01}}, inputs: tool.py{}}}"
)
TOOL = """\
import pathlib, sys, time
id, books, *rest = sys.stdin.read().split()
with open(books, "a") as asked:
    print(id, file=asked)
while "wait" in rest and not pathlib.Path(books + ".go").exists():
    time.sleep(0.01)
pathlib.Path("out").mkdir(exist_ok=True)
if "nothing" not in rest:
    text = pathlib.Path(f"data/{id}.txt").read_text()
    pathlib.Path(f"out/{id}.txt").write_text(text.upper())
print("done")
"""


class Project:
    """`at`: where its member is asked; "" is here."""

    def __init__(
        self, folder: Path, items: int, at: str = "", store: str = "", more: str = ""
    ) -> None:
        self.run, self.store = folder / "run", store
        (self.run / "data").mkdir(parents=True)
        (self.run / "plan.yaml").write_text(PLAN)
        (self.run / "tool.py").write_text(TOOL)
        self.books = folder / "books"
        self.say(*[""] * items)
        for n in range(items):
            (self.run / "data" / f"i{n}.txt").write_text(f"text of {n}")
        self.roster(at, more)

    def say(self, *more: str) -> None:
        """What the tool is told of each item."""
        write_items(self.run, [f"i{n} {self.books} {one}" for n, one in enumerate(more)])

    @property
    def asked(self) -> Counter[str]:
        return Counter(self.books.read_text().split()) if self.books.exists() else Counter()

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
        return {one.name: one.read_text() for one in sorted((self.run / "out").glob("*.txt"))}


class Elsewhere:
    """Where the member of a project may be asked, by name; machines are started for it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack

    def __call__(
        self, name: str, items: int = 3, *, version: bool = False, files: str = "carried"
    ) -> Project:
        more = ", version: 1" if version else ""
        bare = MEMBER.replace(", inputs: tool.py", f", files: {files}")
        member = f"members: [{bare.format(sys.executable, more)}]"
        if name == "here":
            return Project(self._folder, items, more=more)
        if name == "ssh":
            host = self._stack.enter_context(sshd(self._folder / "host"))
            (host.home / "workers.yaml").write_text(member)
            return Project(self._folder, items, host.place, more=more)
        place, mill = postgres.server().place(), self._folder / "mill"
        mill.mkdir()
        (mill / "workers.yaml").write_text(member)
        self.worker(place)
        return Project(self._folder, items, "workers", place, more)

    def worker(self, queue: str) -> Program:
        words = ("worker", "--queue", queue, "--roster", "workers.yaml")
        return self._stack.enter_context(started(self._folder / "mill", *words))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    with ExitStack() as stack:
        yield Elsewhere(tmp_path, stack)


SSH = pytest.param("ssh", marks=pytest.mark.slow)
EVERYWHERE = pytest.mark.parametrize("where", ["here", "workers", SSH])


def upper(*numbers: int) -> dict[str, str]:
    return {f"i{n}.txt": f"TEXT OF {n}" for n in numbers}


@pytest.mark.parametrize("where", ["here", "workers", "ssh"])
def test_files_are_there_before_and_in_their_places_after_wherever_the_work_is_done(
    elsewhere: Elsewhere, where: str
) -> None:
    project = elsewhere(where)
    ended = project.carry_out()
    assert (ended.code, ended.receipt["passed"], ended.receipt["calls"]) == (0, 3, 3), ended
    assert project.left == upper(0, 1, 2)
    shown = fanfold(project.run, "show", "build", "i1", *project.words).out
    assert "\noutputs\n  out/i1.txt  1 kB\n" in shown


MAKING = """\
name: making
roster: roster.yaml
input: {list: [{id: a}]}
steps:
  - map: {name: build, member: maker, prompt: go, outputs: made}
  - map: {name: use, member: made, prompt: "hello", inputs: made}
"""
MAKERS = """\
members:
  - {id: maker, kind: command, cmd: [sh, -c, "cp tool made; echo made"], price: {call: 0}}
  - {id: made, kind: command, cmd: [./made], price: {call: 0}}
"""


def test_a_program_may_be_what_an_earlier_step_leaves(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\ncat\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "plan.yaml").write_text(MAKING)
    (tmp_path / "roster.yaml").write_text(MAKERS)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--json")
    assert (ended.code, ended.receipt["calls"]) == (0, 2), ended


@EVERYWHERE
def test_an_output_that_is_missing_fails_its_item_in_one_line(
    elsewhere: Elsewhere, where: str
) -> None:
    """What is there from before does not count as written."""
    project = elsewhere(where)
    project.say("", "nothing", "")
    (project.run / "out").mkdir()
    (project.run / "out" / "i1.txt").write_text("old")
    os.utime(project.run / "out" / "i1.txt", (1, 1))
    wait_until(lambda: time.time() - (project.run / "out" / "i1.txt").stat().st_ctime > 0.1)
    ended = project.carry_out()
    assert (ended.code, ended.receipt["passed"], ended.receipt["failed"]) == (1, 2, 1), ended
    assert project.left == {**upper(0, 2), "i1.txt": "old"}
    why = fanfold(project.run, "report", "build", *project.words).out
    older = "'outputs': 'out/i1.txt' was not written; the one there is older"
    assert (older if where == "here" else "'outputs': there is no 'out/i1.txt'") in why


@EVERYWHERE
def test_what_is_in_the_inputs_decides_whether_it_was_asked_before(
    elsewhere: Elsewhere, where: str
) -> None:
    """Outputs of a reply that is used again are put back; the tool's own files count as well."""
    project = elsewhere(where, version=True)
    project.carry_out()
    (project.run / "out" / "i0.txt").unlink()
    (project.run / "out" / "i2.txt").write_text("changed")
    (project.run / "data" / "i1.txt").write_text("other")
    again = project.carry_out()
    assert (again.code, again.receipt["calls"], again.receipt["reused"]) == (0, 1, 2), again
    assert project.left == {**upper(0, 2), "i1.txt": "OTHER"}
    (project.run / "tool.py").write_text(TOOL + "print('new')")
    assert project.carry_out().receipt["calls"] == 3


@pytest.mark.parametrize("where", ["here", "workers"])
def test_two_items_that_would_leave_the_same_file_are_not_both_asked(
    elsewhere: Elsewhere, where: str
) -> None:
    project = elsewhere(where)
    plan = PLAN.replace("out/{{ item.id }}.txt", "out/same.txt")
    (project.run / "plan.yaml").write_text(plan)
    (project.run / "tool.py").write_text(TOOL.replace("out/{id}.txt", "out/same.txt"))
    ended = project.carry_out()
    assert (ended.receipt["passed"], ended.receipt["failed"]) == (1, 2), ended
    assert sum(project.asked.values()) == 1


def test_a_shared_folder_is_worked_in_where_it_is(elsewhere: Elsewhere, tmp_path: Path) -> None:
    """Nothing is carried; the worker has to say that it shares the folder too."""
    project = elsewhere("workers", files="shared")
    project.roster("workers", ", files: shared")
    assert project.carry_out().code == 0
    assert project.left == upper(0, 1, 2)
    assert not list((tmp_path / "mill").rglob("contents"))


def test_a_worker_that_shares_no_folder_is_not_made_to(elsewhere: Elsewhere) -> None:
    project = elsewhere("workers")
    project.roster("workers", ", files: shared")
    ended = project.carry_out()
    assert (ended.code, project.asked) == (4, Counter()), ended
    assert "state that in the roster here too" in ended.receipt["reason"]


# ── deaths ───────────────────────────────────────────────────────────────────────────────────


@EVERYWHERE
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_at_any_moment_asks_nothing_twice_and_has_all_files(
    elsewhere: Elsewhere, where: str, seed: int
) -> None:
    items, random = 8, Random(seed)
    project = elsewhere(where, items)
    project.say(*["wait"] * items)
    with started(project.run, "run", "plan.yaml", "--json", *project.words) as run:
        run.until(lambda: sum(project.asked.values()) >= random.randint(1, 4))
        Path(f"{project.books}.go").touch()
        most = random.randint(2, items)
        run.until(lambda: len(project.left) >= most or run.process.poll() is not None)
        run.process.kill()
        run.process.wait()
    ended = fanfold(project.run, "resume", "build", "--json", *project.words)
    assert (ended.code, ended.receipt["passed"]) == (0, items), ended
    assert project.left == upper(*range(items))
    repeated = sum(project.asked.values()) - items
    assert repeated <= ended.receipt["maybe_paid_twice"], "on record, where it may have been paid"
    if where != "here":
        assert repeated == 0, "workers keep what they have"


def large(id: str) -> str:
    """Some megabytes, which are under way for a while."""
    return f"text of {id} " * 200_000


class Carried:
    """A run whose files are large, and workers that reach the queue by that address."""

    def __init__(self, elsewhere: Elsewhere, folder: Path, queue: str, items: int) -> None:
        (folder / "mill").mkdir()
        bare = MEMBER.replace(", inputs: tool.py", "").format(sys.executable, "")
        (folder / "mill" / "workers.yaml").write_text(f"members: [{bare}]")
        self.project = Project(folder, items, "workers", queue)
        for n in range(items):
            (self.project.run / "data" / f"i{n}.txt").write_text(large(f"i{n}"))
        self.items, self.worker = items, lambda: elsewhere.worker(queue)

    def check(self, ids: set[str]) -> None:
        """These have left their files, whole; of others there is nothing, not even a part."""
        found = {one.name: one.read_text() for one in (self.project.run / "out").iterdir()}
        wanted = {f"{id}.txt": large(id).upper() for id in ids}
        assert sorted(found) == sorted(wanted)
        assert found == wanted


def passed(project: Project) -> set[str]:
    view = opening.look(project.store)
    try:
        return {one.id for one in view.read.endings(1, ("passed",))}
    finally:
        view.close()


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(6))
def test_a_worker_that_is_killed_while_files_are_under_way_leaves_no_part_of_one(
    elsewhere: Elsewhere, tmp_path: Path, seed: int
) -> None:
    """What it held is in doubt, and asked again on record; all else is done."""
    carried, random = Carried(elsewhere, tmp_path, postgres.server().place(), 8), Random(seed)
    project, worker = carried.project, carried.worker()
    most = random.randint(0, 6)
    with started(project.run, "run", "plan.yaml", "--json", *project.words) as run:
        run.until(lambda: sum(project.asked.values()) > 0 and len(project.left) >= most)
        worker.process.kill()
        worker.process.wait()
        carried.worker()
        ended = run.end()
    carried.check(passed(project))
    if ended.receipt["passed"] < carried.items:
        words = ("resume", "build", "--retry-in-doubt", "--json", *project.words)
        ended = fanfold(project.run, *words)
    assert (ended.code, ended.receipt["passed"]) == (0, carried.items), ended
    carried.check({f"i{n}" for n in range(carried.items)})
    assert sum(project.asked.values()) - carried.items <= ended.receipt["maybe_paid_twice"]


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(3))
def test_connections_that_are_cut_while_files_are_under_way_cost_nothing_twice(
    elsewhere: Elsewhere, tmp_path: Path, seed: int
) -> None:
    """Those of the worker, and those of the run."""
    server, random = postgres.server(), Random(seed)
    with Proxy(server.port) as proxy:
        carried = Carried(elsewhere, tmp_path, server.place(port=proxy.port), 8)
        project = carried.project
        carried.worker()
        with started(project.run, "run", "plan.yaml", "--json", *project.words) as run:
            for most in sorted(random.randint(0, 7) for _ in range(3)):
                run.until(lambda most=most: len(project.left) >= most)
                proxy.drop()
            ended = run.end()
    assert (ended.code, ended.receipt["passed"]) == (0, carried.items), ended
    carried.check({f"i{n}" for n in range(carried.items)})
    assert set(project.asked.values()) == {1}
