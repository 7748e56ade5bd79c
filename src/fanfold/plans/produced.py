"""Items that an earlier step of the plan produced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fanfold.errors import FanfoldError
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work.item import Item, Source, canonical, digest
from fanfold.work.task import Terms


def listed(name: str, value: Any) -> Source:
    """The result of a step that is a list; of nothing: no items."""
    if value is None:
        return Rows([])
    if not isinstance(value, list):
        raise FanfoldError(
            f"steps.{name} is no list, but {type(value).__name__}; give that step a `schema` of"
            " `type: array`"
        )
    return Rows(value)


class ProducedReplies:
    """The lists that a step's replies are, one after the other; a reply that is none counts as one
    element. The ids are those of the items, with the element's number: `contract-7/0`."""

    def __init__(self, run: Run, batch: Batch, terms: Terms) -> None:
        self._run, self._batch, self._terms = run, batch, terms

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        for position, item in enumerate(self._items()):
            if position >= len(skip) or not skip[position]:
                yield position, item

    def _items(self) -> Iterator[Item]:
        for part in self._run.passed(self._batch, self._terms):
            for n, element in enumerate(
                part.value if isinstance(part.value, list) else [part.value]
            ):
                yield Item(f"{part.id}/{n}", element)

    def fingerprint(self) -> str:
        whole = b""
        for item in self._items():
            whole = digest(whole + canonical([item.id, item.data]))
        return whole.hex()
