"""The names of a store's runs, for a shell that completes them: quick, and nothing is touched."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_NEWEST = "select name, id from runs where status <> 'removed' order by no desc limit 200"


def run_names(folder: Path, typed: str = "") -> list[str]:
    """Those that begin with `typed`, newest first: names, and ids where no name does. Nothing where
    there is no store. Raises sqlite3.Error."""
    file = folder / "journal.db"
    if not file.exists():
        return []
    alone = not file.with_name(f"{file.name}-wal").exists()
    where = f"{file.absolute().as_uri()}?{'immutable=1' if alone else 'mode=ro'}"
    with closing(sqlite3.connect(where, uri=True, timeout=0.05)) as db:
        rows = db.execute(_NEWEST).fetchall()
    names = dict.fromkeys(name for name, _ in rows if name.startswith(typed))
    return list(names) or [id for _, id in rows if id.startswith(typed)]
