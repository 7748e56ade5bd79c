"""What a wire format is: how a request is read, and how replies and errors are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import msgspec

from fanfold.testing.http import head
from fanfold.testing.script import Answer, Asked, Turn, WireName

encode = msgspec.json.Encoder().encode

CREATED = 1_700_000_000
"""A fixed stamp, so that replies are the same in every run."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that all wires have in common, as Asked has it."""

    model: str = ""
    messages: tuple[Turn, ...] = ()
    system: str = ""
    max_tokens: int | None = None
    schema: dict[str, Any] | None = None
    tool: str | None = None
    stream: bool = False

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
    read: Callable[[bytes, dict[str, str]], Reading]
    reply: Callable[[Asked, Answer], bytes]
    stream: Callable[[Asked, Answer], list[bytes]]
    error: Callable[[Fault, int], bytes]
    models: Callable[[list[str]], bytes]
    id_header: str


Content: TypeAlias = str | list[dict[str, Any]] | None


class Message(msgspec.Struct):
    role: str
    content: Content = None

    def turn(self) -> Turn:
        return Turn(self.role, plain(self.content))


Messages: TypeAlias = Annotated[list[Message], msgspec.Meta(min_length=1)]


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
