"""Where runs are kept: the option, and looking into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from fanfold.errors import BadInput
from fanfold.journal.facts import RunRecord
from fanfold.journal.journal import Archive
from fanfold.run.inherited import inherited

store_option = click.option(
    "--store", default=lambda: inherited().store, metavar="DIR", help="Where runs are kept."
)


@contextmanager
def opened(store: str) -> Iterator[Archive]:
    archive = Archive(store)
    try:
        yield archive
    finally:
        archive.close()


def find_run(archive: Archive, name: str) -> RunRecord:
    record = archive.read.find(name)
    if record is None:
        known = ", ".join(archive.read.names()[:8]) or "none yet"
        raise BadInput(f"no run {name!r}; there are: {known}")
    return record
