"""A plan file as it is written: the records that it is read into, and their JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta

from fanfold.plans.header import INPUT_KINDS
from fanfold.plans.steps import reduce
from fanfold.plans.steps.pipeline import StageEntry
from fanfold.plans.steps.table import PlanEntry
from fanfold.work.options import BudgetField
from fanfold.work.reader import Count, Misfit, NonNegative, Stated, Text, Whole, schema_of

WHEN = {"type": "string", "description": "The step is taken only when this expression is true."}
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


class GovernFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a stage whose size was not known at the start needs a yes."""

    called: ClassVar[str] = "govern"
    max_tasks: Stated[Whole] = UNSET
    approve_over: Stated[NonNegative] = UNSET
    cap: Stated[Whole] = UNSET


class PlanFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A plan of fanfold."""

    called: ClassVar[str] = "a plan"
    name: Annotated[Stated[Text], Meta(description="The name of its runs.")] = UNSET
    roster: Annotated[Stated[Text], Meta(description="The file that lists the members.")] = UNSET
    budget: Stated[BudgetField] = UNSET
    task: Annotated[Stated[Text], Meta(description="What it is about; prompts see `task`.")] = UNSET
    vars: Annotated[
        Stated[dict[str, Any]], Meta(description="Values for `--set`; prompts see `vars`.")
    ] = UNSET
    input: Stated[InputFields] = UNSET
    govern: Stated[GovernFields] = UNSET
    keep: Annotated[
        Stated[Literal["prompts"]], Meta(description="Store what is sent with the run.")
    ] = UNSET
    steps: tuple[PlanEntry, ...]


def plan_schema() -> dict[str, Any]:
    """For editors: what may be written in a plan file."""
    made = schema_of(PlanFields, PlanEntry.record(), StageEntry.record(), *reduce.FORMS)
    known = made["$defs"]
    for kind in known[PlanEntry.__name__]["properties"].values():
        for form in kind.get("anyOf", [kind]):
            fields = known[form["$ref"].rpartition("/")[2]] if "$ref" in form else form
            if "properties" in fields:
                fields["properties"]["when"] = WHEN
    return made
