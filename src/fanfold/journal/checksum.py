"""Checksums of what is recorded, so that a bit that flipped on the disk is never told as right.

CRC-32 of the row's own columns, as MessagePack, and of its payload. A row of an older store has none, and
is taken as it is. Large payloads are kept by their hash, which is their checksum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from fanfold.errors import StoreError

_T = TypeVar("_T")
_encode = msgspec.msgpack.Encoder().encode
_REASONS = (msgspec.DecodeError, TypeError, ValueError, KeyError, IndexError, OverflowError)


def of(*columns: object, payload: bytes | None = None) -> int:
    """`payload` may be large; the columns are small."""
    whole = crc32(_encode(columns))
    return whole if payload is None else crc32(payload, whole)


def holds(checksum: int | None, *columns: object, payload: bytes | None = None) -> bool:
    return checksum is None or checksum == of(*columns, payload=payload)


def decoded(decode: Callable[[Any], _T], raw: object, what: str) -> _T:
    """A stored column as a record. What cannot be decoded is damaged: one line that names it."""
    try:
        return decode(raw)
    except _REASONS as error:
        raise StoreError(f"the store: {what} is damaged ({error}); restore a copy") from error


def told_as_damage(method: Callable[..., _T]) -> Callable[..., _T]:
    """For readers: a column that is not what it must be is damage, and said in one line."""

    def damaged() -> StoreError:
        what = method.__name__.replace("_", " ")
        return StoreError(
            f"the store: a record is damaged (seen when reading: {what}); restore a copy"
        )

    if isgeneratorfunction(method):

        @wraps(method)
        def walk(*arguments: Any, **named: Any) -> Any:
            try:
                yield from method(*arguments, **named)
            except _REASONS as error:
                raise damaged() from error

        return walk

    @wraps(method)
    def read(*arguments: Any, **named: Any) -> _T:
        try:
            return method(*arguments, **named)
        except _REASONS as error:
            raise damaged() from error

    return read


def sound(kind: type[_T]) -> type[_T]:
    """A reader all of whose questions tell damage as such."""
    for name, member in list(vars(kind).items()):
        if callable(member) and not name.startswith("_") and not isinstance(member, type):
            setattr(kind, name, told_as_damage(member))
    return kind
