"""A git worktree and a branch for each worker, so that they do not get in each other's way.

Nothing is ever merged, and nothing removed: what a worker did stays on its branch.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fanfold.errors import Terminal

_SECONDS = 120


def isolated(store: Path, span: str, id: str) -> tuple[Path, str]:
    """The folder and the branch of a worker; known before they exist, and still known after."""
    run, _, number = span.partition(":")
    return store / "worktrees" / run / f"{id}-{number}", f"fanfold/{run}/{id}-{number}"


def make_worktree(folder: Path, store: Path, span: str, id: str) -> Path:
    """The folder inside a new worktree that `folder` is in its repository. It takes a while: not
    for the event loop's thread."""
    place, branch = isolated(store, span, id)
    top = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    inside = folder.resolve().relative_to(top.resolve())
    with _one_at_a_time(place.parent):
        if not place.exists():
            _git(top, "worktree", "add", "--quiet", "-b", branch, str(place), "HEAD")
    return place / inside


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """git may refuse to make two worktrees at once."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _git(folder: Path, *words: str) -> str:
    try:
        ended = subprocess.run(
            ["git", *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Terminal(f"isolation: worktree: git does not work: {error}", scope="member") from None
    if ended.returncode:
        said = " ".join(ended.stderr.decode(errors="replace").split())[:200]
        text = f"isolation: worktree needs a git repository with a commit in {folder}: {said}"
        raise Terminal(text, scope="member")
    return ended.stdout.decode(errors="replace")
