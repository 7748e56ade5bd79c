"""The start of a worker's program, between its host and whoever starts that.

The program is held until its record is durable, so none ever runs that nobody could find again. The
host reports through a pipe, which also tells each of them whether the other is still there.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

import msgspec

_DEFAULT = ("SIGTERM", "SIGINT", "SIGHUP", "SIGCHLD", "SIGPIPE", "SIGXFSZ")
_NOT_STARTED = 127


class Program(NamedTuple):
    """What to start: its words, its folder, its variables, and the three files it gets."""

    words: Sequence[str]
    folder: str
    env: Mapping[bytes, bytes]
    files: tuple[int, int, int]


class HeldProgram:
    """A child that waits to become the program. If we die before `release`, it ends without a trace.

    Forks, so only for a process that has one thread.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        gate, self._release = os.pipe()
        self._failure, failure = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._release)
            _wait_and_exec(program, gate, failure)
        os.close(gate)
        os.close(failure)

    def release(self) -> OSError | None:
        """Let it go. What comes back is why it could not become the program: `filename` is the
        program's or the folder's, whichever was at fault."""
        with suppress(BrokenPipeError):
            os.write(self._release, b"!")
        os.close(self._release)
        with open(self._failure, "rb") as pipe:
            said = pipe.read().decode()
        if not said:
            return None
        number, _, what = said.partition(" ")
        at_fault = self._program.folder if what == "folder" else self._program.words[0]
        return OSError(int(number), os.strerror(int(number)), at_fault)

    def abandon(self) -> None:
        """Let it not go: the child ends."""
        os.close(self._release)
        os.close(self._failure)


def _wait_and_exec(program: Program, gate: int, failure: int) -> NoReturn:
    """In the child. Whatever goes wrong, it must not come back into the code of its parent."""
    what = "program"
    try:
        signal.set_wakeup_fd(-1)
        for name in _DEFAULT:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setsid()
        if not os.read(gate, 1):
            os._exit(_NOT_STARTED)
        what = "folder"
        os.chdir(program.folder)
        what = "program"
        for number, file in enumerate(program.files):
            os.dup2(file, number)
        os.execvpe(program.words[0], list(program.words), program.env)
    except OSError as error:
        os.write(failure, f"{error.errno} {what}".encode())
    finally:
        os._exit(_NOT_STARTED)


_READY = b"ready\n"


class StartFailure(msgspec.Struct, frozen=True):
    """An OSError on its way."""

    number: int
    reason: str
    file: str

    def error(self) -> OSError:
        """FileNotFoundError, PermissionError, …, as it was."""
        return OSError(self.number, self.reason, self.file)


class StartReport:
    """The host's end. None: nobody waits for it."""

    def __init__(self, handle: int | None) -> None:
        self._handle = handle
        if handle is not None:
            os.set_inheritable(handle, False)

    def is_heard(self) -> bool:
        """False: whoever started us is gone."""
        if self._handle is None:
            return True
        poll = select.poll()
        poll.register(self._handle, 0)
        return not poll.poll(0)

    def ready(self) -> bool:
        """False: they are gone by now."""
        return self._say(_READY)

    def failed(self, error: OSError) -> None:
        what = StartFailure(
            error.errno or 0, error.strerror or str(error), str(error.filename or "")
        )
        self._say(msgspec.json.encode(what))
        self.close()

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _say(self, words: bytes) -> bool:
        if self._handle is None:
            return True
        try:
            os.write(self._handle, words)
        except OSError:
            return False
        return True


class StartOutcome(NamedTuple):
    """`ready` and no failure: the program runs. Neither: the host died, or said nothing in time."""

    ready: bool
    failure: StartFailure | None


def await_start(handle: int, seconds: float) -> StartOutcome:
    """All that a host has to say; waits until it closes its end."""
    said, until = b"", time.monotonic() + seconds
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    while (left := until - time.monotonic()) > 0 and poll.poll(left * 1000):
        piece = os.read(handle, 65_536)
        if not piece:
            ready, rest = said.startswith(_READY), said.removeprefix(_READY)
            try:
                return StartOutcome(
                    ready, msgspec.json.decode(rest, type=StartFailure) if rest else None
                )
            except msgspec.DecodeError:
                return StartOutcome(False, None)
        said += piece
    return StartOutcome(False, None)
