"""One program, launched without a shell, fed, drained and reaped by the event loop.

`subprocess.Popen` starts the child by vfork and a pidfd tells the loop of its end. That takes a
third of the CPU of asyncio's own subprocesses and, unlike posix_spawn, allows a working folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import IO, NamedTuple

_CHUNK = 65_536


class ProgramEnd(NamedTuple):
    """How a program ended. `full` says that its output was cut at the limit (and it was killed)."""

    code: int
    out: bytes
    err: bytes
    full: bool = False


def why_not_startable(program: str, folder: Path | None, path: str | None = None) -> str:
    """Why this program cannot be started in `folder`, in a few words; "" where nothing is in the way.
    Nothing is run. `folder` None: what will be in it is not known yet. `path`: what counts for PATH."""
    if os.sep not in program:
        return "" if _on_path(program, folder, path) else _not_installed(program)
    if folder is None and not os.path.isabs(program):
        return ""
    file = Path(folder or "", program)
    if not file.is_file():
        where = "" if Path(program).is_absolute() else f" in {folder}"
        return f"there is no program `{program}`{where}; correct its path"
    executable = os.access(file, os.X_OK)
    return "" if executable else f"`{program}` is not executable; run: chmod +x {quote(str(file))}"


def _on_path(program: str, folder: Path | None, path: str | None) -> bool:
    """A program is looked for when its folder is the current one: what PATH has that is relative counts
    from there."""
    stated = os.environ.get("PATH", os.defpath) if path is None else path
    places = [os.path.join(folder or "", one) for one in stated.split(os.pathsep)]
    return shutil.which(program, path=os.pathsep.join(places)) is not None


def _not_installed(program: str) -> str:
    return f"there is no program `{program}`; install it, or correct its name"


async def run_program(
    cmd: Sequence[str], given: bytes, *, folder: Path, env: Mapping[str, str], seconds: float,
    most: int,
) -> ProgramEnd:  # fmt: skip
    """Run `cmd` with `given` on stdin until it ends; at most `most` bytes of stdout are taken.

    After `seconds` (TimeoutError) or on cancellation the whole process group is killed. The output
    ends when the program itself does: children it leaves behind may keep the pipe, nobody waits.
    Raises OSError when it cannot be started.
    """
    process = _launch(cmd, folder, env)
    loop = asyncio.get_running_loop()
    ended = watch(loop, process)
    feed = _Feed(loop, _pipe(process.stdin), given)
    out = _Drain(loop, _pipe(process.stdout), most, lambda: kill_group(process))
    err = _Drain(loop, _pipe(process.stderr), most, lambda: kill_group(process))
    try:
        async with asyncio.timeout(seconds):
            code = await asyncio.shield(ended)
    except (TimeoutError, asyncio.CancelledError):
        kill_group(process)
        await asyncio.wait((ended,), timeout=2)
        raise
    finally:
        feed.close()
        written, complained = out.close(), err.close()
    return ProgramEnd(code, written, complained, out.full or err.full)


def _launch(cmd: Sequence[str], folder: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        cmd, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0,
        cwd=folder, env=env, start_new_session=True,
    )  # fmt: skip


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    """A pipe that was asked for is there; made non-blocking."""
    assert pipe is not None
    os.set_blocking(pipe.fileno(), False)
    return pipe


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and all its children. Not once it was reaped: the number may be another's."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def watch(loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes]) -> asyncio.Future[int]:
    """The exit code, when it comes, by the best means this machine has."""
    try:
        return by_pidfd(loop, process)
    except (AttributeError, OSError):
        return by_thread(loop, process)


def by_pidfd(
    loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes]
) -> asyncio.Future[int]:
    """The kernel tells the loop. Not on every system, and not when handles have run out."""
    handle = os.pidfd_open(process.pid)
    ended: asyncio.Future[int] = loop.create_future()

    def reap() -> None:
        loop.remove_reader(handle)
        os.close(handle)
        ended.set_result(process.wait())

    loop.add_reader(handle, reap)
    return ended


def by_thread(
    loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes]
) -> asyncio.Future[int]:
    """A thread of its own waits."""
    ended: asyncio.Future[int] = loop.create_future()

    def wait() -> None:
        code = process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(ended.set_result, code)

    threading.Thread(target=wait, daemon=True).start()
    return ended


class _Feed:
    """Writes to a child's stdin as fast as it reads, then closes it. A child may stop reading."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes], given: bytes) -> None:
        self._loop, self._pipe, self._left = loop, pipe, memoryview(given)
        self._waiting = False
        self._write()

    def _write(self) -> None:
        try:
            while self._left:
                self._left = self._left[os.write(self._pipe.fileno(), self._left) :]
        except BlockingIOError:
            if not self._waiting:
                self._waiting = True
                self._loop.add_writer(self._pipe.fileno(), self._write)
            return
        except BrokenPipeError:
            pass
        self.close()

    def close(self) -> None:
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._pipe.fileno())
        self._pipe.close()


class _Drain:
    """Takes what a child writes. Beyond `most` bytes it calls `overrun`, once, and takes no more."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pipe: IO[bytes],
        most: int,
        overrun: Callable[[], None],
    ) -> None:
        self._loop, self._pipe, self._left, self._overrun = loop, pipe, most, overrun
        self._chunks: list[bytes] = []
        self._reading = True
        loop.add_reader(pipe.fileno(), self._read)

    @property
    def full(self) -> bool:
        return self._left < 0

    def _read(self) -> None:
        try:
            chunk = os.read(self._pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return
        self._chunks.append(chunk)
        self._left -= len(chunk)
        if self.full:
            self._overrun()
        if self.full or not chunk:
            self._stop()

    def _stop(self) -> None:
        self._reading = False
        self._loop.remove_reader(self._pipe.fileno())

    def close(self) -> bytes:
        """What the child wrote, all of it: what still lies in the pipe is taken out first."""
        while self._reading:
            before = len(self._chunks)
            self._read()
            if len(self._chunks) == before:
                self._stop()
        self._pipe.close()
        return b"".join(self._chunks)
