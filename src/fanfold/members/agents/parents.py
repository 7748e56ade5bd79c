"""What a worker of a fleet is given of the workers it depends on: results, files, branches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fanfold.members.agents.worker import OUTPUT, outputs, read_spec
from fanfold.members.agents.worktree import Branched, isolated
from fanfold.work.ask import Ask

INDEX, FOLDER = "parents.json", "parents"


class Given(msgspec.Struct, frozen=True):
    """One parent, as it stands in the file. `result`: the file with its whole answer; None where it
    did not pass. `output`: its folder, with `files` in it. `branch`: "" without a worktree."""

    passed: bool
    result: str | None
    output: str
    files: tuple[str, ...]
    branch: str = ""


class Parents:
    """The parents of one ask. `place` is the folder of the worker; theirs are beside it."""

    def __init__(self, ask: Ask, place: Path, store: Path) -> None:
        data = ask.items[0].data if ask.items else {}
        known = data if isinstance(data, dict) else {}
        self._passed: dict[str, Any] = known.get("parents", {})
        self._missing: list[str] = known.get("missing", [])
        self._place, self._store = place, store

    def __bool__(self) -> bool:
        return bool(self._passed or self._missing)

    def branches(self) -> Iterator[Branched]:
        """Of those that passed and had a worktree of their own."""
        for id in self._passed:
            if (branched := self._branched(id)) is not None:
                yield branched

    def write(self) -> Path:
        """A file with all of them, and one with the whole answer of each that passed."""
        folder = self._place / FOLDER
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for id, value in self._passed.items():
            said = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            (folder / f"{id}.md").write_text(said, "utf-8", "replace")
        listed = {id: self._given(id) for id in (*self._passed, *self._missing)}
        file = self._place / INDEX
        file.write_bytes(msgspec.json.format(msgspec.json.encode(listed)) + b"\n")
        return file

    def _given(self, id: str) -> Given:
        home, passed, branched = self._home(id), id in self._passed, self._branched(id)
        return Given(
            passed=passed,
            result=str(self._place / FOLDER / f"{id}.md") if passed else None,
            output=str(home / OUTPUT),
            files=tuple(outputs(home)),
            branch="" if branched is None else branched.branch,
        )

    def _home(self, id: str) -> Path:
        return self._place.parent / id

    def _branched(self, id: str) -> Branched | None:
        """By its own record: the answer of an earlier run comes from the branch of that run."""
        spec = read_spec(self._home(id))
        if spec is None:
            return None
        folder, branch = isolated(self._store, spec.span, id)
        inside = os.path.commonpath((folder, spec.folder)) == str(folder)
        return Branched(id, folder, branch) if inside else None
