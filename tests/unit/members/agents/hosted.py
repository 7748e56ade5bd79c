"""Real workers for tests: small programs in real hosts, judged by /proc and by files."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from pathlib import Path

import msgspec

from fanfold.members.agents.hosting import Host, find, start
from fanfold.members.agents.process_tree import ControlGroup
from fanfold.members.agents.worker import (
    HOST,
    LOG,
    Exit,
    HostRecord,
    Spec,
    WorkerLimits,
    read_host,
    write_durably,
)
from tests.waiting import LONG, wait_until

PATH = {"PATH": os.environ["PATH"]}
SPAN = f"01ARZ3NDEKTSV4RR{secrets.token_hex(5).upper()}:1"  # nobody else's, also in tests at once

# Forks twice and makes a session of its own, as daemons do, and writes its number to a file.
DAEMON = """
import os, sys, time
if os.fork(): os.wait(); {then}
os.setsid()
if os.fork(): os._exit(0)
if {bare}: os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", BODY], {{}})
exec(BODY)
"""
BODY = "import os, time; open({file!r}, 'w').write(str(os.getpid()) + ';'); time.sleep(300)"


def daemon(file: Path, then: str, *, bare: bool = False) -> tuple[str, ...]:
    """A program that leaves a daemon and then does `then`. `bare`: the daemon keeps no variables."""
    body = BODY.format(file=str(file))
    return python(f"BODY = {body!r}" + DAEMON.format(then=then, bare=bare))


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code)


def sh(line: str) -> tuple[str, ...]:
    return ("sh", "-c", line)


def stated(words: tuple[str, ...], folder: Path, **more: object) -> Spec:
    bounds = more.pop("bounds", WorkerLimits())
    span = more.pop("span", SPAN)
    return Spec(
        span=str(span), id="worker", dialect=str(more.pop("dialect", "claude")), words=words,
        folder=str(folder), bounds=bounds, meter=str(more.pop("meter", "")),
        listens=bool(more.pop("listens", False)),
    )  # type: ignore[arg-type]  # fmt: skip


class Stage:
    """A folder with workers in it; all are gone when the test is over."""

    def __init__(self, root: Path) -> None:
        self.root, self._places = root, list[tuple[Path, str]]()
        self._groups = list[Path]()

    def start(
        self, words: tuple[str, ...], *, name: str = "place", prompt: bytes = b"", **more: object
    ) -> Host:
        place, spec = self.root / name, stated(words, self.root, **more)
        self._places.append((place, spec.span))
        return asyncio.run(start(place, spec, prompt, PATH))

    def clear(self) -> None:
        for place, span in self._places:
            host = find(place, span)
            if host is not None:
                assert asyncio.run(host.killed("killed", "the test is over"))
        for group in self._groups:
            ControlGroup(group).remove()

    def forget_group(self, host: Host) -> None:
        """As on a machine that gives none, for whoever looks for what a dead host left."""
        record = record_of(host)
        write_durably(host.place / HOST, msgspec.structs.replace(record, group=""))
        if record.group:
            self._groups.append(Path(record.group))


def record_of(host: Host) -> HostRecord:
    found = read_host(host.place)
    assert found is not None
    return found


until = wait_until


def ended(host: Host) -> Exit | None:
    return asyncio.run(asyncio.wait_for(host.ended(), LONG))


def how(exit: Exit | None) -> tuple[int, str, str]:
    assert exit is not None
    return exit.code, exit.why, exit.said


def log_of(host: Host) -> str:
    return (host.place / LOG).read_text()


def number_in(file: Path) -> int:
    """The process number that a program has written, whole, into a file."""
    until(lambda: file.exists() and file.read_text().endswith(";"))
    return int(file.read_text()[:-1])


def runs(pid: int) -> bool:
    """By /proc: there, and not just a dead one that nobody has reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


def kill_host(host: Host) -> None:
    """The host dies at once, and cannot do a thing about it."""
    pid = record_of(host).host.pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: not runs(pid))


def command_lines() -> list[str]:
    """The words of every process of the machine."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found
