"""A store on PostgreSQL, behind the contract: open to write, or only to read."""

from __future__ import annotations

from fanfold.journal.contract import Patience
from fanfold.journal.postgres.home import PostgresHome, exists, prepare
from fanfold.journal.sqlite.log import Following
from fanfold.journal.sqlite.store import JournalStore, Reader
from fanfold.journal.sqlite.writer import Hook

__all__ = ["PostgresHome", "PostgresView", "exists", "open_store", "prepared"]


def open_store(
    place: str, *, thread: bool, after_commit: Hook | None, patience: Patience
) -> JournalStore:
    home = prepared(place)
    return JournalStore(home, thread=thread, after_commit=after_commit, patience=patience)


def prepared(place: str) -> PostgresHome:
    """What is missing is made."""
    prepare(place)
    return PostgresHome(place)


class PostgresView(Following):
    """A store opened only to read."""

    warnings: tuple[str, ...] = ()

    def __init__(self, place: str) -> None:
        home = PostgresHome(place)
        self._home, self._reading = home, home.connect(readonly=True)
        self.read: Reader = Reader(home.statements(self._reading))
        self.place, self.files = place, home.files
        self.sessions, self.sent = home.sessions, home.sent

    def close(self) -> None:
        self._home.disconnect(self._reading)
        self._home.detach()
