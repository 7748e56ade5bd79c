"""What a database is in, as the writer and the store see it: a folder on a disk, memory, a server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from fanfold.errors import StoreBusy
from fanfold.journal.contract import SentMarks, Sessions
from fanfold.journal.facts import Fact
from fanfold.journal.sqlite.log import Log
from fanfold.journal.sqlite.unsaved import SideFile


class Backing(Protocol):
    """What the writer needs of it."""

    @property
    def file(self) -> Path | str:
        """How it is named in messages."""

    @property
    def saved_elsewhere(self) -> bool:
        """It was deleted or replaced, and its content is in another file now."""

    @property
    def was_displaced(self) -> bool: ...

    @property
    def log(self) -> Log:
        """Of this process's commits."""

    def connect(self, *, readonly: bool = False, wait: float = 60.0) -> Any:
        """`wait`: seconds that a statement waits for those of others."""

    def disconnect(self, db: Any) -> None: ...

    def commit(self, db: Any, facts: list[Any], *, keep: bool = True) -> list[Any]:
        """One transaction; its answers. A StoreError: not now. Any other: a fact that cannot be held.
        Without `keep` it is only tried, and nothing of it stays."""

    def busy(self, error: StoreBusy) -> str:
        """Why nothing can be written now, in words."""

    def side_file(self) -> SideFile | None:
        """Where facts go that the database does not take."""

    def displaced(self) -> bool:
        """Whether the path is no longer that of the store that is open."""

    def find_again(self, db: Any) -> str:
        """The store was moved, or deleted: then its content is put back. Returns what to report."""

    def secure(self, starts: int) -> bool:
        """Whether the replies of so many more calls will find room, even if the disk fills up now."""

    def drop_ballast(self) -> bool:
        """Give up the spare room, so that what is in progress can still be recorded."""

    def committed(self, facts: Sequence[Fact], answers: Sequence[Any]) -> None:
        """Called after each commit."""


class ReadConnection(Protocol):
    """A connection to read from, whose errors are ours."""

    def execute(self, question: str, given: Any = ()) -> Any: ...

    def flaws(self) -> list[str]:
        """What is wrong with the database itself, as far as that can be known."""

    def verify(self, run: int, results: bool = False) -> None:
        """StoreError: a row of that run is damaged. With `results` its items, outcomes and replies too."""

    def damaged_attempts(self, numbers: Sequence[int]) -> set[int]:
        """Of these attempts, or of all."""


class Home(Backing, Protocol):
    """All that a store needs of where its database is."""

    @property
    def place(self) -> str: ...

    @property
    def files(self) -> Path: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def sent(self) -> SentMarks: ...

    def statements(self, db: Any) -> ReadConnection:
        """To read with, over a connection."""

    def attach(self, db: Any) -> tuple[str, ...]:
        """From here on this process writes. Returns what the operator should know, once."""

    def left_behind(self) -> AbstractContextManager[list[Fact]]:
        """The facts that dead writers could not save; they are applied in the block."""

    def detach(self) -> None: ...
