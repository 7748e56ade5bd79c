"""Which process holds the write lock of a store, where the kernel tells."""

from __future__ import annotations

import os
from pathlib import Path

_WRITE_LOCK = 120  # the byte of the -shm file that SQLite locks to write in WAL mode
_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "waiting for the disk"}


def holder(file: Path) -> str | None:
    """In words: `process 17 (python, stopped)`. None: nobody knows.

    Read from /proc/locks, without opening the file: closing it would drop our own locks on it.
    """
    try:
        shm = os.stat(file.with_name(file.name + "-shm"))
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    device = f"{os.major(shm.st_dev):02x}:{os.minor(shm.st_dev):02x}:{shm.st_ino}"
    for line in lines:
        _, kind, _, mode, pid, where, first, last = (line.replace("-> ", "").split() + [""] * 8)[:8]
        if (kind, mode, where) == ("POSIX", "WRITE", device) and _covers(first, last):
            return None if pid in ("-1", "0", str(os.getpid())) else _named(pid)
    return None


def _covers(first: str, last: str) -> bool:
    return int(first) <= _WRITE_LOCK and (last == "EOF" or int(last) >= _WRITE_LOCK)


def _named(pid: str) -> str:
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition(" (")[2].rpartition(") ")
    except OSError:
        return f"process {pid}"
    state = _STATES.get(rest[:1])
    return f"process {pid} ({name}{', ' + state if state else ''})"
