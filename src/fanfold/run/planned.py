"""A batch's items, read again: each must be what was planned, or the run pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

from fanfold.errors import BadInput
from fanfold.journal.contract import RunQuestions
from fanfold.work.item import Item, Source, hash_of

PAGE = 512  # planned ids and hashes that are fetched at once
Refuse = Callable[[str], NoReturn]
TO_DO = "restore it and resume, or start a new run, which reuses what is unchanged"


class Planned:
    """The source of a planned batch. It compares what it reads with what planning recorded.

    An input may change after it was planned: a file rewritten in place, lines appended, a file
    removed. What was not planned is never handed on, so answers stand under the right ids and
    there are never more outcomes than planned items. `refuse` stops the run; it does not return.
    Items that were added hold up nothing: `tell_added` is told of the first of them.
    """

    def __init__(
        self,
        source: Source,
        read: RunQuestions,
        place: tuple[int, int],
        size: int,
        refuse: Refuse,
        tell_added: Callable[[str], None],
    ) -> None:
        self._source, self._read, self._size = source, read, size
        self._run, self._batch = place
        self._stop, self._tell_added = refuse, tell_added

    def __repr__(self) -> str:
        return f"<Planned {self._size} of {self._source!r}>"

    def fingerprint(self) -> str:
        return self._source.fingerprint()

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        size, first, page = self._size, 0, self._page(0)
        seen, width = bytearray(skip[:size].ljust(size, b"\0")), len(page)
        try:
            for position, item in self._source.walk(skip):
                n = position - first
                if not 0 <= n < width:
                    if position >= size:
                        self._added(position, item.id)
                        break
                    first, n, page = position, 0, self._page(position)
                    width = len(page)
                if seen[position]:
                    if position < len(skip) and skip[position]:
                        continue
                    self._refuse(position, item.id, "was given twice")
                seen[position] = 1
                id, hash = page[n]
                if hash_of(item.data) != hash or item.id != id:
                    self._differs(position, item.id, id)
                yield position, item
        except BadInput as error:  # it cannot be read any more
            self._stop(f"{error}: the input changed; {TO_DO}")
        except OSError as error:
            self._stop(f"{error.filename}: {error.strerror}: the input changed; {TO_DO}")
        absent = seen.find(0)
        if absent >= 0:
            self._refuse(absent, self._page(absent)[0][0], "was planned, but is no longer there")

    def _page(self, first: int) -> list[tuple[str, bytes]]:
        return self._read.planned_items(self._run, self._batch, first, PAGE)

    def _differs(self, position: int, id: str, planned: str) -> NoReturn:
        if id == planned:
            self._refuse(position, id, "is not what was planned")
        self._refuse(position, id, f"was planned as item {planned!r}")

    def _refuse(self, position: int, id: str, what: str) -> NoReturn:
        self._stop(f"{self._where(position)}: item {id!r} {what}: the input changed; {TO_DO}")

    def _added(self, position: int, id: str) -> None:
        self._tell_added(
            f"{self._where(position)}: item {id!r} was added after the run was planned, and was"
            " not asked about; start a new run, which reuses what is unchanged"
        )

    def _where(self, position: int) -> str:
        """File and line, where the source knows them."""
        try:
            return str(getattr(self._source, "where", "item {}".format)(position))
        except (BadInput, OSError):
            return f"item {position}"
