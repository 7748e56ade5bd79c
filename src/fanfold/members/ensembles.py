"""Ensembles of a roster: members that answer together under one name, and how they decide."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, get_args

import msgspec

from fanfold.work.check import anything, entries, fields, flag, many, number, one_of, text, whole
from fanfold.work.document import Node
from fanfold.work.nearest import remedy

Rule = Literal["majority", "weighted", "quorum"]
RULES: tuple[Rule, ...] = get_args(Rule)
TAKEN = ("auto",)


class Ensemble(msgspec.Struct, frozen=True, kw_only=True):
    """`judge` is a member that decides instead of a count; `picks`: it names one of the answers."""

    members: tuple[str, ...]
    decide: Rule = "majority"
    weights: dict[str, float] = {}
    quorum: int | None = None
    samples: int | None = None
    stop_early: bool = False
    judge: str | None = None
    picks: bool = True


def read_ensembles(node: Node, members: Collection[str]) -> dict[str, Ensemble]:
    """The section `ensembles:` of a roster with these members."""
    found: dict[str, Ensemble] = {}
    for name, child in entries(node, "`ensembles`"):
        if name in members or name in TAKEN:
            raise child.bad(f"`{name}` is taken; give the ensemble a name of its own")
        found[name] = _read_one(child, members)
    return found


def _read_one(node: Node, members: Collection[str]) -> Ensemble:
    known = {
        "members": many(text, least=1), "decide": one_of(*RULES, "judge"), "weights": anything,
        "quorum": whole(least=1), "samples": whole(least=1), "stop_early": flag, "judge": anything,
    }  # fmt: skip
    stated = fields(node, known, "an ensemble", required=("members",))
    for n, id in enumerate(stated["members"]):
        _is_member(node.child("members").child(n), id, members)
    if "weights" in stated:
        weights = entries(node.child("weights"))
        stated["weights"] = {name: number(least=0)(child) for name, child in weights}
    return Ensemble(**(stated | _decision(node, stated, members)))


def _decision(node: Node, stated: dict[str, Any], members: Collection[str]) -> dict[str, Any]:
    """As in a plan: `judge: {member: …}` goes with `decide: judge`, which may be left out."""
    decide = stated.get("decide", "judge" if "judge" in stated else "majority")
    if decide != "judge":
        if "judge" in stated:
            raise node.child("judge").bad("`judge` goes with `decide: judge`")
        return {"decide": decide}
    if "judge" not in stated:
        raise node.child("decide").bad("`decide: judge` needs a `judge: {member: …}`")
    child = node.child("judge")
    judge = fields(child, {"member": text, "picks": flag}, "a judge", required=("member",))
    _is_member(child.child("member"), judge["member"], members)
    return {"decide": "majority", "judge": judge["member"], "picks": judge.get("picks", True)}


def _is_member(node: Node, id: str, members: Collection[str]) -> None:
    if id not in members:
        raise node.bad(f"there is no member `{id}`: {remedy(id, members)}")
