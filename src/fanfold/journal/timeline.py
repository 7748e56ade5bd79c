"""When members were at work. Added up by the store itself, so that a million calls stay a few rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fanfold.journal.checksum import sound
from fanfold.journal.facts import AttemptState

_OF_RUN = "run = :run and no >= (select first_attempt from runs where no = :run)"
_END = "started + coalesce(took, 0)"
_SESSIONS = (
    f"select min(started), max({_END}) from attempts where {_OF_RUN} group by session order by 1, 2"
)
_MEMBERS = (
    "select member, count(*), sum(state <> 'ok' and state <> 'started'), sum(cost),"
    f" sum(max(0, {_END} - started)) from attempts where {_OF_RUN}"
    " group by member order by count(*) desc, member"
)
_CALLS = (
    f"select member, started, {_END}, state, no from attempts where {_OF_RUN}"
    " order by started, no limit :most"
)
_HEAPS = (
    "select member, cast(began / :width as integer) as first, cast(over / :width as integer) as last,"
    " count(*), sum(began), sum(over), sum(bad) from (select member, started - :origin as began,"
    f" max(started, min({_END}, :end)) - :origin as over, state in ('error', 'in_doubt') as bad"
    f" from attempts where {_OF_RUN} and started between :start and :end"
    " and member in (select value from json_each(:members))) group by member, first, last"
)


class Worker(msgspec.Struct, frozen=True):
    """What a member did in a run: its calls, those without a reply that counts, their time added
    up. Money in nano-dollars."""

    member: str
    calls: int
    bad: int
    cost: int
    seconds: float


class Worked(msgspec.Struct, frozen=True):
    """One call, and when. What was lost with its process ends where it began."""

    member: str
    started: float
    ended: float
    state: AttemptState
    no: int


class Bins(msgspec.Struct, frozen=True):
    """Calls that began from `start` to `end`, in bins of `width` seconds counted from `origin`."""

    start: float
    end: float
    origin: float
    width: float


class Heap(msgspec.Struct, frozen=True):
    """Calls of one member that began in bin `first` and ended in bin `last`: how many, the sums of
    their beginnings and ends (in seconds from the origin), and how many of them were in vain."""

    member: str
    first: int
    last: int
    calls: int
    began: float
    over: float
    bad: int


@sound
class Timeline:
    """For readers. A call of a function leaves no attempt, so it is not here."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def sessions(self, run: int) -> list[tuple[float, float]]:
        """From the first sign of life of each process to its last, in order; they may overlap."""
        found: list[tuple[float, float]] = self._execute(_SESSIONS, {"run": run}).fetchall()
        return found

    def workers(self, run: int) -> list[Worker]:
        """The busiest first."""
        return [Worker(*row) for row in self._execute(_MEMBERS, {"run": run})]

    def calls(self, run: int, most: int) -> list[Worked]:
        return [Worked(*row) for row in self._execute(_CALLS, {"run": run, "most": most})]

    def heaps(self, run: int, bins: Bins, members: Sequence[str]) -> list[Heap]:
        """What of a call lies after `end` is not counted."""
        given = {"run": run, "members": msgspec.json.encode(members).decode()}
        rows = self._execute(_HEAPS, given | msgspec.structs.asdict(bins))
        return [Heap(*row) for row in rows]

    def began(self, run: int, session: str) -> float | None:
        """When a session's first attempt started."""
        question = f"select min(started) from attempts where {_OF_RUN} and session = :session"
        row = self._execute(question, {"run": run, "session": session}).fetchone()
        began: float | None = row[0]
        return began

    def unbooked(self, run: int) -> float:
        """Active seconds of a process that has not closed the run, as far as it said so itself."""
        row = self._execute("select active from beats where run = ?", (run,)).fetchone()
        return 0.0 if row is None else float(row[0])
