"""A fleet.json as records: what the file may state, and each worker with the defaults filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from fanfold.errors import BadInput
from fanfold.members.agents.worker import Effort, Overrun, WorkerType
from fanfold.members.kinds import StatedPlace, read_patterns, read_place
from fanfold.work.check import described
from fanfold.work.reader import (
    Count,
    Misfit,
    NonNegative,
    Positive,
    Text,
    Whole,
    listed,
    schema_of,
)

FILE = "fleet.json"
Provider = Literal["claude", "codex"]
Isolation = Literal["none", "worktree"]
Billing = Literal["subscription", "api"]
FileName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$(?!\n)",
        extra={
            "expected": "a name of letters, digits, `_`, `.` and `-` (at most 100) that begins with a"
            " letter, a digit or `_`"
        },
    ),
]
_EVERYONE = "all"  # what `fanfold kill RUN all` means


class ParentIds(tuple[str, ...]):
    """The ids of other workers: one, or a list of them; each counts once."""

    @classmethod
    def from_value(cls, value: Any) -> ParentIds:
        for id in (ids := listed(value)):
            if not isinstance(id, str) or not id.strip():
                raise Misfit(f"`depends_on` must be a list of ids, not {described(value)}")
        return cls(dict.fromkeys(ids))

    @staticmethod
    def json_schema() -> dict[str, Any]:
        text = {"type": "string", "pattern": r"\S"}
        return {"anyOf": [text, {"type": "array", "items": text}]}


class FleetConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for all workers. 0 means no limit: in `max_budget_fleet` and in the seconds. `overrun`:
    budget for the last call of a worker, which may exceed its own, is reserved, or that is allowed to
    happen. `billing` None: a key in the environment is used, as the programs do themselves. `at`: where
    workers run, as in a roster; `queue`: for those at workers, where the store is in a folder."""

    called: ClassVar[str] = "config"

    max_concurrent: Count = 5
    model: Text = "sonnet"
    fallback_model: Text = "haiku"
    provider: Provider = "claude"
    reasoning_effort: Effort | None = None
    launch_delay_seconds: NonNegative = 3.0
    max_budget_fleet: NonNegative = 0.0
    overrun: Overrun = "reserve"
    keep_panes_open: bool = False
    record: bool = False
    isolation: Isolation = "none"
    silence_seconds: NonNegative = 0.0
    timeout_seconds: NonNegative = 0.0
    billing: Billing | None = None
    at: StatedPlace | None = None
    queue: Text | None = None

    def __post_init__(self) -> None:
        read_place(self.at)


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worker as the file states it. Provider, model, effort, isolation, `at` and the seconds come from the
    configuration where it does not. `inputs` and `remote`: what one elsewhere is sent, and where it gets its
    repository. The last four are written by dag-fleet, and ignored."""

    called: ClassVar[str] = "a worker"

    id: FileName
    type: WorkerType = "read-only"
    task: str = ""
    provider: Provider = "claude"
    model: Text | None = None
    reasoning_effort: Effort | None = None
    max_turns: Whole = 0
    max_budget_usd: Positive = 1.0
    depends_on: ParentIds = ParentIds()
    partial: bool | Literal["always"] = False
    isolation: Isolation = "none"
    target_files: tuple[TargetPattern, ...] = ()
    silence_seconds: NonNegative = 0.0
    timeout_seconds: NonNegative = 0.0
    session: Text | None = None
    at: StatedPlace | None = None
    inputs: tuple[Text, ...] = ()
    remote: Text | None = None
    status: Any = None
    session_name: Any = None
    started_at: Any = None
    killed_at: Any = None

    def __post_init__(self) -> None:
        read_place(self.at)
        read_patterns(self.inputs, "inputs")
        if self.id == _EVERYONE:
            what = "the id `all` means every worker in `fanfold kill`; choose another one"
            raise Misfit(what, "id")


class FleetRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. `fleet_id` is the name where it is not stated, `schema` is for editors; the last three
    are written by dag-fleet, and ignored."""

    called: ClassVar[str] = "a fleet"

    workers: tuple[WorkerRecord, ...]
    fleet_name: FileName = "fleet"
    fleet_id: FileName = ""
    type: Literal["dag", "worktree", "iterative"] = "dag"
    config: FleetConfig = FleetConfig()
    schema: Any = msgspec.field(default=None, name="$schema")
    status: Any = None
    launched_at: Any = None
    killed_at: Any = None

    def __post_init__(self) -> None:
        if self.type == "iterative":
            raise Misfit(
                "a fleet of type iterative runs in a loop, which is not supported; with"
                ' "dag" its workers run once',
                "type",
            )
        if not self.workers:
            raise Misfit("`workers` is empty; a fleet needs at least one", "workers")


def fleet_schema() -> dict[str, Any]:
    """The JSON Schema of the file, in which null is the same as not there."""
    schema = schema_of(FleetRecord)
    for record in schema["$defs"].values():
        for name, field in record.get("properties", {}).items():
            if name not in record["required"] and (default := field.pop("default")) is not None:
                nullable = {"anyOf": [field, {"type": "null"}], "default": default}
                record["properties"][name] = nullable
    return schema


class WorkerSpec(WorkerRecord, frozen=True, kw_only=True):
    """A worker with all that it takes from the configuration. `model` is None where none is stated and
    the default is of another provider. `prompt` is what it is sent; "" where only the shape of the fleet
    was read. `stated`: the fields that the file has for it, each with its line."""

    fallback_model: str | None = None
    prompt: str = ""
    line: int = 1
    stated: dict[str, int] = {}

    @property
    def weight(self) -> float:
        """Nobody knows beforehand how long a worker takes: all count the same."""
        return 1.0


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """`file` as it was named, for error texts; `root` is the absolute folder that it is in."""

    name: str
    id: str
    file: str
    root: str
    type: str = "dag"
    config: FleetConfig = FleetConfig()
    workers: tuple[WorkerSpec, ...]

    def home(self, worker: str) -> Path:
        """The folder of one worker: its prompt, its log, its output."""
        return Path(self.root, "workers", worker)

    def output(self, worker: str) -> Path:
        return self.home(worker) / "output"

    def bad(self, worker: WorkerSpec, field: str, what: str) -> BadInput:
        """An error at the line of a worker's field, or of the worker where it does not state it."""
        return BadInput(what, file=self.file, line=worker.stated.get(field, worker.line))


# ── which files a worker may claim, as patterns ──────────────────────────────────────────────
# Whether two patterns can name the same file is decided from the patterns alone: the files need not be
# there yet.

_T = TypeVar("_T")
_Letter: TypeAlias = frozenset[str] | None
"""The letters that fit at one place; None is any."""

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_TOKEN = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_WILD = "*?["
_MOST_CHOICES = 256


class TargetPattern(str):
    """A pattern below the fleet's folder: `src/**/*.ts`, `docs/`, `{a,b}.md`."""

    __slots__ = ()

    @classmethod
    def from_value(cls, value: Any) -> TargetPattern:
        if not isinstance(value, str) or not value.strip():
            raise Misfit(f"a pattern in `target_files` must be a text, not {described(value)}")
        if value.startswith(("/", "~")) or ".." in value.split("/"):
            raise Misfit(f"`{value}` in `target_files` must be below the fleet's folder")
        if len(value) > 1000 or len(_expanded(value)) > _MOST_CHOICES:
            raise Misfit("a pattern in `target_files` is too long; use several short ones")
        return cls(value)


def overlap(one: str, other: str) -> bool:
    """Can there be a file that both name? A folder includes all that is below it."""
    paths = [list(_paths(pattern)) for pattern in (one, other)]
    return any(_meet(a, b, "**", _fits) for a in paths[0] for b in paths[1])


def _paths(pattern: str) -> Iterator[tuple[str, ...]]:
    """Its segments, for each choice in braces; a plain last one may be a folder."""
    for path in _expanded(pattern):
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        yield parts
        if not parts or not any(letter in parts[-1] for letter in _WILD):
            yield (*parts, "**")


def _expanded(pattern: str) -> list[str]:
    found, made = [pattern], list[str]()
    while found and len(found) + len(made) <= _MOST_CHOICES + 1:
        path = found.pop()
        match = _BRACES.search(path)
        if match is None:
            made.append(path)
        else:
            choices = match[1].split(",")
            found += [path[: match.start()] + one + path[match.end() :] for one in choices]
    return made + found


def _fits(one: str, other: str) -> bool:
    return one == other or _meet(_letters(one), _letters(other), _STAR, _common)


_STAR: frozenset[str] = frozenset()


def _letters(segment: str) -> list[_Letter]:
    return [_letter(token) for token in _TOKEN.findall(segment)]


def _letter(token: str) -> _Letter:
    if token.startswith("*"):
        return _STAR
    if token == "?" or token.startswith("[!"):
        return None
    if len(token) == 1:
        return frozenset(token)
    ranges = re.findall(r"(.)-(.)|(.)", token[1:-1], re.DOTALL)
    return frozenset(
        chr(code)
        for low, high, alone in ranges
        for code in range(ord(low or alone), ord(high or alone) + 1)
    )


def _common(one: _Letter, other: _Letter) -> bool:
    return one is None or other is None or bool(one & other)


def _meet(a: Sequence[_T], b: Sequence[_T], wild: _T, fits: Callable[[_T, _T], bool]) -> bool:
    """Do two patterns have a match in common? `wild` matches any number of any.

    From the end: `below` and `row` say whether the rests from there on do.
    """
    below = [False] * (len(b) + 1)
    for i in range(len(a), -1, -1):
        row = [False] * (len(b) + 1)
        for j in range(len(b), -1, -1):
            in_a, in_b = i < len(a), j < len(b)
            if not in_a and not in_b:
                row[j] = True
            elif (in_a and a[i] == wild) or (in_b and b[j] == wild):
                row[j] = (in_a and below[j]) or (in_b and row[j + 1])
            elif in_a and in_b:
                row[j] = below[j + 1] and fits(a[i], b[j])
        below = row
    return below[0]
