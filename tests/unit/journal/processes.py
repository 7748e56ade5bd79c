"""Programs that other processes run on a store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ENTER = """
import os, sys
from fanfold.journal.opening import open_store
session = open_store(sys.argv[1], thread=False).sessions.enter()
child = os.fork() if sys.argv[2:] else 0
if not child:
    print(session, os.getpid(), flush=True)
sys.stdin.read()
"""

_WRITE = """
import asyncio, sys
from fanfold.journal.facts import AddRun, RunRecord
from fanfold.journal.opening import open_store

async def main(folder, name, count):
    journal = open_store(folder)
    try:
        for n in range(count):
            await journal.write(AddRun(RunRecord(id=f"{name}-{n}", name=name, created=0.0)))
    finally:
        journal.close()

sys.stdin.read()
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("locked", flush=True)
sys.stdin.read()
"""


def locking(folder: Path) -> subprocess.Popen[bytes]:
    """Begins to write, says so, and holds the lock until its stdin closes."""
    return _started(_LOCK, str(folder / "journal.db"))


def entering(folder: Path, *, forks: bool = False) -> subprocess.Popen[bytes]:
    """Enters a session, prints it and a process number, and stays until its stdin closes. With
    `forks` the number is that of a child that it has, which stays as long."""
    return _started(_ENTER, str(folder), *(["fork"] if forks else []))


def writing(folder: Path, name: str, runs: int) -> subprocess.Popen[bytes]:
    """Opens the store when its stdin closes, and adds so many runs, one commit each."""
    return _started(_WRITE, str(folder), name, str(runs))


def _started(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )
