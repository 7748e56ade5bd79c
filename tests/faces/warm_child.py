"""A Python that has imported every command already, and forks a `fanfold` for each line it reads.

Each line is what to run, as JSON; the answers are two lines, the number of the process and its exit
code. From there on the fork is what `python -m fanfold` is: it gets its folder, its environment and
its streams, and ends as an interpreter does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import sys
import threading
import time
from typing import Any

from fanfold.faces.cli.main import COMMANDS


def wait_for_work() -> dict[str, Any] | None:
    """What to run, in a fork; None in the process itself, when nobody asks any more."""
    for place, _ in COMMANDS.values():
        importlib.import_module(place.partition(":")[0])
    gc.freeze()  # what is imported is not gone through again in every fork
    with open(0, "rb", buffering=0, closefd=False) as asked:
        while line := asked.readline():
            number = os.fork()
            if number == 0:
                wanted: dict[str, Any] = json.loads(line)
                return wanted
            _tell(number)
            _tell(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
    return None


def _tell(number: int) -> None:
    os.write(1, b"%d\n" % number)


def become(folder: str, words: list[str], env: dict[str, str], out: str, err: str) -> None:
    """The streams first: from here on nothing of this reaches whoever asked for it."""
    for handle, path, how in (
        (0, os.devnull, os.O_RDONLY),
        (1, out, os.O_WRONLY),
        (2, err, os.O_WRONLY),
    ):
        opened = os.open(path, how)
        os.dup2(opened, handle)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.path[0] = folder
    sys.argv = ["fanfold", *words]


def leave(code: Any) -> None:
    """As an interpreter ends, but for taking itself apart: that touches every page it shares with
    the process it was forked from, which costs more than most commands do."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    wanted = wait_for_work()
    if wanted is not None:
        become(**wanted)
        try:
            runpy.run_module("fanfold", run_name="__main__", alter_sys=True)
        except SystemExit as over:
            leave(over.code)
