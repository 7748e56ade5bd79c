"""What a worker of a fleet is given of the workers it depends on: results, files, branches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fanfold.members.agents.worker import OUTPUT, outputs, put_file, read_spec
from fanfold.members.agents.worktree import ParentBranch, isolated
from fanfold.work.ask import Ask

INDEX, FOLDER = "parents.json", "parents"
_PLAIN = re.compile(r"\w[\w.-]*", re.ASCII)


class ParentResult(msgspec.Struct, frozen=True):
    """One parent, as it is in the file. `result`: the file with its whole answer; None where it
    did not pass. `output`: its folder, with `files` in it. `branch`: "" without a worktree."""

    passed: bool
    result: str | None
    output: str
    files: tuple[str, ...]
    branch: str = ""


class Parents:
    """The parents of one ask. `place` is the folder of the worker; theirs are beside it."""

    def __init__(self, ask: Ask, place: Path, store: Path) -> None:
        self._passed, self._missing = _told(ask)
        self._place, self._store = place, store

    def __bool__(self) -> bool:
        return bool(self._passed or self._missing)

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self._passed, *self._missing)

    def branches(self) -> Iterator[ParentBranch]:
        """Of those that passed and had a worktree of their own."""
        for id in self._passed:
            if (branched := self._branched(id)) is not None:
                yield branched

    def write(self) -> Path:
        """A file with all of them, and one with the whole answer of each that passed. An earlier
        attempt could write there: links that it left are replaced, never followed."""
        folder = self._place / FOLDER
        if folder.is_symlink():
            folder.unlink()
        folder.mkdir(mode=0o700, exist_ok=True)
        for id, value in self._passed.items():
            said = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            put_file(folder / f"{id}.md", said.encode("utf-8", "replace"))
        for id in self._missing:
            (folder / f"{id}.md").unlink(missing_ok=True)
        listed = {id: self._given(id) for id in (*self._passed, *self._missing)}
        file = self._place / INDEX
        put_file(file, msgspec.json.format(msgspec.json.encode(listed)) + b"\n")
        return file

    def _given(self, id: str) -> ParentResult:
        home, passed, branched = self._home(id), id in self._passed, self._branched(id)
        return ParentResult(
            passed=passed,
            result=str(self._place / FOLDER / f"{id}.md") if passed else None,
            output=str(home / OUTPUT),
            files=tuple(outputs(home)),
            branch="" if branched is None else branched.branch,
        )

    def _home(self, id: str) -> Path:
        return self._place.parent / id

    def _branched(self, id: str) -> ParentBranch | None:
        """By its own record: the answer of an earlier run comes from the branch of that run."""
        spec = read_spec(self._home(id))
        if spec is None:
            return None
        folder, branch = isolated(self._store, spec.span, id)
        if spec.where:  # it worked elsewhere, and its branch came back
            return None if spec.repository is None else ParentBranch(id, folder, branch)
        inside = os.path.commonpath((folder, spec.folder)) == str(folder)
        return ParentBranch(id, folder, branch) if inside else None


def _told(ask: Ask) -> tuple[dict[str, Any], list[str]]:
    """The answers and the ids that a task of a graph is told; nothing where an item only has fields of
    these names, or ids that could not be names of files."""
    data = ask.items[0].data if ask.items else None
    if not isinstance(data, dict):
        return {}, []
    passed, missing = data.get("parents"), data.get("missing")
    if not isinstance(passed, dict) or not isinstance(missing, list):
        return {}, []
    plain = all(isinstance(id, str) and _PLAIN.fullmatch(id) for id in (*passed, *missing))
    return (passed, missing) if plain else ({}, [])
