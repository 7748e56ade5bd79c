"""The knobs of an ensemble, for a step and for a reduce."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from fanfold.patterns.panel import JUDGE_NAMES, PICK, RULES, VOTE_OPTIONS, WRITE
from fanfold.plans.plan import Asking
from fanfold.plans.steps.asking import ASK_FIELDS, Reading, read_target
from fanfold.work.check import Check, anything, fields, flag, text
from fanfold.work.document import Node
from fanfold.work.nearest import remedy

_RULES = (*RULES, "judge")
_JUDGE_NAMES = tuple(sorted(JUDGE_NAMES))


def read_votes(
    node: Node, stated: dict[str, Any], reading: Reading, known: Collection[str] | None = None
) -> dict[str, Any]:
    """The fields of an `Ensemble`. How many voters there are shows only with the roster."""
    if "fallback" in stated:
        raise node.child("fallback").bad("a voter has no `fallback`; `escalate` is for questions")
    made = reading.asking(node, stated, known)
    made |= {name: stated[name] for name in VOTE_OPTIONS if name in stated}
    if "decide" in stated:
        made["decide"] = _read_decide(node.child("decide"), reading)
    if "judge" in stated:
        if stated.get("decide", "judge") != "judge":
            raise node.child("judge").bad("`judge` goes with `decide: judge`")
        made |= {"decide": "judge", **_read_judge(node.child("judge"), reading)}
    elif made.get("decide") == "judge":
        raise node.child("decide").bad("`decide: judge` needs a `judge: {member: …}`")
    if made.get("decide") == "weighted" and "weights" not in made:
        raise node.child("decide").bad("`decide: weighted` needs `weights: {member: 1.5, …}`")
    return made


def _read_decide(node: Node, reading: Reading) -> str:
    said = text(node)
    if ":" in said:
        return read_target(node, reading)
    if said not in _RULES:
        raise node.bad(f"unknown decide `{said}`: {remedy(said, _RULES)}; or give module:function")
    return said


def _read_judge(node: Node, reading: Reading) -> dict[str, Any]:
    stated = fields(node, {**ASK_FIELDS, "picks": flag}, "a judge")
    judge = Asking(**reading.asking(node, stated, _JUDGE_NAMES))
    if judge.prompt is None:
        judge = msgspec.structs.replace(judge, prompt=PICK if stated.get("picks", True) else WRITE)
    return {"judge": judge, "picks": stated.get("picks", True)}


VOTE_FIELDS: dict[str, Check] = {**VOTE_OPTIONS, "decide": anything, "judge": anything}
