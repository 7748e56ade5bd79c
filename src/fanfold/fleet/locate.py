"""Which run is meant: a folder, a run of a store, or a name that was launched somewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fanfold.errors import BadInput
from fanfold.fleet.registry import Registry
from fanfold.journal.facts import RunRecord
from fanfold.journal.journal import Archive
from fanfold.journal.store import Store
from fanfold.run.inherited import inherited

FLEET = "fleet.json"
STORE = ".fanfold"


class Located(msgspec.Struct, frozen=True):
    """`run` is the id of a run in `store`; `root` the folder of its fleet.json, if it has one."""

    store: str
    run: str
    root: Path | None = None


def locate(run: str, store: str | None = None, registry: Registry | None = None) -> Located:
    """A folder with a fleet.json or a store goes first, then a run of the store, then the registry.

    Without a store it is the default one. Trap: when another is named only that one is looked into:
    a name that is not there must not lead to another project's run.
    """
    usual = inherited().store
    there = usual if store is None else store
    found = _folder(run) or _stored(run, there)
    registry = Registry() if registry is None else registry
    if found is None and there == usual:
        found = _registered(run, registry)
    if found is None:
        if there != usual or not registry.entries():
            Archive(there).close()  # a store that is not there is said to be that
        raise BadInput(f"no run {run!r}; there are: {_known(there, registry)}")
    return found


def _folder(run: str) -> Located | None:
    folder = Path(run)
    if not folder.is_dir():
        return None
    root = folder.absolute()
    fleet = (root / FLEET).is_file()
    store = str(root / STORE)
    runs = _runs(store)
    if fleet and not runs:
        raise BadInput(f"{run}: nothing was launched here yet; start with: fanfold launch {run}")
    if not runs:
        return None
    newest = _newest(runs, _fleet_name(root) if fleet else None)
    return Located(store, newest.id, root if fleet else None)


def _runs(store: str) -> list[RunRecord]:
    if not Store(Path(store)).file.exists():
        return []
    archive = Archive(store)
    try:
        return archive.read.runs()
    finally:
        archive.close()


def _newest(runs: Sequence[RunRecord], name: str | None) -> RunRecord:
    """That of the name, if there is one. What agents started within a run is passed over."""
    named = [run for run in runs if run.name == name]
    own = [run for run in runs if run.parent is None]
    return (named or own or list(runs))[-1]


def _fleet_name(root: Path) -> str | None:
    """As it is written; a file that cannot be read is no reason to find nothing."""
    try:
        stated = json.loads((root / FLEET).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    name = stated.get("fleet_name", "fleet") if isinstance(stated, dict) else None
    return name if isinstance(name, str) else None


def _stored(run: str, store: str) -> Located | None:
    if not Store(Path(store)).file.exists():
        return None
    archive = Archive(store)
    try:
        record = archive.read.find(run)
    finally:
        archive.close()
    return None if record is None else Located(store, record.id, root_of(record))


class _Started(msgspec.Struct, frozen=True):
    kind: str = "plan"


def root_of(record: RunRecord) -> Path | None:
    """The folder of the fleet.json that a run was started from."""
    try:
        kind = msgspec.json.decode(record.plan or b"{}", type=_Started).kind
    except msgspec.DecodeError:
        return None
    return Path(record.folder) if kind == "fleet" else None


def _registered(run: str, registry: Registry) -> Located | None:
    entry = registry.find(run)
    if entry is None:
        return None
    found = _stored(entry.run, entry.store)
    if found is None:
        raise BadInput(f"{run} was launched in {entry.root}, but its store {entry.store} is gone")
    return found


def _known(store: str, registry: Registry) -> str:
    names = [record.name for record in _runs(store)]
    names += [entry.name for entry in registry.entries()]
    return ", ".join(sorted(set(names))[:8]) or "none yet"
