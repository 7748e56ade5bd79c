"""A program and all that it has started: found and ended together.

From inside, by its host: a control group where one can be had, else as the parent to which every
orphan below it is handed. From outside, when the host itself was killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from errno import EPERM
from pathlib import Path

from fanfold.members.agents import processes
from fanfold.members.agents.processes import ProcessRow
from fanfold.members.agents.worker import HostRecord, Process
from fanfold.work.machine import boot
from fanfold.work.started import PARENT

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

    def add(self, pid: int) -> None:
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
    group = ControlGroup(above / name)
    try:
        group.path.mkdir()
    except OSError:
        return None
    if os.access(group.path / "cgroup.kill", os.W_OK):
        return group
    group.remove()
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


GIVE_UP = 15.0  # seconds until a process that cannot be killed is left alone
_SOON = 0.01


class ProcessTree:
    """`code` is how the program ended, None while it runs. `firm`: orphans are handed to us; if not,
    those that left the program's process group cannot be found any more.
    """

    def __init__(self, program: Process, group: ControlGroup | None, *, firm: bool) -> None:
        self.program, self.group, self._firm = program, group, firm
        self.code: int | None = None

    def reap(self) -> bool:
        """Take note of all that have ended. True: we have no child any more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if not pid:
                return False
            if pid == self.program.pid:
                self.code = os.waitstatus_to_exitcode(status)

    def gone(self) -> bool:
        """Whether nothing is left. A host without a child has nobody below it. Who cannot look
        does not know, so something may be left."""
        try:
            return self.reap() and (self._firm or not self.rows())
        except OSError:
            return False

    def rows(self) -> list[ProcessRow]:
        """All that run, as of now; those may be missing that are started at this moment."""
        seen = processes.table()
        found = processes.below(seen, os.getpid())
        if not self._firm:
            known = {row.pid for row in found}
            group = (row for row in seen if row.group == self.program.pid and row.pid not in known)
            found += [row for row in group if row.state not in processes.ENDED]
        return found

    def ask(self) -> None:
        """Tell the program, and only it, to end. One that is stopped hears of it too."""
        processes.send(self.program, signal.SIGTERM)
        processes.send(self.program, signal.SIGCONT)

    def clear(self, pause: Callable[[float], None] = time.sleep) -> list[ProcessRow]:
        """End all that run, again and again until none is left, whatever they start meanwhile.

        What comes back could not be ended: it belongs to somebody else, or hangs in the kernel.
        """
        until = time.monotonic() + GIVE_UP
        left: list[ProcessRow] = []
        while not self.gone():
            if self.group is not None:
                self.group.kill()
            with suppress(OSError):
                left = self.rows()
                processes.send_all(left, signal.SIGKILL)
            if time.monotonic() >= until:
                return left
            pause(_SOON)
        return []


GIVE_UP_OUTSIDE = 2.0  # seconds until what cannot be ended from outside is left alone


def find_orphans(record: HostRecord, span: str) -> list[ProcessRow]:
    """The program, all below it and in its session; what is in its control group; and, as a last net, what
    was started with its span, to the letter.

    Once the program is gone its number may be another's: then only group and span count. After a
    restart of the machine there are none. Raises OSError where they cannot be seen.
    """
    if record.program.boot != boot():
        return []
    if processes.elsewhere(record.program):
        raise PermissionError(EPERM, "of another namespace of processes", str(record.program.pid))
    seen = processes.table()
    found = {row.pid: row for row in processes.marked(seen, PARENT, span)}
    root = record.program.pid
    if processes.life(record.program) == "alive":
        own = [row for row in seen if root in (row.pid, row.session, row.group)]
        found |= {row.pid: row for row in (*processes.below(seen, root), *own)}
    if record.group:
        inside = set(ControlGroup(Path(record.group)).pids())
        found |= {row.pid: row for row in seen if row.pid in inside}
    found.pop(os.getpid(), None)
    return [row for row in found.values() if row.state not in processes.ENDED]


def end_orphans(record: HostRecord, span: str) -> bool:
    """End them all. False: some cannot be ended, or it cannot be told which they are."""
    try:
        return _sweep(record, span)
    except OSError:
        return False


def _sweep(record: HostRecord, span: str) -> bool:
    """They are stopped first, until no new one turns up: once the program is gone its children could
    not be told from others.
    """
    until = time.monotonic() + GIVE_UP_OUTSIDE
    held: dict[int, ProcessRow] = {}
    while new := [row for row in find_orphans(record, span) if row.pid not in held]:
        processes.send_all(new, signal.SIGSTOP)
        held |= {row.pid: row for row in new}
        if time.monotonic() >= until:
            break
    while left := [row for row in held.values() if processes.runs(row)]:
        processes.send_all(left, signal.SIGKILL)
        if time.monotonic() >= until:
            return False
        time.sleep(_SOON)
    remove_group(record)
    return True


def remove_group(record: HostRecord) -> None:
    """Take an empty group away, as its host would have done."""
    if record.group:
        ControlGroup(Path(record.group)).remove(0.1)
