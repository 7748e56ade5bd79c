"""The files beside a worker's log that tell what it spends (`Spec.meter`), followed as they grow."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from fanfold.members.agents.tail import Tail
from fanfold.members.agents.worker import Spec

SESSION = "{session}"
_ID = re.compile(r"[A-Za-z0-9_-]+")
_STAMP = re.compile(rb'\{"timestamp":\s*"([^"]{10,40})"')


def meter_files(pattern: str, session: str) -> list[Path]:
    """The files that a pattern names; `{session}` in it is the id that the program gave itself.

    None while that is not known yet: another worker's files must never be counted.
    """
    if SESSION in pattern:
        if not _ID.fullmatch(session):
            return []
        pattern = pattern.replace(SESSION, session)
    return [Path(name) for name in sorted(glob.glob(pattern, recursive=True))] if pattern else []


class SpendingFiles:
    """Reads those files line by line, each line once.

    A session that is gone on with has lines of earlier workers in the same file: lines with a
    timestamp before this worker began are passed over.
    """

    def __init__(self, spec: Spec) -> None:
        self._pattern = spec.meter
        self._begun = int(spec.begun * 1000) / 1000
        self._tails: dict[Path, Tail] = {}
        self._sizes: dict[Path, int] = {}

    def search(self, session: str) -> None:
        """Look for files that came since. Cheap once there is one: a session has one file."""
        if not self._tails or SESSION not in self._pattern:
            for file in meter_files(self._pattern, session):
                self._tails.setdefault(file, Tail(file))

    def has_grown(self) -> bool:
        """Whether any of them has, since this was asked the last time."""
        before = self._sizes
        self._sizes = {file: _size(file, before.get(file, 0)) for file in self._tails}
        return self._sizes != before

    def lines(self) -> Iterator[bytes]:
        """The whole lines that came since the last time."""
        for tail in self._tails.values():
            yield from (line for line in tail.lines() if self._counts(line))

    def _counts(self, line: bytes) -> bool:
        found = _STAMP.match(line)
        if found is None:
            return True
        try:
            return datetime.fromisoformat(found[1].decode()).timestamp() >= self._begun
        except ValueError:
            return True


def _size(file: Path, known: int) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return known
