"""The only way to a store from outside: by its place, a folder or a URL."""

from __future__ import annotations

from pathlib import Path

from fanfold.errors import BadInput
from fanfold.journal.contract import Patience, Sessions, Store, StoreView
from fanfold.journal.places import scheme_of
from fanfold.journal.sqlite import permissions
from fanfold.journal.sqlite import store as sqlite
from fanfold.journal.sqlite.writer import Hook


def open_store(
    place: str | Path,
    *,
    thread: bool = True,
    after_commit: Hook | None = None,
    patience: Patience = Patience(),
) -> Store:
    """To read and write; what is missing is made. `thread=False` commits on the event loop, which
    is slower, but the same every time; `after_commit` gets the number of each commit (for tests)."""
    folder = _folder(place)
    return sqlite.SqliteStore(folder, thread=thread, after_commit=after_commit, patience=patience)


def look(place: str | Path) -> StoreView:
    """Only to read: nothing is created or changed. Raises StoreError where there is no store.

    Trap: a store that nobody had open is seen as it was then; look again to see what came since.
    """
    return sqlite.SqliteView(_folder(place))


def exists(place: str | Path) -> bool:
    return sqlite.exists(_folder(place))


def sessions(place: str | Path) -> Sessions:
    """Who is alive, without opening the store."""
    return sqlite.sessions_of(_folder(place))


def files(place: str | Path) -> Path:
    """The local folder for files that belong to the store: workers, spooled inputs, orders."""
    return _folder(place)


def spool(place: str | Path) -> Path:
    """Where inputs that can be read only once are kept."""
    folder = files(place) / "inputs"
    permissions.make(folder)
    return folder


def size(place: str | Path) -> int:
    """How many bytes its records take."""
    return sqlite.size(_folder(place))


def shrink(place: str | Path) -> bool:
    """Give the room of what was removed back to the disk, where nobody else has the store open and
    there is room for a copy meanwhile. Whether that was done."""
    return sqlite.shrink(_folder(place))


def _folder(place: str | Path) -> Path:
    if scheme := scheme_of(str(place)):
        raise BadInput(f"{place}: there is no store of the kind `{scheme}:` yet; use --store DIR")
    return Path(place)
