"""Questions about attempts: what they cost, which are in doubt, and when members were at work.

Added up by the store itself, so that a million calls stay a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from fanfold.errors import StoreError
from fanfold.journal.answers import (
    AttemptRecord,
    BinnedCalls,
    CallTime,
    LostAttempt,
    MemberActivity,
    QueuedShard,
    Spent,
    TimeBins,
    Unsettled,
)
from fanfold.journal.facts import AttemptState
from fanfold.journal.sqlite.checksum import sound
from fanfold.journal.sqlite.stored import ATTEMPT, attempt_in
from fanfold.journal.sqlite.trouble import Ask
from fanfold.journal.submissions import InBatches, SubmissionRecord
from fanfold.work.ask import Usage

_ids = msgspec.json.Decoder(tuple[str, ...]).decode
_shard = msgspec.json.Decoder(QueuedShard).decode
_encode = msgspec.json.Encoder().encode
_BEFORE = (
    "coalesce(max(over) over (partition by step order by started, no"
    " rows between unbounded preceding and 1 preceding), started)"
)
"""Until when calls that began earlier at the step were in progress: what they share counts once."""
_USAGE = ("input", "output", "cache_read", "cache_write")
_SPENT = (
    "calls", "cost", *_USAGE, "tokens", "errors", "in_doubt", "repeats", "repeated", "charged", "hedged",
    "late", "unusable", "bounds", "sharing", "shared", "saved",
)  # fmt: skip
_OF_RUN = "run = ?1 and no >= (select first_attempt from runs where no = ?1)"

_SENT = "lost <> 'unsent'"  # what was claimed ahead and withdrawn is no call
_OF_NAMED = f"run = :run and no >= (select first_attempt from runs where no = :run) and {_SENT}"
_TIMES_OF = (
    f"select no, step, started, started + took as over from attempts where {_OF_RUN} and {_SENT}"
)
_TIMES = f"select step, started, over from ({_TIMES_OF}) sent order by no"
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
    _verify: Callable[..., None]
    _damaged_attempts: Callable[[Sequence[int]], set[int]]

    def _check_attempts(self, numbers: Sequence[int]) -> None:
        if self._damaged_attempts(numbers):
            raise StoreError("the store: the record of an attempt is damaged; restore a copy")

    # ── attempts ──

    def open_attempts(self) -> list[tuple[int, str]]:
        """Attempts in progress, with their session, of all processes; not those that a service has."""
        rows = self._execute(
            "select distinct a.no, a.session, a.state = 'started' and a.submission = 0"
            " from claims c join attempts a on a.no = c.attempt"
        ).fetchall()
        self._verify(0)
        self._check_attempts([no for no, _, _ in rows])
        return sorted((no, session) for no, session, open in rows if open)

    def attempt_state(self, number: int) -> str:
        self._check_attempts([number])
        row = self._execute("select state from attempts where no = ?", (number,)).fetchone()
        return "error" if row is None else str(row[0])

    def session_of(self, number: int) -> str:
        self._check_attempts([number])
        question = "select session from attempts where no = ? and state = 'started'"
        row = self._execute(question, (number,)).fetchone()
        return "" if row is None else str(row[0])

    def spent(self, run: int) -> dict[int, Spent]:
        names = [name for name in _SPENT if name not in _USAGE]
        rows = self._execute(
            f"select step, {', '.join(f'sum({name})' for name in (*_USAGE, *names))}"
            " from sums where run = ? and calls > 0 group by step order by step",
            (run,),
        )
        return {
            step: Spent(usage=Usage(i, o, cr, cw), **dict(zip(names, more, strict=True)))
            for step, i, o, cr, cw, *more in rows
        }

    def step_seconds(self, run: int) -> dict[int, float]:
        """As a rule calls are on record in the order of their starts; then one pass suffices."""
        seconds: dict[int, float] = {}
        until: dict[int, float] = {}
        last = 0.0
        for step, started, over in self._execute(_TIMES, (run,)):
            if started < last:
                return self._sorted_step_seconds(run)
            last, before = started, until.get(step, started)
            more = 0.0 if over is None else over - max(started, before)
            seconds[step] = seconds.get(step, 0.0) + max(0.0, more)
            until[step] = before if over is None else max(before, over)
        return seconds

    def _sorted_step_seconds(self, run: int) -> dict[int, float]:
        rows = self._execute(
            "select step, sum(max(0, over - max(started, before)))"
            f" from (select step, started, over, {_BEFORE} as before from ({_TIMES_OF}) sent) calls"
            " group by step",
            (run,),
        )
        return {step: seconds or 0.0 for step, seconds in rows}

    def by_member(self, run: int) -> dict[tuple[int, str], Spent]:
        rows = self._execute(
            f"select step, member, calls, cost, {', '.join(_USAGE)}, errors, in_doubt, bounds"
            " from sums where run = ? and calls > 0 order by step, member",
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
        self._check_attempts(numbers)
        rows = self._execute(
            f"select run, {ATTEMPT} from attempts where no in (select value from json_each(?))"
            " order by no",
            (_encode(numbers).decode(),),
        )
        for run, *row in rows:
            yield run, attempt_in(tuple(row))

    def newest(
        self, run: int, states: Sequence[AttemptState], limit: int = 10
    ) -> list[AttemptRecord]:
        if tuple(states) == ("started",):  # few, and among the last: none is looked for beyond them
            limit = min(limit, self.unsettled(run, "started").attempts)
        rows = self._execute(
            f"select {ATTEMPT} from attempts where {_OF_RUN}"
            " and state in (select value from json_each(?2)) order by no desc limit ?3",
            (run, _encode(states).decode(), limit),
        )
        return [attempt_in(row) for row in rows]

    def unsettled(self, run: int, state: Literal["started", "in_doubt"]) -> Unsettled:
        many, cost = ("started", "reserved") if state == "started" else ("in_doubt", "doubtful")
        row = self._execute(
            f"select coalesce(sum({many}), 0), coalesce(sum({cost}), 0) from sums where run = ?",
            (run,),
        ).fetchone()
        return Unsettled(*row)

    def attempts_in_doubt(self, run: int) -> list[LostAttempt]:
        rows = self._execute(
            "select no, step, member, answerer, ids, cost, tokens, queue, shard, submission, unplaced"
            " from attempts"
            " where run = ?1 and no >= (select first_attempt from runs where no = ?1)"
            " and ((state = 'in_doubt' and again = 0) or (state = 'started' and submission <> 0))"
            " order by no",
            (run,),
        ).fetchall()
        keys = self._keys(run) if rows else {}
        return [
            LostAttempt(
                no,
                step,
                member,
                answerer,
                _ids(ids),
                tuple(keys.get(no, ())),
                cost,
                tokens,
                queue,
                None if shard is None else _shard(shard),
                submission,
                bool(unplaced),
            )
            for no, step, member, answerer, ids, cost, tokens, queue, shard, submission, unplaced in rows
        ]

    def submissions(self, run: int) -> list[SubmissionRecord]:
        rows = self._execute(
            "select no, run, step, id, member, service, state, lines, claimed, at, due, reading"
            " from submissions where run = ? order by no",
            (run,),
        )
        return [SubmissionRecord(*row) for row in rows]

    def in_batches(self, run: int) -> InBatches:
        open = "a.state = 'started'"
        row = self._execute(
            f"select count(*) filter (where {open}), coalesce(sum(iif({open}, a.cost, 0)), 0),"
            f" min(iif({open}, s.claimed, null)), count(*) filter (where a.state <> 'started'),"
            f" count(*) filter (where {open} and s.service = '')"
            " from submissions s join attempts a on a.submission = s.no and a.submission <> 0"
            " where s.run = ?",
            (run,),
        ).fetchone()
        return InBatches(*row)

    def submitted_before(self) -> list[str]:
        for (run,) in self._execute("select distinct run from submissions").fetchall():
            self._verify(run)
        rows = self._execute("select service from submissions where service <> ''")
        return [row[0] for row in rows]

    def _keys(self, run: int) -> dict[int, list[bytes]]:
        """What the attempts of a run have claimed, by their numbers."""
        rows = self._execute(
            "select c.attempt, c.key from claims c join attempts a on a.no = c.attempt"
            " where a.run = ? order by c.key",
            (run,),
        )
        found: dict[int, list[bytes]] = {}
        for attempt, key in rows:
            found.setdefault(attempt, []).append(key)
        return found

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
        first = f"{_OF_NAMED} and session = :session order by no limit 1"
        question = f"select started from attempts where {first}"
        row = self._execute(question, {"run": run, "session": session}).fetchone()
        return None if row is None else float(row[0])

    def unbooked_seconds(self, run: int) -> float:
        row = self._execute("select active from beats where run = ?", (run,)).fetchone()
        return 0.0 if row is None else float(row[0])
