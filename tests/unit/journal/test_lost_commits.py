"""A commit whose connection broke took place or not: in both cases each fact is applied once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import StoreAway
from fanfold.journal.facts import AddRun, NameStep
from tests.contract.test_store import end, record, start
from tests.postgres import server

pytest.importorskip("psycopg")


@pytest.fixture(params=["before", "after"])
def broken(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A home, and a connection that breaks right before or right after each `commit` it is told to."""
    from fanfold.journal.postgres import connection, store

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    class Breaking(connection.PostgresConnection):
        times = 0

        def script(self, statements: str) -> None:
            breaks = statements == "commit" and self.times > 0
            if breaks and request.param == "before":
                self._broken()
            super().script(statements)
            if breaks:
                self._broken()

        def _broken(self) -> None:
            self.times -= 1
            self.open().close()
            raise connection.psycopg.OperationalError("broken on purpose")

    home = store.prepared(server().place())
    return home, Breaking(home.address)


def test_facts_are_applied_once_and_have_their_answers(broken: Any) -> None:
    home, db = broken
    facts = [AddRun(record()), start()]
    db.times = 2
    for more in (NameStep(1, 0, "map"), NameStep(1, 1, "sum")):
        with pytest.raises(StoreAway):
            home.commit(db, facts)
        facts.append(more)  # what has gathered meanwhile
    answers = home.commit(db, facts)
    assert (answers[0], answers[1].attempt, answers[2:]) == (1, 1, [None, None])
    assert home.commit(db, [end(1)]) == [(1,)]
    counts = (
        "select (select count(*) from attempts), (select count(*) from steps), position from store"
    )
    assert db.execute(counts).fetchone()[:2] == (1, 2)
    db.close()
    home.detach()
