"""A disk of four megabytes, in memory. Mounting takes root; without it, tests that need one skip."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """An empty file system of its own in `folder`."""
    folder.mkdir()
    done = _run("mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder))
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        assert _run("umount", str(folder)).returncode == 0


def make_read_only(disk: Path) -> None:
    assert _run("mount", "-o", "remount,ro", str(disk)).returncode == 0


def fill(disk: Path) -> None:
    """Until not a byte goes in any more."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            return


def make_room(disk: Path) -> None:
    (disk / "filler").unlink()


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True)
    except OSError as error:
        return subprocess.CompletedProcess(words, 1, "", str(error))
