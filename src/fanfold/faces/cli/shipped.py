"""The applications that come with fanfold: which there are, and a copy of one."""

from __future__ import annotations

import errno
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


def listing() -> str:
    """All of them with the heading of their READMEs, for a help page (`\\b`: lines stay as they are)."""
    there = names()
    wide = max(map(len, there))
    return "\n".join(["\b", "Applications:", *(f"  {one:{wide}}  {_title(one)}" for one in there)])


def _title(name: str) -> str:
    """What stands behind the name in the first line: `# contracts: a risk report`."""
    page = _folder() / name / "README.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return text.partition("\n")[0].partition(": ")[2]


def copy(name: str, folder: Path) -> None:
    """Its files, into `folder`; those of an earlier time are written over. OSError if they cannot."""
    for inside, source in _files(_folder() / known(name), PurePath()):
        to = folder / inside
        to.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as stream, to.open("wb") as out:
            shutil.copyfileobj(stream, out)


def why(error: OSError) -> str:
    """In a few words, to stand in a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
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
