"""A Python that has imported every command already, and forks a `fanfold` for whoever connects.

`warm_client` says what to run, and hands its streams over; the answers are the number of the process
and its exit code. The fork is what `python -m fanfold` is: it has its folder, its environment and its
streams, and ends as an interpreter does.
"""

from __future__ import annotations

import atexit
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
    folder: str
    words: list[str]
    env: dict[str, str]
    streams: list[int]


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
            ready, _, _ = select.select([door, 0], [], [])
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
    size, streams, _, _ = socket.recv_fds(link, 4, 3)
    folder, words, env = json.loads(link.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
    number = os.fork()
    if number == 0:
        link.close()
        return Wanted(folder, words, env, streams)
    for handle in streams:
        os.close(handle)
    try:
        _tell(link, number)
        _tell(link, os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
    finally:
        os._exit(0)


def _tell(link: socket.socket, number: int) -> None:
    link.sendall(number.to_bytes(8, "big", signed=True))


def become(wanted: Wanted) -> None:
    """The streams first: from here on nothing of this reaches whoever asked for it."""
    for handle, given in enumerate(wanted.streams):
        os.dup2(given, handle)
        os.close(given)
    os.chdir(wanted.folder)
    os.environ.clear()
    os.environ.update(wanted.env)
    time.tzset()
    sys.path[0] = wanted.folder
    sys.argv = ["fanfold", *wanted.words]


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
            runpy.run_module("fanfold", run_name="__main__", alter_sys=True)
        except SystemExit as over:
            leave(over.code)
