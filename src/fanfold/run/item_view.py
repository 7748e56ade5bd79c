"""All that is known about one item of a run, as records: `plans` finds it, `observe` shows it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fanfold.journal.answers import AttemptRecord
from fanfold.work.ask import Message, Reply
from fanfold.work.outcome import State

PromptState = Literal["stored", "matches", "unchecked", "changed", "unknown"]
"""`stored`: as it was sent, kept with the run. Rendered again: it `matches` the key of a reply that
is on record, there is no reply to compare it with, or it is another one. `unknown`: not rendered."""


class PromptView(msgspec.Struct, frozen=True):
    """A request. `note` says how far it can be relied on; `reply`: what came back for it, where that
    is not the reply that counts; `reasons`: why its gate refused that, where it is known."""

    state: PromptState
    messages: tuple[Message, ...] = ()
    note: str = ""
    member: str = ""
    reply: Reply | None = None
    reasons: tuple[str, ...] = ()


class VoteView(msgspec.Struct, frozen=True):
    """What a voter said: `answer` is what was compared. Where it does not count, `reasons` say why.
    `prompts`: what it was asked, each with its reply; one, unless it was kicked back."""

    member: str
    answer: Any = None
    counts: bool = False
    reasons: tuple[str, ...] = ()
    prompts: tuple[PromptView, ...] = ()


class InputView(msgspec.Struct, frozen=True):
    """What an item is. `where`: file and line; `note`: why it is not what was planned, or not known."""

    known: bool
    data: Any = None
    where: str = ""
    note: str = ""


class StepView(msgspec.Struct, frozen=True):
    """What became of it at one step. `state` None: it has no outcome there. Money in nano-dollars.
    `decided`: of a vote, by what; `votes`: who said what, as far as that is known."""

    step: str
    state: State | None = None
    reasons: tuple[str, ...] = ()
    member: str | None = None
    cost: int = 0
    calls: int = 0
    prompts: tuple[PromptView, ...] = ()
    reply: Reply | None = None
    attempts: tuple[AttemptRecord, ...] = ()
    damaged: bool = False
    votes: tuple[VoteView, ...] = ()
    decided: str = ""


class ItemView(msgspec.Struct, frozen=True):
    """One planned item; `of` is the batch: `input`, or the step that produced it."""

    id: str
    of: str
    input: InputView
    steps: tuple[StepView, ...]
