"""What is kept of a run beside its replies: what is in the files that go with its asks."""

from __future__ import annotations

import msgspec


class KeepContent(msgspec.Struct, frozen=True, gc=False, tag=True, array_like=True):
    """A file, by the name that the run knows. `content` is empty where the store has it already, once
    for all runs, under its hash. One of the facts (`journal/facts`)."""

    run: int
    name: str
    hash: bytes
    content: bytes
