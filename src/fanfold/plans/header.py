"""A plan but for its steps: all that steps know of the plan around them."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta

from fanfold.run.settings import Govern
from fanfold.work.reader import Count, Misfit, Stated, Text
from fanfold.work.task import Budget

InputKind = Literal[
    "jsonl", "json", "csv", "tsv", "lines", "files", "list", "count", "command", "http"
]
INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the items come from. `id` names the field that holds an item's id, when stated."""

    kind: InputKind
    value: Any
    id: str | None = None
    limit: int | None = None
    file: str | None = None
    line: int | None = None


_Items: TypeAlias = Stated[list[Any]]


class InputUrl(str):
    """Where items are fetched from."""

    @classmethod
    def from_value(cls, value: Any) -> InputUrl:
        try:
            parts = urlsplit(value)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
        except (ValueError, AttributeError, TypeError):
            usable = False
        if not isinstance(value, str) or not usable:
            raise Misfit("`http` must be an http:// or https:// URL without a name or password")
        return cls(value)


class InputFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the items come from: one of these, and perhaps `id` and `limit`."""

    called: ClassVar[str] = "an input"
    jsonl: Annotated[Stated[Text], Meta(description="A file with a JSON value in each line.")] = (
        UNSET
    )
    json: Annotated[Stated[Text], Meta(description="A file with a JSON array.")] = UNSET
    csv: Stated[Text] = UNSET
    tsv: Stated[Text] = UNSET
    lines: Annotated[Stated[Text], Meta(description="A file; each line is an item.")] = UNSET
    files: Annotated[Stated[Text], Meta(description="A pattern; each file is an item.")] = UNSET
    list: Annotated[_Items, Meta(description="The items themselves.")] = UNSET
    count: Annotated[Stated[Count], Meta(description="So many numbered items.")] = UNSET
    command: Annotated[
        Stated[Annotated[tuple[Text, ...], Meta(min_length=1)]],
        Meta(description="A program that prints a JSON value in each line."),
    ] = UNSET
    http: Annotated[Stated[InputUrl], Meta(description="A URL that gives JSON lines.")] = UNSET
    id: Annotated[Stated[Text], Meta(description="The field that holds an item's id.")] = UNSET
    limit: Annotated[Stated[Count], Meta(description="Only the first so many items.")] = UNSET

    def __post_init__(self) -> None:
        kinds = self.kinds()
        if len(kinds) != 1:
            found = " and ".join(f"`{kind}`" for kind in kinds) or "none"
            raise Misfit(f"an input needs exactly one of {', '.join(INPUT_KINDS)}; found {found}")
        if self.id is not UNSET and kinds[0] in ("lines", "files", "count"):
            raise Misfit(f"`id` has no use with `{kinds[0]}`: it has no fields", "id")

    def kinds(self) -> tuple[Any, ...]:
        return tuple(kind for kind in INPUT_KINDS if getattr(self, kind) is not UNSET)


class Overrides(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the operator says in place of the plan: only so many items, another input, values of
    variables, calls of each step at once, batches where a step states none. Part of the plan, so that a
    resume goes by it too."""

    limit: int | None = None
    input: str | None = None
    vars: dict[str, str] = {}
    concurrency: int | None = None
    batch: str | None = None

    def words(self) -> list[str]:
        """As they are typed."""
        said = [("--limit", self.limit), ("--input", self.input), ("-j", self.concurrency)]
        said += [("--batch", self.batch)]
        said += [("--set", f"{name}={value}") for name, value in self.vars.items()]
        return [str(word) for pair in said if pair[1] is not None for word in pair]


class PlanHeader(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A plan whose steps may be of any kind; `plan.Plan` is one of the known kinds.

    `file` is the plan as it was named, `folder` the absolute folder its paths start from.

    `targets`: the Python functions that its own text names, with their lines; imported by the run.
    `step_budgets`: by the name of a step, what the operator allows it instead of its own `budget`.
    `when`: by the name of a step, the condition on which it is taken.
    `allow_outside`: it may write, and read prompts, beyond its folder.
    `vars`: what prompts and paths know as `vars`. `overrides` are worked in already.
    `keep: prompts`: what is sent is stored with the run, so that it can always be shown.
    `tags`: for what its runs are paid.
    """

    name: str
    file: str
    folder: str
    roster: str | None = None
    budget: Budget = Budget()
    task: str | None = None
    vars: dict[str, Any] = {}
    overrides: Overrides = Overrides()
    input: Input | None = None
    govern: Govern = Govern()
    targets: dict[str, int] = {}
    step_budgets: dict[str, Budget] = {}
    when: dict[str, str] = {}
    allow_outside: bool = False
    keep: Literal["prompts"] | None = None
    tags: tuple[str, ...] = ()
    steps: tuple[Any, ...]


def run_command(plan: PlanHeader) -> str:
    """How a run of it is started, with what the operator says in its place."""
    return shlex.join(["fanfold", "run", plan.file, *plan.overrides.words()])
