"""What crosses an executor, as bytes: a request, and a reply or a member's error.

Whoever carries an ask out elsewhere sends these. Nothing of this machine is in them: the path of the
store stays behind, and an error is its kind, its text and what is known of its cost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from fanfold.errors import (
    CalledOff,
    InvalidReply,
    MemberError,
    RateLimited,
    Terminal,
    TimedOut,
    Transient,
)
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.files import replacing
from fanfold.work.media import content_hash, read_content
from fanfold.work.member import Request
from fanfold.work.raised import error_text

Scope = Literal["pool", "member", "ask"]
_KINDS: dict[str, type[MemberError]] = {
    one.__name__: one
    for one in (CalledOff, InvalidReply, MemberError, RateLimited, Terminal, TimedOut, Transient)
}


class WireError(msgspec.Struct, frozen=True, omit_defaults=True, tag="error"):
    """A MemberError. One of another kind is a defect of the member, which may have run."""

    kind: str
    text: str
    lost: bool = False
    cost: int | None = None
    bound: bool = False
    usage: Usage | None = None
    retry_after: float | None = None
    scope: Scope = "ask"
    too_long: bool = False
    reset_after: float | None = None


class WireReply(msgspec.Struct, frozen=True, tag="reply"):
    reply: Reply


_encode = msgspec.json.Encoder().encode
_request = msgspec.json.Decoder(Request).decode
_answer = msgspec.json.Decoder(WireReply | WireError).decode


def encode_request(request: Request) -> bytes:
    """Files go along by what is in them."""
    contents = {one.hash: read_content(one) for one in request.ask.attachments()}
    return _encode(msgspec.structs.replace(
        request, ask=_moved(request.ask, ""), store="", server="", contents=contents
    ))  # fmt: skip


def unpacked(request: Request, folder: Path) -> Request:
    """A request from elsewhere, with its files in a folder of this machine."""
    if not request.contents:
        return request
    folder.mkdir(parents=True, exist_ok=True)
    for hash, content in request.contents.items():
        if content_hash(content) != hash:
            raise Terminal("a file of the ask was damaged on its way", scope="ask")
        if not (folder / hash).exists():
            with replacing(folder / hash, mode=0o600) as stream:
                stream.write(content)
    return msgspec.structs.replace(request, ask=_moved(request.ask, str(folder)), contents={})


def _moved(ask: Ask, folder: str) -> Ask:
    """The same, with its files in another folder, under their hashes; "": nowhere."""
    if not ask.attachments():
        return ask

    def message(one: Message) -> Message:
        parts = tuple(
            msgspec.structs.replace(part, path=folder and f"{folder}/{part.hash}")
            for part in one.parts
        )
        return Message(one.role, one.content, parts)

    return msgspec.structs.replace(ask, messages=tuple(map(message, ask.messages)))


def decode_request(data: bytes) -> Request:
    return _request(data)


def encode_answer(answer: Reply | Exception) -> bytes:
    return _encode(WireReply(answer) if isinstance(answer, Reply) else _error(answer))


def decode_answer(data: bytes) -> Reply | MemberError:
    """An error is returned, for the executor to raise."""
    answer = _answer(data)
    return answer.reply if isinstance(answer, WireReply) else _raised(answer)


def _error(error: Exception) -> WireError:
    if not isinstance(error, MemberError):
        return WireError("MemberError", error_text(error), lost=True)
    kind = next(one for one in type(error).__mro__ if one.__name__ in _KINDS).__name__
    known = WireError(
        kind, str(error), error.lost, error.cost, error.bound, error.usage,
        retry_after=getattr(error, "retry_after", None),
    )  # fmt: skip
    if not isinstance(error, Terminal):
        return known
    return msgspec.structs.replace(
        known, scope=error.scope, too_long=error.too_long, reset_after=error.reset_after
    )


def _raised(record: WireError) -> MemberError:
    error: MemberError
    match _KINDS.get(record.kind, MemberError):
        case kind if kind is RateLimited:
            error = RateLimited(record.text, retry_after=record.retry_after)
        case kind if kind is Terminal:
            error = Terminal(
                record.text, scope=record.scope, too_long=record.too_long,
                reset_after=record.reset_after,
            )  # fmt: skip
        case kind if kind is TimedOut:
            error = TimedOut(record.text)
        case kind:
            error = kind(record.text)
    error.lost, error.cost, error.bound, error.usage = (
        record.lost, record.cost, record.bound, record.usage,
    )  # fmt: skip
    return error
