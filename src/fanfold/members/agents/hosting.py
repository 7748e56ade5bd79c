"""Workers in hosts of their own: find one again, wait for its end, end it; and start one.

All of it goes by the files in the worker's folder, so it makes no difference who started it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from fanfold.errors import AlreadyRunning, FanfoldError
from fanfold.members.agents import messages
from fanfold.members.agents.logs import append
from fanfold.members.agents.process_tree import end_orphans, remove_group
from fanfold.members.agents.processes import elsewhere, living, send
from fanfold.members.agents.startup import await_start
from fanfold.members.agents.worker import (
    EXIT,
    FILES,
    HOST,
    KILL,
    PROMPT,
    SPEC,
    Exit,
    HostRecord,
    KillOrder,
    Process,
    Spec,
    Why,
    put_file,
    read_exit,
    read_host,
    read_order,
    read_spec,
    sync_folder,
    write_durably,
)
from fanfold.work.started import PARENT

_BEGINNING = 10.0  # seconds after its spec in which a worker without a record may still come
_SOON = 0.05
UNSEEN = "it may be at work in another container, whose processes cannot be seen from here"


async def start(place: Path, spec: Spec, prompt: bytes, env: Mapping[str, str]) -> Host:
    """Start a worker in `place`; it runs, and can be found again, when this returns.

    Files of an earlier worker are kept as NAME.EPOCH.bak; AlreadyRunning while it runs. Raises the
    OSError for which the program could not be started: its `filename` is the program, or the folder
    if that was at fault. `env` is all that the program gets, and its span. Cancelled meanwhile, the
    worker is ended.
    """
    starting = asyncio.ensure_future(asyncio.to_thread(_start, place, spec, prompt, env))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait((starting,))
        if not starting.cancelled() and starting.exception() is None:
            starting.result().kill("cancelled", "cancelled while it was started")
        raise


def _start(place: Path, spec: Spec, prompt: bytes, env: Mapping[str, str]) -> Host:
    place = place.absolute()
    earlier = read_spec(place)
    if earlier is not None and (before := Host(place, earlier)).alive():
        raise AlreadyRunning(before.still_at_work())
    if not spec.begun:
        spec = msgspec.structs.replace(spec, begun=time.time())
    prepare(place, spec, prompt)
    launch(place, spec, env)
    return Host(place, spec)


def find(place: Path, span: str) -> Host | None:
    """The worker of this very span, running or not; None when another or none was started here."""
    place = place.absolute()
    spec = read_spec(place)
    return None if spec is None or spec.span != span or spec.where else Host(place, spec)


class Host:
    """A worker that was started once, here or elsewhere, and may have ended long ago."""

    def __init__(self, place: Path, spec: Spec) -> None:
        self.place, self.spec = place, spec

    def __repr__(self) -> str:
        state = "alive" if self.alive() else "gone" if self.exit() is None else "ended"
        return f"<Host {self.spec.id} {self.spec.span} {state}>"

    def alive(self) -> bool:
        """Whether its host or, when that was killed, its program still runs. When that cannot be
        told, it counts as alive."""
        try:
            record = read_host(self.place)
            if record is None or self.exit() is not None:
                return False
        except OSError:
            return True
        return living(record.host) or living(record.program)

    def out_of_sight(self) -> bool:
        """It was started among other processes than ours, as in another container that has the same
        folder: only its files tell that it has ended. Raises OSError when that cannot be told."""
        record = read_host(self.place)
        return record is not None and self.exit() is None and elsewhere(record.host)

    def still_at_work(self) -> str:
        """What is said of one that counts as alive."""
        return self.unseen() or f"{self.spec.id}: still at work in {self.place}; end it first"

    def unseen(self) -> str:
        """What is said of one that is out of sight, with the remedy; "" of all others."""
        with suppress(OSError):
            if self.out_of_sight():
                remedy = f"end it there, or once that is gone remove {self.place / HOST}"
                return f"{self.spec.id}: {UNSEEN}; {remedy}"
        return ""

    def may_have_begun(self) -> bool:
        """The record of a host is durable before its program runs, so without one it never did; nor
        will it, once whoever started it is gone. A record that cannot be read may be there."""
        try:
            spec = read_spec(self.place)
            ours = spec is not None and spec.span == self.spec.span
            return not ours or read_host(self.place) is not None or self.exit() is not None
        except OSError:
            return True

    def exit(self) -> Exit | None:
        return read_exit(self.place)

    async def ended(self, poll: float = 1.0) -> Exit | None:
        """Wait for the end. None: it exited without a record, as after a restart of the machine, or
        it is out of sight.

        Costs nothing while it waits; `poll` is for systems that do not tell and have to be asked,
        and for moments in which its files cannot be read.
        """
        while True:
            try:
                return await self._ended(poll)
            except OSError:
                await asyncio.sleep(poll)

    async def _ended(self, poll: float) -> Exit | None:
        record = read_host(self.place)
        if record is None or elsewhere(record.host):
            return self.exit()
        await gone(record.host, poll)
        if self.exit() is None and read_order(self.place) is not None:
            await asyncio.to_thread(end_orphans, record, self.spec.span)
        if self.exit() is None:
            await gone(record.program, poll)
            remove_group(record)
        return self.exit() or self._ended_by_order(record)

    def kill(self, why: Why, said: str) -> None:
        """Have it ended, with all that it has started; returns at once. The first order counts.

        What a dead host has left behind is ended here and now, without time to finish its log. One
        out of sight finds the order, and is not signalled.
        """
        record = read_host(self.place)
        if self.exit() is not None:
            return
        if record is None or self.alive():
            self._order(why, said)
        if record is not None and not send(record.host, signal.SIGTERM):
            self._end_orphans(record)

    async def killed(self, why: Why, said: str, seconds: float = 15.0) -> bool:
        """Have it ended, and wait until all of it is gone. A host that has not obeyed by then is
        killed itself. False: something could not be ended."""
        self.kill(why, said)
        await self._has_begun()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self.ended() is None:
                    if not self.out_of_sight():
                        break
                    await asyncio.sleep(_SOON)
        record = read_host(self.place)
        if self.exit() is not None or record is None:
            return True
        send(record.host, signal.SIGKILL)
        if elsewhere(record.host):
            return False
        await gone(record.host, _SOON)
        return await asyncio.to_thread(self._end_orphans, record)

    def _order(self, why: Why, said: str) -> None:
        """On a full disk it is asked to end all the same; only why is lost."""
        if read_order(self.place) is None:
            with suppress(OSError):
                write_durably(self.place / KILL, KillOrder(why, said, time.time()))

    async def _has_begun(self) -> None:
        """One that is being started now obeys once it is; nothing is known of it before."""
        while True:
            known = read_host(self.place) is not None or self.exit() is not None
            if known or not self._is_new():
                return
            await asyncio.sleep(_SOON)

    def _is_new(self) -> bool:
        try:
            return time.time() - os.stat(self.place / SPEC).st_mtime < _BEGINNING
        except OSError:
            return False

    def _end_orphans(self, record: HostRecord) -> bool:
        done = end_orphans(record, self.spec.span)
        if done and self.exit() is None:
            self._ended_by_order(record)
        return done

    def _ended_by_order(self, record: HostRecord) -> Exit | None:
        """What its host would have written, had it lived: it was to be ended, and it is gone."""
        order = read_order(self.place)
        if order is None or living(record.host) or living(record.program):
            return None
        said = f"{order.said}; its host was gone"
        exit = Exit(code=-signal.SIGKILL, at=time.time(), why=order.why, said=said)
        with suppress(OSError):
            write_durably(self.place / EXIT, exit)
        return exit


async def gone(process: Process, poll: float) -> None:
    """Returns once it has ended. The kernel tells where it can (Linux); else we look every `poll`
    seconds, as also when there are no handles left."""
    try:
        handle = -1 if elsewhere(process) else os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        handle = -1
    if handle < 0:
        await by_looking(process, poll)
        return
    try:
        if living(process):  # the handle is its own, not that of another with the same number
            await _readable(handle)
    finally:
        os.close(handle)


async def by_looking(process: Process, poll: float) -> None:
    while True:
        if not living(process):
            return
        await asyncio.sleep(poll)


async def _readable(handle: int) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_reader(handle, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_reader(handle)


# ── starting a host ──────────────────────────────────────────────────────────────────────────

HOST_LOG = "host.log"
_AT_MOST = 60.0  # seconds until a host that says nothing is given up
_BOOT = "import sys; sys.path += sys.argv[4:]; from fanfold.members.agents.host import main; main()"


class NotHosted(FanfoldError):
    """The host of a worker died before it could say whether the program runs."""


def prepare(place: Path, spec: Spec, prompt: bytes) -> None:
    """The folder as a host expects it: durable, and without the files of an earlier worker."""
    if any("\0" in word for word in spec.words):
        raise OSError(errno.EINVAL, "an argument holds a NUL byte", spec.words[0])
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    rotate(place)
    put_file(place / PROMPT, prompt)
    put_file(place / SPEC, msgspec.json.encode(spec))
    sync_folder(place)


def rotate(place: Path) -> None:
    """Keep what an earlier worker wrote as NAME.EPOCH.bak, all under one number."""
    there = [place / name for name in FILES if (place / name).exists()]
    epoch = int(time.time())
    while any(_kept(file, epoch).exists() for file in there):
        epoch += 1
    for file in there:
        file.rename(_kept(file, epoch))
    messages.clear(place)


def _kept(file: Path, epoch: int) -> Path:
    return file.with_name(f"{file.name}.{epoch}.bak")


def launch(place: Path, spec: Spec, env: Mapping[str, str]) -> None:
    """Returns when the program runs. Raises its OSError, or NotHosted."""
    listens, tells = os.pipe()
    try:
        try:
            spawn(place, spec.span, tells, {**env, PARENT: spec.span})
        finally:
            os.close(tells)
        heard = await_start(listens, _AT_MOST)
    finally:
        os.close(listens)
    if heard.failure is not None:
        raise heard.failure.error()
    if not heard.ready:
        raise NotHosted(f"{spec.id}: its host died while it started; see {place / HOST_LOG}")


def spawn(place: Path, span: str, tells: int, env: Mapping[str, str]) -> None:
    """A process in a session of its own, without any of our handles, that we need not wait for.

    It must find what we are made of wherever it is started: not through the program's variables,
    and never in the folder it happens to be in.
    """
    # The folders that our own packages are imported from
    homes = (Path(__file__).parents[3], Path(msgspec.__file__).parents[1])
    given = (str(place), str(tells), span, *dict.fromkeys(str(home) for home in homes))
    words = [sys.executable, "-I", "-S", "-c", _BOOT, *given]
    log = append(place / HOST_LOG)
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
            pass_fds=(tells,), start_new_session=True,
        )  # fmt: skip
        process.wait()
    finally:
        os.close(log)
