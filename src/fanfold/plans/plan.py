"""A plan as records: all that a run needs, prompts and schemas included, so it can be stored."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec

from fanfold.work.ask import Params, Schema
from fanfold.work.task import Budget, InDoubt, OnFailure, Who

InputKind = Literal["jsonl", "json", "csv", "lines", "files", "list", "count", "command", "http"]
INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the items come from. `id` names the field that holds an item's id, when stated."""

    kind: InputKind
    value: Any
    id: str | None = None
    limit: int | None = None
    file: str | None = None
    line: int | None = None


class Shard(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many items go into one ask; one of the two is stated."""

    items: int | None = None
    tokens: int | None = None


class Map(msgspec.Struct, frozen=True, omit_defaults=True, tag="map", kw_only=True):
    """Ask once per item (or shard). Without a prompt only functions and replay can answer.

    `gate` is as written in the plan; None is the default gate alone. `line` is the step's,
    `lines` those of its fields.
    """

    name: str = "map"
    prompt: str | None = None
    schema: Schema | None = None
    who: Who = Who()
    shard: Shard | None = None
    concurrency: int = 8
    budget: Budget = Budget()
    keep: str | None = None
    gate: tuple[dict[str, Any], ...] | None = None
    revise: int = 1
    escalate: tuple[str, ...] = ()
    on_failure: OnFailure = "skip"
    in_doubt: InDoubt | None = None
    params: Params = Params()
    lines: dict[str, int] = {}
    line: int | None = None


class Reduce(msgspec.Struct, frozen=True, omit_defaults=True, tag="reduce", kw_only=True):
    """Fold the passed replies. For kind `ask`, `who`, `schema` and `gate` say who writes it how."""

    name: str = "reduce"
    kind: str
    options: dict[str, Any] = {}
    lines: dict[str, int] = {}
    line: int | None = None


class Write(msgspec.Struct, frozen=True, omit_defaults=True, tag="write", kw_only=True):
    """Put the result into a file, named relative to the plan's folder."""

    name: str = "write"
    path: str
    line: int | None = None


Step: TypeAlias = Map | Reduce | Write


class Plan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`file` is the plan as it was named, `folder` the absolute folder its paths start from."""

    name: str
    file: str
    folder: str
    roster: str | None = None
    budget: Budget = Budget()
    task: str | None = None
    input: Input
    steps: tuple[Step, ...]
