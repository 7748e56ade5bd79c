"""Stores on PostgreSQL: how they are named, and what cannot be kept there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from fanfold.errors import BadInput, StoreAway, StoreError
from fanfold.journal import opening
from fanfold.journal.facts import AddRun, PlanItems
from tests.contract.backends import on_server
from tests.contract.test_store import record
from tests.postgres import server

pytest.importorskip("psycopg")


@pytest.mark.parametrize(
    "place",
    ["postgresql://ann:secret@server/name", "postgresql://server/name?password=secret"],
)
def test_a_password_in_the_address_is_refused_and_not_repeated(place: str) -> None:
    with pytest.raises(BadInput, match="PGPASSWORD") as refused:
        opening.open_store(place)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "mysql", "redis"])
@pytest.mark.parametrize(
    "rest", ["ann:sec/ret@server/name", "ann:s@secret@server", "server?password=secret"]
)
def test_nor_is_one_in_the_address_of_an_unknown_kind(scheme: str, rest: str) -> None:
    for refuse in (opening.open_store, opening.look, opening.open_queue):
        with pytest.raises(BadInput, match=f"^{re.escape(scheme)}://server") as refused:
            refuse(f"{scheme}://{rest}")
        assert "secret" not in str(refused.value) and "ann" not in str(refused.value)


def test_a_schema_has_a_plain_name() -> None:
    with pytest.raises(BadInput, match="not a name of lower-case letters"):
        opening.open_store("postgresql://server/name?schema=a;drop")


def test_a_server_that_is_not_there_is_named_in_one_line() -> None:
    with pytest.raises(
        StoreAway, match=r"^postgresql://127.0.0.1:1/x: the server does not answer"
    ) as away:
        opening.look("postgresql://127.0.0.1:1/x")
    assert "\n" not in str(away.value)


def test_a_role_or_database_that_is_not_there_is_not_waited_for() -> None:
    for place in (server().place().replace("fanfold@", "nobody@"),
                  server().place().replace("/postgres?", "/nothing?")):  # fmt: skip
        with pytest.raises(StoreError, match="does not exist") as refused:
            opening.open_store(place)
        assert not isinstance(refused.value, StoreAway)


def test_a_transaction_that_the_server_has_ended_is_tried_again() -> None:
    """It stood still for too long: a network that swallowed a statement, a process that was stopped."""
    from psycopg import errors

    from fanfold.journal.postgres.connection import named

    assert isinstance(named(errors.IdleInTransactionSessionTimeout("ended"), "place"), StoreAway)


def test_a_newer_store_is_left_alone() -> None:
    place = server().place()
    opening.open_store(place).close()
    server().run(f"update {place.rpartition('=')[2]}.store set version = 99")
    with pytest.raises(StoreError, match="made by a newer fanfold"):
        opening.open_store(place)


def test_an_id_that_the_server_cannot_hold_is_refused_and_the_rest_of_the_group_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def main() -> list[str]:
        store = on_server(tmp_path).open()
        try:
            await store.write(AddRun(record()))
            good = store.write(PlanItems([(1, 0, 0, "good", b"hash")]))
            bad = store.write(PlanItems([(1, 0, 1, "a\0b", b"hash")]))
            await good
            with pytest.raises(BadInput, match="take NUL characters out of ids"):
                await bad
            return store.read.item_ids(1)
        finally:
            store.close()

    assert asyncio.run(main()) == ["good"]


def test_a_store_can_be_read_with_a_role_that_may_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    backend = on_server(tmp_path)
    backend.open().close()
    schema = backend.place.rpartition("=")[2]
    server().run(
        f"create role {schema} login; grant usage on schema {schema} to {schema};"
        f" grant select on all tables in schema {schema} to {schema}"
    )
    view = opening.look(backend.place.replace("fanfold@", f"{schema}@"))
    assert view.read.runs() == []
    view.close()
