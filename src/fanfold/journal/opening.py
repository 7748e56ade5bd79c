"""The only way to a store from outside: by its place, a folder or a URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fanfold.errors import BadInput
from fanfold.journal import memory
from fanfold.journal.contract import Patience, Sessions, Store, StoreView
from fanfold.journal.places import scheme_of, shown
from fanfold.journal.queue import Queue
from fanfold.journal.sqlite import store as sqlite
from fanfold.journal.sqlite.disk import made_private
from fanfold.journal.sqlite.folder import StoreFolder
from fanfold.journal.sqlite.queue import FolderQueue
from fanfold.journal.sqlite.writer import Hook

FOLDER = "folder"
"""The scheme of a queue in a folder."""


def open_store(
    place: str | Path,
    *,
    thread: bool = True,
    after_commit: Hook | None = None,
    patience: Patience = Patience(),
) -> Store:
    """To read and write; what is missing is made. `thread=False` commits on the event loop, which
    is slower, but the same every time; `after_commit` gets the number of each commit (for tests)."""
    if _in_memory(place):
        home = memory.home_of(str(place))
        return sqlite.JournalStore(home, thread=False, after_commit=after_commit, patience=patience)
    if _on_server(place):
        from fanfold.journal.postgres import store  # needs the extra `postgres`

        return store.open_store(
            str(place), thread=thread, after_commit=after_commit, patience=patience
        )
    folder = StoreFolder(_folder(place))
    folder.prepare()
    return sqlite.JournalStore(folder, thread=thread, after_commit=after_commit, patience=patience)


def look(place: str | Path) -> StoreView:
    """Only to read: nothing is created or changed. Raises StoreError where there is no store.

    Trap: a store that nobody had open is seen as it was then; look again to see what came since.
    """
    if _in_memory(place):
        return memory.MemoryView(str(place))
    if _on_server(place):
        from fanfold.journal.postgres import store

        return store.PostgresView(str(place))
    return sqlite.SqliteView(_folder(place))


def exists(place: str | Path) -> bool:
    if _in_memory(place):
        return memory.exists(str(place))
    if _on_server(place):
        from fanfold.journal.postgres import store

        return store.exists(str(place))
    return StoreFolder(_folder(place)).file.exists()


def sessions(place: str | Path) -> Sessions:
    """Who is alive, without opening the store."""
    if _in_memory(place):
        return memory.home_of(str(place)).sessions
    if _on_server(place):
        from fanfold.journal.postgres import store

        return store.PostgresHome(str(place)).sessions
    return StoreFolder(_folder(place)).sessions


def open_queue(place: str | Path, heard: Callable[[str], None] = lambda payload: None) -> Queue:
    """The queue of asks for workers. It is in the schema of a store on PostgreSQL, which is made if
    there is none; or in a folder of this machine, `folder:/PATH`, for runs that are connected to it."""
    if scheme_of(str(place)) == FOLDER:
        return open_folder_queue(_queue_folder(place), heard)
    if not _on_server(place):
        raise BadInput(f"{shown(place)}: a queue for workers is on PostgreSQL; use postgresql://…")
    from fanfold.journal.postgres import queue

    return queue.PostgresQueue(str(place), heard)


def open_folder_queue(folder: Path, heard: Callable[[str], None]) -> FolderQueue:
    """That of a folder, with what only its kind can do."""
    return FolderQueue(folder, heard)


def outlives_process(place: str | Path) -> bool:
    """Whether other processes can open it, now and later."""
    return not _in_memory(place)


def server(place: str | Path) -> str:
    """Where it is, if it is not in a folder of this machine; else ""."""
    return str(place) if _on_server(place) else ""


def files(place: str | Path) -> Path:
    """The local folder for files that belong to the store: workers, spooled inputs, orders."""
    if str(place) == "memory:":
        raise BadInput("memory: has no name, so no file can be kept beside it; use memory:NAME")
    if _on_server(place):
        from fanfold.journal.postgres import store

        return store.prepared(str(place)).files
    if scheme_of(str(place)) == FOLDER:
        return _queue_folder(place)
    return memory.home_of(str(place)).files if _in_memory(place) else _folder(place)


def spool(place: str | Path) -> Path:
    """Where inputs that can be read only once are kept."""
    return made_private(files(place) / "inputs")


def size(place: str | Path) -> int:
    """How many bytes its records take on the disk of this machine."""
    return 0 if scheme_of(str(place)) else sqlite.size(_folder(place))


def shrink(place: str | Path) -> bool:
    """Give the room of what was removed back to the disk, where nobody else has the store open and
    there is room for a copy meanwhile. Whether that was done."""
    return not scheme_of(str(place)) and sqlite.shrink(_folder(place))


def _queue_folder(place: str | Path) -> Path:
    return Path(str(place).removeprefix(f"{FOLDER}:"))


def _in_memory(place: str | Path) -> bool:
    return scheme_of(str(place)) == "memory"


def _on_server(place: str | Path) -> bool:
    return scheme_of(str(place)) in ("postgresql", "postgres")


def _folder(place: str | Path) -> Path:
    if scheme := scheme_of(str(place)):
        raise BadInput(
            f"{shown(place)}: stores of the kind `{scheme}:` are not there;"
            " use a folder, postgresql:// or memory:"
        )
    return Path(place)
