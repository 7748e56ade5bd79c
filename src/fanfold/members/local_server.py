"""The embedded model's server, as seen by the process that owns it: started, watched, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

import msgspec

from fanfold.errors import Terminal
from fanfold.members.process import kill_group
from fanfold.work.ask import Ask, Reply
from fanfold.work.member import Member, Request, Tell, Traits

PROGRAM = Path(__file__).with_name("local_engine.py")
SECONDS_TO_START = 120.0
SECONDS_TO_END = 5.0
_PASSED_ON = (
    "PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
)  # fmt: skip
_ERROR = re.compile(r"[\d.]+ E [^:]*: (.+)")
_TOLD = 300


class Serving(msgspec.Struct, frozen=True):
    """How to serve. `path` is where the engine is imported from, None where it is installed;
    `context` is that of each slot; `embedding`: it makes vectors, no texts,
    by this pooling; that of the `model`, say."""

    model: str
    name: str
    path: str | None
    slots: int
    context: int
    threads: int
    embedding: str = ""


class _Said(msgspec.Struct):
    address: str = ""
    error: str = ""


class Server:
    """A process of its own on loopback, with a key that only its owner knows.

    It gets nothing of our environment but what a program needs to start, so no key of anybody. It
    ends with `stop`, and by itself when this process does, in whatever way: it holds one end of a
    pipe and sees the other go.
    """

    def __init__(self, member: str, serving: Serving) -> None:
        self._member, self._serving = member, serving
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self.key = secrets.token_urlsafe(32)
        self.address = ""

    def __repr__(self) -> str:
        return f"<Server of {self._member} {self.address if self.runs else 'not running'}>"

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Until the model is loaded. Terminal for the member if that does not come about."""
        await self.stop()
        try:
            process = self._launch()
            async with asyncio.timeout(SECONDS_TO_START):
                said = await asyncio.to_thread(_line, process)
        except TimeoutError:
            await self.stop()
            raise self._trouble(f"not ready within {SECONDS_TO_START:g} s") from None
        except OSError as error:
            raise self._trouble(str(error.strerror)) from None
        except BaseException:
            await self.stop()
            raise
        if not said.address:
            why = await self._complaint(said.error)
            await self.stop()
            raise self._trouble(why)
        self.address = said.address

    def _launch(self) -> subprocess.Popen[bytes]:
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0,
            start_new_session=True, env={**env, "OMP_WAIT_POLICY": "PASSIVE"},
        )  # fmt: skip
        how = {**msgspec.structs.asdict(self._serving), "key": self.key}
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended at once; what it said tells why
            self._process.stdin.write(msgspec.json.encode(how) + b"\n")
        return self._process

    async def _complaint(self, error: str) -> str:
        """The first error in the engine's log, else what the program says itself, else its last
        line."""
        assert self._process is not None and self._log is not None
        await asyncio.to_thread(_wait, self._process)
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 65_536))
        lines = self._log.read().decode(errors="replace").splitlines()
        logged = next((found[1] for line in lines if (found := _ERROR.match(line))), "")
        return logged or error or (lines or ["it ended at once"])[-1].strip()

    def _trouble(self, why: str) -> Terminal:
        what = f"{self._member}: the embedded model cannot be started: "
        return Terminal(what + why[:_TOLD], scope="member")

    async def stop(self) -> None:
        """Ends it, and waits until it has. Doing it again does nothing."""
        process, log = self._process, self._log
        self._process = self._log = None
        self.address = ""
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            await asyncio.shield(asyncio.to_thread(_wait, process))
            process.stdout.close()
        if log is not None:
            log.close()


def _line(process: subprocess.Popen[bytes]) -> _Said:
    assert process.stdout is not None
    said = b""
    while not said.endswith(b"\n") and (more := process.stdout.read(4096)):
        said += more
    try:
        return msgspec.json.decode(said, type=_Said)
    except msgspec.DecodeError:
        return _Said()


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.wait()


class EngineMember:
    """A member in a server of its own that comes and goes with us. It is started when the member is
    opened, and again when it has died since; what was under way then is lost and tried again by the run.

    A kind says how it is served (BadInput when something is missing, with what to do), and who speaks to
    the server at an address.
    """

    def __init__(self, traits: Traits) -> None:
        self._traits = traits
        self._server: Server | None = None
        self._wire = self.speaking("http://127.0.0.1:0")
        self._starting = asyncio.Lock()

    def serving(self) -> Serving:
        raise NotImplementedError

    def speaking(self, address: str) -> Member:
        raise NotImplementedError

    @property
    def traits(self) -> Traits:
        return self._traits

    @property
    def server(self) -> Server | None:
        return self._server

    def key(self) -> str | None:
        return self._server.key if self._server else None

    async def open(self) -> None:
        async with self._starting:
            if self._server is None:
                self._server = Server(self._traits.id, self.serving())
            if not self._server.runs:
                await self._server.start()
                await self._wire.close()
                self._wire = self.speaking(self._server.address)
                await self._wire.open()

    async def close(self) -> None:
        await self._wire.close()
        if self._server is not None:
            await self._server.stop()

    def prepare(self, ask: Ask) -> Request:
        return self._wire.prepare(ask)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        await self.open()
        return await self._wire.ask(request, tell)
