"""Items from outside of files: what stdin, a program or a URL gives, written to a file as it comes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import IO

from fanfold.errors import BadInput
from fanfold.plans.header import Input
from fanfold.work.document import why_unreadable

_HTTP_SECONDS = 60.0
HTTP_BYTES = 1_000_000_000
STDIN = {"-": "stdin", "/dev/stdin": "stdin"}


def bad(spec: Input, what: str) -> BadInput:
    return BadInput(what, file=spec.file, line=spec.line)


def drain(spec: Input, to: IO[bytes]) -> None:
    is_stdin = spec.value in STDIN
    if is_stdin and sys.stdin.isatty():
        what = "stdin is a terminal; pipe the items in, or name a file"
        raise bad(spec, f"input `{spec.value}`: {what}")
    try:
        with open(os.dup(0) if is_stdin else spec.value, "rb") as stream:
            shutil.copyfileobj(stream, to, 1 << 20)
    except OSError as error:
        raise bad(spec, f"input `{spec.value}`: {why_unreadable(error)}") from None


def run_command(spec: Input, folder: Path, to: IO[bytes]) -> None:
    cmd: list[str] = list(spec.value)
    try:
        ended = subprocess.run(
            cmd, cwd=folder, stdin=subprocess.DEVNULL, stdout=to, stderr=subprocess.PIPE
        )
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise bad(spec, f"input command `{cmd[0]}` cannot be started: {why}") from None
    if ended.returncode:
        said = " ".join(ended.stderr[-2000:].decode(errors="replace").split())[-200:]
        tail = f": {said}" if said else ""
        raise bad(spec, f"input command `{cmd[0]}` ended with {ended.returncode}{tail}")


def copy(spec: Input, response: IO[bytes], to: IO[bytes], most: int = HTTP_BYTES) -> None:
    """A piece at a time, so that only the disk has to hold it."""
    while piece := response.read(1 << 20):
        most -= len(piece)
        if most < 0:
            what = f"input URL answers with more than {HTTP_BYTES / 1e9:g} GB"
            raise bad(spec, f"{what}; download it and name the file instead")
        to.write(piece)


def fetch(spec: Input, to: IO[bytes]) -> None:
    request = urllib.request.Request(spec.value, headers={"User-Agent": "fanfold"})
    try:
        with urllib.request.urlopen(request, timeout=_HTTP_SECONDS) as response:
            copy(spec, response, to)
    except urllib.error.HTTPError as error:
        with error:
            raise bad(spec, f"input URL answered {error.code} {error.reason}") from None
    except (
        urllib.error.URLError,
        HTTPException,
        TimeoutError,
        ConnectionError,
        ValueError,
    ) as error:
        why = getattr(error, "reason", None) or error
        raise bad(spec, f"input URL cannot be read: {why or type(error).__name__}") from None
