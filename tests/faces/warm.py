"""`fanfold` without the time that imports take: forked from a Python that has done them already."""

from __future__ import annotations

import atexit
import fcntl
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from tests.faces import warm_client
from tests.faces.warm_child import PYTHON

CHILD = Path(__file__).with_name("warm_child.py")
AS_PYTHON = """\
#!/bin/sh
case "$1 $2 $3 $4" in
  "-P -m fanfold mcp") door={folder}/mcp;;
  "-P -m fanfold "* | "-P -m fanfold.fleet.supervisor "*) door={folder}/commands;;
esac
test -S "$door" && exec {python} -I -S {client} "$door" "$@"
exec {python} "$@"
"""
"""What forks take for Python: where they start a `fanfold`, it is forked too."""


class Call(NamedTuple):
    """`out` and `err` are files that are written. `code`: what Python does, instead of `fanfold`."""

    folder: Path
    words: tuple[str, ...]
    env: dict[str, str]
    out: Path
    err: Path
    code: str = ""


class Fork:
    """A fork under way, with what the tests use of `subprocess.Popen`. Its number is its own, so that
    a signal reaches it and nobody else."""

    def __init__(self, link: socket.socket, words: tuple[str, ...]) -> None:
        self._link, self._words = link, words
        self.pid = warm_client.number(link)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._link], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._link], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._words, timeout or 0.0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        with self._link:
            self.returncode = warm_client.number(self._link)


_shared: list[Path] = []


def share(folder: Path) -> None:
    """The processes that another one has started there are used: none is started here."""
    _shared.append(folder)


@cache
def doors() -> Path:
    if _shared:
        return _shared[0]
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program, client = shlex.quote(sys.executable), shlex.quote(warm_client.__file__)
    shim = folder / PYTHON
    shim.write_text(AS_PYTHON.format(folder=folder, python=program, client=client))
    shim.chmod(0o755)
    return folder


class Warm:
    """It starts when it is first needed, with these modules imported beside those of all commands."""

    def __init__(self, name: str, env: dict[str, str], *modules: str) -> None:
        self._name, self._env, self._modules = name, env, modules

    def start(self, call: Call) -> Fork:
        with (
            open(os.devnull, "rb") as nothing,
            call.out.open("wb") as out,
            call.err.open("wb") as err,
        ):
            streams = {0: nothing.fileno(), 1: out.fileno(), 2: err.fileno()}
            link = warm_client.hand_over(
                self.address, str(call.folder), call.words, call.env, streams, code=call.code
            )
        return Fork(link, call.words)

    def run(self, call: Call, seconds: float) -> int:
        """The exit code. It is killed when the time is over."""
        fork = self.start(call)
        try:
            return fork.wait(seconds)
        except subprocess.TimeoutExpired:
            fork.kill()
            raise AssertionError(f"{call.words} took more than {seconds} s") from None

    @property
    def command(self) -> list[str]:
        """The words of a program that is `fanfold` to whoever starts it."""
        return [sys.executable, "-I", "-S", warm_client.__file__, self.address]

    def write_program(self, path: Path, *words: str) -> None:
        """With these words before its own. `-c CODE`: a program in Python, instead of `fanfold`."""
        command = shlex.join([*self.command, *words])
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        path.chmod(0o755)

    @cached_property
    def address(self) -> str:
        if not _shared:
            self.open()
        address = doors() / self._name
        with self._lock().open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)  # until it is ready
        assert address.exists(), f"what forks {self._name} did not start"
        return str(address)

    def open(self) -> None:
        """It holds a lock until it is ready, and ends when this process does, however that ends."""
        address = str(doors() / self._name)
        with self._lock().open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            held = lock.fileno()
            process = subprocess.Popen(
                [sys.executable, str(CHILD), address, str(held), *self._modules], env=self._env,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[held],
            )  # fmt: skip
        atexit.register(process.communicate)

    def _lock(self) -> Path:
        return doors() / f"{self._name}.lock"
