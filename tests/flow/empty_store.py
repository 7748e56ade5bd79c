"""The empty store that new ones are copies of: it is there when this was imported, and in every fork."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from fanfold.journal.sqlite.schema import migrate

with closing(sqlite3.connect(":memory:")) as db:
    migrate(db)
