"""`watch`: what a step states so that a sample of its answers is checked while it works."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta

from fanfold.errors import BadInput
from fanfold.work.document import Node
from fanfold.work.options import BudgetField, budget_of, check_gate, plain
from fanfold.work.reader import Misfit, Positive, Stated, Text, read_record
from fanfold.work.task import AnswerWatch, Budget, Gate
from fanfold.work.truth import Truth, read_truth

RATE = 0.02  # of the items, where a check costs something
OnDrift = Literal["warn", "pause"]


class WatchFields(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True
):
    """A watch as it is written."""

    called: ClassVar[str] = "a watch"
    truth: Annotated[
        Stated[Text],
        Meta(description="What is right: labels.csv, item.FIELD, gate, or member:ID."),
    ] = UNSET
    gate: Annotated[
        Stated[dict[str, Any] | list[Any]],
        Meta(description="In place of `truth`: checks of its own, such as a judge."),
    ] = UNSET
    target: Annotated[Positive, Meta(description="Which share should be right.")]
    rate: Annotated[Stated[Positive], Meta(description="Which share of the items is checked.")] = (
        UNSET
    )
    budget: Stated[BudgetField] = UNSET
    on_drift: Annotated[
        OnDrift, Meta(description="Below the target: flag the run, or pause it.")
    ] = "warn"
    field: Annotated[Stated[Text], Meta(description="Of replies, that is compared.")] = UNSET

    def __post_init__(self) -> None:
        if (self.truth is UNSET) == (self.gate is UNSET):
            raise Misfit("a watch needs `truth` or `gate`: what is right?")
        for name in ("target", "rate"):
            share = getattr(self, name)
            if share is not UNSET and share > 1:
                raise Misfit(f"`{name}` is a share, at most 1, not {share:g}", name)

    @property
    def reference(self) -> str | None:
        """The member whose answers are taken as right."""
        said = "" if self.truth is UNSET else str(self.truth)
        return said.removeprefix("member:") if said.startswith("member:") else None

    @property
    def own_budget(self) -> Budget:
        return Budget() if self.budget is UNSET else budget_of(self.budget)

    def checks_all(self, gate: bool) -> bool:
        """Whether a check costs nothing, so that all items are checked unless a rate is stated."""
        return self.reference is None and not gate

    def describe(self) -> str:
        against = self.truth if self.gate is UNSET else "gate of its own"
        return f"watched: {against}, {self.target:.1%} right"


def watch_of(stated: WatchFields, gate: Gate | None, folder: str = "") -> AnswerWatch:
    """What a run works with; labels are read from this folder now."""
    truth = Truth("gate") if gate else read_truth(str(stated.truth), "`watch`: truth", folder)
    rate = 1.0 if stated.checks_all(gate is not None) else RATE
    return AnswerWatch(
        truth, stated.target, rate if stated.rate is UNSET else stated.rate, stated.own_budget,
        stated.on_drift, "" if stated.field is UNSET else stated.field, gate,
    )  # fmt: skip


def script_watch(node: Node) -> AnswerWatch:
    """The same from a Python call, where `gate` is a gate."""
    if not isinstance(node.value, dict):
        return watch_of(read_record(node, WatchFields), None)
    given = plain(node.value)
    if isinstance(budget := given.get("budget"), Budget):
        given["budget"] = plain(msgspec.structs.asdict(budget))
    gate = given.pop("gate", None)
    if gate is not None:
        check_gate("`watch`: `gate`", gate)
        if "truth" in given:
            raise BadInput("`watch`: state `truth` or `gate`, not both")
        given["truth"] = "gate"
    return watch_of(read_record(Node({"watch": given}, "", {}).child("watch"), WatchFields), gate)
