"""The runs that were launched, by name, so that a name is enough from any folder.

A JSON array in the user's state folder. Whoever changes it holds a lock on a file beside it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fanfold.work.files import replacing
from fanfold.work.folders import user_folder

Warn = Callable[[str], None]


class RegistryEntry(msgspec.Struct, frozen=True):
    """One run that was launched. `root`: the folder of its fleet.json, or of its plan; `pid`: of the
    supervisor that was started last; `started_at`: UTC."""

    name: str
    root: str
    store: str
    run: str
    pid: int
    started_at: str


Keep = Callable[[RegistryEntry], bool]


def registry_file() -> Path:
    """`FANFOLD_REGISTRY`, else `fanfold/registry.json` in the user's state folder."""
    if stated := os.environ.get("FANFOLD_REGISTRY"):
        return Path(stated).expanduser()
    return user_folder("state") / "registry.json"


class Registry:
    """A file that cannot be read counts as empty: a warning says so, and it is kept under another name before
    a new one is written."""

    def __init__(self, file: Path | None = None, warn: Warn = lambda text: None) -> None:
        self.file = registry_file() if file is None else file
        self._warn = warn

    def entries(self) -> list[RegistryEntry]:
        """In the order in which the names came up first."""
        found = self._read()
        if found is None:
            self._warn(f"{self.file}: not a registry, so it counts as empty")
        return found or []

    def find(self, name: str) -> RegistryEntry | None:
        return next((entry for entry in self.entries() if entry.name == name), None)

    def put(self, entry: RegistryEntry, unless: Keep = lambda other: False) -> RegistryEntry | None:
        """The entry takes the place of the one with its name, which comes back if it keeps its place.
        Raises OSError."""
        with self._change() as entries:
            other = entries.get(entry.name)
            if other is not None and other.run != entry.run and unless(other):
                return other
            entries[entry.name] = entry
        return None

    def remove(self, name: str, run: str) -> None:
        """Takes a run out, but not a later one of that name."""
        if self.file.exists():
            with self._change() as entries:
                if name in entries and entries[name].run == run:
                    del entries[name]

    @contextmanager
    def _change(self) -> Iterator[dict[str, RegistryEntry]]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lock = self.file.with_name(f"{self.file.name}.lock")
        handle = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            entries = {entry.name: entry for entry in self._sound()}
            yield entries
            self._write(list(entries.values()))
        finally:
            os.close(handle)

    def _sound(self) -> list[RegistryEntry]:
        found = self._read()
        if found is None:
            kept = self.file.with_name(f"{self.file.name}.corrupt")
            os.replace(self.file, kept)
            self._warn(
                f"{self.file}: not a registry; it is kept as {kept.name}, and a new one is written"
            )
        return found or []

    def _read(self) -> list[RegistryEntry] | None:
        """None: there is something that is no registry."""
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=list[RegistryEntry])
        except FileNotFoundError:
            return []
        except (OSError, ValueError, RecursionError):
            return None

    def _write(self, entries: list[RegistryEntry]) -> None:
        with replacing(self.file) as new:
            new.write(msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n")


def utc(now: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
