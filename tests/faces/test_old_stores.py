"""Stores that earlier versions made: they open, and their runs go on without paying again.

`tests/data/stores/0.1.0.db.gz` was made by fanfold 0.1.0 with the files below, in /tmp/made-by-0.1.0:
`fanfold run plan.yaml`, which paused after five of eight calls. `c4ce8d3.db.gz` was made in the same way by
that commit, in /tmp/made-by-main. It has a second run, written by a script: an attempt that died, hedges
of it, one that was cancelled before it was sent; and one whose end is in a side file, `c4ce8d3.facts.gz`.
`schema-26.db.gz` has the 26 migrations of its time, and was made in /tmp/made-by-schema-26.
"""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fanfold.journal.opening import open_store
from tests.faces.cli import fanfold

MADE_IN = {"0.1.0": b"/tmp/made-by-0.1.0", "c4ce8d3": b"/tmp/made-by-main",
           "schema-26": b"/tmp/made-by-schema-26"}  # fmt: skip
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


@pytest.fixture(params=MADE_IN)
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return unpacked(tmp_path, request.param)


def unpacked(tmp_path: Path, version: str) -> Path:
    """As it was left, in another folder: the store says where the run's files are."""
    (tmp_path / "roster.yaml").write_text(ROSTER)
    (tmp_path / "plan.yaml").write_text(PLAN)
    file = tmp_path / ".fanfold" / "journal.db"
    file.parent.mkdir()
    file.write_bytes(gzip.decompress((STORES / f"{version}.db.gz").read_bytes()))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("update runs set folder = ?", (str(tmp_path),))
        ((plan,),) = db.execute("select plan from runs where no = 1").fetchall()
        moved = plan.replace(MADE_IN[version], str(tmp_path).encode())
        db.execute("update runs set plan = ? where no = 1", (moved,))
        if version != "0.1.0":
            db.execute("update runs set crc = null")
    return tmp_path


def test_its_run_goes_on_and_pays_only_for_the_rest(project: Path) -> None:
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


def test_what_texts_said_is_in_columns_and_a_side_file_is_taken_up(tmp_path: Path) -> None:
    store = unpacked(tmp_path, "c4ce8d3") / ".fanfold"
    (store / "unsaved").mkdir()
    left = gzip.decompress((STORES / "c4ce8d3.facts.gz").read_bytes())
    (store / "unsaved" / "left.facts").write_bytes(left)
    journal = open_store(store, thread=False)
    known = journal.read.attempts(2)
    assert [(one.no, one.state, one.hedge_of, one.lost) for one in known] == [
        (6, "in_doubt", None, "died"),
        (7, "error", 6, "unsent"),
        (8, "in_doubt", 6, "died"),
        (9, "error", None, "cancelled"),
        (10, "in_doubt", None, "died"),
        (11, "ok", None, ""),
    ]
    assert journal.read.spent(2)[0].hedged == 1
    assert journal.read.step_names(2) == ["map", "other"]
    reply = journal.read.known([bytes([4]) * 32], frozenset({"echo:1"}), 2)
    assert [one.reply.text for one in reply.values()] == ["saved"]
    assert journal.warnings == (
        f"{store}/journal.db: 1 reply that could not be saved before is in it now",
    )
    journal.close()
