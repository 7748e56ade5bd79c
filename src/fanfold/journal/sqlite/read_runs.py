"""Questions about runs: which there are, what they planned, and which run started which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from fanfold.journal.answers import MemberTotal, OrderRecord, StepOutcome
from fanfold.journal.facts import NoteWaits, OrderState, RunRecord
from fanfold.journal.sqlite.checksum import of_results, sound
from fanfold.journal.sqlite.stored import HEAD, RUN, head_is_sound, listed_run, run_in
from fanfold.journal.sqlite.trouble import Ask
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES, State
from fanfold.work.waiting import WaitingCalls

_encode = msgspec.json.Encoder().encode
_waits = msgspec.json.Decoder(tuple[WaitingCalls, ...]).decode
_THERE = "status <> 'removed'"
FINAL = (
    "select run, batch, position, state, reply, reasons, member, cost, calls, key, answerer, crc,"
    " body_crc, body, by_parent, max(step) as step from outcomes where run = :run group by batch, position"
)
"""The last outcome of each item of a run."""
LATER = (
    "exists (select 1 from outcomes l where l.run = o.run and l.batch = o.batch"
    " and l.position = o.position and l.step > o.step)"
)
"""Whether an outcome `o` is not the last one of its item."""
_LEFT = (
    "select o.state, count(*) from outcomes o where o.run = :run and o.state <> 'passed'"
    f" and not {LATER} group by o.state"
)
_ENDED = (
    "select count(*) from (select distinct batch, position from outcomes where run = :run) ended"
)
_BELOW = (
    "with recursive below(no, id, parent) as (select no, id, nullif(id, id) from runs where no = ?1 union"
    " select r.no, r.id, r.parent from below b join runs r"
    " on r.parent = b.id or (r.parent > b.id || ':' and r.parent < b.id || ';'))"
    " select no, parent from below order by no"
)
_OF_RUNS = (
    "from attempts where lost <> 'unsent' and run in (select value from json_each(:runs)) and no >="
    " (select min(first_attempt) from runs where no in (select value from json_each(:runs)))"
)
_IDS = "select no, id from runs where no in (select value from json_each(?))"
_TOTALS = (
    "select run, step, member, count(*), sum(cost), sum(input), sum(output), sum(cache_read),"
    " sum(cache_write), count(*) filter (where state = 'error'),"
    " count(*) filter (where state = 'in_doubt'), sum(repeats),"
    " sum(coalesce(took, 0)), count(*) filter (where bound <> 0 and cost > 0)"
    f" {_OF_RUNS} group by run, step, member order by run, step, member"
)
_CHOSEN = (
    "select no from (select no, row_number() over (partition by run, step, member order by"
    f" state in ('error', 'in_doubt') desc, cost desc, no) as place {_OF_RUNS}) ranked"
    " where place <= :most order by no"
)
_OUTCOMES = (
    "select o.step, i.id, o.state, r.run, r.member, r.at from items i join outcomes o"
    " on o.run = i.run and o.batch = i.batch and o.position = i.position"
    " left join replies r on r.no = o.reply and r.answerer <> 'fanfold'"
    " where i.run = ? and i.id in (select value from json_each(?))"
)


@sound
class RunRows:
    """The runs of a store. `runs` are numbers of runs."""

    _execute: Ask
    _verify: Callable[..., None]

    # ── runs ──

    def runs(self) -> list[RunRecord]:
        rows = self._execute(f"select {RUN} from runs where {_THERE} order by no")
        return [listed_run(row) for row in rows]

    def records(self, numbers: Sequence[int]) -> list[RunRecord]:
        rows = self._execute(
            f"select {RUN} from runs where no in (select value from json_each(?)) order by no",
            (_encode(numbers).decode(),),
        )
        return [listed_run(row) for row in rows]

    def find(self, name_or_id: str) -> RunRecord | None:
        row = self._execute(
            f"select {RUN} from runs where (id || '' = ?1 or name || '' = ?1) and {_THERE}"
            " order by id = ?1 desc, no desc",
            (name_or_id,),
        ).fetchone()  # an index over names has no checksums, so none is used
        if row is None and len(name_or_id) >= 4:
            found = self._execute(
                f"select {RUN} from runs where id || '' >= ?1 and id || '' < ?1 || '~' and {_THERE}",
                (name_or_id,),
            ).fetchall()
            row = found[0] if len(found) == 1 else None
        return None if row is None else self._found(run_in(row))

    def _found(self, run: RunRecord) -> RunRecord:
        self._verify(run.no)
        return run

    def names(self) -> list[str]:
        rows = self._execute(f"select name from runs where {_THERE} order by no")
        return sorted({row[0] for row in rows})

    def step_names(self, run: int) -> list[str]:
        rows = self._execute("select name from steps where run = ? order by no", (run,))
        return [row[0] for row in rows]

    def step_notes(self, run: int) -> dict[int, str]:
        rows = self._execute("select no, note from steps where run = ? and note != ''", (run,))
        return dict(rows)

    # ── what was planned, and how it ended ──

    def planned(self, run: int) -> int:
        row = self._execute("select sum(size) from batches where run = ?", (run,)).fetchone()
        return row[0] or 0

    def batches(self, run: int) -> dict[str, tuple[int, str, int]]:
        rows = self._execute(
            "select name, no, fingerprint, size from batches where run = ? order by no", (run,)
        )
        return {name: (no, fingerprint, size) for name, no, fingerprint, size in rows}

    @of_results
    def duplicate(self, run: int, batch: int) -> tuple[str, int, int] | None:
        row: tuple[str, int, int] | None = self._execute(
            "select id, min(position), max(position) from items where run = ? and batch = ?"
            " group by id having count(*) > 1 order by 2 limit 1",
            (run, batch),
        ).fetchone()
        return row

    @of_results
    def tally(self, run: int) -> dict[State, int]:
        counts: dict[State, int] = dict.fromkeys(STATES, 0)
        for state, many in self._execute(_LEFT, {"run": run}).fetchall():
            if state not in counts:
                raise ValueError(f"no state of an item: {state!r}")
            counts[state] = many
        (ended,) = self._execute(_ENDED, {"run": run}).fetchone()
        counts["passed"] = ended - sum(counts.values())
        return counts

    def settled(self, run: int, batch: int, step: int, size: int) -> bytearray:
        done = bytearray(size)
        rows = self._execute(
            f"select {HEAD.format('')}, crc, body_crc, null, by_parent from outcomes"
            " where run = ? and batch = ? and step = ? and state in ('passed', 'skipped', 'kicked')",
            (run, batch, step),
        )
        codes = {state: code for code, state in enumerate(STATES, 1)}
        for row in rows:
            if head_is_sound(row):
                done[row[2]] = codes[row[4]]
        return done

    def gate_crashes(self, run: int) -> dict[bytes, int]:
        question = "select key, count(*) from judging where run = ? group by key"
        return dict(self._execute(question, (run,)).fetchall())

    def orders(self, run: int, states: Sequence[OrderState] = ()) -> list[OrderRecord]:
        which = f" and state in ({', '.join('?' * len(states))})" if states else ""
        rows = self._execute(
            "select no, run, at, by, what, value, state, answered, said from orders"
            f" where run = ?{which} order by no",
            (run, *states),
        )
        return [OrderRecord(*row) for row in rows]

    def waits(self, run: int) -> NoteWaits | None:
        row = self._execute("select at, waits from waits where run = ?", (run,)).fetchone()
        return None if row is None else NoteWaits(run, row[0], _waits(row[1]))

    # ── which run started which ──

    def runs_below(self, run: int) -> dict[int, str | None]:
        found: dict[int, str | None] = {}
        for no, parent in self._execute(_BELOW, (run,)):
            found.setdefault(no, parent)
        return found | {run: None}

    def spent_below(self, run: int) -> dict[str, tuple[int, int]]:
        below = self.runs_below(run)
        if len(below) == 1:
            return {}
        by_id = {id: no for no, id in self._execute(_IDS, (_list(below),))}
        found: dict[str, tuple[int, int]] = {}
        for total in self.member_totals(no for no in below if no != run):
            span = self._from(run, total.run, below, by_id)
            cost, bounds = found.get(span, (0, 0))
            found[span] = cost + total.cost, bounds + total.bounds
        return found

    def _from(self, top: int, run: int, below: dict[int, str | None], by_id: dict[str, int]) -> str:
        """The span of the topmost run that a run below it goes back to."""
        span = below[run] or ""
        while (above := by_id.get(span.partition(":")[0], top)) != top:
            span = below[above] or ""
        return span

    def member_totals(self, runs: Iterable[int]) -> list[MemberTotal]:
        rows = self._execute(_TOTALS, {"runs": self._verified(runs)})
        return [
            MemberTotal(run, step, member, calls, cost, Usage(i, o, cr, cw), *rest)
            for run, step, member, calls, cost, i, o, cr, cw, *rest in rows
        ]

    def attempts_to_show(self, runs: Iterable[int], most: int) -> list[int]:
        rows = self._execute(_CHOSEN, {"runs": self._verified(runs), "most": most})
        return [row[0] for row in rows]

    def _verified(self, runs: Iterable[int]) -> str:
        numbers = list(runs)
        for run in numbers:
            self._verify(run)
        return _list(numbers)

    @of_results
    def step_outcomes(self, run: int, ids: Iterable[str]) -> dict[tuple[int, str], StepOutcome]:
        rows = self._execute(_OUTCOMES, (run, _list(ids)))
        return {
            (step, id): StepOutcome(state, (owner, member, at) if owner is not None else None)
            for step, id, state, owner, member, at in rows
        }


def _list(values: Iterable[object]) -> str:
    return _encode(list(values)).decode()
