"""A plan file as it is written: the records that it is read into, and their JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta

from fanfold.plans.header import InputFields
from fanfold.plans.steps import reduce
from fanfold.plans.steps.pipeline import StageEntry
from fanfold.plans.steps.plan_entry import PlanEntry
from fanfold.plans.steps.repeat import RepeatEntry
from fanfold.work.options import BudgetField
from fanfold.work.reader import NonNegative, Stated, Text, Whole, schema_of

WHEN = {"type": "string", "description": "The step is taken only when this expression is true."}


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
    tags: Annotated[
        Stated[tuple[Text, ...]], Meta(description="For what its runs are paid, for accounts.")
    ] = UNSET
    steps: tuple[PlanEntry, ...]


def plan_schema() -> dict[str, Any]:
    """For editors: what may be written in a plan file."""
    made = schema_of(
        PlanFields, PlanEntry.record(), StageEntry.record(), RepeatEntry.record(), *reduce.FORMS
    )
    known = made["$defs"]
    for kind in known[PlanEntry.__name__]["properties"].values():
        for form in kind.get("anyOf", [kind]):
            fields = known[form["$ref"].rpartition("/")[2]] if "$ref" in form else form
            if "properties" in fields:
                fields["properties"]["when"] = WHEN
    return made
