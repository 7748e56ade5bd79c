"""Which process a session belongs to, for those who have to tell it something."""

from __future__ import annotations

import os

import msgspec


class Owner(msgspec.Struct, frozen=True):
    """One process, known for certain: numbers are used again, but not with the same start time
    (in ticks since the boot of the machine, which has the id `boot`). Without a /proc, 0 and ""."""

    pid: int
    started: int = 0
    boot: str = ""


def this_process() -> Owner:
    """The start time is the 22nd field of its line; the name before may hold spaces and brackets."""
    try:
        with open("/proc/self/stat", "rb") as file:
            started = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            return Owner(os.getpid(), started, boot.read().strip())
    except OSError:
        return Owner(os.getpid())
