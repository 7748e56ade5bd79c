"""What wakes a host: a signal, a child that has ended, growth of the log, an order.

So it does next to nothing while its program thinks. Where the kernel does not report changes of files
(it does on Linux), they are looked at a few times a second.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

from fanfold.members.agents.worker import LOG

TICK = 0.2
_MODIFIED, _MOVED_IN = 0x2, 0x80


class Wakeups:
    """`stop_requested`: a signal said that we are to end. A terminal that closes, or somebody's Ctrl-C, is
    nothing to us."""

    def __init__(self, place: Path) -> None:
        self.stop_requested = False
        self._signals, ring = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(ring, False)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._request_stop)
        self._files = _watch_files(place)
        self._quiet, self._open = select.poll(), select.poll()
        self._quiet.register(self._signals, select.POLLIN)
        self._open.register(self._signals, select.POLLIN)
        if self._files is not None:
            self._open.register(self._files, select.POLLIN)

    def _request_stop(self, *_: object) -> None:
        self.stop_requested = True

    def sleep(self, seconds: float) -> None:
        """So long, or until there is a signal; whatever is written meanwhile."""
        if self._quiet.poll(seconds * 1000):
            self._take(self._signals)

    def wait_for_events(self, seconds: float) -> None:
        """So long, or until something happens. Written orders and growth of the log wake us too."""
        if self._files is None:
            return self.sleep(min(seconds, TICK))
        for handle, _ in self._open.poll(seconds * 1000):
            self._take(handle)
        return None

    def _take(self, handle: int) -> None:
        with suppress(BlockingIOError):
            os.read(handle, 65_536)


def _watch_files(place: Path) -> int | None:
    """A handle to read from when the log grows or a file is put into the folder (inotify)."""
    if sys.platform != "linux":
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        handle = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return None
    if handle < 0:
        return None
    wanted = ((place / LOG, _MODIFIED), (place, _MOVED_IN))
    if all(library.inotify_add_watch(handle, os.fsencode(at), of) >= 0 for at, of in wanted):
        return handle
    os.close(handle)
    return None
