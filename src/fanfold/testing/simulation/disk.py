"""The disk of a simulation: the files of a real store, in memory, and what a loss of power leaves of them.

What was synced stays. Of what was written since, any sectors may be there and others not, in any order. A
disk that lies loses the tail of the log, though it was synced; one that decays flips a bit.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

from fanfold.journal.sqlite.folder import StoreFolder

PowerLoss = Literal["power", "lost_tail", "flip"]
SECTOR = 512
FULL = 2  # `pragma synchronous`: a commit is on the disk when it returns
_SHM = Path("/dev/shm")


class SimulatedDisk:
    """Where the database of one world is."""

    def __init__(self) -> None:
        root = str(_SHM) if os.access(_SHM, os.W_OK) else None
        self._root = Path(tempfile.mkdtemp(prefix="fanfold-world-", dir=root))
        self._losses = 0
        self._db: sqlite3.Connection | None = None
        self._folder.mkdir()
        (self._folder / "journal.db").write_bytes(_empty_store())

    @property
    def db(self) -> sqlite3.Connection:
        """The connection of all its processes. Raises StoreError while the file cannot be opened."""
        if self._db is None:
            self._db = StoreFolder(self._folder).connect()
        return self._db

    @property
    def _folder(self) -> Path:
        return self._root / f"store{self._losses}"

    @property
    def _log(self) -> Path:
        return self._folder / "journal.db-wal"

    def log(self) -> bytes:
        """As far as it is written; after a commit, that is synced too."""
        return self._log.read_bytes() if self._log.exists() else b""

    def lose_power(self, before: bytes, kind: PowerLoss, rng: random.Random) -> None:
        """In mid-commit: `before` is the log as it was when that began."""
        after, base = self.log(), (self._folder / "journal.db").read_bytes()
        (synchronous,) = self.db.execute("pragma synchronous").fetchone()
        if kind == "lost_tail" or synchronous < FULL:
            log = before[: rng.randrange(len(before) + 1)]
        else:
            log = _torn(before, after, rng)
        if kind == "flip":
            base, log = _flipped(base, log, rng)
        self._disconnect()
        self._losses += 1
        self._folder.mkdir()
        (self._folder / "journal.db").write_bytes(base)
        self._log.write_bytes(log)

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def close(self) -> None:
        self._disconnect()
        shutil.rmtree(self._root, ignore_errors=True)


@cache
def _empty_store() -> bytes:
    """The file of a new store, as it is made by the real code."""
    with tempfile.TemporaryDirectory() as folder:
        StoreFolder(Path(folder)).prepare()
        return (Path(folder) / "journal.db").read_bytes()


def _torn(before: bytes, after: bytes, rng: random.Random) -> bytes:
    """Any of the sectors that differ are written."""
    log = bytearray(before)
    share = rng.choice((0.0, 0.5, 0.9, 1.0))
    for at in range(0, len(after), SECTOR):
        new = after[at : at + SECTOR]
        if new != before[at : at + SECTOR] and rng.random() < share:
            if len(log) < at:
                log.extend(bytes(at - len(log)))
            log[at : at + SECTOR] = new
    return bytes(log)


def _flipped(base: bytes, log: bytes, rng: random.Random) -> tuple[bytes, bytes]:
    at = rng.randrange((len(base) + len(log)) * 8)
    whole = bytearray(base + log)
    whole[at // 8] ^= 1 << at % 8
    return bytes(whole[: len(base)]), bytes(whole[len(base) :])
