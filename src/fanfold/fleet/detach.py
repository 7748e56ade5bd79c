"""Start a supervisor: a process of its own session that holds nothing of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.fleet.mission import Mission, Ready

_MODULE = "fanfold.fleet.supervisor"
REFUSED = 2


def start_supervisor(mission: Mission, log: Path) -> Ready:
    """Start it and wait for its word; then it needs nobody.

    What it is to do goes through its stdin, so that nothing of it stands on the command line. It
    inherits no handle but the pipe for its word: a lock that the launcher holds stays with the
    launcher. Raises what the supervisor found wrong.
    """
    reading, writing = os.pipe()
    try:
        _spawn(mission, log, writing)
    finally:
        os.close(writing)
        with open(reading, "rb") as pipe:
            said = pipe.readline()
    return _checked(said, log)


def _spawn(mission: Mission, log: Path, writing: int) -> None:
    command = [
        sys.executable,
        "-P",
        "-m",
        _MODULE,
        mission.name,
        mission.options.store,
        str(writing),
    ]
    with _opened(log) as out:
        first = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=out, pass_fds=(writing,),
            start_new_session=True,
        )  # fmt: skip
        first.communicate(msgspec.json.encode(mission))


def _opened(log: Path) -> IO[bytes]:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return open(os.open(log, flags, 0o600), "ab")
    except OSError as error:
        raise BadInput(f"{log}: cannot be written: {error.strerror}") from error


def _checked(said: bytes, log: Path) -> Ready:
    try:
        ready = msgspec.json.decode(said, type=Ready)
    except msgspec.DecodeError:
        raise FanfoldError(f"the supervisor ended without output; see {log}") from None
    if ready.error:
        raise (BadInput if ready.code == REFUSED else FanfoldError)(ready.error)
    return ready
