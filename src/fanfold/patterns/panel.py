"""Who votes on a question and how the votes decide, checked before anybody is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.judged import Judge
from fanfold.work.check import Check, entries, flag, number, text, whole
from fanfold.work.document import Node
from fanfold.work.fields import Path, path_of
from fanfold.work.nearest import remedy
from fanfold.work.options import stated
from fanfold.work.vote import Rule, Vote, Voter

By_Votes: TypeAlias = Literal["majority", "weighted", "quorum"]
Decide: TypeAlias = By_Votes | Judge | Callable[[list[Vote]], Any]

RULES = ("majority", "weighted", "quorum")
USUAL_QUORUM = 2


class Knobs(TypedDict, total=False):
    """How a vote is held.

    `samples`: so many answers of each voter instead of one. `decide`: `majority` (the answer with
    the most votes; of level ones that whose first voter stands earlier), `weighted` (with `weights`
    by member; 1 if not stated), `quorum` (at least `quorum` voters say the same, else there is no
    decision), a judge (see `judged`), or a function of the votes, which gives one of them or any
    value. `quorum` (default 2, or 1 if there is only one voter): otherwise, how many must answer.

    `stop_early`: ask nobody else once the decision can no longer change; it is the same as if all
    had been asked. `confidence`: also stop when so large a share of the votes cast, at least
    `quorum` of them, agrees; that may decide otherwise than all would. `field`: compare this field
    of the replies.
    """

    samples: int | None
    decide: Decide
    weights: Mapping[str, float] | None
    quorum: int | None
    stop_early: bool
    confidence: float | None
    field: str | None


def _share(node: Node) -> float:
    share: float = number(above=0)(node)
    if share > 1:
        raise node.bad(f"`{node.name}` is a share of the votes, at most 1, not {share:g}")
    return share


def _weights_of(node: Node) -> dict[str, float]:
    return {name: number(least=0)(child) for name, child in entries(node)}


KNOBS: dict[str, Check] = {
    "samples": whole(least=1),
    "weights": _weights_of,
    "quorum": whole(least=1),
    "stop_early": flag,
    "confidence": _share,
    "field": text,
}


class Panel(msgspec.Struct, frozen=True):
    """`voters` in the order in which they are asked: by weight, then as they were stated."""

    voters: tuple[Voter, ...]
    rule: Rule
    decide: Decide = "majority"
    path: Path = ()
    early: bool = False


def panel_of(members: Sequence[str], knobs: Knobs) -> Panel:
    """What does not fit together is BadInput."""
    told = stated({name: value for name, value in knobs.items() if name in KNOBS}, KNOBS, "a vote")
    decide = knobs.get("decide") or "majority"
    confidence = told.get("confidence")
    early = told.get("stop_early", False) or confidence is not None
    _check_decide(decide, early)
    voters = _voters(members, told.get("samples"), _weights(members, told, decide))
    quorum = _quorum(told.get("quorum"), len(voters))
    turnout, agree = (1, quorum) if decide == "quorum" else (quorum, 1)
    in_order = tuple(sorted(voters, key=lambda voter: -voter.weight))
    return Panel(
        in_order, Rule(turnout, agree, confidence), decide, path_of(told.get("field")), early
    )


def _check_decide(decide: Any, early: bool) -> None:
    if isinstance(decide, str):
        if decide not in RULES:
            raise BadInput(
                f"unknown decide {decide!r}: {remedy(decide, RULES)}; or give a judge or a function"
            )
    elif not (isinstance(decide, Judge) or callable(decide)):
        raise BadInput(f"decide is one of {', '.join(RULES)}, a judge or a function: {decide!r}")
    elif early:
        raise BadInput("stop_early and confidence go with a count of votes, not with this decide")


def _weights(members: Sequence[str], told: Mapping[str, Any], decide: Any) -> Mapping[str, float]:
    weights: Mapping[str, float] = told.get("weights", {})
    if weights and decide != "weighted":
        raise BadInput("weights go with decide='weighted'; state both or none")
    for name in weights:
        if name not in members:
            raise BadInput(f"weights: {name!r} is no voter: {remedy(str(name), members)}")
    if weights and not any(weights.get(name, 1.0) for name in members):
        raise BadInput("weights: all are 0, so no vote counts; give one voter more")
    return weights


def _voters(
    members: Sequence[str], samples: int | None, weights: Mapping[str, float]
) -> list[Voter]:
    """First one answer of each member, then a second of each, and so on."""
    if isinstance(members, str) or not all(isinstance(name, str) for name in members):
        raise BadInput(f"members is a list of names, not {members!r}")
    if len(set(members)) < len(members):
        twice = next(name for n, name in enumerate(members) if name in members[:n])
        raise BadInput(f"{twice} votes twice; for several answers of one member use samples")
    if not members and samples is None:
        raise BadInput("nobody votes: give members=[...], or samples=n of one member")
    named = [
        (name, sample, f"{name or ''}#{sample + 1}" if samples else name or "")
        for sample in range(samples or 1)
        for name in members or (None,)
    ]
    return [
        Voter(shown, place, float(weights.get(name or "", 1.0)), name, sample)
        for place, (name, sample, shown) in enumerate(named)
    ]


def _quorum(quorum: int | None, many: int) -> int:
    if quorum is None:
        return min(USUAL_QUORUM, many)
    if quorum > many:
        raise BadInput(f"a quorum of {quorum} cannot be reached: there are {many} voters")
    return quorum
