"""Reading a fleet.json and its prompts: checked as a whole, before anything is started or written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.fleet.records import (
    FILE,
    Fleet,
    FleetConfig,
    FleetRecord,
    WorkerRecord,
    WorkerSpec,
    overlap,
)
from fanfold.patterns.prompt import parent_places
from fanfold.work import dag
from fanfold.work.document import Node, read, read_text
from fanfold.work.files import resolved
from fanfold.work.nearest import quoted, remedy
from fanfold.work.reader import read_record

PROMPT = "prompt.md"
_SAVE = re.compile(r"Save ALL output files to[ \t]+(.+)")
_IGNORED = dict.fromkeys(("status", "session_name", "started_at", "killed_at"))
_OF_ALL = ("provider", "reasoning_effort", "isolation", "silence_seconds", "timeout_seconds", "at")
NO_PROMPTS: Mapping[str, str] = {}


class Cycle(BadInput):
    """Workers that wait for one another. `ids` are in the order in which they would run.

    The first line of the text is `CYCLE:a,b`, for programs: nothing may be put before it.
    """

    def __init__(self, ids: Iterable[str], what: str, file: str, line: int) -> None:
        super().__init__(what, file=file, line=line)
        self.ids = tuple(ids)
        self.args = (f"CYCLE:{','.join(self.ids)}\n{file}:{line}: {what}",)


def is_fleet(path: str | Path) -> bool:
    """A folder with a fleet.json in it, or that file itself."""
    found = Path(path)
    return (found / FILE).is_file() or (found.name == FILE and found.is_file())


def load_fleet(path: str | Path, deleted: Mapping[str, str] = NO_PROMPTS) -> Fleet:
    """Read a fleet with its prompts. Nothing is started or written; BadInput names file and line.

    `deleted`: by worker, the prompt to use where its prompt.md was deleted."""
    fleet = outline(path)
    workers = tuple(
        msgspec.structs.replace(one, prompt=_prompt(fleet, one, deleted)) for one in fleet.workers
    )
    return msgspec.structs.replace(fleet, workers=workers)


def _prompt(fleet: Fleet, one: WorkerSpec, deleted: Mapping[str, str]) -> str:
    if one.id in deleted and not (fleet.home(one.id) / PROMPT).exists():
        return deleted[one.id]
    return read_prompt(fleet, one)


def outline(path: str | Path) -> Fleet:
    """Its shape alone: the prompts need not be there yet."""
    file = Path(path)
    if file.is_dir():
        file = file / FILE
        if not file.exists():
            raise BadInput(
                f"holds no {FILE}; name a plan, or the folder of a fleet", file=str(path)
            )
    top = read(file)
    top = Node(_without_nulls(top.value), top.file, top.lines)
    record = read_record(top, FleetRecord)
    stated = top.value.get("config", {})
    config = record.config
    if record.type == "worktree" and "isolation" not in stated:
        config = msgspec.structs.replace(config, isolation="worktree")
    workers = tuple(
        _filled(one, config, top.child("workers").child(n), "model" in stated)
        for n, one in enumerate(record.workers)
    )
    fleet = Fleet(
        name=record.fleet_name, id=record.fleet_id or record.fleet_name, file=str(file),
        root=str(resolved(file).parent), type=record.type, config=config, workers=workers,
    )  # fmt: skip
    _check_ids(fleet)
    _check_order(fleet, top)
    _check_targets(fleet)
    return fleet


def _without_nulls(value: Any) -> Any:
    """Null is the same as not there, and so is an empty effort."""
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_nulls(one)
        for name, one in value.items()
        if one is not None and (name, one) != ("reasoning_effort", "")
    }


def _filled(
    record: WorkerRecord, config: FleetConfig, node: Node, model_stated: bool
) -> WorkerSpec:
    """With what the worker does not state itself. The default model is claude's."""
    lines = {name: node.child(name).line for name in node.value}
    missing = {name: getattr(config, name) for name in _OF_ALL if name not in lines}
    made = {**msgspec.structs.asdict(record), **missing, **_IGNORED}
    claude = made["provider"] == "claude"
    if "model" not in lines and (claude or model_stated):
        made["model"] = config.model
    if claude and config.fallback_model != made["model"]:
        made["fallback_model"] = config.fallback_model
    return WorkerSpec(**made, line=node.line, stated=lines)


# ── what belongs together ────────────────────────────────────────────────────────────────────


def _check_ids(fleet: Fleet) -> None:
    first: dict[str, int] = {}
    for one in fleet.workers:
        if one.id in first:
            what = f"duplicate worker `{one.id}`, first in line {first[one.id]}; rename one"
            raise fleet.bad(one, "id", what)
        first[one.id] = one.stated["id"]


def _check_order(fleet: Fleet, top: Node) -> None:
    known = {one.id for one in fleet.workers}
    for n, one in enumerate(fleet.workers):
        for parent in one.depends_on:
            where = _depends_on(top, n, parent)
            if parent == one.id:
                what = f"worker `{one.id}` depends on itself; take it out of its `depends_on`"
                raise Cycle((one.id,), what, fleet.file, where.line)
            if parent not in known:
                what = f"worker `{one.id}` depends on {quoted(parent)}, which is not there"
                raise where.bad(f"{what}: {remedy(parent, known - {one.id})}")
    if around := dag.cycle(fleet.workers):
        first = next(one for one in fleet.workers if one.id == around[0])
        what = "these workers wait for one another; take one of them out of a `depends_on`"
        raise Cycle(around, what, fleet.file, first.stated["depends_on"])


def _depends_on(top: Node, n: int, parent: str) -> Node:
    """The place in the file where a worker names this parent."""
    listed = top.child("workers").child(n).child("depends_on")
    if isinstance(listed.value, str):
        return listed
    return listed.child(listed.value.index(parent))


def _check_targets(fleet: Fleet) -> None:
    claims = [(one, pattern) for one in fleet.workers for pattern in one.target_files]
    for n, (one, pattern) in enumerate(claims):
        for other, claimed in claims[:n]:
            if one.id != other.id and overlap(pattern, claimed):
                raise fleet.bad(
                    one, "target_files", f"`{pattern}` of worker `{one.id}` and"
                    f" `{claimed}` of worker `{other.id}` can name the same file; give each file to"
                    " one worker",
                )  # fmt: skip


# ── prompts ──────────────────────────────────────────────────────────────────────────────────


def read_prompt(fleet: Fleet, worker: WorkerSpec) -> str:
    """The text of workers/ID/prompt.md; where it does not name the folder to save to, that line is
    appended. Not for a read-only worker: it cannot write."""
    shown = f"workers/{worker.id}/{PROMPT}"
    try:
        text = read_text(fleet.home(worker.id) / PROMPT)
    except BadInput as error:
        what = f"worker `{worker.id}`: {shown}: {error.what}; write its task there"
        raise BadInput(what, file=fleet.file, line=worker.line) from None
    if not text.strip():
        what = f"worker `{worker.id}`: {shown}: is empty; write its task there"
        raise BadInput(what, file=fleet.file, line=worker.line)
    _check_places(fleet, worker, text)
    if worker.type == "read-only" or _names_folder(text, str(fleet.output(worker.id))):
        return text
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}{save_line(fleet, worker.id)}\n"


def _check_places(fleet: Fleet, worker: WorkerSpec, text: str) -> None:
    """`{{ parents.ID }}` is allowed for those that it depends on."""
    file, known = str(fleet.home(worker.id) / PROMPT), worker.depends_on
    for line, id in parent_places(text):
        if not id:
            what = "the result of a parent is written {{ parents.ID }}, with nothing else in it"
            raise BadInput(what, file=file, line=line)
        if id not in known:
            name = quoted(id)
            what = f"`parents.{name[1:-1]}` is read, but worker `{worker.id}` does not depend on {name}"
            hint = remedy(id, known) if known else "it has no `depends_on`"
            raise BadInput(f"{what}: {hint}", file=file, line=line)


def save_line(fleet: Fleet, worker: str) -> str:
    return f"Save ALL output files to {fleet.output(worker)}/ — use absolute paths."


def _names_folder(text: str, folder: str) -> bool:
    """Any absolute spelling of that folder counts: by a link, with or without a slash at the end."""
    wanted = os.path.realpath(folder)
    for match in _SAVE.finditer(text):
        named = match[1].partition(" — ")[0].strip().strip("`'\"")
        if os.path.isabs(named) and os.path.realpath(named) == wanted:
            return True
    return False
