"""What a wire format is, and the response to a request: what a script says, as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import msgspec

from fanfold.testing.books import End
from fanfold.testing.http import chunk, head
from fanfold.testing.script import (
    Asked,
    AskedMessage,
    Says,
    ServedFile,
    ServedReply,
    WireName,
    answer,
)
from fanfold.work.ask import Usage

encode = msgspec.json.Encoder().encode

CREATED = 1_700_000_000
"""A fixed stamp, so that replies are the same in every run."""


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that all wires have in common, as Asked has it."""

    model: str = ""
    messages: tuple[AskedMessage, ...] = ()
    system: str = ""
    max_tokens: int | None = None
    schema: dict[str, Any] | None = None
    tool: str | None = None
    stream: bool = False
    files: tuple[ServedFile, ...] = ()

    @property
    def prompt(self) -> str:
        """The last user text."""
        return next((turn.text for turn in reversed(self.messages) if turn.role == "user"), "")


class Fault(msgspec.Struct, frozen=True):
    """An error to be written: `code` and `message` replace the usual words of the wire."""

    status: int
    code: str | None = None
    message: str | None = None


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """One API. `read` raises msgspec.ValidationError, or DecodeError, for what it would not take.

    `stream` gives the server-sent events one by one, each with its blank line. `error` and the
    others get the number of the request, for the ids in the body.
    """

    name: WireName
    read: Callable[[bytes, dict[str, str]], WireRequest]
    reply: Callable[[Asked, ServedReply], bytes]
    stream: Callable[[Asked, ServedReply], list[bytes]]
    error: Callable[[Fault, int], bytes]
    models: Callable[[list[str]], bytes]
    id_header: str


Content: TypeAlias = str | list[dict[str, Any]] | None


class WireMessage(msgspec.Struct):
    role: str
    content: Content = None

    def turn(self) -> AskedMessage:
        return AskedMessage(self.role, plain(self.content))


Messages: TypeAlias = Annotated[list[WireMessage], msgspec.Meta(min_length=1)]


def plain(content: Content) -> str:
    """The text of a message's content: a string, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or ())


def pieces(text: str, size: int = 24) -> list[str]:
    """A text as it would stream: in small pieces, at least one."""
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def json_response(status: int, body: bytes, *lines: str) -> bytes:
    return head(status, "application/json", f"content-length: {len(body)}", *lines) + body


# ── from a script's reply to a response ──────────────────────────────────────────────────────


class Response(msgspec.Struct, frozen=True):
    """`usage` None: nothing was produced, so nothing is billed. Not `whole`: the connection is cut
    after these bytes.
    """

    end: End
    status: int
    usage: Usage | None
    sent: bytes
    whole: bool = True


def respond(wire: Wire, asked: Asked, says: Says, cached: tuple[int, int] = (0, 0)) -> Response:
    if says.status != 200:
        return _dropped(says, _error(wire, asked, says))
    made = answer(asked, says, cached)
    sent = _stream(wire, asked, says, made) if asked.stream else _reply(wire, asked, says, made)
    end: End = "broken" if says.broken else "answered"
    return _dropped(says, Response(end, 200, made.usage, sent))


def refuse(wire: Wire, n: int, status: int, message: str) -> Response:
    body = wire.error(Fault(status, None, message), n)
    return Response("refused", status, None, json_response(status, body, _id_line(wire, n)))


def list_models(wire: Wire, asked: Asked, says: Says, names: list[str]) -> Response:
    """Of the script only errors and faults count here; the list itself is free."""
    if says.status != 200:
        return _dropped(says, _error(wire, asked, says))
    body = wire.models(names)
    return _dropped(says, Response("answered", 200, None, json_response(200, body)))


def _id_line(wire: Wire, n: int) -> str:
    return f"{wire.id_header}: req_{n}"


def _error(wire: Wire, asked: Asked, says: Says) -> Response:
    lines = [_id_line(wire, asked.n)]
    if says.retry_after is not None:
        lines.append(f"retry-after: {says.retry_after:g}")
    if says.broken:
        body = b"<html><body>upstream error</body></html>"
        sent = head(says.status, "text/html", f"content-length: {len(body)}", *lines) + body
    else:
        body = wire.error(Fault(says.status, says.code, says.message), asked.n)
        sent = json_response(says.status, body, *lines)
    produced = answer(asked, says).usage if says.billed else None
    return Response("refused", says.status, produced, sent)


def _reply(wire: Wire, asked: Asked, says: Says, made: ServedReply) -> bytes:
    body = wire.reply(asked, made)
    if says.broken:
        body = body[: len(body) // 2]
    return json_response(200, body, _id_line(wire, asked.n))


def _stream(wire: Wire, asked: Asked, says: Says, made: ServedReply) -> bytes:
    events = [b'data: {"broken": \n\n'] if says.broken else wire.stream(asked, made)
    lines = ("transfer-encoding: chunked", "cache-control: no-cache", _id_line(wire, asked.n))
    return b"".join((head(200, "text/event-stream", *lines), *map(chunk, events), chunk(b"")))


def _dropped(says: Says, response: Response) -> Response:
    if says.drop is None:
        return response
    sent = half_of(response.sent) if says.drop == "mid" else b""
    return msgspec.structs.replace(response, end="dropped", sent=sent, whole=False)


def half_of(sent: bytes) -> bytes:
    """The head of a response, and half of its body."""
    body = sent.index(b"\r\n\r\n") + 4
    return sent[: (body + len(sent)) // 2]
