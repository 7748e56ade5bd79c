"""Removing runs: which may go, what goes with them, and how much room that makes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.fleet.run_plan import started_with
from fanfold.fleet.runs import may_run
from fanfold.fleet.worker_view import living_workers
from fanfold.journal import opening
from fanfold.journal.answers import RemovedReplies
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RemoveRuns, RunRecord
from fanfold.journal.opening import open_store


class RemovalResult(msgspec.Struct, frozen=True):
    """What was removed. `kept` replies stay, since they can serve other runs; `shrunk` False: the room
    is free within the store, but not given back to the disk yet."""

    runs: tuple[str, ...]
    replies: int
    kept: int
    bytes: int
    shrunk: bool


def why_not_removable(archive: StoreView, record: RunRecord) -> str:
    """Why a run may not be removed now; empty when it may. Not known counts as running."""
    if may_run(archive.files, record):
        return f"is running; end it first: fanfold kill {record.id} all"
    if living := _may_have_workers(archive, record) and living_workers(archive, record):
        return f"has workers at work ({living[0].id}); end them first: fanfold kill {record.id} all"
    return ""


def _may_have_workers(archive: StoreView, record: RunRecord) -> bool:
    """Most runs have none, and their attempts need not be looked through."""
    own = archive.files / "agents" / record.id
    return own.exists() or bool(record.folder and Path(record.folder, "workers").is_dir())


def old_runs(archive: StoreView, before: float | None, keep: int | None) -> list[RunRecord]:
    """Those that ended (or began, where they never ended) before that time, but for the `keep`
    newest of all; without those that are under way."""
    newest = sorted(archive.read.runs(), key=lambda run: run.no, reverse=True)
    old = newest[keep or 0 :]
    if before is not None:
        old = [run for run in old if (run.ended or run.created) < before]
    return [run for run in reversed(old) if not why_not_removable(archive, run)]


async def remove_runs(store: str, records: Sequence[RunRecord], *, replies: bool) -> RemovalResult:
    """Their facts and files. Replies are removed only while no other process works in the store, which
    may have found them already."""
    before = opening.size(store)
    journal = open_store(store)
    try:
        await journal.recover(time.time())
        busy = any(may_run(store, run) for run in journal.read.runs())
        if replies and busy:
            raise BadInput("replies cannot be removed while a run of this store is running; wait")
        runs = tuple((record.no, record.session) for record in records)
        removed: RemovedReplies | None = await journal.write(RemoveRuns(runs, replies))
        if removed is None:
            raise BadInput("one of them was resumed or removed meanwhile; nothing was removed")
    finally:
        journal.close()
    folder = opening.files(store)
    files = sum(_remove_files(folder, record) for record in records)
    shrunk = not busy and opening.shrink(store)
    return RemovalResult(
        tuple(record.id for record in records), removed.replies, removed.kept,
        max(0, before - opening.size(store)) + files, shrunk,
    )  # fmt: skip


def _remove_files(folder: Path, record: RunRecord) -> int:
    """The folders of its agents' logs, and its copy of an input that could be read only once. How
    many bytes that were. A fleet's own folder is the operator's."""
    spool = _spool(record)
    places = [folder / "agents" / record.id, *([folder / "inputs" / spool] if spool else [])]
    freed = 0
    for place in places:
        freed += sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        shutil.rmtree(place, ignore_errors=True)
    return freed


def _spool(record: RunRecord) -> str:
    """A name and never a path, whatever is on record: it is about to be deleted."""
    try:
        name = started_with(record).spool
    except FanfoldError:
        return ""
    return name if name.isalnum() else ""
