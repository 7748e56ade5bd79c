"""A git worktree and a branch for each worker, so that they do not get in each other's way.

One that depends on others begins with what they left: on its own branch, from a merge of theirs.
Nothing is ever merged into a branch of the user's or of another worker's, and nothing removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from fanfold.errors import MemberError, Terminal

_SECONDS = 120
_ALONE = (
    "-c", "user.name=fanfold", "-c", "user.email=fanfold@localhost", "-c", "commit.gpgsign=false",
    "-c", f"core.hooksPath={os.devnull}",
)  # fmt: skip
"""For commits that nobody wrote: nothing of the user's is asked or started."""


class ParentBranch(msgspec.Struct, frozen=True):
    """The worktree of a worker that others depend on."""

    id: str
    folder: Path
    branch: str


class WorktreeStart(msgspec.Struct, frozen=True):
    """What a worktree began with: a commit, and whose work was in it."""

    commit: str
    parents: tuple[str, ...] = ()


def isolated(store: Path, span: str, id: str) -> tuple[Path, str]:
    """The folder and the branch of a worker; known before they exist, and still known after."""
    run, _, number = span.partition(":")
    return store / "worktrees" / run / f"{id}-{number}", f"fanfold/{run}/{id}-{number}"


def make_worktree(
    folder: Path, store: Path, span: str, id: str, parents: Sequence[ParentBranch] = ()
) -> Path:
    """The folder inside a new worktree that `folder` is in its repository. It takes a while: not
    for the event loop's thread."""
    place, branch = isolated(store, span, id)
    top = Path(git(folder, "rev-parse", "--show-toplevel").strip())
    inside = folder.resolve().relative_to(top.resolve())
    with one_at_a_time(place.parent):
        if not place.exists():
            begun = beginning(top, place, parents)
            record_start(place, begun)
            git(top, "worktree", "add", "--quiet", "-b", branch, str(place), begun.commit)
    return place / inside


def begun_with(place: Path) -> WorktreeStart | None:
    """None for worktrees of versions that did not note it."""
    try:
        return msgspec.json.decode(_record(place).read_bytes(), type=WorktreeStart)
    except (OSError, msgspec.DecodeError):
        return None


def record_start(place: Path, begun: WorktreeStart) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    _record(place).write_bytes(msgspec.json.encode(begun))


def _record(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")


# ── what parents left ────────────────────────────────────────────────────────────────────────


def beginning(top: Path, place: Path, parents: Sequence[ParentBranch]) -> WorktreeStart:
    tips = [(one.id, tip(top, one)) for one in parents]
    if not tips:
        return WorktreeStart(git(top, "rev-parse", "--verify", "HEAD").strip())
    names = tuple(id for id, _ in tips)
    if len({commit for _, commit in tips}) == 1:
        return WorktreeStart(tips[0][1], names)
    return WorktreeStart(_merged(top, place.with_name(f"{place.name}.merge"), tips), names)


def tip(top: Path, one: ParentBranch) -> str:
    """Its last commit, and on top of that what it did not commit; its own worktree and branch stay
    as they are. The same work is the same commit, whoever begins with it: else two that did could not
    be merged later."""
    if not one.folder.is_dir():
        try:
            return git(top, "rev-parse", "--verify", f"refs/heads/{one.branch}").strip()
        except MemberError:
            what = f"the branch of {one.id}, {one.branch}, is gone"
            raise Terminal(f"isolation: worktree: {what}; relaunch {one.id}", scope="ask") from None
    head = git(one.folder, "rev-parse", "HEAD").strip()
    if not git(one.folder, "status", "--porcelain").strip():
        return head
    index = _record(one.folder).with_suffix(".index")
    own = git(one.folder, "rev-parse", "--path-format=absolute", "--git-path", "index").strip()
    try:
        with suppress(OSError):
            shutil.copyfile(own, index)
        env = {"GIT_INDEX_FILE": str(index)}
        git(one.folder, "add", "--all", env=env)
        tree = git(one.folder, "write-tree", env=env).strip()
    finally:
        index.unlink(missing_ok=True)
    at = git(one.folder, "show", "--no-patch", "--format=%cI", "HEAD").strip()
    then = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    said = f"What {one.id} left without a commit"
    return git(one.folder, *_ALONE, "commit-tree", tree, "-p", head, "-m", said, env=then).strip()


def _merged(top: Path, scratch: Path, tips: Sequence[tuple[str, str]]) -> str:
    """A commit with the work of all of them, made in a worktree that is gone afterwards."""
    (first, start), *others = tips
    with suppress(MemberError):  # of a process that died meanwhile
        git(top, "worktree", "remove", "--force", str(scratch))
    git(top, "worktree", "add", "--quiet", "--detach", str(scratch), start)
    try:
        done = [first]
        for id, commit in others:
            said = f"The work of {id} and {', '.join(done)}"
            ended = run_git(scratch, *_ALONE, "merge", "--quiet", "--no-edit", "-m", said, commit)
            if ended.returncode:
                raise Terminal(_conflict(scratch, id, done, ended), scope="ask")
            done.append(id)
        return git(scratch, "rev-parse", "HEAD").strip()
    finally:
        with suppress(MemberError):
            git(top, "worktree", "remove", "--force", str(scratch))


def _conflict(
    scratch: Path, id: str, done: Sequence[str], ended: subprocess.CompletedProcess[bytes]
) -> str:
    files = git(scratch, "diff", "--name-only", "--diff-filter=U").splitlines()
    if not files:
        return f"isolation: worktree: the work of {id} cannot be merged: {said_by(ended)}"
    named = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return (
        f"isolation: worktree: {id} and {' or '.join(done)} changed the same lines of {named};"
        " make one depend on the other, or relaunch one"
    )


# ── git ──────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """git may refuse to make two worktrees at once."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def git(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    ended = run_git(folder, *words, env=env)
    if ended.returncode:
        text = f"isolation: worktree needs a git repository with a commit in {folder}: {said_by(ended)}"
        raise Terminal(text, scope="member")
    return ended.stdout.decode(errors="replace")


def run_git(
    folder: Path, *words: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Which repository is meant follows from the folder, whatever the environment says."""
    around = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", "-c", "core.quotepath=false", *words], cwd=folder, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_SECONDS, check=False, env={**around, **(env or {})},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Terminal(f"isolation: worktree: git does not work: {error}", scope="member") from None


def said_by(ended: subprocess.CompletedProcess[bytes]) -> str:
    told = ended.stderr or ended.stdout
    return " ".join(told.decode(errors="replace").split())[:200]
