"""Questions about attempts: what they cost, which are in doubt, and when members were at work.

Added up by the store itself, so that a million calls stay a few rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from fanfold.journal.answers import (
    AttemptRecord,
    BinnedCalls,
    CallTime,
    LostAttempt,
    MemberActivity,
    Spent,
    TimeBins,
    Unsettled,
)
from fanfold.journal.facts import AttemptState
from fanfold.journal.sqlite.checksum import sound
from fanfold.journal.sqlite.stored import ATTEMPT, attempt_in
from fanfold.journal.sqlite.trouble import Ask
from fanfold.work.ask import Usage

_ids = msgspec.json.Decoder(tuple[str, ...]).decode
_encode = msgspec.json.Encoder().encode
_BEFORE = (
    "coalesce(max(over) over (partition by step order by started, no"
    " rows between unbounded preceding and 1 preceding), started)"
)
"""Until when calls that began earlier at the step were in progress: what they share counts once."""
_OF_RUN = "run = ?1 and no >= (select first_attempt from runs where no = ?1)"

_SENT = "lost <> 'unsent'"  # what was claimed ahead and withdrawn is no call
_OF_NAMED = f"run = :run and no >= (select first_attempt from runs where no = :run) and {_SENT}"
_END = "started + coalesce(took, 0)"
_SESSIONS = f"select min(started), max({_END}) from attempts where {_OF_NAMED} group by session order by 1, 2"
_MEMBERS = (
    "select member, count(*), count(*) filter (where state <> 'ok' and state <> 'started'),"
    " sum(cost),"
    f" sum(max(0, {_END} - started)) from attempts where {_OF_NAMED}"
    " group by member order by count(*) desc, member"
)
_CALLS = (
    f"select member, started, {_END}, state, no from attempts where {_OF_NAMED}"
    " order by started, no limit :most"
)
_HEAPS = (
    "select member, cast(began / :width as integer) as first, cast(over / :width as integer) as last,"
    " count(*), sum(began), sum(over), count(*) filter (where bad) from (select member,"
    " started - :origin as began,"
    f" max(started, min({_END}, :end)) - :origin as over, state in ('error', 'in_doubt') as bad"
    f" from attempts where {_OF_NAMED} and started between :start and :end"
    " and member in (select value from json_each(:members))) calls"
    " group by member, first, last order by member, first, last"
)


@sound
class AttemptRows:
    """A call of a function leaves no attempt, so it is not here."""

    _execute: Ask

    # ── attempts ──

    def open_attempts(self) -> list[tuple[int, str]]:
        """Attempts in progress, with their session, of all processes."""
        return self._execute(
            "select distinct a.no, a.session from claims c join attempts a on a.no = c.attempt"
            " where a.state = 'started'"
        ).fetchall()

    def attempt_state(self, number: int) -> str:
        row = self._execute("select state from attempts where no = ?", (number,)).fetchone()
        return "error" if row is None else str(row[0])

    def spent(self, run: int) -> dict[int, Spent]:
        rows = self._execute(
            "select step, count(*), sum(cost), sum(input), sum(output), sum(cache_read),"
            " sum(cache_write), sum(tokens), count(*) filter (where state = 'error'),"
            " count(*) filter (where state = 'in_doubt'),"
            " sum(repeats), sum(repeated), sum(max(0, over - max(started, before))),"
            " count(*) filter (where state <> 'error' or cost > 0), count(hedge_of),"
            " sum(iif(state = 'late', cost, 0)), count(*) filter (where unusable <> ''),"
            " count(*) filter (where bound <> 0 and cost > 0),"
            " count(*) filter (where shared > 0), sum(shared), sum(saved)"
            f" from (select *, {_BEFORE} as before from (select *, started + took as over"
            f" from attempts where {_OF_RUN} and {_SENT}) sent) calls group by step",
            (run,),
        )
        spent = {}
        for step, calls, cost, i, o, cr, cw, tokens, errors, doubt, n, usd, seconds, *more in rows:
            used = Usage(i, o, cr, cw)
            spent[step] = Spent(
                calls, cost, used, tokens, errors, doubt, n, usd, seconds or 0.0, *more
            )
        return spent

    def by_member(self, run: int) -> dict[tuple[int, str], Spent]:
        rows = self._execute(
            "select step, member, count(*), sum(cost), sum(input), sum(output), sum(cache_read),"
            " sum(cache_write), count(*) filter (where state = 'error'),"
            " count(*) filter (where state = 'in_doubt'),"
            " count(*) filter (where bound <> 0 and cost > 0)"
            f" from attempts where {_OF_RUN} and {_SENT} group by step, member"
            " order by step, member",
            (run,),
        )
        return {
            (step, member): Spent(
                calls, cost, Usage(i, o, cr, cw), i + o + cr + cw, errors, doubt, bounds=bounds
            )
            for step, member, calls, cost, i, o, cr, cw, errors, doubt, bounds in rows
        }

    def attempts(self, run: int, limit: int = 100_000) -> list[AttemptRecord]:
        rows = self._execute(
            f"select {ATTEMPT} from attempts where {_OF_RUN} order by no limit ?2", (run, limit)
        )
        return [attempt_in(row) for row in rows]

    def attempts_by_number(self, numbers: Sequence[int]) -> Iterator[tuple[int, AttemptRecord]]:
        rows = self._execute(
            f"select run, {ATTEMPT} from attempts where no in (select value from json_each(?))"
            " order by no",
            (_encode(numbers).decode(),),
        )
        return ((run, attempt_in(tuple(row))) for run, *row in rows)

    def newest(
        self, run: int, states: Sequence[AttemptState], limit: int = 10
    ) -> list[AttemptRecord]:
        rows = self._execute(
            f"select {ATTEMPT} from attempts where {_OF_RUN}"
            " and state in (select value from json_each(?2)) order by no desc limit ?3",
            (run, _encode(states).decode(), limit),
        )
        return [attempt_in(row) for row in rows]

    def unsettled(self, run: int, state: Literal["started", "in_doubt"]) -> Unsettled:
        row = self._execute(
            f"select count(*), coalesce(sum(cost), 0) from attempts where {_OF_RUN} and state = ?2",
            (run, state),
        ).fetchone()
        return Unsettled(*row)

    def attempts_in_doubt(self, run: int) -> list[LostAttempt]:
        rows = self._execute(
            "select no, step, member, answerer, ids, cost, tokens, queue from attempts where run = ?1"
            " and no >= (select first_attempt from runs where no = ?1)"
            " and state = 'in_doubt' and again = 0 order by no",
            (run,),
        ).fetchall()
        return [
            LostAttempt(no, step, member, answerer, _ids(ids), self._keys(no), cost, tokens, queue)
            for no, step, member, answerer, ids, cost, tokens, queue in rows
        ]

    def _keys(self, attempt: int) -> tuple[bytes, ...]:
        rows = self._execute("select key from claims where attempt = ? order by key", (attempt,))
        return tuple(row[0] for row in rows)

    # ── when ──

    def session_spans(self, run: int) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = self._execute(_SESSIONS, {"run": run}).fetchall()
        return found

    def member_activity(self, run: int) -> list[MemberActivity]:
        return [MemberActivity(*row) for row in self._execute(_MEMBERS, {"run": run})]

    def call_times(self, run: int, most: int) -> list[CallTime]:
        return [CallTime(*row) for row in self._execute(_CALLS, {"run": run, "most": most})]

    def binned_calls(self, run: int, bins: TimeBins, members: Sequence[str]) -> list[BinnedCalls]:
        given = {"run": run, "members": msgspec.json.encode(members).decode()}
        rows = self._execute(_HEAPS, given | msgspec.structs.asdict(bins))
        return [BinnedCalls(*row) for row in rows]

    def session_began(self, run: int, session: str) -> float | None:
        question = f"select min(started) from attempts where {_OF_NAMED} and session = :session"
        row = self._execute(question, {"run": run, "session": session}).fetchone()
        began: float | None = row[0]
        return began

    def unbooked_seconds(self, run: int) -> float:
        row = self._execute("select active from beats where run = ?", (run,)).fetchone()
        return 0.0 if row is None else float(row[0])
