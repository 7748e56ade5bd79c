"""Stores copied from one backend to another, and checked: nothing is lost, and damage is found."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from fanfold.errors import BadInput, StoreError
from fanfold.faces.cli.main import cli
from fanfold.journal import copying, opening
from fanfold.journal.contract import Store
from fanfold.journal.facts import AddRun
from fanfold.journal.sqlite.read_tables import TABLES
from fanfold.journal.sqlite.sealing import SEALED
from tests.contract.backends import BACKENDS, Backend
from tests.contract.test_questions import answers_of, fill
from tests.contract.test_store import record, start, within
from tests.postgres import server

KINDS = ("sqlite", "postgresql")


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def filled(kind: str, folder: Path) -> Backend:
    backend = BACKENDS[kind](folder)
    within(backend, fill)
    return backend


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_a_copy_answers_every_question_as_its_source(
    source: str, target: str, tmp_path: Path
) -> None:
    first, second = filled(source, tmp_path / "from"), BACKENDS[target](tmp_path / "to")
    store = first.open()
    (store.spool() / "input").write_text("once")
    store.close()
    checked = asyncio.run(copying.copy(first.place, second.place))
    views = [opening.look(place) for place in (first.place, second.place)]
    assert answers_of(views[0].read) == answers_of(views[1].read)
    assert (views[1].files / "inputs" / "input").read_text() == "once"
    assert checked == copying.check(views[0]) == copying.check(views[1])
    assert (checked.problems, checked.cost > 0) == ((), True)
    for view in views:
        view.close()


def test_a_copy_can_be_continued(tmp_path: Path) -> None:
    first, second = filled("sqlite", tmp_path / "from"), BACKENDS["postgresql"](tmp_path / "to")
    asyncio.run(copying.copy(first.place, second.place))

    async def act(store: Store) -> int:
        claim = await store.write(start(b"n" * 16))
        return int(claim.attempt)

    assert within(second, act) == within(first, act) > 0


def test_only_a_new_store_is_copied_into_and_only_one_that_is_there(tmp_path: Path) -> None:
    first, second = filled("sqlite", tmp_path / "a"), filled("sqlite", tmp_path / "b")
    with pytest.raises(BadInput, match="has runs already"):
        asyncio.run(copying.copy(first.place, second.place))
    with pytest.raises(StoreError, match="no such store"):
        asyncio.run(copying.copy(str(tmp_path / "none"), str(tmp_path / "new")))
    assert not (tmp_path / "none").exists() and not (tmp_path / "new").exists()


def test_a_store_that_a_run_is_writing_to_is_not_copied(tmp_path: Path) -> None:
    backend = BACKENDS["sqlite"](tmp_path / "from")

    async def act(store: Store) -> None:
        session = store.sessions.enter()
        await store.write(AddRun(record(session=session)))
        with pytest.raises(BadInput, match="run run is running"):
            await copying.copy(backend.place, str(tmp_path / "to"))

    within(backend, act)


@pytest.mark.parametrize("kind", KINDS)
def test_a_check_finds_damage_and_says_where(kind: str, tmp_path: Path) -> None:
    backend = filled(kind, tmp_path)
    damage = (
        "update {0}replies set cost = cost + 1 where no = 1",
        "update {0}spending set settled = settled + 10000",
        "delete from {0}replies where no = 2",
        "delete from {0}steps where run = 2",  # as a blank page would be
        "delete from {0}items where run = 1 and batch = 0 and position = 0",
    )
    if kind == "sqlite":
        with closing(sqlite3.connect(Path(backend.place) / "journal.db")) as db:
            for change in damage:
                db.execute(change.format(""))
            db.commit()
    else:
        for change in damage:
            server().run(change.format(f"{backend.place.rpartition('=')[2]}."))
    done = CliRunner().invoke(cli, ["store", "check", backend.place])
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-7:] == [
        "fanfold: replies: the row 1 is damaged",
        "fanfold: spending: the row m 1970-01 is damaged",
        "fanfold: outcomes: 1 of them name rows of replies that are not there",
        "fanfold: outcomes: 1 of them name rows of items that are not there",
        "fanfold: attempts: 1 of them name rows of steps that are not there",
        "fanfold: batches: 1 of them name rows of items that are not there",
        "fanfold: spending: m in 1970-01 is more than its attempts took",
    ]


def test_a_copy_has_all_tables_but_those_of_one_place(tmp_path: Path) -> None:
    """The log is of one store's commits; who follows a copy reads the tables."""
    backend = BACKENDS["sqlite"](tmp_path)
    backend.open().close()
    with closing(sqlite3.connect(Path(backend.place) / "journal.db")) as db:
        tables = "select m.name, t.name from sqlite_master m, pragma_table_info(m.name) t"
        columns = set(db.execute(f"{tables} where m.type = 'table'"))
    copied = {(name, one) for name, of in TABLES.items() for one in of.columns.split(", ")}
    sealed = {(table, "crc") for table in SEALED}  # the store that they are copied into does so
    rest = columns - copied - sealed
    assert {table for table, _ in rest} == {"log", "store", "sqlite_sequence"}
    assert copied <= columns
