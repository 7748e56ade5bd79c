"""Sessions: a lock file for each, held by the process that runs it; the kernel frees it at its death."""

from __future__ import annotations

import fcntl
import os
import secrets
import weakref
from collections.abc import Callable, Collection
from contextlib import suppress
from errno import EACCES, EPERM, EROFS
from pathlib import Path

import msgspec

from fanfold.journal.contract import Life, SessionOwner
from fanfold.journal.sqlite.trouble import unusable
from fanfold.work.machine import boot, pid_namespace

_READ_ONLY = (EACCES, EPERM, EROFS)


class LockedSessions:
    """The sessions of one store, in its folder `live`."""

    def __init__(self, folder: Path, entered: Callable[[str], None] = lambda session: None) -> None:
        """`entered` is called with each new session of this process."""
        self._folder, self._entered = folder, entered
        self._held: dict[str, int] = {}
        self._gone: set[str] = set()  # without a file or a process
        _everyone.add(self)

    def enter(self) -> str:
        """A new session of this process. It counts as alive until `leave`, or death."""
        session = secrets.token_hex(8)
        try:
            self._take(session)
        except OSError as error:
            raise unusable(self._folder.parent, error) from error
        self._entered(session)
        return session

    def leave(self, session: str) -> None:
        handle = self._held.pop(session, None)
        if handle is not None:
            self._file(session).unlink(missing_ok=True)
            os.close(handle)

    def life(self, session: str) -> Life:
        if session in self._held:
            return "alive"
        try:
            handle = self._open(session)
        except (FileNotFoundError, NotADirectoryError):
            return self._life_without_file(session)
        except OSError:
            return "unknown"
        try:
            # Shared, so that two who look at once do not take each other for the owner.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return "alive"
        except OSError:
            return "unknown"
        finally:
            os.close(handle)
        return "dead"

    def _life_without_file(self, session: str) -> Life:
        """Who left has removed it; but somebody else may have, and then its process still holds it."""
        if session in self._gone:
            return "dead"
        try:
            if is_held(f"/{self._folder.name}/{session} (deleted)"):
                return "alive"
        except OSError:
            return "unknown"
        self._gone.add(session)
        return "dead"

    def alive(self, session: str) -> bool:
        return self.life(session) != "dead"

    def bury(self, sessions: Collection[str]) -> None:
        """Their process is gone, and with it whatever it could write."""

    def owner(self, session: str) -> SessionOwner | None:
        if self.life(session) == "dead":
            return None
        try:
            owner = msgspec.json.decode(self._file(session).read_bytes(), type=SessionOwner)
            here = owner.boot == boot() and owner.namespace in (0, pid_namespace())
        except (OSError, msgspec.DecodeError):
            return None
        return owner if here else None

    def move(self, folder: Path) -> None:
        """The store was put back, perhaps elsewhere: the sessions of this process are there again."""
        before, self._held = self._held, {}
        self._folder = folder
        for session, handle in before.items():
            self._take(session)
            os.close(handle)

    def _take(self, session: str) -> None:
        handle = os.open(self._file(session), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(handle, msgspec.json.encode(this_process()))
        except OSError:
            self._file(session).unlink(missing_ok=True)
            os.close(handle)
            raise
        self._held[session] = handle

    def _open(self, session: str) -> int:
        """For writing where that is allowed: some network file systems lock nothing else."""
        try:
            return os.open(self._file(session), os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            return os.open(self._file(session), os.O_RDONLY | os.O_CLOEXEC)

    def _file(self, session: str) -> Path:
        return self._folder / session

    def let_go(self) -> None:
        """In a forked child: close the parent's locks, which stay with the parent. A lock belongs to
        an open file, not to a process, so a child that kept it would keep the session alive."""
        for handle in self._held.values():
            os.close(handle)
        self._held.clear()


def this_process() -> SessionOwner:
    """The start time is the 22nd field of its line; the name before may hold spaces and brackets."""
    try:
        with open("/proc/self/stat", "rb") as file:
            started = int(file.read().rpartition(b")")[2].split()[19])
        return SessionOwner(os.getpid(), started, boot(), pid_namespace())
    except OSError:
        return SessionOwner(os.getpid())


def is_held(ending: str) -> bool:
    """Whether a process that we may look into has a file open whose name, as Linux tells it, ends so. The
    names of others do not matter: who may not be looked into does not share our store."""
    try:
        processes = os.listdir("/proc")
    except FileNotFoundError:  # another system
        return False
    return any(_holds(f"/proc/{one}/fd", ending) for one in processes if one.isdecimal())


def _holds(handles: str, ending: str) -> bool:
    # a process that has just ended, or is another's
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for number in os.listdir(handles):
            with suppress(FileNotFoundError):
                if os.readlink(f"{handles}/{number}").endswith(ending):
                    return True
    return False


_everyone: weakref.WeakSet[LockedSessions] = weakref.WeakSet()


def _after_fork() -> None:
    for sessions in tuple(_everyone):
        sessions.let_go()


os.register_at_fork(after_in_child=_after_fork)
