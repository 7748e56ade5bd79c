"""Starting a program behind a latch: it is there, with its number, before it does anything.

So its record can be durable first, and no program ever runs that nobody could find again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

_DEFAULT = ("SIGTERM", "SIGINT", "SIGHUP", "SIGCHLD", "SIGPIPE", "SIGXFSZ")
_NOT_STARTED = 127


class Program(NamedTuple):
    """What to start: its words, its folder, its variables, and the three files it gets."""

    words: Sequence[str]
    folder: str
    env: Mapping[bytes, bytes]
    files: tuple[int, int, int]


class HeldProgram:
    """A child that waits to become the program. If we die before `lift`, it ends without a trace.

    Forks, so only for a process that has one thread.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        behind, self._lifter = os.pipe()
        self._complaint, complain = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._lifter)
            _wait_and_become(program, behind, complain)
        os.close(behind)
        os.close(complain)

    def lift(self) -> OSError | None:
        """Let it go. What comes back is why it could not become the program: `filename` is the
        program's or the folder's, whichever was at fault."""
        with suppress(BrokenPipeError):
            os.write(self._lifter, b"!")
        os.close(self._lifter)
        with open(self._complaint, "rb") as pipe:
            said = pipe.read().decode()
        if not said:
            return None
        number, _, what = said.partition(" ")
        at_fault = self._program.folder if what == "folder" else self._program.words[0]
        return OSError(int(number), os.strerror(int(number)), at_fault)

    def drop(self) -> None:
        """Let it not go: the child ends."""
        os.close(self._lifter)
        os.close(self._complaint)


def _wait_and_become(program: Program, behind: int, complain: int) -> NoReturn:
    """In the child. Whatever goes wrong, it must not come back into the code of its parent."""
    what = "program"
    try:
        signal.set_wakeup_fd(-1)
        for name in _DEFAULT:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setsid()
        if not os.read(behind, 1):
            os._exit(_NOT_STARTED)
        what = "folder"
        os.chdir(program.folder)
        what = "program"
        for number, file in enumerate(program.files):
            os.dup2(file, number)
        os.execvpe(program.words[0], list(program.words), program.env)
    except OSError as error:
        os.write(complain, f"{error.errno} {what}".encode())
    finally:
        os._exit(_NOT_STARTED)
