"""What a host tells the process that starts it, through a pipe: ready, or why not.

The pipe also tells each of them whether the other is still there.
"""

from __future__ import annotations

import os
import select
import time
from typing import NamedTuple

import msgspec

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
        what = StartFailure(error.errno or 0, error.strerror or str(error), str(error.filename or ""))
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
            return _understood(said)
        said += piece
    return StartOutcome(False, None)


def _understood(said: bytes) -> StartOutcome:
    ready, rest = said.startswith(_READY), said.removeprefix(_READY)
    try:
        return StartOutcome(ready, msgspec.json.decode(rest, type=StartFailure) if rest else None)
    except msgspec.DecodeError:
        return StartOutcome(False, None)
