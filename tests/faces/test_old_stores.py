"""Stores that earlier versions made: they open, and their runs go on without paying again.

`tests/data/stores/0.1.0.db.gz` was made by fanfold 0.1.0 with the files below, in /tmp/made-by-0.1.0:
`fanfold run plan.yaml`, which paused after five of eight calls.
"""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.faces.cli import fanfold

MADE_IN = b"/tmp/made-by-0.1.0"
STORES = Path(__file__).parents[1] / "data" / "stores"
ROSTER = """\
members:
  - {id: echo, kind: command, cmd: [cat], price: {call: 0.01}, version: 1}
"""
PLAN = """\
name: numbers
roster: roster.yaml
budget: {calls: 5}
input: {count: 8}
steps:
  - map: {member: echo, prompt: "number {{ item.n }}", concurrency: 1}
  - reduce: concat
  - write: numbers.txt
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """As it was left, in another folder: the store says where the run's files are."""
    (tmp_path / "roster.yaml").write_text(ROSTER)
    (tmp_path / "plan.yaml").write_text(PLAN)
    file = tmp_path / ".fanfold" / "journal.db"
    file.parent.mkdir()
    file.write_bytes(gzip.decompress((STORES / "0.1.0.db.gz").read_bytes()))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("update runs set folder = ?", (str(tmp_path),))
        ((plan,),) = db.execute("select plan from runs").fetchall()
        moved = plan.replace(MADE_IN, str(tmp_path).encode())
        db.execute("update runs set plan = ?", (moved,))
    return tmp_path


def test_a_run_of_0_1_0_goes_on_and_pays_only_for_the_rest(project: Path) -> None:
    ended = fanfold(project, "resume", "numbers", "--budget", "calls=20", "--quiet", "--json")
    assert (ended.code, ended.err) == (0, "")
    receipt = ended.receipt
    assert (receipt["status"], receipt["passed"]) == ("complete", 8)
    assert (receipt["calls"], receipt["reused"], receipt["cost_usd"]) == (3, 5, 0.08)
    assert (project / "numbers.txt").read_text().rstrip().split("\n\n") == [
        f"number {n}" for n in range(8)
    ]


def test_its_replies_serve_a_new_run(project: Path) -> None:
    receipt = fanfold(project, "run", "plan.yaml", "--quiet", "--json").receipt
    assert (receipt["status"], receipt["calls"], receipt["reused"]) == ("complete", 3, 5)


def test_it_can_be_looked_at(project: Path) -> None:
    shown = fanfold(project, "status", "numbers")
    assert (shown.code, shown.err) == (0, "")
    assert "5 of 8 done: 5 passed, 3 unfunded" in shown.out
