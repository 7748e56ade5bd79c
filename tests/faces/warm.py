"""`fanfold` without the time that imports take: forked from a Python that has done them already.

For what is run to its end, many times. Commands that are watched or killed are started as their
users start them; see `cli`.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tests.faces import warm_client

CHILD = Path(__file__).with_name("warm_child.py")


class Call(NamedTuple):
    """`out` and `err` are files that are written."""

    folder: Path
    words: tuple[str, ...]
    env: dict[str, str]
    out: Path
    err: Path


class Warm:
    """It starts when it is first needed, with these modules imported beside those of all commands."""

    def __init__(self, env: dict[str, str], *modules: str) -> None:
        self._env, self._modules = env, modules

    def run(self, call: Call, seconds: float) -> int:
        """The exit code. It is killed when the time is over."""
        with (
            open(os.devnull, "rb") as nothing,
            call.out.open("wb") as out,
            call.err.open("wb") as err,
        ):
            streams = (nothing.fileno(), out.fileno(), err.fileno())
            link = warm_client.hand_over(
                self.address, str(call.folder), call.words, call.env, streams
            )
        with link:
            number = warm_client.number(link)
            link.settimeout(seconds)
            try:
                return warm_client.number(link)
            except TimeoutError:
                os.kill(number, signal.SIGKILL)
                raise AssertionError(f"{call.words} took more than {seconds} s") from None

    @property
    def command(self) -> list[str]:
        """The words of a program that is `fanfold` to whoever starts it."""
        return [sys.executable, "-I", "-S", warm_client.__file__, self.address]

    def write_program(self, path: Path) -> None:
        path.write_text(f'#!/bin/sh\nexec {shlex.join(self.command)} "$@"\n', encoding="utf-8")
        path.chmod(0o755)

    @cached_property
    def address(self) -> str:
        folder = tempfile.mkdtemp(prefix="warm-")
        address = f"{folder}/door"
        process = subprocess.Popen(
            [sys.executable, str(CHILD), address, *self._modules], env=self._env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"

        def end() -> None:
            process.communicate()  # it ends when nobody can ask any more
            shutil.rmtree(folder, ignore_errors=True)

        atexit.register(end)
        return address
