"""Three hosts on one machine: network namespaces with a bridge between them, and names and process
numbers of their own. Nothing outside these namespaces gets an address, and all is gone with this process.

The test itself is in the network of the laboratory, which the model server is in too.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.faces.cli import Ended, Program
from tests.waiting import wait_until

LAB = "10.77.0.1"
_NETWORK = 0x40000000  # CLONE_NEWNET
_HOLDER = """
import ctypes, os, socket, sys, time
ctypes.CDLL(None).prctl(1, 9)
if sys.argv[1]:
    socket.sethostname(sys.argv[1])
print("ready", flush=True)
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.1)
"""
"""The first process of a namespace: it gives the name, and reaps what nobody else waits for."""


class Host:
    """`crash` ends every process on it; `cut` and `mend` are its link."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.address, self._link = name, f"10.77.0.{10 + number}", f"to{number}"
        self._holder = _holder("--net", "--uts", "--pid", "--fork", "--mount-proc", name=name)
        self._inner = _child(self._holder)
        _ip(
            "link",
            "add",
            self._link,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(self._inner),
        )
        _ip("link", "set", self._link, "master", "bridge", "up")
        for words in (("lo",), ("eth0",)):
            self._do("ip", "link", "set", *words, "up")
        self._do("ip", "address", "add", f"{self.address}/24", "dev", "eth0")

    def words(self, *, process_numbers: bool = True) -> list[str]:
        """What a command is started with, to be on this host. Without its own process numbers, the
        process that is started is the command itself."""
        own = ("--pid", "--mount") if process_numbers else ()
        return ["nsenter", "--target", str(self._inner), "--net", "--uts", *own]

    def _do(self, *words: str) -> None:
        subprocess.run([*self.words(), *words], check=True, capture_output=True)

    @contextmanager
    def started(self, folder: Path, *words: str, **env: str) -> Iterator[HostProgram]:
        """`fanfold WORDS` on this host."""
        program = HostProgram(folder, words, env, [*self.words(), f"--wd={folder}"])
        try:
            yield program
        finally:
            program.kill()

    def fanfold(self, folder: Path, *words: str, **env: str) -> Ended:
        """`fanfold WORDS` on this host, to its end."""
        with self.started(folder, *words, **env) as program:
            return program.end()

    def cut(self) -> None:
        _ip("link", "set", self._link, "down")

    def mend(self) -> None:
        _ip("link", "set", self._link, "up")

    def processes(self) -> list[str]:
        """The command lines of all that runs here, but for the first process."""
        said = subprocess.run(
            [*self.words(), "ps", "-eo", "pid=,args="], check=True, capture_output=True, text=True
        )
        lines = [line.split(maxsplit=1) for line in said.stdout.splitlines()]
        return [words for number, words in lines if number != "1" and "ps -eo" not in words]

    def outside(self) -> list[tuple[int, str]]:
        """All that runs here, each with its number outside of the host and its command line."""
        mine, found = os.stat(f"/proc/{self._inner}/ns/pid").st_ino, []
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                if folder.name.isdigit() and os.stat(folder / "ns" / "pid").st_ino == mine:
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found.append((int(folder.name), words.decode(errors="replace")))
        return found

    def crash(self) -> None:
        """All its processes end at once, and it is off."""
        with suppress(ProcessLookupError):
            os.kill(self._inner, signal.SIGKILL)
        _end(self._holder)

    def close(self) -> None:
        if self._holder.poll() is None:
            self.crash()


class HostProgram(Program):
    """Between it and us is the process that entered the host, which is not signalled."""

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # it ends by itself meanwhile
            if self.process.poll() is None:
                self.send(signal.SIGKILL)
        self.process.wait()

    @property
    def pid(self) -> int:
        """Its number outside of the host."""
        return _child(self.process)


class Laboratory:
    """A bridge, and hosts on it."""

    def __init__(self, names: Sequence[str]) -> None:
        self._holder = _holder("--net")
        self._before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.hosts: list[Host] = []
        try:
            self._enter()
            self.hosts += [Host(name, number) for number, name in enumerate(names)]
        except BaseException:
            self.close()
            raise

    def _enter(self) -> None:
        handle = os.open(f"/proc/{self._holder.pid}/ns/net", os.O_RDONLY)
        _set_network(handle)
        os.close(handle)
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "bridge", "type", "bridge")
        _ip("address", "add", f"{LAB}/24", "dev", "bridge")
        _ip("link", "set", "bridge", "up")

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        _set_network(self._before)
        os.close(self._before)
        _end(self._holder)


@contextmanager
def laboratory(*names: str) -> Iterator[list[Host]]:
    """Hosts of these names. Skips the test where namespaces cannot be had."""
    why = _missing()
    if why:
        if os.environ.get("FANFOLD_HOSTS") == "required":
            pytest.fail(f"network namespaces are required here: {why}")
        pytest.skip(f"no network namespaces: {why}")
    made = Laboratory(names)
    try:
        yield made.hosts
    finally:
        made.close()


def _missing() -> str:
    for program in ("ip", "unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"{program} is not installed: make hosts"
    words = ["unshare", "--net", "--uts", "--pid", "--fork", "--mount-proc", "ip", "link", "add",
             "try0", "type", "veth", "peer", "name", "try1"]  # fmt: skip
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    return " ".join(tried.stderr.split()) if tried.returncode else ""


def _holder(*kinds: str, name: str = "") -> subprocess.Popen[bytes]:
    words = ["unshare", *kinds, *(("--kill-child",) if "--fork" in kinds else ())]
    held = subprocess.Popen(
        [*words, sys.executable, "-S", "-c", _HOLDER, name], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, preexec_fn=_end_with_us,
    )  # fmt: skip
    assert held.stdout is not None
    assert held.stdout.readline() == b"ready\n"
    return held


def _child(process: subprocess.Popen[bytes]) -> int:
    """The only child of a process; of one that has just begun it is waited for. ProcessLookupError: it has
    ended."""
    children, found = Path(f"/proc/{process.pid}/task/{process.pid}/children"), list[int]()

    def has_one() -> bool:
        with suppress(OSError):
            found.extend(map(int, children.read_text().split()))
        return bool(found)

    wait_until(lambda: has_one() or process.poll() is not None)
    if not found:
        raise ProcessLookupError(process.pid)
    return found[0]


def _end(holder: subprocess.Popen[bytes]) -> None:
    holder.kill()
    holder.wait()
    assert holder.stdout is not None
    holder.stdout.close()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _set_network(handle: int) -> None:
    """Of this thread, and of what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(handle, _NETWORK):
        raise OSError(ctypes.get_errno(), "the network cannot be entered")


def _end_with_us() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
