"""Orders of the operator to a supervisor, and the lock of those who launch, resume or relaunch a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from fanfold.errors import AlreadyRunning, StoreError

Order = Literal["kill", "hand-over"]
KILLED = "killed by the operator"
_REFUSED, _STOPPING = "refused", "stopping"
_POLL = 0.05  # seconds


class Orders:
    """One file for each order, in a folder of the session that it is for. The folder is there as long
    as a supervisor reads it, so a run in the foreground has none."""

    def __init__(self, store: Path, session: str) -> None:
        self._folder = store / "orders" / session

    @property
    def accepted(self) -> bool:
        """A supervisor reads them, or did until it was killed with -9."""
        return self._folder.is_dir()

    def open(self, alive: Callable[[str], bool]) -> None:
        """Orders are accepted from now on. Folders of sessions that are not alive are removed."""
        for folder in self._folder.parent.glob("*"):
            if not alive(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def give(self, order: Order) -> None:
        """Trap: the supervisor may leave at this very moment; then it is not read."""
        with suppress(FileNotFoundError):
            (self._folder / _REFUSED).unlink(missing_ok=True)
            (self._folder / order).touch()

    def given(self, order: Order) -> bool:
        return (self._folder / order).exists()

    def refuse(self, order: Order, why: str) -> None:
        """The order is withdrawn, and whoever gave it can read why."""
        (self._folder / order).unlink(missing_ok=True)
        self._write(_REFUSED, why)

    def refusal(self) -> str | None:
        return self._read(_REFUSED)

    def stop(self, why: str) -> None:
        """Note that the supervisor starts nothing more and waits for what is under way."""
        with suppress(OSError):
            self._write(_STOPPING, why)

    def stopping(self) -> str | None:
        """Why it starts nothing more; None while it does."""
        return self._read(_STOPPING)

    def _write(self, name: str, why: str) -> None:
        (self._folder / f".{name}").write_text(why, encoding="utf-8")
        (self._folder / f".{name}").replace(self._folder / name)

    def _read(self, name: str) -> str | None:
        try:
            return (self._folder / name).read_text(encoding="utf-8")
        except OSError:
            return None


@contextmanager
def run_lock(store: str, name: str, within: float = 0.0) -> Iterator[None]:
    """Held for a moment only, and by this process alone: no child inherits it, so neither the
    supervisor nor a tmux server that is started meanwhile can keep it. AlreadyRunning when another
    process still holds it after `within` seconds."""
    file = Path(store, "locks", blake2b(name.encode(), digest_size=8).hexdigest())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"{store}: {error.strerror}; use --store DIR") from error
    try:
        _lock(handle, name, time.monotonic() + within)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, name: str, until: float) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(_POLL)
                continue
            what = f"another process is launching or relaunching {name} right now"
            raise AlreadyRunning(f"{what}; see: fanfold status") from None
        except OSError as error:
            raise StoreError(f"the lock of {name}: {error.strerror}; try again") from error
