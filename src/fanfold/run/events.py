"""What happens in a run, one event after the other, for whoever looks on from the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import msgspec

from fanfold.journal.answers import Claim
from fanfold.journal.contract import Store
from fanfold.journal.facts import (
    EndAttempt,
    EndItems,
    Fact,
    ItemEnding,
    RecordFailure,
    StartAttempt,
)
from fanfold.journal.stream import Commit
from fanfold.price import dollars
from fanfold.work.outcome import State


class RunEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """`asked`: a call is on record and goes out. `answered`, `failed`: it is over. `ended`: an item has
    an outcome at a step. On record when it is told."""

    kind: Literal["asked", "answered", "failed", "ended"]
    at: float
    step: int
    ids: tuple[str, ...] = ()
    member: str = ""
    attempt: int = 0
    cost_usd: float = 0.0
    state: State | None = None
    reasons: tuple[str, ...] = ()
    error: str = ""


class RunEvents:
    """Of one run, from the moment it is made until the run is closed. Nothing waits for the one who reads
    them: what is not fetched is kept."""

    def __init__(self, store: Store, run: int) -> None:
        self._store, self._run = store, run
        self._told: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self._started: dict[int, StartAttempt] = {}
        self._unsubscribe = store.subscribe(self._hear)

    def end(self, *_: Any) -> None:
        self._unsubscribe()
        self._told.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[RunEvent]:
        while (event := await self._told.get()) is not None:
            yield event

    def _hear(self, commit: Commit) -> None:
        for fact, answer in zip(commit.facts, commit.answers, strict=True):
            if getattr(fact, "run", None) == self._run and not isinstance(answer, Exception):
                for event in self._events(fact, answer, commit.at):
                    self._told.put_nowait(event)

    def _events(self, fact: Fact, answer: Any, at: float) -> Iterator[RunEvent]:
        match fact:
            case StartAttempt() if isinstance(answer, Claim) and answer.attempt:
                self._started[answer.attempt] = fact
                yield RunEvent("asked", fact.at, fact.step, fact.ids, fact.member, answer.attempt)
            case EndAttempt():
                start = self._started.pop(fact.attempt, None)
                if start is not None:
                    kind: Literal["answered", "failed"] = "failed" if fact.error else "answered"
                    yield RunEvent(
                        kind, fact.at, start.step, start.ids, start.member, fact.attempt,
                        dollars(fact.cost), error=fact.error or "",
                    )  # fmt: skip
                yield from self._endings(fact.endings, fact.at)
            case RecordFailure():
                yield RunEvent(
                    "failed", fact.at, fact.step, fact.ids, fact.member, error=fact.error
                )
            case EndItems():
                yield from self._endings(fact.endings, at)

    def _endings(self, endings: tuple[ItemEnding, ...], at: float) -> Iterator[RunEvent]:
        for one in endings:
            items = self._store.read.planned_items(self._run, one.batch, one.position, 1)
            yield RunEvent(
                "ended", at, one.step, tuple(id for id, _ in items), one.member or "",
                cost_usd=dollars(one.cost), state=one.state, reasons=one.reasons,
            )  # fmt: skip
