"""The whole batch first: ids and hashes go on record before anything is asked, and each item is
compared with them whenever it is read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

import msgspec

from fanfold.errors import BadInput, StoreError
from fanfold.journal.contract import Store
from fanfold.journal.facts import DropBatch, PlanBatch, RunRecord
from fanfold.run.sources import Rows, Spooled
from fanfold.work.item import Item, Source, hash_of

PAGE = 512  # planned ids and hashes that are fetched at once
Refuse = Callable[[str], NoReturn]
TO_DO = "restore it and resume, or start a new run, which reuses what is unchanged"


class PlannedSource:
    """The source of a planned batch. It compares what it reads with what planning recorded.

    An input may change after it was planned: a file rewritten in place, lines appended, a file
    removed. What was not planned is never handed on, so answers stand under the right ids and
    there are never more outcomes than planned items. `refuse` stops the run; it does not return.
    Items that were added hold up nothing: `tell_added` is told of the first of them.
    """

    def __init__(
        self,
        source: Source,
        store: Store,
        place: tuple[int, int],
        size: int,
        refuse: Refuse,
        tell_added: Callable[[str], None],
    ) -> None:
        self._source, self._store, self._size = source, store, size
        self._run, self._batch = place
        self._stop, self._tell_added = refuse, tell_added

    def __repr__(self) -> str:
        return f"<PlannedSource {self._size} of {self._source!r}>"

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
        page = self._store.read.planned_items(self._run, self._batch, first, PAGE)
        if len(page) != min(PAGE, self._size - first):
            raise StoreError("the store: the list of the planned items is damaged; restore a copy")
        return page

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


class Batch(msgspec.Struct, frozen=True):
    """Items that were planned together: their ids and hashes are in the journal."""

    no: int
    source: Source
    size: int


class Planning:
    """What a run has planned so far. A resumed run finds its batches again by their names.

    `refuse` stops the run when an item is read again that is not what was planned.
    """

    def __init__(self, store: Store, record: RunRecord, refuse: Refuse) -> None:
        self._store, self._record, self._refuse = store, record, refuse
        self._known = store.read.batches(record.no) if record.resumed else {}
        self._numbers = {name: no for name, (no, _, _) in self._known.items()}
        self._next = max(self._numbers.values(), default=-1) + 1
        self._names: set[str] = set()
        self.planned = 0
        self.added: str | None = None  # what an input has besides that which was planned

    async def plan(self, source: Source, name: str, last_step: int) -> Batch:
        run, name = self._record.no, self._own_name(name)
        no = self._number(name)
        fingerprint = _fingerprint(source)
        _, known, size = self._known.get(name, (no, "", 0))
        if known != fingerprint:
            if self._record.resumed:  # what an earlier invocation planned, in part or otherwise
                await self._store.write(DropBatch(run, no))
            size = await self._store.plan_items(self._rows(source, no))
            self._refuse_duplicates(source, no)
            if not isinstance(source, Rows | Spooled) and _fingerprint(source) != fingerprint:
                self._refuse(f"the input changed while it was planned; {TO_DO}")
            await self._store.write(PlanBatch(run, no, name, fingerprint, size, last_step))
        self.planned += size
        planned = PlannedSource(
            source, self._store, (run, no), size, self._refuse, self._note_added
        )
        return Batch(no, planned, size)

    def _note_added(self, what: str) -> None:
        self.added = self.added or what

    def _number(self, name: str) -> int:
        """That of an earlier invocation, or the next; so it does not depend on the order of now."""
        if name not in self._numbers:
            self._numbers[name], self._next = self._next, self._next + 1
        return self._numbers[name]

    def _own_name(self, wanted: str) -> str:
        """The second batch of a name is NAME#2, and so on."""
        name, n = wanted, 1
        while name in self._names:
            n += 1
            name = f"{wanted}#{n}"
        self._names.add(name)
        return name

    def _rows(self, source: Source, no: int) -> Iterator[tuple[int, int, int, str, bytes]]:
        run = self._record.no
        for position, item in source.walk():
            try:
                item.id.encode()
                yield run, no, position, item.id, hash_of(item.data)
            except (UnicodeError, TypeError, OverflowError) as error:
                raise BadInput(
                    f"item {position} ({item.id!a}) is not plain JSON: {error}"
                ) from None

    def _refuse_duplicates(self, source: Source, no: int) -> None:
        found = self._store.read.duplicate(self._record.no, no)
        if found is not None:
            raise duplicate_id(source, *found)


def duplicate_id(source: Source, id: str, first: int, second: int, of: str = "") -> BadInput:
    """Two items at these positions have one id."""
    where = getattr(source, "where", "item {}".format)
    return BadInput(
        f"duplicate id {id!r}{of}: {_both(where(first), where(second))}; make ids unique"
    )


def _both(first: str, second: str) -> str:
    """Two places; the file is named once: `reviews.jsonl:1 and :7`."""
    file, colon, _ = first.rpartition(":")
    shared = colon and second.startswith(file + colon)
    return f"{first} and {second.removeprefix(file) if shared else second}"


def _fingerprint(source: Source) -> str:
    try:
        return source.fingerprint()
    except (UnicodeError, TypeError, OverflowError) as error:
        raise BadInput(f"the items are not plain JSON: {error}") from None
