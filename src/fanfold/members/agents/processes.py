"""The machine's processes: which is which, who started whom, and a signal that hits the right one.

Read from /proc, whose start times do not move with the clock; see docs/decisions/0024. Where there
is none (macOS), psutil says the same.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from fanfold.members.agents.worker import Process
from fanfold.work.machine import boot, pid_namespace

if TYPE_CHECKING:
    import psutil

_BETWEEN = 2.0  # seconds until a process that is about to start a program is given up
ENDED = "ZXx"  # states of one that has ended but was not yet reaped
_PROC = os.path.exists("/proc/self/stat")
Life = Literal["alive", "dead", "unknown"]
_STATES = {"zombie": "Z", "dead": "X"}  # psutil's words for those that have ended


class ProcessRow(NamedTuple):
    """One process. `started`: ticks since the machine started, or milliseconds since the epoch."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: int
    name: str


def table() -> list[ProcessRow]:
    """All processes that can be seen. Those that come and go meanwhile may be missing. Raises
    OSError when the machine does not let us look, as without a free file handle."""
    if not _PROC:
        return by_psutil()
    rows = []
    for name in os.listdir("/proc"):
        with suppress(PermissionError):
            row = look(int(name)) if name.isdecimal() else None
            if row is not None:
                rows.append(row)
    return rows


def look(pid: int) -> ProcessRow | None:
    """One process; None when there is no such. Raises OSError when that is unknown."""
    if not _PROC:
        return next((row for row in by_psutil(pid) if row.pid == pid), None)
    try:
        handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _read(os.read(handle, 4096))
        finally:
            os.close(handle)
    except (FileNotFoundError, ProcessLookupError):
        return None


def _read(stat: bytes) -> ProcessRow:
    """The line `PID (NAME) STATE PARENT GROUP SESSION …`; a name may hold spaces and brackets."""
    front, _, back = stat.rpartition(b") ")
    pid, _, name = front.partition(b" (")
    state, parent, group, session, *rest = back.split()
    return ProcessRow(
        int(pid), int(parent), int(group), int(session), state.decode(), int(rest[15]),
        name.decode(errors="replace"),
    )  # fmt: skip


def by_psutil(pid: int | None = None) -> list[ProcessRow]:
    """The same by psutil, of all processes or of one. What belongs to others may be missing; of one
    it raises PermissionError then: that it may not be seen does not mean that it is gone."""
    import psutil

    rows = []
    for process in psutil.process_iter() if pid is None else _one(pid):
        try:
            with process.oneshot():
                rows.append(ProcessRow(
                    process.pid, process.ppid(), os.getpgid(process.pid), os.getsid(process.pid),
                    _STATES.get(process.status(), "S"), round(process.create_time() * 1000),
                    process.name(),
                ))  # fmt: skip
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
        except (psutil.AccessDenied, PermissionError) as error:
            if pid is not None:
                raise PermissionError(1, "may not be looked at", str(pid)) from error
    return rows


def _one(pid: int) -> list[psutil.Process]:
    import psutil

    try:
        return [psutil.Process(pid)]
    except psutil.NoSuchProcess:
        return []
    except psutil.AccessDenied as error:
        raise PermissionError(1, "may not be looked at", str(pid)) from error


# ── one process, known for certain ──


def identify(pid: int) -> Process | None:
    row = look(pid)
    return None if row is None else _known(row)


def elsewhere(process: Process) -> bool:
    """Its number is of another namespace of this machine, as of another container's: here it is
    nobody's, or another's. Raises OSError when that cannot be told."""
    here = process.namespace in (0, pid_namespace())
    return not here and process.boot == boot()


def life(process: Process) -> Life:
    """Whether it still runs. One that has ended but was not yet reaped does not. `unknown`: the
    machine does not let us look, as without a free file handle or into another namespace."""
    try:
        if process.boot != boot():
            return "dead"
        if elsewhere(process):
            return "unknown"
        row = look(process.pid)
    except OSError:
        return "unknown"
    same = row is not None and row.started == process.started and row.state not in ENDED
    return "alive" if same else "dead"


def living(process: Process) -> bool:
    """Alive, or not known: only what is surely dead counts as dead."""
    return life(process) != "dead"


def send(process: Process, number: int) -> bool:
    """Signal this very process, never another that has got its number. False: it is gone, it
    belongs to somebody else, or whether it is the same cannot be told."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        handle = -1
    try:
        if life(process) != "alive":
            return False
        if handle < 0:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
        return True
    except OSError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)


def send_all(rows: Iterable[ProcessRow], number: int) -> None:
    for row in rows:
        send(_known(row), number)


def runs(row: ProcessRow) -> bool:
    """Whether one that was seen before still does."""
    return living(_known(row))


def _known(row: ProcessRow) -> Process:
    return Process(row.pid, row.started, boot(), pid_namespace())


# ── who belongs to whom ──


def below(rows: Collection[ProcessRow], root: int) -> list[ProcessRow]:
    """The children of `root`, their children, and so on; not those that have ended."""
    children: dict[int, list[ProcessRow]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append(row)
    found, queue = [], [root]
    while queue:
        for row in children.pop(queue.pop(), ()):
            queue.append(row.pid)
            if row.state not in ENDED:
                found.append(row)
    return found


def marked(rows: Iterable[ProcessRow], name: str, value: str) -> list[ProcessRow]:
    """Those that were started with exactly this variable: `run:1` is not found for `run:12`. Raises
    OSError where that cannot be told of one."""
    wanted = f"{name}={value}".encode()
    return [row for row in rows if wanted in _environment(row.pid) and row.state not in ENDED]


def _environment(pid: int) -> list[bytes]:
    """What it was started with; nothing where that may not be seen."""
    if not _PROC:
        import psutil

        try:
            return [
                f"{name}={value}".encode() for name, value in psutil.Process(pid).environ().items()
            ]
        except psutil.Error:
            return []
    until = time.monotonic() + _BETWEEN
    with suppress(PermissionError, FileNotFoundError, ProcessLookupError):
        while not (found := _read_environment(pid)) and _between_programs(pid):
            if time.monotonic() >= until:
                raise TimeoutError(f"process {pid} has been about to start a program for long")
            time.sleep(0.001)
        return found.split(b"\0")
    return []


def _read_environment(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


def _between_programs(pid: int) -> bool:
    """Its environment is empty, but not for good: for a moment within `execve` the memory of the new
    program is there, and what it is given is not yet. Its code is entered there last of all. Neither
    kernel threads nor the dead have memory."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    memory, code, begin, end = (int(fields[place]) for place in (20, 24, 47, 48))
    return memory > 0 and (code == 0 or end > begin)
