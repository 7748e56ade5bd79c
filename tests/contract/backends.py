"""The backends of the store, as the suite sees them: how one is opened, and what a crash leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from fanfold.journal import memory
from fanfold.journal.contract import Store
from fanfold.journal.opening import open_store
from tests.postgres import server

_numbers = count()


class Backend(NamedTuple):
    """`image` copies a store as a crash at this moment would leave it: its sessions are dead."""

    name: str
    place: str
    image: Callable[[], str]
    shared: bool
    """Whether another process can open it."""

    def open(self, place: str | None = None, **how: Any) -> Store:
        return open_store(place or self.place, **{"thread": False, **how})


def in_memory(folder: Path) -> Backend:
    place = f"memory:{folder}"

    def image() -> str:
        copy = f"{place}-{next(_numbers)}"
        memory.copy(place, copy)
        return copy

    return Backend("memory", place, image, shared=False)


def on_disk(folder: Path) -> Backend:
    place = folder / "store"

    def image() -> str:
        copy = folder / f"image-{next(_numbers)}"
        shutil.copytree(place, copy)
        return str(copy)

    return Backend("sqlite", str(place), image, shared=True)


def on_server(folder: Path) -> Backend:
    """Skips the test where there is no PostgreSQL."""
    running = server()
    place = running.place()

    def image() -> str:
        copy = running.place()
        old, new = (one.rpartition("=")[2] for one in (place, copy))
        found = running.run(f"select tablename from pg_tables where schemaname = '{old}'")
        tables = [table for (table,) in found]
        running.run(f"create schema {new}; " + "; ".join(
            f"create table {new}.{t} (like {old}.{t} including all);"
            f" insert into {new}.{t} overriding system value select * from {old}.{t}" for t in tables
        ) + f"; delete from {new}.sessions")  # fmt: skip
        return copy

    return Backend("postgresql", place, image, shared=True)


BACKENDS = {"memory": in_memory, "sqlite": on_disk, "postgresql": on_server}
