"""Ensembles of a roster: members that answer together under one name, and how they decide."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from fanfold.work.document import Node
from fanfold.work.nearest import remedy
from fanfold.work.reader import Count, Misfit, NonNegative, Text

Rule = Literal["majority", "weighted", "quorum"]
TAKEN = ("auto",)


class RosterEnsemble(msgspec.Struct, frozen=True, kw_only=True):
    """`judge` is a member that decides instead of a count; `picks`: it names one of the answers."""

    members: tuple[str, ...]
    decide: Rule = "majority"
    weights: dict[str, float] = {}
    quorum: int | None = None
    samples: int | None = None
    stop_early: bool = False
    judge: str | None = None
    picks: bool = True


class JudgeFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    called: ClassVar[str] = "a judge"
    member: Text
    picks: bool = True


class EnsembleFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As a roster states it. As in a plan, `judge: {member: …}` goes with `decide: judge`, which may
    be left out."""

    called: ClassVar[str] = "an ensemble"
    members: Annotated[tuple[Text, ...], Meta(min_length=1)]
    decide: Literal["majority", "weighted", "quorum", "judge"] | None = None
    weights: dict[str, NonNegative] = {}
    quorum: Count | None = None
    samples: Count | None = None
    stop_early: bool = False
    judge: JudgeFields | None = None

    def __post_init__(self) -> None:
        if self.judge is None and self.decide == "judge":
            raise Misfit("`decide: judge` needs a `judge: {member: …}`", "decide")
        if self.judge is not None and self.decide not in ("judge", None):
            raise Misfit("`judge` goes with `decide: judge`", "judge")

    @property
    def ensemble(self) -> RosterEnsemble:
        judge, decide = self.judge, self.decide or "majority"
        return RosterEnsemble(
            members=self.members, decide="majority" if decide == "judge" else decide,
            weights=self.weights, quorum=self.quorum, samples=self.samples,
            stop_early=self.stop_early, judge=None if judge is None else judge.member,
            picks=judge is None or judge.picks,
        )  # fmt: skip


def check_ensembles(
    top: Node, ensembles: Mapping[str, EnsembleFields], members: Collection[str]
) -> None:
    """Of a roster with these members: whom they name is there, and their own names are free."""
    for name, stated in ensembles.items():
        node = top.child("ensembles").child(name)
        if name in members or name in TAKEN:
            raise node.bad(f"`{name}` is taken; give the ensemble a name of its own")
        for n, id in enumerate(stated.members):
            _check_member(node.child("members").child(n), id, members)
        if stated.judge is not None:
            _check_member(node.child("judge").child("member"), stated.judge.member, members)


def _check_member(node: Node, id: str, members: Collection[str]) -> None:
    if id not in members:
        raise node.bad(f"there is no member `{id}`: {remedy(id, members)}")
