"""Runs in their stores: which one is meant, its record, and whether its process is alive."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from fanfold.errors import BadInput
from fanfold.fleet.records import FILE
from fanfold.fleet.run_plan import fleet_folder
from fanfold.journal import opening
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.members.agents.processes import send
from fanfold.members.agents.worker import Process
from fanfold.run.inherited import inherited
from fanfold.work.files import expanded, replacing
from fanfold.work.folders import user_folder

STORE = ".fanfold"
Liveness = Literal["alive", "unknown", "dead"]
"""Of the process of a run. `unknown` never counts as dead."""


# ── a store and its runs ─────────────────────────────────────────────────────────────────────


@contextmanager
def reading(store: str | Path) -> Iterator[StoreView]:
    """A store opened to read. Open it again to see what came since."""
    archive = opening.look(store)
    try:
        yield archive
    finally:
        archive.close()


def runs_of(store: str) -> list[RunRecord]:
    """Oldest first; none where there is no store."""
    if not opening.exists(store):
        return []
    with reading(store) as archive:
        return archive.read.runs()


def find_record(store: str, run: str) -> RunRecord | None:
    """By id or name, as it is on record now; None also where there is no store."""
    if not opening.exists(store):
        return None
    with reading(store) as archive:
        return archive.read.find(run)


def liveness(store: str | Path, session: str) -> Liveness:
    return opening.sessions(store).life(session)


def may_live(store: str | Path, session: str) -> bool:
    """Unless its process is surely dead."""
    return liveness(store, session) != "dead"


def may_run(store: str | Path, record: RunRecord) -> bool:
    """It is on record as running, and its process is not surely dead."""
    return record.status == "running" and may_live(store, record.session)


def process_id(store: str | Path, session: str) -> int | None:
    """None when it has ended, or is not known."""
    owner = opening.sessions(store).owner(session)
    return None if owner is None else owner.pid


def signal_process(store: str | Path, session: str, number: signal.Signals) -> None:
    """To the process of a session, and to no other."""
    owner = opening.sessions(store).owner(session)
    if owner is None:
        return
    if owner.started:
        send(Process(owner.pid, owner.started, owner.boot, owner.namespace), number)
        return
    with suppress(OSError):
        os.kill(owner.pid, number)


# ── which run is meant ───────────────────────────────────────────────────────────────────────


class LocatedRun(msgspec.Struct, frozen=True):
    """`run` is the id of a run in `store`; `root` the folder of its fleet.json, if it has one."""

    store: str
    run: str
    root: Path | None = None


def locate(run: str, store: str | None = None, registry: Registry | None = None) -> LocatedRun:
    """By a folder with a fleet.json or a store, then as a run of the store, then by the registry.

    Without a store it is the default one. Trap: when another is named only that one is searched: a
    name that is not there must not lead to another project's run.
    """
    usual = inherited().store
    there = usual if store is None else store
    found = _in_folder(run) or _in_store(run, there)
    registry = Registry() if registry is None else registry
    if found is None and there == usual:
        found = _registered(run, registry)
    if found is None:
        if there != usual or not registry.entries():
            with reading(there):  # raises where there is no store
                pass
        raise BadInput(f"no run {run!r}; there are: {_known(there, registry)}")
    return found


def _in_folder(run: str) -> LocatedRun | None:
    folder = Path(run)
    if not folder.is_dir():
        return None
    root = folder.absolute()
    fleet = (root / FILE).is_file()
    store = str(root / STORE)
    runs = runs_of(store)
    if fleet and not runs:
        raise BadInput(f"{run}: nothing was launched here yet; start with: fanfold launch {run}")
    if not runs:
        return None
    # Of that name, if there is one. Runs that agents started within a run are passed over.
    name = _fleet_name(root) if fleet else None
    named = [run for run in runs if run.name == name]
    own = [run for run in runs if run.parent is None]
    newest = (named or own or list(runs))[-1]
    return LocatedRun(store, newest.id, root if fleet else None)


def _fleet_name(root: Path) -> str | None:
    """As it is written; None for a file that cannot be read, so that its runs are found all the same."""
    try:
        stated = json.loads((root / FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    name = stated.get("fleet_name", "fleet") if isinstance(stated, dict) else None
    return name if isinstance(name, str) else None


def _in_store(run: str, store: str) -> LocatedRun | None:
    record = find_record(store, run)
    return None if record is None else LocatedRun(store, record.id, fleet_folder(record))


def _registered(run: str, registry: Registry) -> LocatedRun | None:
    entry = registry.find(run)
    if entry is None:
        return None
    found = _in_store(entry.run, entry.store)
    if found is None:
        raise BadInput(
            f"{run} was launched in {entry.root}, but its store {entry.store} was deleted"
        )
    return found


def _known(store: str, registry: Registry) -> str:
    names = [record.name for record in runs_of(store)]
    names += [entry.name for entry in registry.entries()]
    return ", ".join(sorted(set(names))[:8]) or "none yet"


# ── the runs that were launched, by name ─────────────────────────────────────────────────────
# A JSON array in the user's state folder, so that a name is enough from any folder. Whoever changes it
# holds a lock on a file beside it.

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
        return expanded(stated)
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
