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
        found = resolved(folder / name)
    except BadInput as error:
        raise BadInput(f"`{name}`: {error.what}") from None
    return found.is_relative_to(resolved(folder))


def resolved(path: str | Path) -> Path:
    """The path once links and `..` are resolved. BadInput for what is no path, and for links that lead to
    themselves, which some versions of Python refuse with a RuntimeError."""
    try:
        return Path(path).resolve()
    except ValueError:
        raise BadInput("not a path: it contains a null character") from None
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "too many levels of symbolic links"
        raise BadInput(why.lower(), file=str(path)) from None


def expanded(path: str | Path) -> Path:
    """The path with `~` as the home of its user; where there is no such user, it is a name like any other."""
    return Path(os.path.expanduser(path))
