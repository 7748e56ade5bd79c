"""A program whose host was killed: what is left of it, found and ended from outside."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from fanfold.members.agents import processes
from fanfold.members.agents.cage import ControlGroup
from fanfold.members.agents.processes import ProcessRow
from fanfold.members.agents.worker import HostRecord
from fanfold.work.member import PARENT

STUBBORN = 2.0  # seconds until what cannot be ended is left alone
_SOON = 0.01


def find_orphans(record: HostRecord, span: str) -> list[ProcessRow]:
    """The program, all below it and in its session; what is in its cage; and, as a last net, what
    was started with its span, to the letter.

    Once the program is gone its number may be another's: then only cage and span count. After a
    restart of the machine there are none.
    """
    if record.program.boot != processes.boot():
        return []
    seen = processes.table()
    found = {row.pid: row for row in processes.marked(seen, PARENT, span)}
    root = record.program.pid
    if processes.life(record.program) == "alive":
        own = [row for row in seen if root in (row.pid, row.session, row.group)]
        found |= {row.pid: row for row in (*processes.below(seen, root), *own)}
    if record.cage:
        inside = set(ControlGroup(Path(record.cage)).pids())
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
    until = time.monotonic() + STUBBORN
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
    """Take an empty cage away, as its host would have done."""
    if record.cage:
        ControlGroup(Path(record.cage)).remove(0.1)
