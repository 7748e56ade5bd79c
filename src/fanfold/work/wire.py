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
from fanfold.work.carried import (
    CarriedFile,
    FileTrouble,
    check_files,
    is_hash,
    keep_content,
    read_input,
)
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


class WireReply(msgspec.Struct, frozen=True, omit_defaults=True, tag="reply"):
    """`contents`: what is in its files, where nobody keeps that for it."""

    reply: Reply
    contents: dict[str, bytes] = {}


_encode = msgspec.json.Encoder().encode
_request = msgspec.json.Decoder(Request).decode
_answer = msgspec.json.Decoder(WireReply | WireError).decode


def encode_request(request: Request, *, whole: bool = False) -> bytes:
    """`whole`: what is in its files goes along; else whoever gets it asks for that by hash."""
    contents = {hash: read_carried(request, hash) for hash in carried_by(request)} if whole else {}
    return _encode(msgspec.structs.replace(
        request, ask=_moved(request.ask, ""), store="", server="", contents=contents, mirror=""
    ))  # fmt: skip


def carried_by(request: Request) -> list[str]:
    """The hashes of all that goes along: files in its messages, inputs, a repository."""
    found = [one.hash for one in request.ask.attachments()]
    files = request.ask.files
    if files is not None:
        found += [one.hash for one in files.inputs if not files.shared]
        found += [files.repository.bundle] if files.repository and files.repository.bundle else []
    if not all(map(is_hash, found)):
        raise Terminal("a file of the ask has no hash", scope="ask")
    return list(dict.fromkeys(found))


def read_carried(request: Request, hash: str) -> bytes:
    """What is in one of them, on the machine that asks. Terminal: it was changed."""
    for one in request.ask.attachments():
        if one.hash == hash:
            return read_content(one)
    files = request.ask.files
    assert files is not None
    for input in files.inputs:
        if input.hash == hash:
            return _read_input(files.folder, input)
    return contents_folder(request.store).joinpath(hash).read_bytes()


def _read_input(folder: str, one: CarriedFile) -> bytes:
    try:
        return read_input(Path(folder), one)
    except FileTrouble as error:
        raise Terminal(str(error), scope="ask") from None


def contents_folder(store: str) -> Path:
    """Where what is in files is kept by hash, in the folder of a store or of a worker."""
    return Path(store, "contents")


def unpacked(request: Request, folder: Path) -> Request:
    """A request from elsewhere, with its files in a folder of this machine; those that came with it are
    put there. Terminal: a file of it would be elsewhere."""
    carried_by(request)
    try:
        if request.ask.files is not None:
            check_files(request.ask.files)
    except FileTrouble as error:
        raise Terminal(str(error), scope="ask") from None
    for hash, content in request.contents.items():
        unpack(folder, hash, content)
    return msgspec.structs.replace(request, ask=_moved(request.ask, str(folder)), contents={})


def unpack(folder: Path, hash: str, content: bytes | None) -> None:
    """MemberError: it is not there any more, or not what was sent."""
    if content is None or content_hash(content) != hash:
        raise MemberError("a file was damaged or lost on its way")
    keep_content(folder, hash, content)


def _moved(ask: Ask, folder: str) -> Ask:
    """The same, with its files in another folder, under their hashes; "": nowhere."""
    if ask.files is not None:
        here = ask.files.folder if ask.files.shared else ""
        files = msgspec.structs.replace(ask.files, folder=here, contents=folder)
        ask = msgspec.structs.replace(ask, files=files)
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


def encode_answer(answer: Reply | Exception, contents: Path | None = None) -> bytes:
    """`contents`: the folder with what is in its files, which go along. A reply that cannot be sent (half of
    a surrogate pair is no text) is an invalid one: whoever waits for it must hear of it."""
    if not isinstance(answer, Reply):
        return _encode(_error(answer))
    hashes = left_by(answer) if contents is not None else []
    carried = {one: (contents / one).read_bytes() for one in hashes}  # type: ignore[operator]
    try:
        return _encode(WireReply(answer, carried))
    except (UnicodeError, TypeError, OverflowError) as error:
        invalid = InvalidReply(f"cannot be sent: {error}")
        invalid.usage = answer.usage
        return _encode(_error(invalid))


def left_by(reply: Reply) -> list[str]:
    """The hashes of what came back: outputs, a branch."""
    found = [one.hash for one in reply.files]
    found += [reply.branch.bundle] if reply.branch is not None and reply.branch.bundle else []
    return list(dict.fromkeys(found))


def decode_answer(data: bytes, contents: Path | None = None) -> Reply | MemberError:
    """An error is returned, for the executor to raise. `contents`: where files that came along are put."""
    answer = _answer(data)
    if isinstance(answer, WireError):
        return _raised(answer)
    for hash, content in answer.contents.items() if contents is not None else ():
        unpack(contents, hash, content)  # type: ignore[arg-type]
    reply: Reply = answer.reply
    return reply


def _error(error: Exception) -> WireError:
    if not isinstance(error, MemberError):
        return WireError("MemberError", _sendable(error_text(error)), lost=True)
    kind = next(one for one in type(error).__mro__ if one.__name__ in _KINDS).__name__
    known = WireError(
        kind, _sendable(str(error)), error.lost, error.cost, error.bound, error.usage,
        retry_after=getattr(error, "retry_after", None),
    )  # fmt: skip
    if not isinstance(error, Terminal):
        return known
    return msgspec.structs.replace(
        known, scope=error.scope, too_long=error.too_long, reset_after=error.reset_after
    )


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


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
