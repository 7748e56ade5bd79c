"""Replies on record, and asks that are in flight: what is there already is not asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeAlias

from fanfold.journal.answers import KnownReply
from fanfold.journal.contract import Store
from fanfold.journal.facts import RunRecord
from fanfold.run.demand import Eligible, StepState
from fanfold.run.settings import Settings
from fanfold.work.member import Traits
from fanfold.work.task import Terms

Mark: TypeAlias = tuple[bytes, str]
"""What is in flight: a key, and an answerer whose reply would serve."""


class Replies:
    """`new_run`: nothing of this run was on record before it was opened.
    `failed_adoptions`: what was adopted and brought no reply, and why."""

    def __init__(self, store: Store, record: RunRecord, settings: Settings) -> None:
        self._store, self._run, self._fresh = store, record.no, settings.fresh
        self._retry_in_doubt = settings.retry_in_doubt
        self.new_run = not record.resumed
        self.in_flight: dict[Mark, asyncio.Future[None]] = {}
        self.failed_adoptions: dict[Mark, str] = {}

    def recorded(self, keys: Iterable[bytes], eligible: Eligible) -> KnownReply | None:
        if self.new_run and eligible.unrecorded:
            return None
        return next(iter(self.recorded_all(keys, frozenset(eligible.accept)).values()), None)

    def recorded_all(
        self, keys: Iterable[bytes], accept: frozenset[str]
    ) -> dict[bytes, KnownReply]:
        return self._store.read.known(keys, accept, self._run, self._fresh)

    def recorded_at(
        self, batch: int, step: StepState, positions: list[int]
    ) -> dict[int, tuple[bytes, KnownReply]]:
        """Those that are stored with the outcomes of items, by position."""
        return self._store.read.known_at(self._run, batch, step.no, positions)

    def begin(self, marks: tuple[Mark, ...]) -> asyncio.Future[None]:
        """These are in flight until `end`; who wants the same waits for the future."""
        mine = asyncio.get_running_loop().create_future()
        for mark in marks:
            self.in_flight[mark] = mine
        return mine

    def end(self, marks: tuple[Mark, ...], mine: asyncio.Future[None]) -> None:
        for mark in marks:
            if self.in_flight.get(mark) is mine:
                del self.in_flight[mark]
        if not mine.done():
            mine.set_result(None)

    def may_repeat(self, ids: tuple[str, ...], terms: Terms, traits: Traits) -> bool:
        """May an attempt in doubt be repeated? As the step says; agents are held by default."""
        policy = terms.in_doubt or ("hold" if traits.agent else "retry")
        if policy == "retry" or self._retry_in_doubt is None:
            return True
        return all(id in self._retry_in_doubt for id in ids)

    def may_ask_again(self, id: str) -> bool:
        """May a task whose recorded reply is damaged be asked again? Only if the operator said so:
        it was paid."""
        return self._retry_in_doubt is None or id in self._retry_in_doubt
