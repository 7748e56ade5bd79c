"""Commands and reasons that are printed: they work when they are typed as they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import fanfold
from tests.faces.project import PRICE, write_project

ASKED = '{kind: ask, member: m, prompt: "Join {{ parts }}"}'


class Project(NamedTuple):
    folder: Path
    server: RunningServer


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with threaded_server(tmp_path / "books", price=PRICE) as server:
        write_project(tmp_path / "project", server.url, concurrency=1)
        yield Project(tmp_path / "project", server)


def test_every_command_that_is_printed_names_a_store_that_is_not_the_usual_one(
    project: Project,
) -> None:
    folder = project.folder
    first = fanfold(folder, "run", "plan.yaml", "--budget", "1.2", "--store", "my store", "--quiet")
    assert first.resume[2:4] == ["--store", "my store"]
    listed = fanfold(folder, "status", "--store", "my store")
    assert "to continue one: fanfold resume RUN --store 'my store'\n" in listed.out
    shown = fanfold(folder, "status", "talk", "--store", "my store")
    assert " --store 'my store' --budget TOTAL\n" in shown.out
    (folder / "items.jsonl").write_text('{"id": "new", "text": "x"}\n')
    changed = fanfold(folder, "resume", "talk", "--budget", "9", "--store", "my store")
    assert changed.code == 2
    assert "fanfold run plan.yaml --store 'my store'" in changed.err
    none = fanfold(folder, "resume", "nobody", "--store", "my store")
    assert none.code == 2


def test_a_reduce_that_cannot_be_paid_names_its_step_and_member_and_the_new_total(
    project: Project,
) -> None:
    """Every item passed; typed with a total, the command finishes the run."""
    folder = project.folder
    plan = (folder / "plan.yaml").read_text()
    (folder / "plan.yaml").write_text(re.sub(r"\{kind: concat.*", ASKED, plan))
    paused = fanfold(folder, "run", "plan.yaml", "--budget", "calls=6", "--quiet")
    assert paused.code == 4
    reason = "out of budget: calls of the run: all 6 were made (step reduce, member m)"
    assert paused.out.startswith(f"talk paused: {reason}\n")
    words = [word.replace("TOTAL", "9") for word in paused.resume]
    assert words[2:] == ["--budget", "calls=9"]
    assert fanfold(folder, *words, "--quiet").code == 0


@pytest.mark.parametrize(
    ("budget", "named"),
    [("1.2", " (i2, step map, member m)"), ("calls=3", " (step map, member m)")],
)
def test_a_pause_names_whose_call_does_not_fit(project: Project, budget: str, named: str) -> None:
    ended = fanfold(project.folder, "run", "plan.yaml", "--budget", budget, "--quiet")
    assert ended.out.splitlines()[0].endswith(named)


def test_the_sums_of_a_pause_agree(project: Project) -> None:
    """What is left and what was spent are the budget."""
    ended = fanfold(project.folder, "run", "plan.yaml", "--budget", "1.2", "--quiet")
    (left,) = re.findall(r"\$([\d.]+) left", ended.out)
    (spent,) = re.findall(r"^cost \$([\d.]+) of \$1\.20$", ended.out, re.MULTILINE)
    assert float(left) + float(spent) == pytest.approx(1.2)


def test_a_preview_shows_the_budget_that_holds(project: Project) -> None:
    ended = fanfold(project.folder, "run", "plan.yaml", "--dry-run", "--budget", "4")
    assert ended.out.startswith("talk · at most $4.00\n")
