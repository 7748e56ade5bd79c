"""Replies and outcomes as they are stored, taken only when they are what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from fanfold.errors import StoreDamaged, StoreError
from fanfold.journal.answers import AttemptRecord, KnownReply
from fanfold.journal.facts import AttemptState, RunRecord
from fanfold.journal.sqlite import checksum
from fanfold.journal.sqlite.attempts import TIMED, reply_crc
from fanfold.journal.sqlite.checksum import SUMMED
from fanfold.work.ask import Reply, Usage
from fanfold.work.item import digest

HEAD = (
    "{0}run, {0}batch, {0}position, {0}step, {0}state, {0}reply, {0}reasons, {0}member, {0}cost,"
    " {0}calls, {0}key, {0}answerer"
)
"""The columns of an outcome but for the body of its reply."""
OUTCOME = HEAD.format("o.") + ", o.crc, o.body_crc, o.body, o.by_parent"
REPLY = "r.no, r.key, r.answerer, r.member, r.run, r.private, r.cost, r.at, r.reply, r.blob, r.crc, b.data"
ITEM = "i.run, i.batch, i.position, i.id, i.hash, i.crc"
RUN = (
    "no, id, name, status, reason, created, ended, session, plan, folder, budget, active, result,"
    " first_attempt, parent, cause, tags, crc"
)
ATTEMPT = (
    "no, step, member, state, ids, reserved, cost, input, output, cache_read, cache_write, started,"
    " ended, error, why, repeats, again, unusable, bound, took, hedge_of, lost"
)
REPLY_WIDTH = 12

_TRIED = (
    "select a.step, e.value as id, count(*) as tries,"
    " count(*) filter (where a.state <> 'ok') as lost"
    " from attempts a, json_each(cast(a.ids as text)) e where a.run = :run"
    " and a.no >= (select first_attempt from runs where no = :run) group by 1, 2"
)
REVISED = (
    f"with tried as ({_TRIED}) select {{}}"
    " from outcomes o join items i on i.run = o.run and i.batch = o.batch"
    " and i.position = o.position left join tried t on t.step = o.step and t.id = i.id"
    " where o.run = :run and o.state = 'passed'"
    " and max(o.calls, coalesce(t.tries, 0)) - coalesce(t.lost, 0) > 1"
)
"""Items that passed after a reply of theirs was kicked back, with what is selected of them."""

ATTEMPT_STATES = get_args(AttemptState)
_ids = msgspec.json.Decoder(tuple[str, ...]).decode
_decode = msgspec.json.Decoder(Reply).decode


def reply_is_sound(row: Sequence[Any]) -> bool:
    """Of the columns REPLY; not what is kept by its hash."""
    at, body, blob, crc = row[7:11]
    try:
        timed = at if crc is None or crc >= TIMED else None
        return crc is None or crc == reply_crc(tuple(row[:7]), body, blob, timed)
    except (TypeError, ValueError):  # a column is not even of its type
        return False


def reply_in(row: Sequence[Any]) -> Reply | None:
    """Of the columns REPLY. None: it is damaged, or missing."""
    body, blob, _, data = row[8:]
    try:
        if not reply_is_sound(row):
            return None
        if body is None:
            if digest(data) != blob:
                return None
            body = data
        return _decode(body)
    except (TypeError, ValueError, msgspec.DecodeError):  # a column is not even of its type
        return None


def kept_in(body: Any, body_crc: int | None) -> Reply | None:
    """A reply that is stored with its outcome. None: it is damaged."""
    try:
        sound = body_crc is None or body_crc == checksum.of_payload(body)
        return _decode(body) if sound else None
    except (TypeError, ValueError, msgspec.DecodeError):
        return None


def head_is_sound(row: Sequence[Any]) -> bool:
    """Of the columns HEAD, crc and body_crc; of all of OUTCOME where it may be by a parent."""
    return checksum.outcome_holds(row[12], row[:12], row[13], row[15] if len(row) > 15 else 0)


def item_is_sound(row: Sequence[Any]) -> bool:
    """Of the columns ITEM."""
    return row[5] is None or row[5] == checksum.of(*row[:5])


def value_of(outcome: Sequence[Any], reply: Sequence[Any]) -> tuple[bool, Any]:
    """What an outcome stands for, of the columns OUTCOME and REPLY. False: it is damaged."""
    body = outcome[14]
    if not head_is_sound(outcome):
        return False, None
    if body is None and outcome[5] is None:
        return True, None
    found = kept_in(body, outcome[13]) if body is not None else reply_in(reply)
    return found is not None, None if found is None else found.value


def known_in(row: int, answerer: str, member: str, key: bytes, reply: Reply | None) -> KnownReply:
    if reply is not None:
        return KnownReply(row, answerer, member, reply)
    named = f" (key {key.hex()})" if isinstance(key, bytes) else ""
    damage = f"the recorded reply of {member}{named} is damaged"
    return KnownReply(row, answerer, member, Reply(), f"{damage}; resume with --retry-in-doubt")


def run_in(row: Sequence[Any]) -> RunRecord:
    """Of the columns RUN. StoreError: it is damaged."""
    *columns, crc = row
    named = dict(zip(RUN.split(", "), columns, strict=False))
    if not checksum.holds(crc, *(named[name] for name in SUMMED)):
        raise StoreDamaged(
            f"the store: the record of run {named['name']} ({named['id']}) is damaged; restore a copy,"
            " or run its plan again: replies are reused"
        )
    if named["cause"] is not None:
        named["cause"] = msgspec.json.decode(named["cause"])
    named["tags"] = msgspec.json.decode(named["tags"])
    return msgspec.convert(named, RunRecord, strict=False)


def listed_run(row: Sequence[Any]) -> RunRecord:
    """One that is damaged is among the others, and says so."""
    try:
        return run_in(row)
    except (StoreError, msgspec.DecodeError):
        no, id, name = row[:3]
        return RunRecord(
            no=no if isinstance(no, int) else 0, id=str(id), name=str(name), status="aborted",
            reason="its record is damaged; restore a copy of the store", created=0.0,
        )  # fmt: skip


def attempt_in(row: Sequence[Any]) -> AttemptRecord:
    no, step, member, state, ids, reserved, cost, i, o, cr, cw, started, ended, error, *more = row
    why, repeats, again, unusable, bound, took, hedge_of, lost = more
    if state not in ATTEMPT_STATES:
        raise ValueError(state)
    return AttemptRecord(
        no=no, step=step, member=member, state=state, ids=_ids(ids), reserved=reserved, cost=cost,
        usage=Usage(i, o, cr, cw), started=started, ended=ended, error=error, why=why,
        repeats=repeats, again=bool(again), unusable=unusable, bound=bool(bound), took=took,
        hedge_of=hedge_of, lost=lost,
    )  # fmt: skip
