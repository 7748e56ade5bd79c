"""A run's end of a queue over a connection: each call as a frame, and what comes back.

A frame is its length in four bytes and a record. Before the first one the far end may say anything, as
the shells of some users do; MARK ends that. Every call can be repeated after a lost connection.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import msgspec

from fanfold.journal.queue import MessageState, QueuedAsk, QueueState, WorkerOffer
from fanfold.journal.sqlite.queue import FolderQueue
from fanfold.work.file_pieces import FilePiece

MARK = b"\x00fanfold worker\x00"
MOST = 256_000_000  # bytes of a frame; a longer one is not ours
_NOISE = 1_000_000  # bytes before the mark


class Rejoin(msgspec.Struct, frozen=True, tag=True):
    """The session that this run's end had over an earlier connection."""

    before: str


class Put(msgspec.Struct, frozen=True, tag=True):
    asks: tuple[QueuedAsk, ...]


class Own(msgspec.Struct, frozen=True, tag=True):
    spans: tuple[str, ...]


class Answers(msgspec.Struct, frozen=True, tag=True):
    but: tuple[str, ...]


class Forget(msgspec.Struct, frozen=True, tag=True):
    spans: tuple[str, ...]


class Cancel(msgspec.Struct, frozen=True, tag=True):
    spans: tuple[str, ...]
    message: str


class Withdraw(msgspec.Struct, frozen=True, tag=True):
    spans: tuple[str, ...]


class HeldBy(msgspec.Struct, frozen=True, tag=True):
    pass


class Dead(msgspec.Struct, frozen=True, tag=True):
    workers: tuple[str, ...]


class HasTrace(msgspec.Struct, frozen=True, tag=True):
    span: str


class Shown(msgspec.Struct, frozen=True, tag=True):
    sizes: dict[str, dict[str, int]]


class Lacking(msgspec.Struct, frozen=True, tag=True):
    hashes: tuple[str, ...]


class Bring(msgspec.Struct, frozen=True, tag=True):
    hash: str
    content: bytes


class Content(msgspec.Struct, frozen=True, tag=True):
    hash: str
    span: str


class GiveMessage(msgspec.Struct, frozen=True, tag=True):
    span: str
    number: int
    text: str
    last: bool


class State(msgspec.Struct, frozen=True, tag=True):
    pass


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The near end is still there."""


Call: TypeAlias = (
    Rejoin | Put | Own | Answers | Forget | Cancel | Withdraw | HeldBy | Dead | HasTrace | Shown | Lacking
    | Bring | Content | GiveMessage | State | Alive
)  # fmt: skip
RETURNS: dict[type[Call], Any] = {
    Rejoin: None, Put: frozenset[str], Own: None, Answers: list[tuple[str, bytes]], Forget: None,
    Cancel: list[str], Withdraw: list[str], HeldBy: dict[str, list[str]], Dead: set[str], HasTrace: bool,
    Shown: list[FilePiece], Lacking: list[str], Bring: None, Content: bytes | None, GiveMessage: MessageState,
    State: QueueState, Alive: None,
}  # fmt: skip


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The first frame of the far end."""

    identity: str
    session: str
    worker: WorkerOffer


class CallFrame(msgspec.Struct, frozen=True, tag=True):
    number: int
    call: Call


class Returned(msgspec.Struct, frozen=True, tag=True):
    number: int
    value: Any = None
    error: str = ""


class Told(msgspec.Struct, frozen=True, tag=True):
    """Something may have changed. `draining`: the worker takes nothing more."""

    draining: bool = False


_encode = msgspec.msgpack.Encoder().encode
_asked = msgspec.msgpack.Decoder(CallFrame).decode
_said = msgspec.msgpack.Decoder(Hello | Returned | Told).decode


def frame(record: Hello | CallFrame | Returned | Told) -> bytes:
    data = _encode(record)
    return len(data).to_bytes(4, "big") + data


async def read_call(stream: asyncio.StreamReader) -> CallFrame:
    return _asked(await _read(stream))


async def read_said(stream: asyncio.StreamReader) -> Hello | Returned | Told:
    said: Hello | Returned | Told = _said(await _read(stream))
    return said


async def past_the_mark(stream: asyncio.StreamReader) -> None:
    """Raises EOFError when it never comes."""
    seen = b""
    while not seen.endswith(MARK):
        if len(seen) > _NOISE:
            raise EOFError("no mark")
        seen += await stream.readexactly(1)


async def _read(stream: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await stream.readexactly(4), "big")
    if size > MOST:
        raise EOFError("not a frame")
    return await stream.readexactly(size)


async def carry_out(queue: FolderQueue, call: Call) -> Any:
    match call:
        case Rejoin(before):
            return await queue.rejoin(before)
        case Put(asks):
            return await queue.put(asks)
        case Own(spans):
            return await queue.own(spans)
        case Answers(but):
            return await queue.answers(but)
        case Forget(spans):
            return await queue.forget(spans)
        case Cancel(spans, message):
            return await queue.cancel(spans, message)
        case Withdraw(spans):
            return await queue.withdraw(spans)
        case HeldBy():
            return await queue.held_by()
        case Dead(workers):
            return await queue.dead(workers)
        case HasTrace(span):
            return await queue.has_trace(span)
        case Shown(sizes):
            return await queue.shown(sizes)
        case Lacking(hashes):
            return await queue.lacking(hashes)
        case Bring(hash, content):
            return await queue.bring(hash, content)
        case Content(hash, span):
            return await queue.content(hash, span)
        case GiveMessage(span, number, text, last):
            return await queue.message(span, number, text, last=last)
        case State():
            return await asyncio.to_thread(queue.state)
        case Alive():
            return None


def returned(call: Call, value: Any) -> Any:
    """A value as it left the far end, from the plain data that crossed."""
    return msgspec.convert(value, RETURNS[type(call)])
