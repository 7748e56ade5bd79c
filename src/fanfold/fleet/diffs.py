"""What workers with a worktree of their own have changed. Read only: nothing is merged."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec

from fanfold.members.agents.worktree import begun_with, isolated

SECONDS = 60.0
MOST_LINES = 60


class Diff(msgspec.Struct, frozen=True):
    """A worker's branch against the commit that it began with. `stat` is git's own summary, with
    what is not committed yet; `new` are untracked files. `parents`: whose work was in that
    commit. `trouble`: why there is no diff."""

    branch: str
    folder: str
    base: str = ""
    stat: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    trouble: str = ""


def diff_of(store: Path, span: str, member: str) -> Diff:
    """The commit that its worktree began with is on record. For one of an earlier version it is found in
    git: the newest commit that both the branch and the checkout it was made from have."""
    folder, branch = isolated(store, span, member)
    begun = begun_with(folder)
    made = Diff(branch, str(folder), parents=() if begun is None else begun.parents)
    if not folder.is_dir():
        return msgspec.structs.replace(
            made, trouble="its worktree was removed; the branch may still exist"
        )
    try:
        base = _base(folder) if begun is None else begun.commit
        stat = _git(folder, "diff", "--stat=100", base).splitlines()
        new = _git(folder, "ls-files", "--others", "--exclude-standard").splitlines()
    except OSError as error:
        return msgspec.structs.replace(made, trouble=f"git failed: {error}")
    return msgspec.structs.replace(
        made, base=base, stat=tuple(stat[-MOST_LINES:]), new=tuple(new[:MOST_LINES])
    )


def _base(folder: Path) -> str:
    common = _git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir").strip()
    start = _git(Path(common), "rev-parse", "HEAD").strip()
    return _git(folder, "merge-base", start, "HEAD").strip()


def _git(folder: Path, *arguments: str) -> str:
    """Its own settings may start programs of the user's; none of them is needed to look."""
    around = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "-c", "core.quotepath=false", "--no-pager", *arguments],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False,
            env={**around, "GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise OSError("it takes too long") from None
    if done.returncode:
        raise OSError(" ".join(done.stderr.decode(errors="replace").split())[:200])
    return done.stdout.decode(errors="replace")
