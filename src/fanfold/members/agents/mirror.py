"""The folder of an agent that works on another machine, followed here: so that looking at it is the same.

Files only grow; the records among them are written once. What is sent twice lands in the same place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fanfold.members.agents.dialect import LogReader
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.hosting import rotate
from fanfold.members.agents.logs import Tail, meter_files
from fanfold.members.agents.worker import (
    ERRORS,
    EXIT,
    HOST,
    LOG,
    SPEC,
    TIMES,
    Spec,
    put_file,
    read_spec,
)
from fanfold.work.file_pieces import FilePiece

MOST = 32_000_000  # bytes of a file that are followed
PIECE = 1 << 18
METER = "meter"
"""The folder with the files that say what it spends, wherever they are on its own machine."""
_FOLLOWED = (SPEC, HOST, LOG, ERRORS, TIMES, EXIT)


class Followed:
    """The far end: what has come since it last looked."""

    def __init__(self, place: Path, span: str) -> None:
        self._place, self._span = place, span
        self._sizes: dict[str, int] = {}
        self._log = Tail(place / LOG)
        self._reader: LogReader | None = None

    def news(self) -> list[FilePiece]:
        """Its exit comes last: when that is there, all is."""
        spec = read_spec(self._place)
        if spec is None or spec.span != self._span:
            return []
        *files, exit = ((name, self._place / name) for name in _FOLLOWED)
        found = [(f"{METER}/{one.name}", one) for one in self._meters(spec)]
        return [piece for name, file in (*files, *found, exit) for piece in self._grown(name, file)]

    def _meters(self, spec: Spec) -> list[Path]:
        """The program may have given its session a name of its own."""
        if not spec.meter:
            return []
        if self._reader is None:
            dialect = DIALECTS[spec.dialect]
            self._reader = dialect.reader(spec.price, resumed=spec.resumed, call=spec.call)
        if not self._reader.reading.session:
            for line in self._log.lines():
                self._reader.feed(line)
        return meter_files(spec.meter, self._reader.reading.session)

    def _grown(self, name: str, file: Path) -> Iterator[FilePiece]:
        try:
            with file.open("rb") as stream:
                stream.seek(self._sizes.get(name, 0))
                while self._sizes.get(name, 0) < MOST and (data := stream.read(PIECE)):
                    at = self._sizes.get(name, 0)
                    self._sizes[name] = at + len(data)
                    yield FilePiece(self._span, name, at, data)
        except OSError:
            return


class Mirror:
    """The near end: a folder as the agent's own, but for `where`, which says that it works elsewhere."""

    def __init__(self, place: Path, where: str, span: str) -> None:
        """What another attempt left there, as in the folder of a fleet's worker, is set aside first."""
        self._place, self._where = place, where
        spec = read_spec(place)
        if spec is not None and spec.span != span:
            shutil.rmtree(place / METER, ignore_errors=True)
            rotate(place)

    @property
    def sizes(self) -> dict[str, int]:
        found = {}
        for name in _FOLLOWED:
            if name != SPEC:
                found[name] = _size(self._place / name)
        for file in sorted((self._place / METER).glob("*")):
            found[f"{METER}/{file.name}"] = _size(file)
        if (self._place / SPEC).exists():
            found[SPEC] = MOST
        return found

    def put(self, piece: FilePiece) -> None:
        """What lies behind a gap comes again. Names are not ours: none may lead out of the folder."""
        folder, _, name = piece.name.rpartition("/")
        if folder not in ("", METER) or name in ("", ".", "..") or "\0" in name:
            return
        file = self._place / folder / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if piece.name == SPEC:
            self._put_spec(file, piece.data)
        elif piece.at <= _size(file) and (folder or name in _FOLLOWED):
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(handle, piece.data, piece.at)
            finally:
                os.close(handle)

    def _put_spec(self, file: Path, data: bytes) -> None:
        try:
            spec = msgspec.json.decode(data, type=Spec)
        except msgspec.DecodeError:
            return
        meter = str(self._place / METER / "*") if spec.meter else ""
        put_file(file, msgspec.json.encode(
            msgspec.structs.replace(spec, where=self._where, meter=meter)
        ))  # fmt: skip


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
