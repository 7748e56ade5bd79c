"""A PostgreSQL server of the tests' own, in a folder of its own; one for each process that needs it."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import LONG

USER = "fanfold"
_FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=200",
         "restart_after_crash=off", "log_min_messages=fatal")  # fmt: skip


class PostgresServer:
    """`kill` ends it hard, as a crash would; `start` brings it back with what was durable. `before`:
    words of a command that starts it elsewhere, with that address. `tls`: a certificate, whose key is beside
    it; without TLS nobody is let in then."""

    def __init__(
        self,
        programs: Path,
        folder: Path,
        address: str = "127.0.0.1",
        before: Sequence[str] = (),
        tls: Path | None = None,
    ) -> None:
        self._address, self._before, self._more = address, before, tuple[str, ...]()
        self._psycopg = pytest.importorskip("psycopg")
        self._programs, self._data, self._log = programs, folder / "data", folder / "log"
        self._owner = _other_user()
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        if self._owner is not None:
            shutil.chown(folder, self._owner)
        words = [programs / "initdb", "-D", self._data, "-A", "trust", "-U", USER, "-E", "UTF8",
                 "--locale=C", "--no-sync", "--no-instructions"]  # fmt: skip
        subprocess.run(words, check=True, user=self._owner, cwd="/", stdout=subprocess.DEVNULL)
        if before:
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")
        if tls is not None:
            self._use(tls)
        self.start()

    def _use(self, tls: Path) -> None:
        for name, file in (("server.crt", tls), ("server.key", tls.with_suffix(".key"))):
            shutil.copyfile(file, self._data / name)
            (self._data / name).chmod(0o600)
            if self._owner is not None:
                shutil.chown(self._data / name, self._owner)
        (self._data / "pg_hba.conf").write_text("hostssl all all all trust\n")
        self._more = ("ssl=on",)

    def start(self) -> None:
        """It may have to wait until what a killed one left behind has ended, or until somebody else has done
        with its port."""
        deadline = time.monotonic() + LONG
        while True:
            self._launch()
            if self._answers():
                return
            assert time.monotonic() < deadline, self._log.read_text()

    def _launch(self) -> None:
        words = [self._programs / "postgres", "-D", self._data, "-p", str(self.port), "-k", ""]
        fast = (*_FAST, *self._more, f"listen_addresses={self._address}")
        settings = (word for one in fast for word in ("-c", one))
        before, owner = self._before, self._owner
        if before and owner is not None:
            before, owner = [*before, "setpriv", "--reuid", owner, "--clear-groups"], None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*before, *words, *settings], user=owner, cwd="/", stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, preexec_fn=end_with_us,
            )  # fmt: skip

    def _answers(self) -> bool:
        assert self._process is not None
        while self._process.poll() is None:
            with suppress(self._psycopg.OperationalError):
                self.run("select 1")
                return True
            time.sleep(0.02)
        return False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def start_again(self) -> None:
        """If it was killed."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._data.parent, ignore_errors=True)

    def _end(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait()

    def place(self, schema: str = "", port: int = 0) -> str:
        """A new store on it, or the one of that name; through another port, if there is a proxy."""
        name = schema or f"s{secrets.token_hex(8)}"
        return f"postgresql://{USER}@{self._address}:{port or self.port}/postgres?schema={name}"

    def run(self, statements: str) -> list[Any]:
        address = f"postgresql://{USER}@{self._address}:{self.port}/postgres"
        with self._psycopg.connect(address, autocommit=True) as connection:
            done = connection.execute(statements)
            return done.fetchall() if done.description else []


@lru_cache(1)
def server() -> PostgresServer:
    """That of this process, started when it is first asked for. Skips the test where there is none."""
    pytest.importorskip(
        "psycopg", reason="psycopg is not installed: pip install 'fanfold[postgres]'"
    )
    return PostgresServer(_installed(), _folder())


@contextmanager
def server_at(
    address: str, before: Sequence[str] = (), tls: Path | None = None
) -> Iterator[PostgresServer]:
    """One that is started by the command `before`, on that address; `tls`: as of `PostgresServer`."""
    pytest.importorskip("psycopg")
    started = PostgresServer(_installed(), _folder(), address, before, tls)
    try:
        yield started
    finally:
        started.remove()


def _installed() -> Path:
    programs = _programs()
    if programs is None:
        if os.environ.get("FANFOLD_POSTGRES") == "required":
            pytest.fail("PostgreSQL is required here, and it is not installed")
        pytest.skip("PostgreSQL is not installed: make postgres")
    return programs


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fanfold-postgres-"))
    folder.chmod(0o755)
    return folder


def shut_down() -> None:
    """That of this process, if it was asked for."""
    if server.cache_info().currsize:
        server().remove()
        server.cache_clear()


def _programs() -> Path | None:
    found = [Path(path).resolve().parent for path in [shutil.which("postgres")] if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists()), None)


def _other_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    return None if os.geteuid() else "nobody"


def end_with_us() -> None:
    """Also when the tests are killed."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(1, signal.SIGINT)
