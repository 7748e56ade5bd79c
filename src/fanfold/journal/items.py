"""The planned items of a run, and all that is on record about one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fanfold.journal.attempts import key8
from fanfold.journal.checksum import sound
from fanfold.journal.facts import Attempt
from fanfold.journal.stored import (
    ATTEMPT,
    OUTCOME,
    REPLY,
    REPLY_WIDTH,
    attempt_in,
    head_is_sound,
    kept_in,
    reply_in,
)
from fanfold.work.ask import Message, Reply
from fanfold.work.outcome import State

MOST = 10_000
_reasons = msgspec.json.Decoder(tuple[str, ...]).decode
_messages = msgspec.json.Decoder(tuple[Message, ...]).decode


class PlannedItem(msgspec.Struct, frozen=True):
    """Where an item was planned: which batch (`input`, or the step that produced it), at which
    position, and the hash of its data."""

    id: str
    batch: int
    of: str
    position: int
    hash: bytes


class StepEnding(msgspec.Struct, frozen=True):
    """How an item ended at one step. `key`: that of the ask that was answered, None without a reply.
    `damaged`: what is on record is not what was recorded."""

    step: int
    state: State
    reasons: tuple[str, ...]
    member: str | None
    cost: int
    calls: int
    key: bytes | None
    reply: Reply | None
    damaged: bool = False


class KeptPrompt(msgspec.Struct, frozen=True):
    """A request as it was sent, of a run that keeps its prompts."""

    step: int
    member: str
    key: bytes
    messages: tuple[Message, ...]


@sound
class Items:
    """By an id that somebody typed, or by position."""

    def __init__(self, execute: Callable[[str, Any], Any]) -> None:
        self._execute = execute

    def has(self, run: int, id: str) -> bool:
        question = "select 1 from items where run = ? and id = ? limit 1"
        return self._execute(question, (run, id)).fetchone() is not None

    def ids(self, run: int) -> list[str]:
        """The first of them, in planned order; enough to find one that is spelled alike."""
        question = "select id from items where run = ? order by batch, position limit ?"
        return [row[0] for row in self._execute(question, (run, MOST))]

    def planned(self, run: int, batch: int, first: int, most: int) -> list[tuple[str, bytes]]:
        """Ids and hashes as planned, from position `first` on."""
        question = (
            "select id, hash from items where run = ? and batch = ? and position >= ?"
            " order by position limit ?"
        )
        rows: list[tuple[str, bytes]] = self._execute(
            question, (run, batch, first, most)
        ).fetchall()
        return rows

    # ── all about one of them ──

    def find(self, run: int, id: str) -> list[PlannedItem]:
        """An id may stand in several batches of a run."""
        rows = self._execute(
            "select i.id, i.batch, b.name, i.position, i.hash from items i join batches b"
            " on b.run = i.run and b.no = i.batch where i.run = ? and i.id = ? order by i.batch",
            (run, id),
        )
        return [PlannedItem(*row) for row in rows]

    def endings(self, run: int, item: PlannedItem) -> list[StepEnding]:
        """By step, in their order."""
        rows = self._execute(
            f"select {OUTCOME}, {REPLY} from outcomes o left join replies r on r.no = o.reply"
            " left join blobs b on b.hash = r.blob where o.run = ? and o.batch = ?"
            " and o.position = ? order by o.step",
            (run, item.batch, item.position),
        )
        return [_ending(row[:-REPLY_WIDTH], row[-REPLY_WIDTH:]) for row in rows]

    def attempts(self, run: int, id: str) -> list[Attempt]:
        """All tries of asks that the item was in, in their order."""
        rows = self._execute(
            f"select {ATTEMPT} from attempts a where run = ?1 and no >= (select first_attempt from"
            " runs where no = ?1) and exists (select 1 from json_each(cast(a.ids as text)) e"
            " where e.value = ?2) order by no",
            (run, id),
        )
        return [attempt_in(row) for row in rows]

    def replies_to(self, keys: Iterable[bytes]) -> dict[bytes, Reply]:
        """The newest recorded reply to each of these asks, whoever gave it, in whichever run."""
        wanted = list(keys)
        rows = self._execute(
            f"select {REPLY} from replies r left join blobs b on b.hash = r.blob"
            " where r.key8 in (select value from json_each(?)) order by r.no",
            (msgspec.json.encode([key8(key) for key in wanted]).decode(),),
        )
        found = {row[1]: reply_in(row) for row in rows if row[1] in wanted}
        return {key: reply for key, reply in found.items() if reply is not None}

    def prompts(self, run: int, id: str) -> list[KeptPrompt]:
        """In the order in which they were sent; none where the plan does not keep them."""
        rows = self._execute(
            "select step, member, key, messages from prompts where run = ? and id = ? order by no",
            (run, id),
        )
        return [KeptPrompt(step, member, key, _messages(said)) for step, member, key, said in rows]


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
