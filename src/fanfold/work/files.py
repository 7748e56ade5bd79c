"""Files that are replaced atomically, and paths that stay in their folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from fanfold.errors import BadInput

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | os.O_CLOEXEC


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file beside `path` that takes its place when it is complete.

    Its name is random and it must be new: a link at that path is not followed.
    """
    scratch = path.with_name(f".{path.name[:200]}.{os.urandom(8).hex()}.part")
    handle = os.open(scratch, _NEW, mode)
    try:
        with open(handle, "wb") as out:
            yield out
        os.replace(scratch, path)
    finally:
        with suppress(FileNotFoundError):
            scratch.unlink()


def is_inside(folder: Path, name: str | Path) -> bool:
    """Whether a path is inside the folder once links and `..` are resolved. BadInput for what is no path."""
    try:
        return (folder / name).resolve().is_relative_to(folder.resolve())
    except ValueError:
        raise BadInput("not a path: it contains a null character") from None
