"""One input with its id, and where inputs come from."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Protocol, runtime_checkable

import msgspec

_encode = msgspec.json.Encoder(order="sorted").encode


class Item(msgspec.Struct, frozen=True, gc=False):
    """`data` is any JSON value. Function members receive it as it is; templates see `view()`."""

    id: str
    data: Any

    def view(self) -> dict[str, Any]:
        """What `{{ item }}` is in a template: the fields, with `id` and `text` always there."""
        data = self.data
        if isinstance(data, dict):
            return data if "id" in data else {**data, "id": self.id}
        text = data if isinstance(data, str) else _encode(data).decode()
        return {"id": self.id, "text": text, "value": data}


def canonical(value: Any) -> bytes:
    """The same bytes for the same JSON value, whatever the order of its keys."""
    return _encode(value)


def digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def hash_of(data: Any) -> bytes:
    """What planning records of an item, to see later whether it was changed."""
    return blake2b(_encode(data), digest_size=16).digest()[:8]


@runtime_checkable
class Source(Protocol):
    """Items that can be iterated over more than once, lazily.

    `walk(skip)` yields (position, item), leaving out the positions where `skip` is non-zero
    (without decoding them where it can). `fingerprint` is a digest of the whole input.
    """

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]: ...

    def fingerprint(self) -> str: ...
