"""What a batch service of the model server does: lines are answered later, at half the price, in any order.

A batch ends when all of its lines have: answered, refused, cancelled or expired. With a folder, batches
and files are kept when the server ends, and go on when the next one starts there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from fanfold.testing.script import Says

Ending = Literal["", "completed", "expired", "cancelled", "failed"]
ServedEnd = Literal["succeeded", "errored", "canceled", "expired"]
_encode = msgspec.json.Encoder().encode
T = TypeVar("T")


class BatchTimes(NamedTuple):
    """How long things take, in seconds: `latency` of a line whose script names none, `cancelling` until a
    batch whose end is wanted ends, `expires` until it ends by itself. `folder`: where all is kept."""

    latency: float = 0.0
    cancelling: float = 0.0
    expires: float = 86_400.0
    folder: Path | None = None


class ServedLine(msgspec.Struct, frozen=True):
    custom_id: str
    end: ServedEnd
    status: int = 200
    body: msgspec.Raw = msgspec.Raw(b"null")


class ServerFile(msgspec.Struct, frozen=True):
    id: str
    name: str
    purpose: str
    created: int
    data: bytes = b""


class ServerBatch(msgspec.Struct):
    """`lines`: each custom_id with the path and the body of its request."""

    id: str
    key: str
    created: float
    expires: float
    lines: dict[str, tuple[str, msgspec.Raw]]
    about: dict[str, Any] = {}
    results: dict[str, ServedLine] = {}
    cancelled: float | None = None
    ended: float | None = None
    ending: Ending = ""
    errors: list[dict[str, Any]] = []

    def count(self, end: ServedEnd) -> int:
        return sum(one.end == end for one in self.results.values())

    @property
    def shuffled(self) -> list[ServedLine]:
        """Not in the order of the lines, but the same each time."""
        return sorted(
            self.results.values(), key=lambda one: blake2b(one.custom_id.encode()).digest()
        )


Read = Callable[[str, str, bytes], Says]
Make = Callable[[ServerBatch, str, Says], ServedLine]


class ServerBatches:
    """All batches and files of a server. `read` asks the script about a line, `make` bills and writes its
    result."""

    def __init__(self, service: BatchTimes, read: Read, make: Make) -> None:
        self._service, self._read, self._make = service, read, make
        self._folder = service.folder
        self.batches: dict[str, ServerBatch] = {}
        self.files: dict[str, ServerFile] = {}
        self._timers: dict[tuple[str, str], tuple[asyncio.TimerHandle, Says]] = {}

    # ── beginning and end of the server ──

    def start(self) -> None:
        """Go on with what the folder has."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(self._folder.glob("*.file")):
            found = msgspec.msgpack.decode(file.read_bytes(), type=ServerFile)
            self.files[found.id] = found
        kept = [
            msgspec.json.decode(file.read_bytes(), type=ServerBatch)
            for file in self._folder.glob("*.batch")
        ]
        for batch in sorted(kept, key=lambda one: one.created):
            for line in _whole_lines(self._folder / f"{batch.id}.results"):
                result = msgspec.json.decode(line, type=ServedLine)
                batch.results[result.custom_id] = result
            self.batches[batch.id] = batch
            if not batch.ended:
                self._schedule(batch)

    def close(self) -> None:
        for timer, _ in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def release(self) -> None:
        """All lines that are under way are done now, but for those that hang."""
        for (id, name), (timer, says) in list(self._timers.items()):
            if name and not says.hang:
                timer.cancel()
                self._done(self.batches[id], name, says)

    # ── batches ──

    def create(
        self, prefix: str, key: str, lines: dict[str, tuple[str, msgspec.Raw]], **about: Any
    ) -> ServerBatch:
        now = time.time()
        id = f"{prefix}{secrets.token_hex(12)}"
        batch = ServerBatch(id, key, now, now + self._service.expires, lines, about)
        self.batches[id] = batch
        self._keep(batch)
        self._schedule(batch)
        return batch

    def fail(self, batch: ServerBatch, errors: list[dict[str, Any]]) -> None:
        """It is not begun: something is wrong with its lines."""
        batch.errors = errors
        self._end(batch, "failed")

    def cancel(self, batch: ServerBatch) -> None:
        """Lines that are not done by its end will not be."""
        if batch.ended is None and batch.cancelled is None:
            batch.cancelled = time.time()
            self._keep(batch)
            self._later(batch, self._service.cancelling, "canceled")

    def delete(self, batch: ServerBatch) -> None:
        del self.batches[batch.id]
        if self._folder is not None:
            for ending in ("batch", "results"):
                (self._folder / f"{batch.id}.{ending}").unlink(missing_ok=True)

    def newest_first(self, prefix: str, key: str) -> list[ServerBatch]:
        mine = [
            one for one in self.batches.values() if one.id.startswith(prefix) and one.key == key
        ]
        return mine[::-1]

    def _schedule(self, batch: ServerBatch) -> None:
        """Each line by its own time; the whole at its end, whatever has become of them."""
        for custom_id, (path, body) in batch.lines.items():
            if custom_id not in batch.results:
                says = self._read(path, custom_id, bytes(body))
                wait = self._service.latency if says.latency is None else says.latency
                self._line(batch, custom_id, says, wait)
        left = batch.expires - time.time()
        self._later(batch, left, "expired")
        if batch.cancelled is not None:
            self._later(batch, self._service.cancelling, "canceled")
        elif not batch.lines:
            self._end(batch, "completed")

    def _line(self, batch: ServerBatch, custom_id: str, says: Says, wait: float) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(
            1e9 if says.hang else max(0.0, wait), self._done, batch, custom_id, says
        )
        self._timers[batch.id, custom_id] = timer, says

    def _done(self, batch: ServerBatch, custom_id: str, says: Says) -> None:
        self._timers.pop((batch.id, custom_id), None)
        self._file(batch, self._make(batch, custom_id, says))
        if len(batch.results) == len(batch.lines):
            self._end(batch, "completed" if batch.cancelled is None else "cancelled")

    def _later(self, batch: ServerBatch, seconds: float, end: ServedEnd) -> None:
        loop = asyncio.get_running_loop()
        name = "" if end == "expired" else " "
        timer = loop.call_later(max(0.0, seconds), self._break_off, batch, end)
        self._timers[batch.id, name] = timer, Says(hang=True)

    def _break_off(self, batch: ServerBatch, end: ServedEnd) -> None:
        if batch.ended is None:
            for custom_id in [one for one in batch.lines if one not in batch.results]:
                self._file(batch, ServedLine(custom_id, end))
            self._end(batch, "expired" if end == "expired" else "cancelled")

    def _end(self, batch: ServerBatch, ending: Ending) -> None:
        for at in [at for at in self._timers if at[0] == batch.id]:
            self._timers.pop(at)[0].cancel()
        batch.ended, batch.ending = time.time(), ending
        self._keep(batch)

    # ── files ──

    def add_file(self, name: str, purpose: str, data: bytes) -> ServerFile:
        file = ServerFile(f"file-{secrets.token_hex(12)}", name, purpose, int(time.time()), data)
        self.files[file.id] = file
        if self._folder is not None:
            (self._folder / f"{file.id}.file").write_bytes(msgspec.msgpack.encode(file))
        return file

    def remove_file(self, file: ServerFile) -> None:
        del self.files[file.id]
        if self._folder is not None:
            (self._folder / f"{file.id}.file").unlink(missing_ok=True)

    # ── what is kept ──

    def _file(self, batch: ServerBatch, result: ServedLine) -> None:
        batch.results[result.custom_id] = result
        if self._folder is not None:
            with (self._folder / f"{batch.id}.results").open("ab") as out:
                out.write(_encode(result) + b"\n")

    def _keep(self, batch: ServerBatch) -> None:
        """Without its results, which have a file of their own."""
        if self._folder is not None:
            part = self._folder / f"{batch.id}.part"
            part.write_bytes(_encode(msgspec.structs.replace(batch, results={})))
            part.replace(self._folder / f"{batch.id}.batch")


def page(found: list[T], after: str, limit: int, id: Callable[[T], str]) -> tuple[list[T], bool]:
    """Those behind the one with the id `after`, and whether there are more."""
    ids = [id(one) for one in found]
    first = ids.index(after) + 1 if after in ids else 0
    return found[first : first + limit], len(found) > first + limit


def _whole_lines(file: Path) -> Iterator[bytes]:
    if file.exists():
        yield from file.read_bytes().split(b"\n")[:-1]
