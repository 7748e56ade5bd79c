"""Following a run from another process: its tables are read again only where something was committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from fanfold.journal.contract import StoreView
from fanfold.journal.facts import (
    AddRun,
    AdoptAttempts,
    CloseRun,
    EndAttempt,
    Fact,
    LoseAttempts,
    RecordFailure,
    ReleaseClaims,
    RemoveRuns,
    StartAttempt,
)
from fanfold.journal.questions import ReportQuestions

_ANY_RUN = (AddRun, RemoveRuns, ReleaseClaims, LoseAttempts)


class StoreFollower:
    """What happened in a store since the last look. Each look may be at a newly opened view."""

    def __init__(self) -> None:
        self._position = -1

    def news(self, view: StoreView) -> list[tuple[Fact, Any]] | None:
        """Facts with their answers, in order. None, as at the first look: read the tables. They have
        all that was committed until now, and perhaps more."""
        if self._position < 0:
            self._position = view.position
            return None
        found: list[tuple[Fact, Any]] = []
        while commits := view.since(self._position):
            self._position = commits[-1].position
            for commit in commits:
                found += zip(commit.facts, commit.answers, strict=True)
        if commits is None:
            self._position = view.position
            return None
        return found


def attempts_in(news: list[tuple[Fact, Any]]) -> set[int]:
    """The numbers of the attempts that these facts changed, of whichever run."""
    numbers: set[int] = set()
    for fact, answer in news:
        match fact:
            case StartAttempt():
                numbers.add(answer.attempt)
            case EndAttempt():
                numbers.add(fact.attempt)
            case RecordFailure():
                numbers.add(answer)
            case ReleaseClaims() | AdoptAttempts():
                numbers.update(answer)
            case LoseAttempts():
                numbers.update(fact.attempts)
            case _:
                pass
    return numbers


class RunMemory:
    """Answers about a run that are asked for again only after something was committed for it, or for
    a run below it. While a large run is busy that is always; so reading takes at most a tenth of the
    time, and in between the answers are a little old. When a run ends they are not."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._follower = StoreFollower()
        self._runs: frozenset[int] = frozenset()
        self._old, self._read, self._until = False, 0.0, 0.0
        self.now = now
        self.answers: dict[Any, Any] = {}

    def over(self, view: StoreView, run: int) -> StoreView:
        """The same view, with questions that remember their answers."""
        news = self._follower.news(view)
        ended = news is None or any(isinstance(fact, CloseRun) for fact, _ in news)
        self._old = self._old or ended or any(map(self._concerned, news or ()))
        if self._old and (ended or self.now() >= self._until):
            self.answers.clear()
            self._old, self._read = False, 0.0
            self._runs = frozenset(view.read.runs_below(run))
        return cast(StoreView, _RememberedView(view, _Remembering(view.read, self)))

    def took(self, seconds: float) -> None:
        self._read += seconds
        self._until = self.now() + 9 * self._read

    def _concerned(self, one: tuple[Fact, Any]) -> bool:
        fact, _ = one
        return isinstance(fact, _ANY_RUN) or getattr(fact, "run", 0) in self._runs


class _RememberedView:
    def __init__(self, view: StoreView, read: _Remembering) -> None:
        self._view, self.read = view, read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


class _Remembering:
    def __init__(self, read: ReportQuestions, memory: RunMemory) -> None:
        self._read, self._memory = read, memory

    def __getattr__(self, question: str) -> Any:
        ask, memory = getattr(self._read, question), self._memory

        def answer(*given: Any, **named: Any) -> Any:
            key = repr((question, given, named))
            if key not in memory.answers:
                began = memory.now()
                found = ask(*given, **named)
                memory.answers[key] = list(found) if isinstance(found, Iterator) else found
                memory.took(memory.now() - began)
            return memory.answers[key]

        return answer
