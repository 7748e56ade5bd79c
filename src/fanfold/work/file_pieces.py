"""Files that grow on one machine and are followed on another: the pieces that cross."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class FilePiece(msgspec.Struct, frozen=True):
    """Bytes of a file of the agent that works for an attempt, `at` that place in it."""

    span: str
    name: str
    at: int
    data: bytes


FileSizes = Mapping[str, Mapping[str, int]]
"""By span and name, how much of a file is there already."""
