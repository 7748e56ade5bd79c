"""Checksums of what is recorded, so that a bit that flipped on the disk is never taken as right.

CRC-32 of the row's own columns, as MessagePack, and of its payload. A row of an older store has none, and
is taken as it is. Large payloads are kept by their hash, which is their checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import isgeneratorfunction, signature
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from fanfold.errors import StoreError
from fanfold.journal.answers import DAMAGE
from fanfold.journal.sqlite.bulk import Database

LOOKED_AT = 200_000  # replies, at most, when a store is opened
_T = TypeVar("_T")
_encode = msgspec.msgpack.Encoder().encode
_NO_COLUMNS = crc32(_encode(()))
SUMMED = (
    "no", "id", "name", "status", "reason", "created", "ended", "session", "plan", "folder", "budget",
    "active", "result", "first_attempt", "parent", "cause", "tags",
)  # fmt: skip
"""The columns of a run that its checksum is of: all others."""
REST = 1 << 40  # added to the checksum of an outcome that was written by the database itself
PLACE = "3 * i.position + 5 * i.batch + 7 * b.last_step"


def of(*columns: object, payload: bytes | None = None) -> int:
    """`payload` may be large; the columns are small."""
    whole = crc32(_encode(columns))
    return whole if payload is None else crc32(payload, whole)


def of_payload(payload: bytes) -> int:
    """The same without columns."""
    return crc32(payload, _NO_COLUMNS)


def of_outcome(head: Sequence[object], body_crc: int | None, by_parent: int) -> int:
    return of(*head, body_crc, by_parent) if by_parent else of(*head, body_crc)


def of_rest(run: int, state: str, reasons: str) -> int:
    """Of an outcome that items get which nobody has ended, but for PLACE: a million of them are one
    statement."""
    return REST + of(run, state, reasons)


def outcome_holds(
    crc: int | None, head: Sequence[Any], body_crc: int | None, by_parent: int
) -> bool:
    if crc is None or crc < REST:
        return crc is None or crc == of_outcome(head, body_crc, by_parent)
    run, batch, position, step, state, reply, reasons, *more = head
    place = 3 * position + 5 * batch + 7 * step
    nothing = (reply, *more, body_crc, by_parent) == (None, None, 0, 0, None, None, None, 0)
    return nothing and crc == of_rest(run, state, reasons) + place


def sum_up_run(db: Database, run: int) -> None:
    """The checksum of a run, after it was changed."""
    row = db.execute(f"select {', '.join(SUMMED)} from runs where no = ?", (run,)).fetchone()
    db.execute("update runs set crc = ? where no = ?", (of(*row), run))


def make_replies_found(db: Database) -> bool:
    """An index has no checksums: where a bit of it has flipped, a reply is not found, and is paid again. It
    is compared with the replies and, if it differs, made anew from them; whether it was. Of large stores only
    `store check` does so."""
    last: int = db.execute("select coalesce(max(no), 0) from replies").fetchone()[0]
    if last > LOOKED_AT or _agree(db):
        return False
    for key8, key in db.execute("select key8, key from replies not indexed where key <> x''"):
        if not isinstance(key, bytes) or key8 != int.from_bytes(key[:8], "big", signed=True):
            raise StoreError("the store: the key of a reply is damaged; restore a copy")
    db.execute("reindex replies_by_key")
    if not _agree(db):
        raise StoreError("the store: its index of replies is damaged; restore a copy")
    return True


def _agree(db: Database) -> bool:
    """In one statement, so that nobody writes in between."""
    parts = "select count(*), sum(key8 & 4294967295), sum(key8 >> 32), sum(no) from replies"
    both = f"select * from ({parts} not indexed), ({parts} indexed by replies_by_key)"
    row = db.execute(both).fetchone()
    return bool(row[:4] == row[4:])


def holds(checksum: int | None, *columns: object, payload: bytes | None = None) -> bool:
    return checksum is None or checksum == of(*columns, payload=payload)


def of_results(method: Callable[..., _T]) -> Callable[..., _T]:
    """A question that adds up items, outcomes or replies of a run, without a look at each of them."""
    method._of_results = True  # type: ignore[attr-defined]
    return method


def reports_damage(method: Callable[..., _T]) -> Callable[..., _T]:
    """For readers: a column that cannot be decoded is damage, and is reported in one line. What is about a
    run, its first parameter, is verified before. Trap: a reader that returns an iterator decodes later; it
    must be a generator itself."""

    def damaged() -> StoreError:
        what = method.__name__.replace("_", " ")
        return StoreError(
            f"the store: a record is damaged (seen when reading: {what}); restore a copy"
        )

    names = list(signature(method).parameters)
    of_run, results = names[1:2] == ["run"], getattr(method, "_of_results", False)

    def verify(reader: Any, *given: Any, **named: Any) -> None:
        if of_run:
            reader._verify(given[0] if given else named["run"], results)

    if isgeneratorfunction(method):

        @wraps(method)
        def walk(*arguments: Any, **named: Any) -> Any:
            try:
                verify(*arguments, **named)
                yield from method(*arguments, **named)
            except DAMAGE as error:
                raise damaged() from error

        return walk

    @wraps(method)
    def read(*arguments: Any, **named: Any) -> _T:
        try:
            verify(*arguments, **named)
            return method(*arguments, **named)
        except DAMAGE as error:
            raise damaged() from error

    return read


def sound(kind: type[_T]) -> type[_T]:
    """A class of questions, all of which report damage as such."""
    for name, member in list(vars(kind).items()):
        if callable(member) and not name.startswith("_") and not isinstance(member, type):
            setattr(kind, name, reports_damage(member))
    return kind
