"""Connections to the server: where it is, what they are set to, and its errors as ours."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors, sql
from psycopg.types import numeric, string

from fanfold.errors import BadInput, StoreAway, StoreBusy, StoreError, StoreFull
from fanfold.journal.postgres.dialect import translate
from fanfold.journal.sqlite.trouble import FULL

ANSWERS = 20_000  # milliseconds in which the network must have taken what was sent
IDLE = 5_000  # milliseconds after which the server ends a transaction whose client has stopped
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_BUSY = (
    errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure,
    errors.QueryCanceled,
)  # fmt: skip
_REFUSED = (
    errors.InvalidPassword, errors.InvalidAuthorizationSpecification, errors.InvalidCatalogName,
    errors.InsufficientPrivilege, errors.InvalidSchemaName, errors.UndefinedTable,
)  # fmt: skip


_DENIED = (
    "does not exist", "authentication failed", "pg_hba.conf", "no password supplied",
    "certificate verify failed", "server certificate for", "does not support SSL",
)  # fmt: skip
"""How a server says that it will not let us in, and libpq that it does not trust that server; a connection
that fails has no code."""


class _WholeNumber(numeric.NumericBinaryLoader):
    """Sums of whole numbers come as `numeric`."""

    def load(self, data: Any) -> int:  # type: ignore[override]
        return int(super().load(data))


_adapters = psycopg.adapt.AdaptersMap(psycopg.adapters)
_adapters.register_dumper(int, numeric.Int8BinaryDumper)
_adapters.register_dumper(str, string.StrBinaryDumper)
_adapters.register_loader("numeric", _WholeNumber)


_OPTIONS: dict[str, Any] = {
    "autocommit": True, "context": _adapters, "connect_timeout": 5, "application_name": "fanfold",
    "keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": ANSWERS,
}  # fmt: skip


class Address:
    """`postgresql://USER@HOST/NAME?schema=fanfold`, as a user gives it, and all else that libpq knows."""

    def __init__(self, place: str) -> None:
        parts = urlsplit(place)
        asked = dict(parse_qsl(parts.query))
        if parts.password is not None or "password" in asked:
            raise BadInput(
                f"{parts.scheme}://{parts.hostname or ''}{parts.path}: a password in the URL of a store"
                " would be printed and recorded; use ~/.pgpass, PGPASSFILE or PGPASSWORD"
            )
        self.place, self.schema = place, asked.pop("schema", "fanfold")
        if not _NAME.fullmatch(self.schema):
            raise BadInput(f"{place}: schema={self.schema} is not a name of lower-case letters")
        self.url = urlunsplit(parts._replace(query=urlencode(asked)))

    def connect(self, wait: float) -> psycopg.Connection[Any]:
        """`wait`: seconds that a statement waits for those of others."""
        connection = psycopg.connect(self.url, cursor_factory=psycopg.RawCursor, **_OPTIONS)
        connection.execute(self._settings(wait))
        return connection

    async def connect_async(self, wait: float) -> psycopg.AsyncConnection[Any]:
        """The same for an event loop."""
        connection = await psycopg.AsyncConnection.connect(
            self.url, cursor_factory=psycopg.AsyncRawCursor, **_OPTIONS
        )
        await connection.execute(self._settings(wait))
        return connection

    def _settings(self, wait: float) -> sql.SQL:
        return sql.SQL(
            f"set search_path = {self.schema}; set synchronous_commit = on;"
            f" set idle_in_transaction_session_timeout = {IDLE}; set timezone = 'UTC';"
            f" set lock_timeout = {max(1, int(wait * 1000))};"
            " set tcp_keepalives_idle = 20; set tcp_keepalives_interval = 5;"
            f" set tcp_keepalives_count = 4; set tcp_user_timeout = {2 * ANSWERS}"
        )


class PostgresConnection:
    """One that is made again when it was lost, and in a forked child, whose parent uses it. Not for two
    threads at once."""

    def __init__(self, address: Address, wait: float = 60.0) -> None:
        self.address, self._wait = address, wait
        self._connection: psycopg.Connection[Any] | None = None
        self._process = 0  # that made it

    def open(self) -> psycopg.Connection[Any]:
        if self.lost:
            self.close()
            self._connection, self._process = self.address.connect(self._wait), os.getpid()
        assert self._connection is not None
        return self._connection

    def execute(self, question: str, given: Any = ()) -> Any:
        statement = translate(question)
        connection = self.open()
        return connection.execute(statement.text, statement.bind(given), binary=True)

    def executemany(self, question: str, given: Iterable[Any]) -> None:
        for values in given:
            self.execute(question, values)

    def script(self, statements: str) -> None:
        """Several statements at once, without parameters, in one round trip."""
        self.open().execute(sql.SQL(statements))

    @property
    def lost(self) -> bool:
        mine = self._connection is not None and self._process == os.getpid()
        return not mine or self._connection.closed  # type: ignore[union-attr]

    def rollback(self) -> None:
        with suppress(psycopg.Error):
            if not self.lost:
                self.script("rollback")

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            with suppress(psycopg.Error):
                connection.close()

    __del__ = close


class Questions:
    """Statements that only read: asked again when the connection was lost, for `patience` seconds."""

    def __init__(self, connection: PostgresConnection, place: str, patience: float) -> None:
        self._connection, self._place, self._patience = connection, place, patience

    def execute(self, question: str, given: Any = ()) -> Any:
        until = time.monotonic() + self._patience
        while True:
            try:
                with server_errors(self._place):
                    return self._connection.execute(question, given)
            except StoreAway:
                self._connection.close()
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def flaws(self) -> list[str]:
        """The server looks after its own files."""
        return []

    def verify(self, run: int, results: bool = False) -> None:
        """The server does, if its pages have checksums."""

    def damaged_attempts(self, numbers: Sequence[int]) -> set[int]:
        """Of these attempts, or of all."""
        return set()


@contextmanager
def server_errors(place: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise named(error, place) from error


def named(error: psycopg.Error, place: str) -> StoreError:
    said = str(error).strip().partition("\n")[0]
    match error:
        case errors.DiskFull():
            return StoreFull(f"{place}: {FULL} the run")
        case _ if isinstance(error, _BUSY):
            return StoreBusy(f"{place}: locked by another process; try again when it is done")
        case _ if isinstance(error, _REFUSED):
            return StoreError(f"{place}: {said}")
        case psycopg.OperationalError() if any(words in said for words in _DENIED):
            return StoreError(f"{place}: refused ({said})")
        case (
            psycopg.OperationalError()
            | psycopg.InterfaceError()
            | errors.ReadOnlySqlTransaction()
            | errors.IdleInTransactionSessionTimeout()
        ):
            return StoreAway(f"{place}: the server does not answer ({said})")
        case _:
            return StoreError(f"{place}: {said}")
