"""Questions about items: how they ended, their replies, and all that is on record about one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from fanfold.errors import StoreError
from fanfold.journal.answers import (
    AttemptRecord,
    EndedItem,
    GivenReply,
    KeptPrompt,
    KnownReply,
    PlannedItem,
    StepEnding,
)
from fanfold.journal.sqlite.attempts import key8
from fanfold.journal.sqlite.checksum import of_results, sound
from fanfold.journal.sqlite.read_runs import FINAL, LATER
from fanfold.journal.sqlite.stored import (
    ATTEMPT,
    ITEM,
    OUTCOME,
    REPLY,
    REPLY_WIDTH,
    REVISED,
    attempt_in,
    head_is_sound,
    item_is_sound,
    kept_in,
    known_in,
    reply_in,
    reply_is_sound,
    value_of,
)
from fanfold.journal.sqlite.trouble import Ask
from fanfold.work.ask import Message
from fanfold.work.item import digest
from fanfold.work.outcome import Missing, Part, State

PAGE = 200  # rows of replies in memory at once
IDS_PAGE = 1000
MOST = 10_000
DAMAGED = "what was recorded for it is damaged"
_ITEM_WIDTH = len(ITEM.split(", "))
_EMPTY = digest(b"")  # is not kept
_NO_REPLY = (None,) * REPLY_WIDTH
_encode = msgspec.json.Encoder().encode
_reasons = msgspec.json.Decoder(tuple[str, ...]).decode
_messages = msgspec.json.Decoder(tuple[Message, ...]).decode

_PASSED = (
    "select i.id, i.hash, i.crc, o.position, o.reply, o.reasons, o.member, o.cost, o.calls, o.key,"
    " o.answerer, o.crc, o.body_crc, o.body from outcomes o"
    " left join items i on i.run = o.run and i.batch = o.batch and i.position = o.position"
    " where o.run = ? and o.batch = ? and o.position > ? and o.step = ? and o.state = 'passed'"
    " order by o.position limit ?"
)
_REPLIES = (
    f"select {REPLY} from replies r left join blobs b on b.hash = r.blob"
    " where r.no in (select value from json_each(?))"
)
_BEHIND = (
    f"select o.position, {ITEM} from outcomes o left join items i"
    " on i.run = o.run and i.batch = o.batch and i.position = o.position"
    " where o.run = ? and o.batch = ? and o.position > ? and o.step = ? and o.state = 'passed'"
    " order by o.position limit ?"
)
_MISSING = (
    f"select i.position, {ITEM}, o.state, o.reasons, o.by_parent from items i left join outcomes o"
    " on o.run = i.run and o.batch = i.batch and o.position = i.position and o.step ="
    " (select max(step) from outcomes where run = i.run and batch = i.batch and position = i.position)"
    " where i.run = ?1 and i.batch = ?2 and i.position > ?3 and not exists (select 1 from outcomes p"
    " where p.run = i.run and p.batch = i.batch and p.position = i.position and p.step = ?4"
    " and p.state = 'passed') order by i.position limit ?5"
)
_REASONS = (
    "select i.id, o.reasons from outcomes o join items i on i.run = :run"
    " and i.batch = o.batch and i.position = o.position"
    " where o.run = :run and o.state <> 'passed' and o.state in (select value from json_each(:states))"
    f" and o.reasons is not null and not {LATER} order by o.batch, o.position"
)


@sound
class ItemRows:
    """The planned items of a run and their replies, a page at a time where there may be a million."""

    _execute: Ask
    _verify: Callable[..., None]

    @of_results
    def parts(self, run: int, batch: int, step: int) -> Iterator[Part]:
        """What the question states is not read: each column of each row takes its time."""
        after = -1
        while True:
            page = self._execute(_PASSED, (run, batch, after, step, PAGE)).fetchall()
            replies = self._replies([row[4] for row in page if row[4] is not None])
            for id, hash, crc, position, *outcome in page:
                reply = replies.get(outcome[0], _NO_REPLY)
                good, value = value_of((run, batch, position, step, "passed", *outcome), reply)
                item = (run, batch, position, id, hash, crc)
                if not good or id is None or not item_is_sound(item):
                    raise self._damaged(run, id, reply[1])
                yield Part(id, position, value)
            if len(page) < PAGE:
                return
            after = page[-1][3]

    def _replies(self, numbers: list[int]) -> dict[int, Sequence[Any]]:
        if not numbers:
            return {}
        return {row[0]: row for row in self._execute(_REPLIES, (_encode(numbers).decode(),))}

    def _damaged(self, run: int, id: str, key: bytes | None) -> StoreError:
        named = self._execute("select name from runs where no = ?", (run,)).fetchone()
        under = "" if not isinstance(key, bytes) else f", key {key.hex()}"
        return StoreError(
            f"the store: what was recorded for item {id} (run {named[0] if named else run}{under})"
            f" is damaged; to ask for it again: resume, then resume with --retry-in-doubt {id}"
        )

    def endings(self, run: int, states: Sequence[State], limit: int = 1000) -> list[EndedItem]:
        rows = self._execute(
            f"select {ITEM}, {OUTCOME}, {REPLY}"
            f" from ({FINAL}) o left join items i on i.run = :run and i.batch = o.batch"
            " and i.position = o.position left join replies r on r.no = o.reply"
            " left join blobs b on b.hash = r.blob"
            " where o.state in (select value from json_each(:states))"
            " order by o.batch, o.position limit :limit",
            {"run": run, "states": _encode(states).decode(), "limit": limit},
        )
        return [_ended(row) for row in rows]

    @of_results
    def revised(self, run: int) -> int:
        chosen = "count(distinct o.batch || ' ' || o.position)"
        row = self._execute(REVISED.format(chosen), {"run": run}).fetchone()
        return int(row[0])

    @of_results
    def revised_ids(self, run: int, limit: int) -> list[str]:
        first = "group by i.id order by min(o.batch), min(o.position) limit :limit"
        question = f"{REVISED.format('i.id')} {first}"
        rows = self._execute(question, {"run": run, "limit": limit})
        return [row[0] for row in rows]

    # ── replies ──

    def known(
        self, keys: Iterable[bytes], accept: frozenset[str], run: int, fresh: bool = False
    ) -> dict[bytes, KnownReply]:
        """Trap: in a row that is damaged, the key or whom it serves may be what is. It is found by the first
        eight bytes of its key, and counts as the damaged reply to that one: else it would be paid again."""
        self._verify(0)
        found: dict[bytes, KnownReply] = {}
        wanted = {key8(key): key for key in keys}
        rows = self._execute(
            f"select r.key8, {REPLY} from replies r left join blobs b on b.hash = r.blob"
            " where r.key8 in (select value from json_each(?)) order by r.no",
            (_encode(list(wanted)).decode(),),
        )
        for short, *row in rows:
            no, key, answerer, member, owner, private = row[:6]
            serves = answerer in accept and (owner == run or not (private or fresh))
            if not (serves and wanted[short] == key) and reply_is_sound(row):
                continue
            key = wanted[short]
            one = known_in(no, answerer, member, key, reply_in(row))
            if key not in found or not one.damage:
                found[key] = one
        return found

    @of_results
    def known_at(
        self, run: int, batch: int, step: int, positions: Iterable[int]
    ) -> dict[int, tuple[bytes, KnownReply]]:
        rows = self._execute(
            "select position, key, answerer, member, body, body_crc from outcomes where run = ?"
            " and batch = ? and step = ? and position in (select value from json_each(?))"
            " and body is not null",
            (run, batch, step, _encode(list(positions)).decode()),
        )
        return {
            position: (key, known_in(0, answerer, member, key, kept_in(body, crc)))
            for position, key, answerer, member, body, crc in rows
        }

    # ── which items are behind a result, and which are not ──

    @of_results
    def items_behind(self, run: int, batch: int, step: int) -> Iterator[str]:
        for _, *item in self._paged(_BEHIND, run, batch, step):
            yield _id_of(item)

    @of_results
    def items_missing(
        self, run: int, batch: int, step: int, first: int = 0, end: int | None = None
    ) -> Iterator[Missing]:
        rows = self._paged(_MISSING, run, batch, step, first - 1)
        for position, *item, state, reasons, by_parent in rows:
            if end is not None and position >= end:
                return
            why = _reasons(reasons) if reasons else ()
            yield Missing(_id_of(item), position, state, why, bool(by_parent))

    @of_results
    def reasons(self, run: int, states: Sequence[State]) -> Iterator[tuple[str, tuple[str, ...]]]:
        given = {"run": run, "states": msgspec.json.encode(states).decode()}
        for id, reasons in self._execute(_REASONS, given):
            yield id, _reasons(reasons)

    def _paged(
        self, question: str, run: int, batch: int, step: int, after: int = -1
    ) -> Iterator[Any]:
        while True:
            page = self._execute(question, (run, batch, after, step, IDS_PAGE)).fetchall()
            yield from page
            if len(page) < IDS_PAGE:
                return
            after = page[-1][0]

    # ── by an id that somebody typed, or by position ──

    @of_results
    def has_item(self, run: int, id: str) -> bool:
        question = "select 1 from items where run = ? and id = ? limit 1"
        return self._execute(question, (run, id)).fetchone() is not None

    @of_results
    def item_ids(self, run: int) -> list[str]:
        question = "select id from items where run = ? order by batch, position limit ?"
        return [row[0] for row in self._execute(question, (run, MOST))]

    @of_results
    def planned_items(self, run: int, batch: int, first: int, most: int) -> list[tuple[str, bytes]]:
        question = (
            "select id, hash from items where run = ? and batch = ? and position >= ?"
            " order by position limit ?"
        )
        rows: list[tuple[str, bytes]] = self._execute(
            question, (run, batch, first, most)
        ).fetchall()
        return rows

    # ── all about one of them ──

    @of_results
    def find_items(self, run: int, id: str) -> list[PlannedItem]:
        rows = self._execute(
            "select i.id, i.batch, b.name, i.position, i.hash from items i join batches b"
            " on b.run = i.run and b.no = i.batch where i.run = ? and i.id = ? order by i.batch",
            (run, id),
        )
        return [PlannedItem(*row) for row in rows]

    def step_endings(self, run: int, item: PlannedItem) -> list[StepEnding]:
        rows = self._execute(
            f"select {OUTCOME}, {REPLY} from outcomes o left join replies r on r.no = o.reply"
            " left join blobs b on b.hash = r.blob where o.run = ? and o.batch = ?"
            " and o.position = ? order by o.step",
            (run, item.batch, item.position),
        )
        return [_ending(row[:-REPLY_WIDTH], row[-REPLY_WIDTH:]) for row in rows]

    def item_attempts(self, run: int, id: str) -> list[AttemptRecord]:
        rows = self._execute(
            f"select {ATTEMPT} from attempts a where run = ?1 and no >= (select first_attempt from"
            " runs where no = ?1) and exists (select 1 from json_each(cast(a.ids as text)) e"
            " where e.value = ?2) order by no",
            (run, id),
        )
        return [attempt_in(row) for row in rows]

    def replies_to(self, keys: Iterable[bytes]) -> dict[bytes, list[GivenReply]]:
        self._verify(0)
        wanted, found = list(keys), dict[bytes, list[GivenReply]]()
        rows = self._execute(
            f"select {REPLY} from replies r left join blobs b on b.hash = r.blob"
            " where r.key8 in (select value from json_each(?)) order by r.no",
            (msgspec.json.encode([key8(key) for key in wanted]).decode(),),
        )
        for row in rows:
            if (reply := reply_in(row)) is None:
                raise StoreError(
                    f"the store: the recorded reply of {row[3]} is damaged; restore a copy"
                )
            if row[1] in wanted:
                found.setdefault(row[1], []).append(GivenReply(row[3], reply))
        return found

    def kept_prompts(self, run: int, id: str) -> list[KeptPrompt]:
        rows = self._execute(
            "select step, member, key, messages from prompts where run = ? and id = ? order by no",
            (run, id),
        )
        return [KeptPrompt(step, member, key, _messages(said)) for step, member, key, said in rows]

    def attached(self, run: int) -> dict[str, bytes]:
        rows = self._execute("select name, hash from attached where run = ?", (run,))
        return {name: bytes(hash) for name, hash in rows}

    def content(self, hash: bytes) -> bytes | None:
        row = self._execute("select data from blobs where hash = ?", (hash,)).fetchone()
        named = "select 1 from attached where hash = ? limit 1"
        gone = row is None and hash != _EMPTY and self._execute(named, (hash,)).fetchone()
        if gone or (row is not None and digest(row[0]) != hash):
            raise StoreError(f"the store: the content {hash.hex()} is damaged; restore a copy")
        return None if row is None else bytes(row[0])

    def has_content(self, hash: bytes) -> bool:
        row = self._execute("select 1 from blobs where hash = ?", (hash,)).fetchone()
        return row is not None

    @of_results
    def item_positions(self, run: int, id: str) -> list[tuple[int, int]]:
        rows = self._execute(
            "select batch, position from items where run = ? and id = ? order by batch, position",
            (run, id),
        )
        return [(batch, position) for batch, position in rows]


def _ended(row: Sequence[Any]) -> EndedItem:
    id, outcome = _id_of(row[:_ITEM_WIDTH]), row[_ITEM_WIDTH:-REPLY_WIDTH]
    state, reasons, member, cost = outcome[4], outcome[6], outcome[7], outcome[8]
    good, value = value_of(outcome, row[-REPLY_WIDTH:])
    why = _reasons(reasons) if reasons else ()
    why = why if good else (*why, DAMAGED)
    return EndedItem(id, state, why, member, cost, value, bool(outcome[15]))


def _ending(outcome: Any, row: Any) -> StepEnding:
    state, body = outcome[4], outcome[14]
    reasons, member, cost, calls = outcome[6:10]
    reply = kept_in(body, outcome[13]) if body is not None else reply_in(row) if row[0] else None
    whole = head_is_sound(outcome) and (reply is not None or (body is None and outcome[5] is None))
    key = outcome[10] if outcome[10] is not None else row[1]
    return StepEnding(
        outcome[3], state, _reasons(reasons) if reasons else (), member, cost, calls, key, reply,
        not whole,
    )  # fmt: skip


def _id_of(item: Sequence[Any]) -> str:
    if item[3] is None or not item_is_sound(item):
        raise StoreError(f"the store: item {item[3]!a} is damaged; run the plan again")
    return str(item[3])
