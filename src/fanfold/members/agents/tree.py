"""A program and all it has started, seen from its host, which is their parent or becomes it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from fanfold.members.agents import processes
from fanfold.members.agents.cage import ControlGroup
from fanfold.members.agents.processes import ProcessRow
from fanfold.members.agents.worker import Process

STUBBORN = 15.0  # seconds until a process that cannot be killed is left alone
_SOON = 0.01


class ProcessTree:
    """`code` is how the program ended, None while it runs. `firm`: orphans are handed to us; if not,
    those that left the program's process group cannot be found any more.
    """

    def __init__(self, program: Process, cage: ControlGroup | None, *, firm: bool) -> None:
        self.program, self.cage, self._firm = program, cage, firm
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
        until = time.monotonic() + STUBBORN
        left: list[ProcessRow] = []
        while not self.gone():
            if self.cage is not None:
                self.cage.kill()
            with suppress(OSError):
                left = self.rows()
                processes.send_all(left, signal.SIGKILL)
            if time.monotonic() >= until:
                return left
            pause(_SOON)
        return []
