"""The whole batch first: ids and hashes go into the journal before anything is asked."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fanfold.errors import BadInput
from fanfold.journal.contract import Store
from fanfold.journal.facts import DropBatch, PlanBatch, RunRecord
from fanfold.run.planned import Planned, Refuse
from fanfold.work.item import Source, hash_of


class Batch(msgspec.Struct, frozen=True):
    """Items that were planned together: their ids and hashes are in the journal."""

    no: int
    source: Source
    size: int


class Planning:
    """What a run has planned so far. A resumed run finds its batches again by their names.

    `refuse` stops the run when an item is read again that is not what was planned.
    """

    def __init__(self, journal: Store, record: RunRecord, refuse: Refuse) -> None:
        self._journal, self._record, self._refuse = journal, record, refuse
        self._known = journal.read.batches(record.no) if record.resumed else {}
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
                await self._journal.write(DropBatch(run, no))
            size = await self._journal.plan_items(self._rows(source, no))
            self._refuse_duplicates(source, no)
            await self._journal.write(PlanBatch(run, no, name, fingerprint, size, last_step))
        self.planned += size
        place, read = (run, no), self._journal.read
        return Batch(
            no, Planned(source, read, place, size, self._refuse, self._note_added), size
        )  # fmt: skip

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
        found = self._journal.read.duplicate(self._record.no, no)
        if found is not None:
            id, first, second = found
            where = getattr(source, "where", "item {}".format)
            raise BadInput(
                f"duplicate id {id!r}: {_both(where(first), where(second))}; make ids unique"
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
