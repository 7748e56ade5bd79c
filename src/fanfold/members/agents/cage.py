"""What a worker cannot slip out of: a control group of its own where one can be had, and in any case
a host to which every orphan below it is handed.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

_NAME, _SUBREAPER = 15, 36  # of prctl


def adopt_orphans() -> bool:
    """From now on, processes below us that lose their parent become our children (Linux).

    So one that made a session of its own, or that was forked twice, is still found below us.
    """
    return _prctl(_SUBREAPER, 1)


def set_process_name(name: bytes) -> None:
    """The name that `ps` and `top` show (Linux); at most 15 bytes."""
    _prctl(_NAME, ctypes.c_char_p(name))


def _prctl(option: int, value: int | ctypes.c_char_p) -> bool:
    if sys.platform != "linux":
        return False
    try:
        library = ctypes.CDLL(None, use_errno=True)
        given = ctypes.c_ulong(value) if isinstance(value, int) else value
        done = library.prctl(option, given, 0, 0, 0)
    except (OSError, AttributeError):
        return False
    return bool(done == 0)


class ControlGroup:
    """A control group (cgroup v2) that holds one program and all it starts.

    Nothing is limited by it; it only knows who is inside, and ends them all in one step.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def take(self, pid: int) -> None:
        """Put a process in; what it starts from now on is inside too. OSError: not allowed."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def pids(self) -> list[int]:
        with suppress(OSError, ValueError):
            return [int(line) for line in (self.path / "cgroup.procs").read_text().split()]
        return []

    def kill(self) -> None:
        with suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def remove(self, seconds: float = 1.0) -> None:
        """Take it away. It must be empty, which it is a moment after the last one has ended."""
        until = time.monotonic() + seconds
        while self.path.exists() and time.monotonic() < until:
            with suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.01)


def make_group(name: str) -> ControlGroup | None:
    """A new one below the group that we are in; None where this is not allowed, or not known."""
    above = own_group()
    if above is None:
        return None
    cage = ControlGroup(above / name)
    try:
        cage.path.mkdir()
    except OSError:
        return None
    if os.access(cage.path / "cgroup.kill", os.W_OK):
        return cage
    cage.remove()
    return None


def own_group() -> Path | None:
    """The folder of the control group (version 2) that this process is in."""
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    inside = next((line[3:] for line in groups if line.startswith("0::")), None)
    mounted = next((line for line in mounts if " - cgroup2 " in line), None)
    if inside is None or inside.startswith("/..") or mounted is None:
        return None
    _, _, _, root, point, *_ = mounted.split()
    return Path(point) / os.path.relpath(inside, root) if _is_below(inside, root) else None


def _is_below(inside: str, root: str) -> bool:
    """A container may see only a part of the groups, and its own may lie elsewhere."""
    return root == "/" or inside == root or inside.startswith(f"{root}/")
