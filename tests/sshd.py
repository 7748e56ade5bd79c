"""A real sshd of the tests' own: its keys, its port, and who may log in are made for it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.faces.cli import SRC
from tests.postgres import end_with_us
from tests.waiting import wait_until

_SERVER = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication yes
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PrintMotd no
AcceptEnv FANFOLD_TEST_*
"""
_CLIENT = """\
Host *
  IdentityFile {folder}/key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  LogLevel ERROR
"""
_FANFOLD = """\
#!/bin/sh
export PYTHONPATH={src} HOME={home} LANG=C.UTF-8 MODEL_KEY=secret
unset XDG_STATE_HOME
exec {python} -m fanfold "$@"
"""


class SshServer:
    """`url` is how rosters name it; `place` the whole `at`. What logs in has the folder `home`."""

    def __init__(self, folder: Path, address: str, before: Sequence[str]) -> None:
        self.folder, self.address, self._before = folder, address, before
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("host_key", "key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True)
        for _ in range(10):  # somebody else may get the port before it is used
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            self._write()
            if self.start():
                return
        raise AssertionError((folder / "sshd.log").read_text())

    def _write(self) -> None:
        folder = self.folder
        shutil.copy(folder / "key.pub", folder / "authorized_keys")
        known = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"[{self.address}]:{self.port} {known}")
        server = _SERVER.format(port=self.port, address=self.address, folder=folder)
        (folder / "sshd_config").write_text(server)
        (folder / "ssh_config").write_text(_CLIENT.format(folder=folder))
        program = folder / "fanfold"
        program.write_text(_FANFOLD.format(src=SRC, home=self.home, python=sys.executable))
        program.chmod(0o755)

    @property
    def url(self) -> str:
        return f"ssh://{self.address}:{self.port}{self.home}"

    @property
    def place(self) -> str:
        """As it stands behind `at:`, for this host alone."""
        return place_of([self], self)

    def start(self) -> bool:
        """False: it has ended at once, since the port is taken."""
        words = [
            *self._before,
            "/usr/sbin/sshd",
            "-D",
            "-e",
            "-f",
            str(self.folder / "sshd_config"),
        ]
        Path("/run/sshd").mkdir(exist_ok=True)
        with (self.folder / "sshd.log").open("ab") as log:
            process = self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_us
            )
        wait_until(lambda: process.poll() is not None or self._answers())
        return process.poll() is None

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.address, self.port), timeout=10) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def cut(self) -> None:
        """All connections end at once, as if their network had gone; new ones are accepted."""
        assert self._process is not None
        for pid in _descendants(self._process.pid):
            with suppress(OSError):  # it is gone by now
                if Path(f"/proc/{pid}/comm").read_text().strip().startswith("sshd"):
                    os.kill(pid, 9)

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


def place_of(servers: Sequence[SshServer], like: SshServer, slots: int = 8) -> str:
    """Hosts with the keys of one of them."""
    urls = ", ".join(one.url for one in servers)
    folder = like.folder
    return (
        f"{{ssh: [{urls}], program: {folder}/fanfold, config: {folder}/ssh_config,"
        f" roster: workers.yaml, slots: {slots}}}"
    )


@contextmanager
def sshd(
    folder: Path, address: str = "127.0.0.1", before: Sequence[str] = ()
) -> Iterator[SshServer]:
    if not Path("/usr/sbin/sshd").exists() or shutil.which("ssh") is None:
        pytest.skip("sshd is not installed: make hosts")
    if os.geteuid() != 0:
        pytest.skip("sshd is started as root here")
    server = SshServer(folder, address, before)
    try:
        yield server
    finally:
        server.stop()


def _descendants(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [one for child in map(int, text.split()) for one in (child, *_descendants(child))]
