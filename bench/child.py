"""One job in this process: `child.py module:function '{"argument": ...}'`. Prints what it took.

Only the job's own module is imported, so a baseline never loads fanfold.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any


def cpu() -> float:
    """Of this process, all of its threads, without its children."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def runner(module: str, uvloop: bool) -> Callable[[Any], Any]:
    """As its users start it: fanfold by its `run_sync`, a baseline on the same kind of loop."""
    if not uvloop:
        return asyncio.run
    home = "fanfold.run.loop" if module == "ours" else "uvloop"
    found = import_module(home)
    return found.run_sync if module == "ours" else found.run


def main(target: str, given: str) -> None:
    module, _, name = target.partition(":")
    work = getattr(import_module(module), name)
    arguments = json.loads(given)
    run = runner(module, arguments.pop("uvloop", False))
    begun, used, used_here = time.monotonic(), cpu(), time.thread_time()
    found = run(work(**arguments)) or {}
    told = {"cpu": cpu() - used, "wall": time.monotonic() - begun}
    found["loop_cpu"] = time.thread_time() - used_here
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**told, "found": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
