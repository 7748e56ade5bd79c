"""What was committed, for those who follow: in this process as it is, in others in a light form.

The light form has numbers, ids, members, states, costs and reasons, but no reply bodies, prompts, plans
and planned rows. Its cost is per commit: outcomes of unmetered calls are joined into one fact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fanfold.journal.answers import Claim
from fanfold.journal.facts import (
    AddRun,
    BeginJudging,
    CopyRows,
    EndAttempt,
    EndItems,
    EndJudging,
    Fact,
    ItemEnding,
    KeepPrompt,
    PlanItems,
    ReopenRun,
    StartAttempt,
)

_SILENT = (PlanItems, CopyRows, KeepPrompt, BeginJudging, EndJudging)


class Commit(msgspec.Struct, frozen=True):
    """Facts that became durable together, each with its answer. Positions grow with every commit of
    the store, whichever process made it; `at` is the newest time that the facts of it, or of one
    before, name."""

    position: int
    at: float
    facts: Sequence[Fact]
    answers: Sequence[Any]


Subscriber = Callable[[Commit], None]

_Answer = int | bool | tuple[int, ...] | None
_encode = msgspec.msgpack.Encoder().encode
_replace = msgspec.structs.replace
_decoder: msgspec.msgpack.Decoder[tuple[list[Fact], list[_Answer]]] = msgspec.msgpack.Decoder(
    tuple[list[Fact], list[_Answer]]
)


def encode_light(facts: Sequence[Fact], answers: Sequence[Any]) -> bytes:
    """Empty: there is nothing in it that anybody follows."""
    kept: list[Fact] = []
    given: list[_Answer] = []
    ended: dict[int, list[ItemEnding]] = {}
    for fact, answer in zip(facts, answers, strict=True):
        kind = type(fact)
        if (kind is EndAttempt and not fact.attempt) or kind is EndItems:  # type: ignore[union-attr]
            ended.setdefault(fact.run, []).extend(fact.endings)  # type: ignore[union-attr]
        elif kind is StartAttempt:
            if number := getattr(answer, "attempt", 0):
                kept.append(_replace(fact, keys=(), accept=(), monthly=None))
                given.append(number)
        elif kind is EndAttempt and not isinstance(answer, Exception):
            kept.append(_replace(fact, landed=(), released=()))
            given.append(answer)
        elif kind not in _SILENT and not isinstance(answer, Exception):
            _add(fact, answer, kept, given)
    for run, endings in ended.items():
        if endings:
            kept.append(EndItems(run, endings))  # type: ignore[arg-type]
            given.append(None)
    return _encode((kept, given)) if kept else b""


def _add(fact: Fact, answer: Any, kept: list[Fact], given: list[_Answer]) -> None:
    match fact:
        case AddRun(record):
            light = _replace(record, no=answer, plan=b"", result=None)
            fact = AddRun(light)
        case ReopenRun():
            fact = _replace(fact, plan=None)
        case _ if not isinstance(answer, int | tuple):
            answer = None
    kept.append(fact)
    given.append(answer)


def decode_light(position: int, at: float, light: bytes) -> Commit:
    facts, answers = _decoder.decode(light)
    known = [
        Claim(attempt=answer)
        if isinstance(fact, StartAttempt) and isinstance(answer, int)
        else answer
        for fact, answer in zip(facts, answers, strict=True)
    ]
    return Commit(position, at, facts, known)
