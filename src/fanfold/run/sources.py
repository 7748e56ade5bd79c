"""Items given in Python, as a Source: lists as they are, one-shot iterables spooled to disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.work.item import Item, Source, canonical

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_NESTED = (dict, list)


def source_of(items: Source | Iterable[Any], spool: Path) -> Source:
    """A Source as it is; a list in place; anything that can be read only once goes to `spool`."""
    if isinstance(items, Source):
        return items
    if isinstance(items, Sequence) and not isinstance(items, str | bytes):
        return Rows(items)
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        one = "; of a single item [item]" if isinstance(items, Mapping) else ""
        raise BadInput(f"items must be a list or another iterable, not {type(items).__name__}{one}")
    return Spooled(items, spool)


def as_item(value: Any, position: int) -> Item:
    """A record's `id` field is its id; anything else is known by its position."""
    if isinstance(value, Item):
        return value
    if isinstance(value, dict) and isinstance(value.get("id"), str | int):
        return Item(str(value["id"]), value)
    return Item(str(position), value)


def own(data: Any) -> Any:
    """A copy of plain data, so that who receives it may change it."""
    if type(data) is dict:
        return {key: own(v) if type(v) in _NESTED else v for key, v in data.items()}
    if type(data) is list:
        return [own(v) if type(v) in _NESTED else v for v in data]
    return data


class Rows:
    """A list in memory. Each walk gives copies: a function that changes its item does not change
    what a later step reads."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = rows

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        for position, row in enumerate(self._rows):
            if position >= len(skip) or not skip[position]:
                item = as_item(row, position)
                yield position, Item(item.id, own(item.data))

    def fingerprint(self) -> str:
        whole = blake2b(digest_size=16)
        for position, row in enumerate(self._rows):
            item = as_item(row, position)
            whole.update(canonical([position, item.id, item.data]))
        return whole.hexdigest()


class Spooled:
    """An iterable that can be read only once, kept as JSON lines so that it can be walked again."""

    def __init__(self, items: Iterable[Any], spool: Path) -> None:
        whole = blake2b(digest_size=16)
        with NamedTemporaryFile(dir=spool, suffix=".part", delete=False) as out:
            scratch = Path(out.name)
            try:
                for position, value in enumerate(items):
                    item = as_item(value, position)
                    line = _encode([item.id, item.data]) + b"\n"
                    whole.update(line)
                    out.write(line)
            except BaseException:
                scratch.unlink()
                raise
        self._print = whole.hexdigest()
        self._file = spool / f"{self._print}.jsonl"
        scratch.replace(self._file)

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        with self._file.open("rb") as lines:
            for position, line in enumerate(lines):
                if position >= len(skip) or not skip[position]:
                    id, data = _decode(line)
                    yield position, Item(id, data)

    def fingerprint(self) -> str:
        return self._print
