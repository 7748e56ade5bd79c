"""What goes out for one request, decided as a whole before anything is sent."""

from __future__ import annotations

import msgspec

from fanfold.testing.books import End
from fanfold.testing.http import chunk, head
from fanfold.testing.script import Answer, Asked, Says, answer
from fanfold.testing.wire import Fault, Wire, json_response
from fanfold.work.ask import Usage


class Response(msgspec.Struct, frozen=True):
    """`usage` None: nothing was produced, so nothing is billed. Not `whole`: the connection is cut
    after these bytes.
    """

    end: End
    status: int
    usage: Usage | None
    sent: bytes
    whole: bool = True


def respond(wire: Wire, asked: Asked, says: Says) -> Response:
    if says.status != 200:
        return _dropped(says, _error(wire, asked, says))
    made = answer(asked, says)
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


def _reply(wire: Wire, asked: Asked, says: Says, made: Answer) -> bytes:
    body = wire.reply(asked, made)
    if says.broken:
        body = body[: len(body) // 2]
    return json_response(200, body, _id_line(wire, asked.n))


def _stream(wire: Wire, asked: Asked, says: Says, made: Answer) -> bytes:
    events = [b'data: {"broken": \n\n'] if says.broken else wire.stream(asked, made)
    lines = ("transfer-encoding: chunked", "cache-control: no-cache", _id_line(wire, asked.n))
    return b"".join((head(200, "text/event-stream", *lines), *map(chunk, events), chunk(b"")))


def _dropped(says: Says, response: Response) -> Response:
    if says.drop is None:
        return response
    sent = b""
    if says.drop == "mid":
        body = response.sent.index(b"\r\n\r\n") + 4
        sent = response.sent[: (body + len(response.sent)) // 2]
    return msgspec.structs.replace(response, end="dropped", sent=sent, whole=False)
