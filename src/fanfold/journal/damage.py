"""Failures while a store is read that come of its damage: told as such, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from fanfold.errors import FanfoldError, StoreError
from fanfold.journal.answers import DAMAGE
from fanfold.journal.contract import StoreView
from fanfold.journal.sqlite.read_tables import TableRows


@contextmanager
def damage_is_named(view: StoreView) -> Iterator[None]:
    """Rows of pages that were exchanged or have decayed hold what no row can: whoever reckons with them
    fails anywhere. Only the database itself knows whether that is why; an error over a sound store is
    a defect, and stays what it is. Looking takes long, but is done only then."""
    try:
        yield
    except FanfoldError:
        raise
    except DAMAGE as error:
        flaws = cast(TableRows, view.read).flaws()
        if not flaws:
            raise
        raise StoreError(
            f"{view.place}: damaged ({flaws[0][:200]}); restore a copy or use another --store DIR"
        ) from error
