"""The folder of one worker: what it was started with, what it wrote, how it ended.

The files are the truth: they outlive the process that started the worker, and whoever comes later
(a resumed run, `fanfold kill`, `fanfold view`) reads and writes the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from fanfold.price import Price
from fanfold.work.carried import Outputs, Repository

_Record = TypeVar("_Record", bound=msgspec.Struct)
SPEC, PROMPT, HOST, EXIT, KILL = "spec.json", "prompt.txt", "host.json", "exit.json", "kill.json"
LOG, ERRORS, TIMES = "session.jsonl", "session.err", "session.times"
OUTPUT, MOST_OUTPUTS = "output", 200
FILES = (SPEC, PROMPT, HOST, EXIT, KILL, LOG, ERRORS, TIMES)

Why = Literal["", "killed", "cancelled", "time", "silence", "budget", "turns", "servers"]
"""Who or what ended a worker that did not end by itself: the operator, the run that was called off,
or one of the limits that it was given."""


WorkerType = Literal["read-only", "write", "code-run", "research", "reviewer", "orchestrator"]
Effort = Literal["low", "medium", "high"]
Overrun = Literal["reserve", "allow"]
Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]


class WorkerLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits that the host of a worker enforces by itself, whether a run watches or not.

    `seconds` of wall time; `silence`: seconds without a line in the log; `usd`: nano-dollars by the
    live meter; `turns`: replies of the model. `most`: nano-dollars that are reserved for it: it is
    ended before a call of its context, as it is now, could pass them. None: not limited here (the
    program itself may).
    """

    seconds: float | None = None
    silence: float | None = None
    usd: int | None = None
    turns: int | None = None
    most: int | None = None


class CallSize(msgspec.Struct, frozen=True, omit_defaults=True):
    """The most that one call of its model takes in and gives out, in tokens, and the size of the
    prompt that it was started with, in bytes."""

    context: int = 200_000
    output: int = 32_000
    prompt: int = 0


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is: the attempt it works for, its words, where it runs, its bounds.

    No secret may be in here: the environment is handed over directly, never through a file.
    `session`: the id of the program's own session, when it was chosen beforehand. `resumed`: that
    session has a past, which was paid before. `meter`: files beside the log that tell what it
    spends, as a glob (codex's rollout); "" when the log does. `schema`: what the answer was asked
    to be like, for whoever reads it later. `price`: what every token is counted by; None where the
    program's own figures and the models that its events name tell more. `listens`: it takes messages
    while it works, on its stdin (`messages`). `where`: the machine that it works on, if these files
    only follow those there (`mirror`). `outputs`: what it is to leave; `repository`: what its worktree began
    with, where that is another machine's.
    """

    span: str
    id: str
    dialect: str
    words: tuple[str, ...]
    folder: str
    model: str | None = None
    session: str = ""
    meter: str = ""
    price: Price | None = None
    schema: dict[str, Any] | None = None
    bounds: WorkerLimits = WorkerLimits()
    call: CallSize = CallSize()
    begun: float = 0.0
    resumed: bool = False
    listens: bool = False
    where: str = ""
    outputs: Outputs | None = None
    repository: Repository | None = None


class Process(msgspec.Struct, frozen=True):
    """One process, known for certain: numbers are used again, a start time is not. `boot` is the
    machine's boot id: after a restart none of this means anything. `namespace`: the one that its
    number is of (`work/machine`); 0 in records of earlier versions, which do not say."""

    pid: int
    started: int
    boot: str
    namespace: int = 0


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Written by the host once the program runs. `group`: the control group, "" without one."""

    host: Process
    program: Process
    group: str = msgspec.field(default="", name="cage")
    at: float


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """Written durably by the host when the program and all its children are gone.

    `code` is the exit code, minus the signal's number when a signal ended it.
    """

    code: int
    at: float
    why: Why = ""
    said: str = ""


class KillOrder(msgspec.Struct, frozen=True):
    """Why a worker is to be ended, written before its host is signalled."""

    why: Why
    said: str
    at: float


def read_spec(place: Path) -> Spec | None:
    """None: no worker was ever started here, or its record is torn."""
    return _read(place / SPEC, Spec)


def read_host(place: Path) -> HostRecord | None:
    return _read(place / HOST, HostRecord)


def read_exit(place: Path) -> Exit | None:
    return _read(place / EXIT, Exit)


def read_order(place: Path) -> KillOrder | None:
    return _read(place / KILL, KillOrder)


def outputs(place: Path) -> Iterator[str]:
    """The files that a worker has put into its output folder, by name; at most so many."""
    found = 0
    for folder, folders, files in os.walk(place / OUTPUT):
        folders.sort()
        for name in sorted(files):
            yield Path(folder, name).relative_to(place / OUTPUT).as_posix()
            found += 1
            if found == MOST_OUTPUTS:
                return


def _read(file: Path, kind: type[_Record]) -> _Record | None:
    """None: there is no such file, or it is torn. Raises OSError when that cannot be told, as
    without a free file handle: what cannot be read is not what was never written."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def write_durably(file: Path, record: msgspec.Struct) -> None:
    """Write a record and wait until it is on the disk. Raises OSError and leaves what was there."""
    put_file(file, msgspec.json.encode(record))
    sync_folder(file.parent)


def put_file(file: Path, content: bytes) -> None:
    """As `keep`, but its name may be lost until the folder is settled too."""
    new = file.with_name(f".{file.name}.{os.urandom(8).hex()}.new")
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(handle, "wb") as stream:
            # What root writes into another user's folder, such as an order to end a worker, is to
            # be read there
            if os.geteuid() == 0:
                owner = os.stat(file.parent)
                os.fchown(handle, owner.st_uid, owner.st_gid)
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        os.replace(new, file)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
