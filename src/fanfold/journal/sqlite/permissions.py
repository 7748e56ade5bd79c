"""A store is its owner's alone: it holds inputs and replies in full."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_FILES = (
    "journal.db",
    "journal.db-wal",
    "journal.db-shm",
    "journal.marks",
    "ballast",
    "setup.lock",
)
_FOLDERS = ("live", "inputs", "unsaved", "agents", "orders", "locks", "launched", "demo")


def made(folder: Path) -> Path:
    """The folder, for its owner alone if it is new. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def make_file(file: Path) -> None:
    """Empty, if there is none. SQLite gives its other files the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def tighten(folder: Path) -> None:
    """Take from others what an earlier version gave them. Only what is ours, and not a folder that
    we are in: that holds other things than the store."""
    for name in _FILES:
        _take_away(folder / name)
    for name in _FOLDERS:
        _take_away(folder / name)
    if not Path.cwd().is_relative_to(folder.absolute()):
        _take_away(folder)


def _take_away(path: Path) -> None:
    with suppress(OSError):
        stat = os.lstat(path)
        mode = stat.st_mode & 0o7777
        if stat.st_uid == os.geteuid() and mode & 0o077 and not path.is_symlink():
            path.chmod(mode & ~0o077)
