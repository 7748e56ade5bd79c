"""Reading a fleet.json: checked as a whole, before anything is started or written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from fanfold.errors import BadInput
from fanfold.fleet.prompts import PROMPT, read_prompt
from fanfold.fleet.records import FILE, PROVIDERS, TYPES, Fleet, FleetConfig, Isolation, WorkerSpec
from fanfold.fleet.targets import overlap, read_pattern
from fanfold.members.agents.worker import Effort, Overrun
from fanfold.work import dag
from fanfold.work.check import (
    Check,
    anything,
    elements,
    fields,
    flag,
    flag_or,
    many,
    number,
    one_of,
    one_or_many,
    text,
    whole,
)
from fanfold.work.document import Node, read
from fanfold.work.nearest import remedy

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", re.ASCII)
NO_PROMPTS: Mapping[str, str] = {}
_EVERYONE = "all"  # what `fanfold kill RUN all` means


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


def load_fleet(path: str | Path, gone: Mapping[str, str] = NO_PROMPTS) -> Fleet:
    """Read a fleet with its prompts. Nothing is started or written; BadInput names file and line.

    `gone`: by worker, what stands in for a prompt.md that is not there any more."""
    fleet = outline(path)
    workers = tuple(
        msgspec.structs.replace(one, prompt=_prompt(fleet, one, gone)) for one in fleet.workers
    )
    return msgspec.structs.replace(fleet, workers=workers)


def _prompt(fleet: Fleet, one: WorkerSpec, gone: Mapping[str, str]) -> str:
    if one.id in gone and not (fleet.home(one.id) / PROMPT).exists():
        return gone[one.id]
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
    stated = _fields(top, _TOP, "a fleet", required=("workers",))
    usual = {"isolation": "worktree"} if stated.get("type") == "worktree" else {}
    config = FleetConfig(**{**usual, **stated.get("config", {})})
    workers = tuple(_read_worker(child, config, stated) for child in _listed(top))
    name = stated.get("fleet_name", "fleet")
    fleet = Fleet(
        name=name, id=stated.get("fleet_id", name), file=str(file),
        root=str(file.resolve().parent), type=stated.get("type", "dag"), config=config,
        workers=workers,
    )  # fmt: skip
    _check_ids(fleet)
    _check_order(fleet, top)
    _check_targets(fleet)
    return fleet


def _listed(top: Node) -> list[Node]:
    found = list(elements(top.child("workers")))
    if not found:
        raise top.child("workers").bad("`workers` is empty; a fleet needs at least one")
    return found


def _read_worker(node: Node, config: FleetConfig, top: dict[str, Any]) -> WorkerSpec:
    stated = _fields(node, _WORKER, "a worker", required=("id",))
    known = {name: stated[name] for name in WorkerSpec.__struct_fields__ if name in stated}
    of_all = ("provider", "reasoning_effort", "isolation", "silence_seconds", "timeout_seconds")
    made = {**{name: getattr(config, name) for name in of_all}, **known}
    made["depends_on"] = tuple(dict.fromkeys(stated.get("depends_on", ())))
    claude = made["provider"] == "claude"
    if "model" not in stated and (claude or "model" in top.get("config", {})):
        made["model"] = config.model
    if claude and config.fallback_model != made.get("model"):
        made["fallback_model"] = config.fallback_model
    lines = {name: node.child(name).line for name in node.value}
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
                what = f"worker `{one.id}` depends on `{parent}`, which is not there"
                raise where.bad(f"{what}: {remedy(parent, known - {one.id})}")
    if around := dag.cycle(fleet.workers):
        first = next(one for one in fleet.workers if one.id == around[0])
        what = "these workers wait for one another; take one of them out of a `depends_on`"
        raise Cycle(around, what, fleet.file, first.stated["depends_on"])


def _depends_on(top: Node, n: int, parent: str) -> Node:
    """Where a worker says so."""
    listed = top.child("workers").child(n).child("depends_on")
    if isinstance(listed.value, str):
        return listed
    return next(one for one in elements(listed) if one.value == parent)


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


# ── fields ───────────────────────────────────────────────────────────────────────────────────


def _fields(
    node: Node, known: dict[str, Check], what: str, required: Iterable[str] = ()
) -> dict[str, Any]:
    """As everywhere, but null is the same as not there."""
    allowed = {name: _unless_null(check) for name, check in known.items()}
    found = {name: v for name, v in fields(node, allowed, what).items() if v is not None}
    for name in required:
        if name not in found:
            raise node.bad(f"{what} needs the field `{name}`")
    return found


def _unless_null(check: Check) -> Check:
    return lambda node: None if node.value is None else check(node)


def _read_name(node: Node) -> str:
    name = node.value
    if not isinstance(name, str) or not _SAFE.fullmatch(name):
        raise node.bad(
            f"`{node.name}` {name!r} is not safe as a name of files: use letters, digits, `_`, `.`"
            " and `-`, and begin with none of the last two"
        )
    return name


def _read_id(node: Node) -> str:
    id = _read_name(node)
    if id == _EVERYONE:
        raise node.bad("the id `all` means every worker in `fanfold kill`; choose another one")
    return id


def _read_type(node: Node) -> str:
    kind: str = one_of("dag", "worktree", "iterative")(node)
    if kind == "iterative":
        raise node.bad(
            'a fleet of type iterative goes round in a loop, which is not done here; with "dag" its'
            " workers run once"
        )
    return kind


def _read_words(node: Node) -> str:
    """A text that may be empty."""
    return "" if node.value == "" else text(node)


def _read_effort(node: Node) -> Any:
    return None if node.value == "" else one_of(*get_args(Effort))(node)


def _read_config(node: Node) -> dict[str, Any]:
    return _fields(node, _CONFIG, "config")


_BOTH: dict[str, Check] = {
    "model": text,
    "provider": one_of(*PROVIDERS),
    "reasoning_effort": _read_effort,
    "isolation": one_of(*get_args(Isolation)),
    "silence_seconds": number(least=0),
    "timeout_seconds": number(least=0),
}
_CONFIG: dict[str, Check] = {
    "billing": one_of("subscription", "api"),
    **_BOTH,
    "max_concurrent": whole(least=1),
    "fallback_model": text,
    "launch_delay_seconds": number(least=0),
    "max_budget_fleet": number(least=0),
    "overrun": one_of(*get_args(Overrun)),
    "keep_panes_open": flag,
    "record": flag,
}
_WORKER: dict[str, Check] = {
    **_BOTH,
    "id": _read_id,
    "type": one_of(*TYPES),
    "task": _read_words,
    "max_turns": whole(least=0),
    "max_budget_usd": number(above=0),
    "depends_on": one_or_many(text),
    "partial": flag_or("always"),
    "target_files": many(read_pattern),
    **dict.fromkeys(("status", "session_name", "started_at", "killed_at"), anything),
}
_TOP: dict[str, Check] = {
    "fleet_name": _read_name,
    "fleet_id": _read_name,
    "type": _read_type,
    "config": _read_config,
    "workers": anything,
    **dict.fromkeys(("status", "launched_at", "killed_at"), anything),
}
