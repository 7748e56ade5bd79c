"""Small and read-only disks, as far as this machine lets us make them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk in memory of that size, mounted at `folder`. Needs root; skips the test otherwise."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    folder.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing can be written below `folder`, which is a small disk when we are root."""
    if os.geteuid() == 0:
        mount("-o", "remount,ro", str(folder))
        try:
            yield
        finally:
            mount("-o", "remount,rw", str(folder))
        return
    folder.chmod(0o500)
    try:
        yield
    finally:
        folder.chmod(0o700)
