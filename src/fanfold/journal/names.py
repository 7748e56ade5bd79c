"""The names of a store's runs, for a shell that completes them: quick, so it loads next to nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from fanfold.journal.places import scheme_of

_NEWEST = "select name, id from runs where status <> 'removed' order by no desc limit 200"


def run_names(place: str, typed: str = "") -> list[str]:
    """Those that begin with `typed`, newest first: names, and ids where no name does. Nothing where
    there is no store, or where it does not answer at once."""
    file = Path(place) / "journal.db"
    if scheme_of(place) or not file.exists():
        return []
    alone = not file.with_name(f"{file.name}-wal").exists()
    where = f"{file.absolute().as_uri()}?{'immutable=1' if alone else 'mode=ro'}"
    try:
        with closing(sqlite3.connect(where, uri=True, timeout=0.05)) as db:
            rows = db.execute(_NEWEST).fetchall()
    except sqlite3.Error:
        return []
    names = dict.fromkeys(name for name, _ in rows if name.startswith(typed))
    return list(names) or [id for _, id in rows if id.startswith(typed)]
