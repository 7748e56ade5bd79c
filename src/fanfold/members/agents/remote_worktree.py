"""A worktree on another machine than its repository: the commit goes there as a bundle, or from a git
remote, and what was done comes back as a bundle, to a branch of the repository.

The other machine has one bare repository for all of them. Nothing is pushed anywhere.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from fanfold.errors import Terminal
from fanfold.members.agents.worktree import (
    ParentBranch,
    WorktreeStart,
    beginning,
    git,
    isolated,
    one_at_a_time,
    record_start,
    run_git,
    said_by,
    tip,
)
from fanfold.work.carried import FILE_BYTES, BranchBundle, Repository, keep_content
from fanfold.work.media import content_hash, size_text

START, BACK = "refs/fanfold/start", "refs/fanfold/back"


def repository_for(
    folder: Path, store: Path, span: str, id: str, parents: tuple[ParentBranch, ...], remote: str
) -> Repository:
    """What a worktree elsewhere begins with. A bundle is kept among the contents of the store."""
    place, branch = isolated(store, span, id)
    top = Path(git(folder, "rev-parse", "--show-toplevel").strip())
    inside = folder.resolve().relative_to(top.resolve()).as_posix()
    with one_at_a_time(place.parent):
        begun = beginning(top, place, parents)
        record_start(place, begun)
    made = Repository(begun.commit, branch, "" if inside == "." else inside, remote=remote)
    if remote:
        return made
    with one_at_a_time(store / "worktrees"):
        return msgspec.structs.replace(made, bundle=_bundled(top, store, begun))


def _bundled(top: Path, store: Path, begun: WorktreeStart) -> str:
    """All asks that begin with one commit use one bundle."""
    known = store / "worktrees" / f"{begun.commit}.bundle"
    hash = known.read_text() if known.exists() else ""
    if hash and (store / "contents" / hash).exists():
        return hash
    git(top, "update-ref", START, begun.commit)
    content = _made(top, store / "worktrees", START)
    git(top, "update-ref", "-d", START)
    hash = content_hash(content)
    keep_content(store / "contents", hash, content)
    known.write_text(hash)
    return hash


def _made(folder: Path, scratch: Path, *revisions: str) -> bytes:
    file = scratch.absolute() / ".bundle"
    git(folder, "-c", "pack.threads=1", "bundle", "create", "--quiet", str(file), *revisions)
    try:
        if (size := file.stat().st_size) > FILE_BYTES:
            most = f"{size_text(size)}, more than the {size_text(FILE_BYTES)} that can be carried"
            what = f"isolation: worktree: the bundle of the repository is {most}; name a `remote:`"
            raise Terminal(what, scope="member")
        return file.read_bytes()
    finally:
        file.unlink()


def make_remote_worktree(
    repository: Repository, contents: Path, store: Path, span: str, id: str
) -> Path:
    """The folder to work in. It takes a while: not for the event loop's thread."""
    place, branch = isolated(store, span, id)
    with one_at_a_time(store / "worktrees"):
        bare = store / "worktrees" / "repository.git"
        if not (bare / "HEAD").exists():
            git(store / "worktrees", "init", "--quiet", "--bare", str(bare))
        if run_git(bare, "cat-file", "-e", f"{repository.commit}^{{commit}}").returncode:
            _fetch(bare, repository, contents)
        if not place.exists():
            record_start(place, WorktreeStart(repository.commit))
            words = ("--quiet", "-b", branch, str(place.absolute()), repository.commit)
            git(bare, "worktree", "add", *words)
    return place / repository.inside


def _fetch(bare: Path, repository: Repository, contents: Path) -> None:
    commit, remote = repository.commit, repository.remote
    if remote.startswith("-") or len(commit) < 40 or not commit.isalnum():
        raise Terminal("isolation: worktree: not a repository that can be fetched", scope="ask")
    kept = f"{START}/{commit}"
    words = (remote, f"{commit}:{kept}") if remote else (
        str(contents / repository.bundle), f"+{START}:{kept}"
    )  # fmt: skip
    safe = ("-c", "protocol.ext.allow=never", "fetch", "--quiet", "--no-tags", "--")
    ended = run_git(bare, *safe, *words)
    if ended.returncode:
        where = remote or "its bundle"
        what = (
            f"isolation: worktree: {commit[:12]} cannot be fetched from {where}: {said_by(ended)}"
        )
        raise Terminal(what, scope="ask")


def branch_back(folder: Path, repository: Repository, id: str, into: Path) -> BranchBundle:
    """What was done in such a worktree, committed or not; a bundle of it among the contents."""
    top = Path(git(folder, "rev-parse", "--show-toplevel").strip())
    made = BranchBundle(repository.branch, tip(top, ParentBranch(id, top, repository.branch)))
    if made.commit == repository.commit:
        return made
    shared = into.parent / "worktrees"
    with one_at_a_time(shared):
        git(top, "update-ref", BACK, made.commit)
        content = _made(top, shared, BACK, f"^{repository.commit}")
    hash = content_hash(content)
    keep_content(into, hash, content)
    return msgspec.structs.replace(made, bundle=hash)


def take_branch(folder: Path, store: Path, span: str, id: str, back: BranchBundle) -> None:
    """The branch and a worktree of it, as if the work had been done here. What the other machine calls it
    does not count."""
    place, branch = isolated(store, span, id)
    top = Path(git(folder, "rev-parse", "--show-toplevel").strip())
    with one_at_a_time(place.parent):
        if place.exists():
            return
        if back.bundle:
            bundle = (store / "contents" / back.bundle).absolute()
            git(top, "fetch", "--quiet", "--no-tags", str(bundle), f"+{BACK}:refs/heads/{branch}")
        else:
            git(top, "update-ref", f"refs/heads/{branch}", back.commit)
        git(top, "worktree", "add", "--quiet", str(place.absolute()), branch)
