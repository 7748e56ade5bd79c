"""The applications that come with fanfold: which there are, and a copy of one."""

from __future__ import annotations

import shutil
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath

from fanfold.errors import BadInput
from fanfold.work.nearest import remedy

PLAN = "plan.yaml"
USUAL = "contracts"


def names() -> list[str]:
    """Every folder of ours with a plan in it."""
    return sorted(one.name for one in _folder().iterdir() if one.joinpath(PLAN).is_file())


def known(name: str) -> str:
    """The name itself; BadInput when no application is called that."""
    there = names()
    if name not in there:
        raise BadInput(f"no application {name!r}: {remedy(name, there)}")
    return name


def copy(name: str, folder: Path) -> None:
    """Its files, into `folder`; those of an earlier time are written over. OSError if they cannot."""
    for inside, source in _files(_folder() / known(name), PurePath()):
        to = folder / inside
        to.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as stream, to.open("wb") as out:
            shutil.copyfileobj(stream, out)


def why(error: OSError) -> str:
    """In a few words, to stand in a sentence."""
    return (error.strerror or "cannot be written").lower()


def _folder() -> Traversable:
    return resources.files("fanfold") / "apps"


def _files(folder: Traversable, inside: PurePath) -> list[tuple[PurePath, Traversable]]:
    found: list[tuple[PurePath, Traversable]] = []
    for one in folder.iterdir():
        if one.name.startswith(".") or one.name == "__pycache__":  # left by a run in place
            continue
        place = inside / one.name
        found += _files(one, place) if one.is_dir() else [(place, one)]
    return found
