"""Start a supervisor: a detached process of its own session that inherits nothing of ours."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO

import msgspec

from fanfold.errors import AlreadyRunning, BadInput, FanfoldError, StoreError
from fanfold.journal import opening
from fanfold.journal.facts import RunRecord
from fanfold.journal.places import absolute
from fanfold.members.roster import Roster
from fanfold.plans.prepare import Job, Options, Stored, revised
from fanfold.work.task import Budget


class LaunchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor is started with: a job that was read and checked. The supervisor reads the
    roster again: keys are references in it, so nothing here is a secret."""

    name: str
    stored: Stored
    budget: Budget
    options: Options
    record: RunRecord | None = None

    def job(self) -> Job:
        """BadInput when the roster was changed since it was checked."""
        bare = Job(
            stored=self.stored, roster=Roster(), budget=self.budget, options=self.options,
            name=self.name, record=self.record,
        )  # fmt: skip
        return revised(bare, self.stored)


class LaunchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The one line that a supervisor reports: the run is on record and under way, or what is wrong."""

    run: str = ""
    name: str = ""
    pid: int = 0
    planned: int = 0
    error: str = ""
    code: int = 0


def lasting(store: str) -> str:
    """The store as any process finds it. Refused if it ends with this one."""
    if not opening.outlives_process(store):
        raise BadInput(
            f"{store} ends with this process, so nothing can be launched in it; use --store DIR"
        )
    return absolute(store)


def order_of(job: Job) -> LaunchOrder:
    """With the store as an absolute path: the supervisor may run in any folder."""
    store = lasting(job.options.store)
    options = msgspec.structs.replace(job.options, store=store)
    record = job.record
    if record is not None:
        record = msgspec.structs.replace(record, plan=b"", result=None)
    return LaunchOrder(
        name=job.name, stored=job.stored, budget=job.budget, options=options, record=record
    )


def log_file(job: Job) -> Path:
    """The log of the supervisor: of a fleet beside its workers, of a plan in the store."""
    if job.stored.kind == "fleet":
        return Path(job.stored.plan.folder) / "logs" / "supervisor.log"
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in job.name)
    return opening.files(job.options.store).absolute() / "logs" / f"{plain}.log"


def root_folder(job: Job) -> str:
    return job.stored.plan.folder or str(opening.files(job.options.store).absolute().parent)


# ── starting it ──────────────────────────────────────────────────────────────────────────────


_MODULE = "fanfold.fleet.supervisor"
REFUSED = 2


def start_supervisor(order: LaunchOrder, log: Path) -> LaunchResult:
    """Start it and wait until it reports; from then on it is independent.

    The order goes through its stdin, so that nothing of it is on the command line. It inherits no
    handle but the pipe for its report: a lock that the launcher holds stays with the launcher.
    Raises what the supervisor found wrong.
    """
    reading, writing = os.pipe()
    try:
        program = [sys.executable, "-P", "-m", _MODULE]
        command = [*program, order.name, order.options.store, str(writing)]
        with _opened(log) as out:
            first = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=out, pass_fds=(writing,),
                start_new_session=True,
            )  # fmt: skip
            first.communicate(msgspec.json.encode(order))
    finally:
        os.close(writing)
        with open(reading, "rb") as pipe:
            line = pipe.readline()
    try:
        result = msgspec.json.decode(line, type=LaunchResult)
    except msgspec.DecodeError:
        raise FanfoldError(f"the supervisor exited without reporting a result; see {log}") from None
    if result.error:
        raise (BadInput if result.code == REFUSED else FanfoldError)(result.error)
    return result


def _opened(log: Path) -> IO[bytes]:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return open(os.open(log, flags, 0o600), "ab")
    except OSError as error:
        raise BadInput(f"{log}: cannot be written: {error.strerror}") from error


# ── the lock of those who launch, resume or relaunch a run ───────────────────────────────────

_POLL = 0.05  # seconds


@contextmanager
def run_lock(store: str, name: str, within: float = 0.0) -> Iterator[None]:
    """Held for a moment only, and by this process alone: no child inherits it, so neither the
    supervisor nor a tmux server that is started meanwhile can keep it. AlreadyRunning when another
    process still holds it after `within` seconds."""
    file = Path(opening.files(store), "locks", blake2b(name.encode(), digest_size=8).hexdigest())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"{store}: {error.strerror}; use --store DIR") from error
    try:
        _lock(handle, name, time.monotonic() + within)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, name: str, until: float) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(_POLL)
                continue
            what = f"another process is launching or relaunching {name} right now"
            raise AlreadyRunning(f"{what}; see: fanfold status") from None
        except OSError as error:
            raise StoreError(f"the lock of {name}: {error.strerror}; try again") from error
