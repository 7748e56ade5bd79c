"""One at a time: whoever launches, resumes or relaunches a run holds its lock meanwhile."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from fanfold.errors import AlreadyRunning, StoreError

_LOOK = 0.05


@contextmanager
def acting(store: str, name: str, within: float = 0.0) -> Iterator[None]:
    """For a moment only, and for this process alone: no child inherits the lock, so neither the
    supervisor nor a tmux server that is started meanwhile can keep it. AlreadyRunning when another
    holds it, after that many seconds."""
    file = Path(store, "locks", blake2b(name.encode(), digest_size=8).hexdigest())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"{store}: {error.strerror}; use --store DIR") from error
    try:
        _take(handle, name, time.monotonic() + within)
        yield
    finally:
        os.close(handle)


def _take(handle: int, name: str, until: float) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(_LOOK)
                continue
            what = f"another process is launching or relaunching {name} right now"
            raise AlreadyRunning(f"{what}; see: fanfold status") from None
        except OSError as error:
            raise StoreError(f"the lock of {name}: {error.strerror}; try again") from error
