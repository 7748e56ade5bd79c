"""Reading a log while it grows: whole lines only, each once, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fanfold.work.member import MAX_BYTES

PIECE = 1 << 20
LONGEST = MAX_BYTES  # of a line; what is longer is no event, and is passed over


class Tail:
    """`offset` is where the next whole line begins. A file that is not there yet has no lines."""

    def __init__(self, file: Path, offset: int = 0) -> None:
        self.file, self.offset = file, offset

    def lines(self) -> Iterator[bytes]:
        """The whole lines that came since the last time, without their ends."""
        for line, _ in self.placed():
            yield line

    def placed(self) -> Iterator[tuple[bytes, int]]:
        """As `lines`, each with the place in the file where it ends."""
        rest = b""
        for piece in self._pieces():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                self.offset += len(line) + 1
                yield line, self.offset
            if len(rest) > LONGEST:
                self.offset += len(rest)
                rest = b""

    def rest(self) -> Iterator[bytes]:
        """All that is left, also a last line without an end: nobody will go on with it."""
        yield from self.lines()
        left = b"".join(self._pieces())
        if left:
            self.offset += len(left)
            yield left

    def _pieces(self) -> Iterator[bytes]:
        try:
            with self.file.open("rb") as stream:
                stream.seek(self.offset)
                while piece := stream.read(PIECE):
                    yield piece
        except FileNotFoundError:
            return
