"""Questions to the journal. Status, reports, recovery and reuse read only what is durable."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from fanfold.errors import StoreError
from fanfold.journal import checksum
from fanfold.journal.adoption import Doubts
from fanfold.journal.asking import Asking
from fanfold.journal.attempts import key8
from fanfold.journal.cascades import Cascades
from fanfold.journal.facts import UNSENT, Attempt, AttemptState, Known, RunRecord
from fanfold.journal.history import History
from fanfold.journal.items import Items
from fanfold.journal.judging import Marks
from fanfold.journal.lineage import Lineage
from fanfold.journal.origins import Origins
from fanfold.journal.spending import Spending
from fanfold.journal.stored import (
    ATTEMPT,
    HEAD,
    ITEM,
    ITEM_WIDTH,
    OUTCOME,
    REPLY,
    REPLY_WIDTH,
    REVISED,
    RUN,
    attempt_in,
    head_is_sound,
    item_is_sound,
    kept_in,
    known_in,
    listed_run,
    reply_in,
    run_in,
    value_of,
)
from fanfold.journal.timeline import Timeline
from fanfold.journal.unmetered import Unmetered
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES, Part, State

_reasons = msgspec.json.Decoder(tuple[str, ...]).decode
_encode = msgspec.json.Encoder().encode

PAGE = 200  # rows of replies in memory at once
DAMAGED = "what was recorded for it is damaged"
_FINAL = (
    "select run, batch, position, state, reply, reasons, member, cost, calls, key, answerer, crc,"
    " body_crc, body, max(step) as step from outcomes where run = :run group by batch, position"
)
_BEFORE = (
    "coalesce(max(over) over (partition by step order by started, no"
    " rows between unbounded preceding and 1 preceding), started)"
)
"""Until when calls that began earlier at the step were under way: what they share counts once."""
_THERE = "status <> 'removed'"
_OF_RUN = "run = ?1 and no >= (select first_attempt from runs where no = ?1)"


class Spent(msgspec.Struct, frozen=True):
    """Money and tokens of a run or one of its steps. What is under way, in doubt or told no usage
    counts with its reservation. `charged` are the calls that were not refunded, `hedged` second
    requests for an ask under way, `late` what the requests cost whose answer was not used,
    `unusable` the replies whose reported usage cannot be true, `bounds` the attempts whose cost is
    only known to be at most what it counts as."""

    calls: int = 0
    cost: int = 0
    usage: Usage = Usage()
    tokens: int = 0
    errors: int = 0
    in_doubt: int = 0
    repeats: int = 0
    repeated: int = 0
    seconds: float = 0.0
    charged: int = 0
    hedged: int = 0
    late: int = 0
    unusable: int = 0
    bounds: int = 0


class Ended(msgspec.Struct, frozen=True):
    """How one planned item ended, for reports."""

    id: str
    state: State
    reasons: tuple[str, ...]
    member: str | None
    cost: int
    value: object = None


class Unsettled(msgspec.Struct, frozen=True):
    """Attempts under way or in doubt: how many, and at most how many nano-dollars they take."""

    attempts: int = 0
    at_most: int = 0


@checksum.sound
class Reader:
    def __init__(self, db: sqlite3.Connection, file: Path) -> None:
        self._db = Asking(db, file)
        self.origins = Origins(self._db.execute)
        self.unmetered = Unmetered(self._db.execute)
        self.history = History(self._db.execute)
        self.lineage = Lineage(self._db.execute)
        self.spending = Spending(self._db.execute)
        self.cascades = Cascades(self._db.execute)
        self.doubts = Doubts(self._db.execute)
        self.items = Items(self._db.execute)
        self.judging = Marks(self._db.execute)
        self.timeline = Timeline(self._db.execute)

    def move(self, db: sqlite3.Connection, file: Path) -> None:
        """The store is somewhere else from now on."""
        self._db.move(db, file)

    # ── runs ──

    def runs(self) -> list[RunRecord]:
        rows = self._db.execute(f"select {RUN} from runs where {_THERE} order by no")
        return [listed_run(row) for row in rows]

    def records(self, numbers: Sequence[int]) -> list[RunRecord]:
        rows = self._db.execute(
            f"select {RUN} from runs where no in (select value from json_each(?)) order by no",
            (_encode(numbers).decode(),),
        )
        return [listed_run(row) for row in rows]

    def find(self, name_or_id: str) -> RunRecord | None:
        """By id, by the beginning of an id, or by name; the newest of that name wins."""
        row = self._db.execute(
            f"select {RUN} from runs where (id = ?1 or name = ?1) and {_THERE}"
            " order by id = ?1 desc, no desc",
            (name_or_id,),
        ).fetchone()
        if row is None and len(name_or_id) >= 4:
            found = self._db.execute(
                f"select {RUN} from runs where substr(id, 1, ?) = ? and {_THERE}",
                (len(name_or_id), name_or_id),
            ).fetchall()
            row = found[0] if len(found) == 1 else None
        return None if row is None else run_in(row)

    def names(self) -> list[str]:
        rows = self._db.execute(f"select distinct name from runs where {_THERE} order by name")
        return [row[0] for row in rows]

    def step_names(self, run: int) -> list[str]:
        rows = self._db.execute("select name from steps where run = ? order by no", (run,))
        return [row[0] for row in rows]

    # ── what was planned, and how it ended ──

    def planned(self, run: int) -> int:
        row = self._db.execute("select sum(size) from batches where run = ?", (run,)).fetchone()
        return row[0] or 0

    def batches(self, run: int) -> dict[str, tuple[int, str, int]]:
        """Those that were planned in full, by name: number, fingerprint and size."""
        rows = self._db.execute(
            "select name, no, fingerprint, size from batches where run = ? order by no", (run,)
        )
        return {name: (no, fingerprint, size) for name, no, fingerprint, size in rows}

    def duplicate(self, run: int, batch: int) -> tuple[str, int, int] | None:
        """A duplicate id of a batch, with two of its positions."""
        row: tuple[str, int, int] | None = self._db.execute(
            "select id, min(position), max(position) from items where run = ? and batch = ?"
            " group by id having count(*) > 1 order by 2 limit 1",
            (run, batch),
        ).fetchone()
        return row

    def tally(self, run: int) -> dict[State, int]:
        """Items by outcome; each once, where it left the flow."""
        counts: dict[State, int] = dict.fromkeys(STATES, 0)
        rows = self._db.execute(
            f"select state, count(*) from ({_FINAL}) group by state", {"run": run}
        ).fetchall()
        counts.update(rows)
        return counts

    def settled(self, run: int, batch: int, step: int, size: int) -> bytearray:
        """One byte per position: which state this step ended in with a reply (1 is the first of
        STATES), or 0 where it did not. One that is damaged does not count: it is written anew."""
        done = bytearray(size)
        rows = self._db.execute(
            f"select {HEAD.format('')}, crc, body_crc from outcomes where run = ? and batch = ?"
            " and step = ? and state in ('passed', 'skipped', 'kicked')",
            (run, batch, step),
        )
        codes = {state: code for code, state in enumerate(STATES, 1)}
        for row in rows:
            if head_is_sound(row):
                done[row[2]] = codes[row[4]]
        return done

    def parts(self, run: int, batch: int, step: int) -> Iterator[Part]:
        """What passed a step, in planned order, a page at a time: an open cursor would hold this
        connection to an old state of the store. Raises StoreError at one that is damaged."""
        after = -1
        while True:
            page = self._db.execute(
                f"select {ITEM}, {OUTCOME}, {REPLY} from outcomes o"
                " join items i on i.run = o.run and i.batch = o.batch and i.position = o.position"
                " left join replies r on r.no = o.reply left join blobs b on b.hash = r.blob"
                " where o.run = ? and o.batch = ? and o.position > ? and o.step = ?"
                " and o.state = 'passed' order by o.position limit ?",
                (run, batch, after, step, PAGE),
            ).fetchall()
            for row in page:
                item, outcome = row[:ITEM_WIDTH], row[ITEM_WIDTH:-REPLY_WIDTH]
                good, value = value_of(outcome, row[-REPLY_WIDTH:])
                if not good or not item_is_sound(item):
                    raise self._damaged(run, item[3], row[-REPLY_WIDTH + 1])
                yield Part(item[3], item[2], value)
            if len(page) < PAGE:
                return
            after = page[-1][2]

    def _damaged(self, run: int, id: str, key: bytes | None) -> StoreError:
        named = self._db.execute("select name from runs where no = ?", (run,)).fetchone()
        under = "" if not isinstance(key, bytes) else f", key {key.hex()}"
        return StoreError(
            f"the store: what was recorded for item {id} (run {named[0] if named else run}{under})"
            f" is damaged; to ask for it again: resume, then resume with --retry-in-doubt {id}"
        )

    def endings(self, run: int, states: Sequence[State], limit: int = 1000) -> list[Ended]:
        """Items that ended in one of `states`, for reports. A damaged reply is told as a reason."""
        rows = self._db.execute(
            f"select i.id, {OUTCOME}, {REPLY}"
            f" from ({_FINAL}) o join items i on i.run = :run and i.batch = o.batch"
            " and i.position = o.position left join replies r on r.no = o.reply"
            " left join blobs b on b.hash = r.blob"
            " where o.state in (select value from json_each(:states))"
            " order by o.batch, o.position limit :limit",
            {"run": run, "states": _encode(states).decode(), "limit": limit},
        )
        return [_ended(row) for row in rows]

    def revised(self, run: int) -> int:
        """Items that passed after a reply of theirs was kicked back: two or more replies came.

        Known from the attempts, and for unmetered members from what the outcome counted.
        """
        chosen = "count(distinct o.batch || ' ' || o.position)"
        row = self._db.execute(REVISED.format(chosen), {"run": run}).fetchone()
        return int(row[0])

    def revised_ids(self, run: int, limit: int) -> list[str]:
        """The first of these items, in planned order."""
        question = f"{REVISED.format('distinct i.id')} order by o.batch, o.position limit :limit"
        rows = self._db.execute(question, {"run": run, "limit": limit})
        return [row[0] for row in rows]

    # ── replies ──

    def known(
        self, keys: Iterable[bytes], accept: frozenset[str], run: int, fresh: bool = False
    ) -> dict[bytes, Known]:
        """Recorded replies that serve these keys: of an accepted answerer, and not another run's
        private ones. With `fresh`, only replies of this run. The newest of several counts."""
        found: dict[bytes, Known] = {}
        wanted = {key8(key): key for key in keys}
        rows = self._db.execute(
            f"select r.key8, {REPLY} from replies r left join blobs b on b.hash = r.blob"
            " where r.key8 in (select value from json_each(?)) order by r.no",
            (_encode(list(wanted)).decode(),),
        )
        for short, *row in rows:
            no, key, answerer, member, owner, private = row[:6]
            if answerer not in accept or (owner != run and (private or fresh)):
                continue
            if wanted[short] == key:
                one = known_in(no, answerer, member, key, reply_in(row))
                if key not in found or not one.damage:
                    found[key] = one
        return found

    def known_at(
        self, run: int, batch: int, step: int, positions: Iterable[int]
    ) -> dict[int, tuple[bytes, Known]]:
        """Replies that stand with their outcomes, by position, each with the key it answers."""
        rows = self._db.execute(
            "select position, key, answerer, member, body, body_crc from outcomes where run = ?"
            " and batch = ? and step = ? and position in (select value from json_each(?))"
            " and body is not null",
            (run, batch, step, _encode(list(positions)).decode()),
        )
        return {
            position: (key, known_in(0, answerer, member, key, kept_in(body, crc)))
            for position, key, answerer, member, body, crc in rows
        }

    # ── attempts ──

    def open_attempts(self) -> list[tuple[int, str]]:
        """Attempts under way, with their session, whoever carries them out."""
        return self._db.execute(
            "select distinct a.no, a.session from claims c join attempts a on a.no = c.attempt"
            " where a.state = 'started'"
        ).fetchall()

    def attempt_state(self, number: int) -> str:
        row = self._db.execute("select state from attempts where no = ?", (number,)).fetchone()
        return "error" if row is None else str(row[0])

    def spent(self, run: int) -> dict[int, Spent]:
        """By step number."""
        rows = self._db.execute(
            "select step, count(*), sum(cost), sum(input), sum(output), sum(cache_read),"
            " sum(cache_write), sum(tokens), sum(state = 'error'), sum(state = 'in_doubt'),"
            " sum(repeats), sum(repeated), sum(max(0, over - max(started, before))),"
            " sum(state <> 'error' or cost > 0), sum(why like 'hedge%'"
            f" and coalesce(error, '') <> '{UNSENT}'),"
            " sum(iif(state = 'late', cost, 0)), sum(unusable <> ''), sum(bound and cost > 0)"
            f" from (select *, {_BEFORE} as before from (select *, started + took as over"
            f" from attempts where {_OF_RUN})) group by step",
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
        """By step number and member."""
        rows = self._db.execute(
            "select step, member, count(*), sum(cost), sum(input), sum(output), sum(cache_read),"
            " sum(cache_write), sum(state = 'error'), sum(state = 'in_doubt'),"
            " sum(bound and cost > 0)"
            f" from attempts where {_OF_RUN} group by step, member order by step, member",
            (run,),
        )
        return {
            (step, member): Spent(
                calls, cost, Usage(i, o, cr, cw), i + o + cr + cw, errors, doubt, bounds=bounds
            )
            for step, member, calls, cost, i, o, cr, cw, errors, doubt, bounds in rows
        }

    def attempts(self, run: int, limit: int = 100_000) -> list[Attempt]:
        rows = self._db.execute(
            f"select {ATTEMPT} from attempts where {_OF_RUN} order by no limit ?2", (run, limit)
        )
        return [attempt_in(row) for row in rows]

    def those(self, numbers: Sequence[int]) -> Iterator[tuple[int, Attempt]]:
        """Attempts by their numbers, each with the number of its run, in their order."""
        rows = self._db.execute(
            f"select run, {ATTEMPT} from attempts where no in (select value from json_each(?))"
            " order by no",
            (_encode(numbers).decode(),),
        )
        return ((run, attempt_in(tuple(row))) for run, *row in rows)

    def newest(self, run: int, states: Sequence[AttemptState], limit: int = 10) -> list[Attempt]:
        """The last attempts in one of `states`, newest first."""
        rows = self._db.execute(
            f"select {ATTEMPT} from attempts where {_OF_RUN}"
            " and state in (select value from json_each(?2)) order by no desc limit ?3",
            (run, _encode(states).decode(), limit),
        )
        return [attempt_in(row) for row in rows]

    def unsettled(self, run: int, state: Literal["started", "in_doubt"]) -> Unsettled:
        row = self._db.execute(
            f"select count(*), coalesce(sum(cost), 0) from attempts where {_OF_RUN} and state = ?2",
            (run, state),
        ).fetchone()
        return Unsettled(*row)


def _ended(row: Sequence[Any]) -> Ended:
    id, outcome = row[0], row[1:-REPLY_WIDTH]
    state, reasons, member, cost = outcome[4], outcome[6], outcome[7], outcome[8]
    good, value = value_of(outcome, row[-REPLY_WIDTH:])
    why = _reasons(reasons) if reasons else ()
    return Ended(id, state, why if good else (*why, DAMAGED), member, cost, value)
