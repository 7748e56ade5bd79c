"""Starting a host: its files first, then a process that has nothing to do with ours."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fanfold.errors import FanfoldError
from fanfold.members.agents.logs import append
from fanfold.members.agents.startup import await_start
from fanfold.members.agents.worker import FILES, PROMPT, SPEC, Spec, put_file, sync_folder
from fanfold.work.member import PARENT

HOST_LOG = "host.log"
_AT_MOST = 60.0  # seconds until a host that says nothing is given up
_BOOT = "import sys; sys.path += sys.argv[4:]; from fanfold.members.agents.host import main; main()"


class NotHosted(FanfoldError):
    """The host of a worker died before it could say whether the program runs."""


def prepare(place: Path, spec: Spec, prompt: bytes) -> None:
    """The folder as a host expects it: durable, and without the files of an earlier worker."""
    if any("\0" in word for word in spec.words):
        raise OSError(errno.EINVAL, "a word holds a NUL", spec.words[0])
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
