"""Worktrees of workers: what one begins with that depends on others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fanfold.errors import Terminal
from fanfold.members.agents.worktree import (
    ParentBranch,
    WorktreeStart,
    begun_with,
    isolated,
    make_worktree,
)

LONG_AGO = "2001-02-03T04:05:06Z"


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    env = {"GIT_AUTHOR_DATE": LONG_AGO, "GIT_COMMITTER_DATE": LONG_AGO, "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(
        ["git", *own, *words], cwd=folder, env=env, capture_output=True, check=True
    )
    return ended.stdout.decode().strip()


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def made(top: Path, id: str, no: int, *parents: ParentBranch) -> ParentBranch:
    store = top.parent / "store"
    make_worktree(top, store, f"RUN:{no}", id, parents)
    return ParentBranch(id, *isolated(store, f"RUN:{no}", id))


def test_without_parents_it_begins_with_what_is_checked_out(top: Path) -> None:
    one = made(top, "w", 1)
    assert begun_with(one.folder) == WorktreeStart(git(top, "rev-parse", "HEAD"))
    assert git(one.folder, "branch", "--show-current") == "fanfold/RUN/w-1"


def test_the_same_work_is_the_same_commit_whoever_begins_with_it_and_when(top: Path) -> None:
    """Or two that did could not be merged later, where one of them changed it further."""
    parent = made(top, "p", 1)
    (parent.folder / "new.txt").write_text("new\n")
    first, second = made(top, "a", 2, parent), made(top, "b", 3, parent)
    begun = begun_with(first.folder)
    assert begun is not None and begun == begun_with(second.folder)
    assert begun.parents == ("p",)
    assert git(top, "show", "--no-patch", "--format=%ct %at", begun.commit) == "981173106 981173106"
    assert (second.folder / "new.txt").read_text() == "new\n"
    assert git(parent.folder, "status", "--porcelain") == "?? new.txt"


def test_a_worktree_that_is_gone_leaves_its_branch_and_one_without_is_a_reason(top: Path) -> None:
    parent = made(top, "p", 1)
    (parent.folder / "new.txt").write_text("new\n")
    git(parent.folder, "add", ".")
    git(parent.folder, "commit", "--quiet", "-m", "work")
    git(top, "worktree", "remove", "--force", str(parent.folder))
    assert (made(top, "a", 2, parent).folder / "new.txt").exists()
    git(top, "branch", "-D", parent.branch)
    with pytest.raises(Terminal) as raised:
        made(top, "b", 3, parent)
    assert str(raised.value) == (
        "isolation: worktree: the branch of p, fanfold/RUN/p-1, is gone; relaunch p"
    )
    assert not isolated(top.parent / "store", "RUN:3", "b")[0].exists()
