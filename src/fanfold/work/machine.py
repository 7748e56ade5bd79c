"""Where the number of a process means anything: since this start of this machine, and in this namespace."""

from __future__ import annotations

import os
from functools import cache


@cache
def boot() -> str:
    """The machine's boot id, "" where it has none: a number and a start time have to do then.
    Raises OSError, which is not remembered, when it cannot be read now."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""


def pid_namespace() -> int:
    """Which numbers of processes are seen here: each container has its own. 0 where that is not
    told. Raises OSError when it cannot be told now."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return 0
