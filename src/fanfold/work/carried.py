"""Files that an ask needs and files that it leaves: named by patterns, known by what is in them.

Their paths are relative to one folder, the plan's. Whoever works in that folder finds them there; for who
works elsewhere they are carried. No path leads out of the folder, and no link is followed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import IO

import msgspec

from fanfold.errors import FanfoldError
from fanfold.work.files import replacing
from fanfold.work.media import content_hash, size_text

MOST_FILES = 1_000
FILE_BYTES = 64_000_000
"""Of one file, and of a bundle with a repository."""
ALL_BYTES = 128_000_000
_MOST_SEEN = 100_000  # names that a pattern is compared with
_HASH = re.compile(r"[0-9a-f]{32}")
_WILD = re.compile(r"[*?\[]")
_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
_EARLIER = 20_000_000  # nanoseconds by which the clock of a file may be behind


class FileTrouble(FanfoldError):
    """A file that cannot be carried, in one line."""


class CarriedFile(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`path`: below the folder. `executable`: its owner may run it."""

    path: str
    hash: str
    size: int
    executable: bool = False


class Repository(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worktree on another machine begins with: `commit`, from a bundle of this hash or from the
    git remote at a URL. `inside`: the folder in it where the work is done. `branch`: to be made there."""

    commit: str
    branch: str
    inside: str = ""
    bundle: str = ""
    remote: str = ""


class BranchBundle(msgspec.Struct, frozen=True, omit_defaults=True):
    """A branch that came back: its last commit, and the hash of a bundle that has it; "" where nothing was
    changed."""

    branch: str
    commit: str
    bundle: str = ""


class FilePatterns(msgspec.Struct, frozen=True):
    """What a member of a roster needs and leaves."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    shared: bool = False


class AskFiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """`outputs` are patterns. `folder`: where this machine has them; "" where they came from another one,
    then `contents` is a folder with what is in them, by hash. `shared`: all machines have `folder`.
    `home`: the folder of a fleet's worker, in them; `root`: how its prompt names the folder they are in."""

    inputs: tuple[CarriedFile, ...] = ()
    outputs: tuple[str, ...] = ()
    folder: str = ""
    contents: str = ""
    shared: bool = False
    repository: Repository | None = None
    home: str = ""
    root: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        """What of it is part of a key."""
        return ([(one.path, one.hash, one.executable) for one in self.inputs], self.outputs)

    def joined(self, other: AskFiles | None) -> AskFiles:
        """Those of a step and of its member."""
        if other is None:
            return self
        if self.folder != other.folder:
            raise FileTrouble(
                f"`inputs` and `outputs` of the member are below {other.folder},"
                f" those of the step below {self.folder}"
            )
        inputs = {one.path: one for one in (*self.inputs, *other.inputs)}
        outputs = dict.fromkeys((*self.outputs, *other.outputs))
        return msgspec.structs.replace(
            self, inputs=tuple(inputs.values()), outputs=tuple(outputs), shared=other.shared
        )


class Outputs(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be collected from a folder, and the folder for what is in it; "": all machines have the
    folder, and nothing is kept. `since`: see `collect`."""

    patterns: tuple[str, ...]
    folder: str
    into: str
    since: int = 0


def files_of(stated: FilePatterns, folder: Path) -> AskFiles:
    """Those that there are. FileTrouble: one is missing, or cannot be carried."""
    inputs = describe_inputs(folder, stated.inputs)
    return AskFiles(inputs, stated.outputs, str(folder.absolute()), shared=stated.shared)


# ── patterns ─────────────────────────────────────────────────────────────────────────────────


def check_pattern(pattern: str, what: str) -> str:
    """The pattern as it is used: `docs/` is all that is below it. FileTrouble: it leads elsewhere."""
    parts = pattern.split("/")
    if pattern.startswith(("/", "~")) or ".." in parts or "\0" in pattern or "\\" in pattern:
        raise FileTrouble(f"`{what}`: `{pattern}` must be a path below the folder, without `..`")
    if len(pattern) > 1000 or len(parts) > 50:
        raise FileTrouble(f"`{what}`: `{pattern[:60]}…` is too long")
    plain = [part for part in parts if part not in ("", ".")]
    if not plain:
        raise FileTrouble(f"`{what}`: `{pattern}` names no file")
    return "/".join((*plain, "**") if pattern.endswith("/") else plain)


def check_files(files: AskFiles) -> None:
    """Of a request from another machine: nothing in it leads out of its folder. FileTrouble: it does."""
    for one in files.inputs:
        check_pattern(one.path, "inputs")
    for pattern in files.outputs:
        check_pattern(pattern, "outputs")
    inside = "" if files.repository is None else files.repository.inside
    for path in filter(None, (files.home, inside)):
        check_pattern(path, "files")


def is_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


def is_wild(pattern: str) -> bool:
    return _WILD.search(pattern) is not None


def matches(pattern: str, path: str) -> bool:
    """`*` and `?` stay within a name, `**` is any number of folders; none of them begins with a dot."""
    return _fits(tuple(pattern.split("/")), tuple(path.split("/")))


@lru_cache(10_000)
def _fits(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not pattern:
        return not path
    head, *rest = pattern
    if head == "**":
        if _fits(tuple(rest) or ("*",), path):
            return True
        return len(path) > 1 and not path[0].startswith(".") and _fits(pattern, path[1:])
    if not path or (is_wild(head) and path[0].startswith(".")):
        return False
    return fnmatchcase(path[0], head) and _fits(tuple(rest), path[1:])


def find(folder: Path, patterns: Sequence[str], what: str) -> list[str]:
    """The paths that these name, in order, each once. A plain path must be there; a pattern may match
    nothing."""
    found: dict[str, None] = {}
    for pattern in patterns:
        paths = sorted(_matching(folder, pattern, what)) if is_wild(pattern) else [pattern]
        found.update(dict.fromkeys(paths))
        if len(found) > MOST_FILES:
            raise FileTrouble(f"`{what}`: more than {MOST_FILES:,} files; `{pattern}` is too wide")
    return list(found)


def _matching(folder: Path, pattern: str, what: str) -> Iterator[str]:
    parts = pattern.split("/")
    fixed = next(n for n, part in enumerate(parts) if is_wild(part))
    top, seen = folder.joinpath(*parts[:fixed]), 0
    for at, folders, names in os.walk(top):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        seen += len(folders) + len(names)
        if seen > _MOST_SEEN:
            raise FileTrouble(f"`{what}`: `{pattern}` looks through more than {_MOST_SEEN:,} files")
        near = Path(at).relative_to(folder)
        yield from (path for name in names if matches(pattern, path := (near / name).as_posix()))


# ── what is in them ──────────────────────────────────────────────────────────────────────────


@contextmanager
def _parent(folder: Path, path: str, *, make: bool = False) -> Iterator[int]:
    """A handle of the folder that a file is in. OSError: one of the folders on the way is a link."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.split("/"):
            if part in ("", ".", ".."):
                raise FileTrouble(f"`{path}` leads out of its folder")
        for part in path.split("/")[:-1]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


@contextmanager
def _opened(folder: Path, path: str, what: str) -> Iterator[tuple[IO[bytes], os.stat_result]]:
    """FileTrouble: it is missing, a link or behind one, or no file."""
    try:
        with _parent(folder, path) as parent:
            handle = os.open(_name(path), os.O_RDONLY | os.O_NONBLOCK | _NO_LINK, dir_fd=parent)
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            os.close(handle)
            hint = f"; `{path}/` is all that is in it" if stat.S_ISDIR(state.st_mode) else ""
            raise FileTrouble(f"`{what}`: `{path}` is not a file{hint}")
        with open(handle, "rb") as stream:
            yield stream, state
    except FileNotFoundError:
        raise FileTrouble(f"`{what}`: there is no `{path}`") from None
    except OSError as error:
        raise FileTrouble(f"`{what}`: {_unreadable(folder, path, error)}") from None


def read_below(folder: Path, path: str, what: str) -> tuple[bytes, os.stat_result]:
    """What is in a file; FileTrouble: it cannot be read, or is too large."""
    with _opened(folder, path, what) as (stream, state):
        content = stream.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise FileTrouble(_too_large(path, what))
    return content, state


def _unreadable(folder: Path, path: str, error: OSError) -> str:
    at = folder
    for part in path.split("/"):
        at /= part
        if at.is_symlink():
            return f"`{path}` is a link, or lies behind one"
    return f"`{path}` cannot be read: {(error.strerror or str(error)).lower()}"


def describe_inputs(folder: Path, patterns: Sequence[str]) -> tuple[CarriedFile, ...]:
    """Read once as long as a file is not changed. FileTrouble: one of them cannot be carried."""
    return tuple(_described_input(folder, path) for path in find(folder, patterns, "inputs"))


def read_input(folder: Path, one: CarriedFile) -> bytes:
    """FileTrouble: it was changed since."""
    content, _ = read_below(folder, one.path, "inputs")
    if content_hash(content) != one.hash:
        raise FileTrouble(f"`inputs`: `{one.path}` was changed after its ask was made")
    return content


def check_sizes(files: Sequence[CarriedFile], what: str) -> None:
    """Of what goes to another machine, or into a store."""
    for one in files:
        if one.size > FILE_BYTES:
            raise FileTrouble(_too_large(one.path, what))
    total = sum(one.size for one in files)
    if total > ALL_BYTES:
        raise FileTrouble(
            f"`{what}`: {size_text(total)} together, more than {size_text(ALL_BYTES)};"
            " use `files: shared`"
        )


def _too_large(path: str, what: str) -> str:
    return f"`{what}`: `{path}` is larger than {size_text(FILE_BYTES)}; use `files: shared`"


def _described_input(folder: Path, path: str) -> CarriedFile:
    try:
        state = os.lstat(folder / path)
    except (OSError, ValueError):
        state = None
    if state is None or not stat.S_ISREG(state.st_mode):
        with _opened(folder, path, "inputs"):
            pass
    assert state is not None
    return _described(folder, path, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


@lru_cache(10_000)
def _described(folder: Path, path: str, changed: int, touched: int, inode: int) -> CarriedFile:
    """However large it is."""
    made, size = blake2b(digest_size=16), 0
    with _opened(folder, path, "inputs") as (stream, state):
        while piece := stream.read(1 << 20):
            made.update(piece)
            size += len(piece)
    return CarriedFile(path, made.hexdigest(), size, bool(state.st_mode & 0o100))


def collect(
    folder: Path, patterns: Sequence[str], into: Path, since: int
) -> tuple[CarriedFile, ...]:
    """What was left, put into a folder by hash. `since`, in nanoseconds: what is older was not left by who
    worked; 0: nobody else wrote there. FileTrouble: one of them is missing or cannot be carried."""
    found, total = [], 0
    for path in find(folder, patterns, "outputs"):
        content, state = read_below(folder, path, "outputs")
        if since and max(state.st_ctime_ns, state.st_mtime_ns) < since - _EARLIER:
            if any(matches(one, path) for one in patterns if is_wild(one)):
                continue
            raise FileTrouble(f"`outputs`: `{path}` was not written; the one there is older")
        total += len(content)
        found.append(
            CarriedFile(path, content_hash(content), len(content), bool(state.st_mode & 0o100))
        )
        check_sizes(found, "outputs")
        keep_content(into, found[-1].hash, content)
    return tuple(found)


def check_left(folder: Path, patterns: Sequence[str]) -> None:
    """Of a folder that all machines have: what must be there is."""
    for path in find(folder, patterns, "outputs"):
        with _opened(folder, path, "outputs"):
            pass


def keep_content(folder: Path, hash: str, content: bytes) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / hash).exists():
        with replacing(folder / hash, mode=0o600) as stream:
            stream.write(content)


def put_below(folder: Path, one: CarriedFile, content: bytes) -> None:
    """Put a file in its place, whole or not at all. FileTrouble: a link is in the way, or the disk is
    full."""
    new = f".{os.urandom(8).hex()}.part"
    mode = 0o777 if one.executable else 0o666
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _parent(folder, one.path, make=True) as parent:
            handle = os.open(
                new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, mode, dir_fd=parent
            )
            try:
                with open(handle, "wb") as stream:
                    stream.write(content)
                os.replace(new, _name(one.path), src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(OSError):
                    os.unlink(new, dir_fd=parent)
                raise
    except OSError as error:
        raise FileTrouble(f"{_unreadable(folder, one.path, error)}; it is not written") from None


def is_there(folder: Path, one: CarriedFile) -> bool:
    """Whether it is in its place, as it should be."""
    try:
        content, _ = read_below(folder, one.path, "outputs")
    except FileTrouble:
        return False
    return content_hash(content) == one.hash


def now_ns() -> int:
    return time.time_ns()
