"""A Python that has imported every command already, and forks a `fanfold` for whoever connects.

`warm_client` says what to run, and hands its streams over; the answers are the number of the process
and its exit code. The fork is what `python -m fanfold` is: it has its folder, its environment and its
streams, and ends as an interpreter does.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from typing import Any, NamedTuple

from fanfold.faces.cli.main import COMMANDS


class Wanted(NamedTuple):
    """`given` are to have the numbers `handles`. `leads`: in a session of its own; `safe`: it imports
    nothing from its folder; `tied`: it is killed when whoever asked for it is gone."""

    folder: str
    words: list[str]
    env: dict[str, str]
    handles: list[int]
    given: list[int]
    module: str = "fanfold"
    leads: bool = False
    safe: bool = False
    tied: bool = False


MOST_HANDLES = 16
PYTHON = "python"  # beside the door: what a fork takes for Python


def wait_for_work(address: str, modules: list[str]) -> Wanted | None:
    """What to run, in a fork; None in the process itself, when nobody asks any more."""
    for name in (*(place.partition(":")[0] for place, _ in COMMANDS.values()), *modules):
        importlib.import_module(name)
    gc.freeze()  # what is imported is not gone through again in every fork
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen(64)
        os.write(1, b"ready\n")
        while True:
            ready, _, _ = select.select([door.fileno(), 0], [], [])
            if 0 in ready:
                return None
            link, _ = door.accept()
            if os.fork() == 0:
                door.close()
                return forked(link)
            link.close()


def forked(link: socket.socket) -> Wanted:
    """A process that waits for the one to be, and tells of it; here is the one to be."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, given, _, _ = socket.recv_fds(link, 4, MOST_HANDLES)
    said = json.loads(link.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
    wanted = Wanted(**said, given=given)
    number = os.fork()
    if number == 0:
        link.close()
        return wanted
    for handle in given:
        os.close(handle)
    try:
        _tell(link, number)
        ready, _, _ = select.select([link.fileno(), os.pidfd_open(number)], [], [])
        if wanted.tied and ready == [link.fileno()]:
            os.kill(-number if wanted.leads else number, signal.SIGKILL)
        _tell(link, os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
    finally:
        os._exit(0)


def _tell(link: socket.socket, number: int) -> None:
    link.sendall(number.to_bytes(8, "big", signed=True))


def become(wanted: Wanted) -> None:
    """The streams first: from here on nothing of this reaches whoever asked for it."""
    free = max(*wanted.handles, *wanted.given) + 1
    moved = [fcntl.fcntl(given, fcntl.F_DUPFD, free) for given in wanted.given]
    for given in wanted.given:
        os.close(given)
    for number, given in zip(wanted.handles, moved, strict=True):
        os.dup2(given, number)
        os.close(given)
    if wanted.leads:
        os.setsid()
    os.chdir(wanted.folder)
    os.environ.clear()
    os.environ.update(wanted.env)
    time.tzset()
    sys.path[:1] = [] if wanted.safe else [wanted.folder]
    sys.argv = [wanted.module, *wanted.words]
    sys.executable = os.path.join(os.path.dirname(sys.orig_argv[2]), PYTHON)


def leave(code: Any) -> None:
    """As an interpreter ends, but for taking itself apart: that touches every page it shares with
    the process it was forked from, which costs more than most commands do."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    wanted = wait_for_work(sys.argv[1], sys.argv[2:])
    if wanted is not None:
        become(wanted)
        try:
            runpy.run_module(wanted.module, run_name="__main__", alter_sys=True)
        except SystemExit as over:
            leave(over.code)
