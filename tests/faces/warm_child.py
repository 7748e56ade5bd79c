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
import sqlite3
import sys
import threading
import time
import warnings
from contextlib import closing, suppress
from types import ModuleType
from typing import Any, NamedTuple


class Wanted(NamedTuple):
    """`given` are to have the numbers `handles`. `code`: not a `fanfold`, but `python -W error -c CODE`.
    `leads`: in a session of its own; `safe`: it imports nothing from its folder; `tied`: it is killed when
    whoever asked for it is gone."""

    folder: str
    words: list[str]
    env: dict[str, str]
    handles: list[int]
    given: list[int]
    module: str = "fanfold"
    code: str = ""
    leads: bool = False
    safe: bool = False
    tied: bool = False


MOST_HANDLES = 16
PYTHON = "python"  # beside the door: what a fork takes for Python


class Forked(NamedTuple):
    """One that is under way, and who asked for it."""

    link: socket.socket
    number: int
    wanted: Wanted


def wait_for_work(address: str, lock: int, modules: list[str]) -> Wanted | None:
    """What to run, in a fork; None in the process itself, when nobody asks any more: then standard input
    ends. The door is open when it has its name, and the lock is given up after that."""
    from fanfold.faces.cli.main import COMMANDS
    from fanfold.journal.sqlite.schema import migrate

    for name in (*(place.partition(":")[0] for place, _ in COMMANDS.values()), *modules):
        importlib.import_module(name)
    with closing(sqlite3.connect(":memory:")) as db:
        migrate(db)  # the empty store that new ones are copies of
    gc.freeze()  # what is imported is not gone through again in every fork
    at_work: dict[int, Forked] = {}  # by what is watched: the process and, if it is tied, the link
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{address}.new")
        door.listen(64)
        os.rename(f"{address}.new", address)
        os.close(lock)
        while True:
            ready, _, _ = select.select([door.fileno(), 0, *at_work], [], [])
            if 0 in ready:
                for one in at_work.values():
                    end(one)
                return None
            for handle in ready:
                if handle in at_work:
                    ended(at_work, handle)
                elif handle == door.fileno() and (wanted := forked(door, at_work)) is not None:
                    return wanted


def forked(door: socket.socket, at_work: dict[int, Forked]) -> Wanted | None:
    """What to run, in the new process, which has nothing open that belongs to others."""
    link, _ = door.accept()
    wanted = understood(link)
    if wanted is None:
        link.close()
        return None
    number = os.fork()
    if number == 0:
        door.close()
        link.close()
        for handle, other in at_work.items():
            if handle != other.link.fileno():
                os.close(handle)
        for other in at_work.values():
            other.link.close()
        return wanted
    for handle in wanted.given:
        os.close(handle)
    one = Forked(link, number, wanted)
    at_work[os.pidfd_open(number)] = one
    if wanted.tied:
        at_work[link.fileno()] = one
    _tell(link, number)
    return None


def understood(link: socket.socket) -> Wanted | None:
    """None: whoever asks was killed before it had said what it wants. The others are served on."""
    given: list[int] = []
    try:
        size, given, _, _ = socket.recv_fds(link, 4, MOST_HANDLES)
        said = json.loads(link.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
    except (OSError, ValueError):
        for handle in given:
            os.close(handle)
        return None
    return Wanted(**said, given=given)


def ended(at_work: dict[int, Forked], handle: int) -> None:
    """The process is at its end, or who asked for it is gone."""
    one = at_work.pop(handle)
    if handle == one.link.fileno():
        end(one)
        return
    os.close(handle)
    at_work.pop(one.link.fileno(), None)
    _tell(one.link, os.waitstatus_to_exitcode(os.waitpid(one.number, 0)[1]))
    one.link.close()


def end(one: Forked) -> None:
    """It may be at its end already, and may not lead yet."""
    for number in (-one.number, one.number) if one.wanted.leads else (one.number,):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _tell(link: socket.socket, number: int) -> None:
    """Whoever asked may be gone."""
    with suppress(OSError):
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
    for name in ("stdin", "stdout", "stderr"):
        opened_anew(name)
    if wanted.leads:
        os.setsid()
    os.chdir(wanted.folder)
    os.environ.clear()
    os.environ.update(wanted.env)
    time.tzset()
    sys.path[:1] = [] if wanted.safe else [wanted.folder]
    sys.argv = ["-c" if wanted.code else wanted.module, *wanted.words]
    sys.executable = os.path.join(os.path.dirname(sys.orig_argv[2]), PYTHON)


def opened_anew(name: str) -> None:
    """A stream of Python knows from the beginning whether it is a terminal or a file; these are others."""
    old = getattr(sys, name)
    new = os.fdopen(
        old.fileno(), old.mode, buffering=1 if name == "stderr" else -1, encoding=old.encoding,
        errors=old.errors, closefd=False,
    )  # fmt: skip
    new.buffer.raw.name = old.name
    setattr(sys, name, new)
    setattr(sys, f"__{name}__", new)


def perform(wanted: Wanted) -> None:
    if not wanted.code:
        runpy.run_module(wanted.module, run_name="__main__", alter_sys=True)
        return
    warnings.simplefilter("error")
    sys.modules["__main__"] = main = ModuleType("__main__")
    exec(compile(wanted.code, "<string>", "exec"), vars(main))
    gc.collect()  # what was not closed says so now
    leave(0)


def leave(code: Any) -> None:
    """As an interpreter ends, but for taking itself apart: that touches every page it shares with
    the process it was forked from, which costs more than most commands do."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    wanted = wait_for_work(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    if wanted is None:
        os._exit(0)
    become(wanted)
    try:
        perform(wanted)
    except SystemExit as over:
        leave(over.code)
