"""Whole tables."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.errors import StoreError
from fanfold.journal.sqlite.read_tables import TableRows


class Page:
    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self.rows = rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self.rows)


class OutOfOrder(TableRows):
    """A damaged tree: behind the second row there is the first one again."""

    def _execute(self, question: str, given: Any = ()) -> Any:  # type: ignore[override]
        behind = {(): 1, (1,): 2, (2,): 1}[tuple(given)]
        return Page((behind, 0.0))


def test_a_table_that_is_out_of_order_is_damage_and_is_not_read_for_ever() -> None:
    rows = OutOfOrder().rows("beats")
    with pytest.raises(StoreError, match="beats is damaged: out of order; restore a copy"):
        list(rows)
