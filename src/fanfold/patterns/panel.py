"""Who votes on a question and how the votes decide, checked before anybody is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.judged import Judge
from fanfold.work.fields import Path, path_of
from fanfold.work.nearest import remedy
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


class Panel(msgspec.Struct, frozen=True):
    """`voters` in the order in which they are asked: by weight, then as they were stated."""

    voters: tuple[Voter, ...]
    rule: Rule
    decide: Decide = "majority"
    path: Path = ()
    early: bool = False


def panel_of(members: Sequence[str], knobs: Knobs) -> Panel:
    """What does not fit together is BadInput."""
    decide = knobs.get("decide") or "majority"
    confidence = knobs.get("confidence")
    early = bool(knobs.get("stop_early")) or confidence is not None
    _check_decide(decide, early)
    _check_confidence(confidence)
    voters = _voters(members, knobs.get("samples"), _weights(members, knobs, decide))
    quorum = _quorum(knobs.get("quorum"), len(voters))
    turnout, agree = (1, quorum) if decide == "quorum" else (quorum, 1)
    in_order = tuple(sorted(voters, key=lambda voter: -voter.weight))
    return Panel(
        in_order, Rule(turnout, agree, confidence), decide, path_of(knobs.get("field")), early
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


def _check_confidence(confidence: Any) -> None:
    if confidence is None:
        return
    if not _is_number(confidence) or not 0 < confidence <= 1:
        raise BadInput(f"confidence is a share above 0 and at most 1, not {confidence!r}")


def _weights(members: Sequence[str], knobs: Knobs, decide: Any) -> Mapping[str, float]:
    weights = knobs.get("weights") or {}
    if weights and decide != "weighted":
        raise BadInput("weights go with decide='weighted'; state both or none")
    for name, weight in weights.items():
        if name not in members:
            raise BadInput(f"weights: {name!r} is no voter: {remedy(str(name), members)}")
        if not _is_number(weight) or not isfinite(weight) or weight < 0:
            raise BadInput(f"weights: that of {name} is a number from 0 on, not {weight!r}")
    if weights and not any(weights.get(name, 1.0) for name in members):
        raise BadInput("weights: all are 0, so no vote counts; give one voter more")
    return weights


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _voters(
    members: Sequence[str], samples: int | None, weights: Mapping[str, float]
) -> list[Voter]:
    """First one answer of each member, then a second of each, and so on."""
    if isinstance(members, str) or not all(isinstance(name, str) for name in members):
        raise BadInput(f"members is a list of names, not {members!r}")
    if len(set(members)) < len(members):
        twice = next(name for n, name in enumerate(members) if name in members[:n])
        raise BadInput(f"{twice} votes twice; for several answers of one member use samples")
    if samples is not None and (not isinstance(samples, int) or samples < 1 or samples is True):
        raise BadInput(f"samples is a whole number from 1 on, not {samples!r}")
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
    if not isinstance(quorum, int) or isinstance(quorum, bool) or quorum < 1:
        raise BadInput(f"quorum is a whole number from 1 on, not {quorum!r}")
    if quorum > many:
        raise BadInput(f"a quorum of {quorum} cannot be reached: there are {many} voters")
    return quorum
