"""A streamed answer: what a member says is handed on while it speaks, and then how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fanfold.faces.serve.wire import DONE, Chat, Head, Refused, Said, event
from fanfold.work.member import Event

BROKE_OFF = (
    "the answer broke off and was begun anew by another try; ask again, the whole one is on record"
)


class Feed:
    """Collects what is told until it is fetched, so a slow reader holds nobody up.

    After another try has begun, what was handed on already cannot be taken back: then nothing more
    is, and the end shows whether the whole answer begins with it.
    """

    def __init__(self) -> None:
        self.sent = ""
        self._waiting: list[str] = []
        self._stuck = False
        self._news = asyncio.Event()

    def tell(self, happening: Event) -> None:
        if happening.kind == "note":
            self._stuck = bool(self.sent or self._waiting)
        elif happening.kind == "delta" and happening.text and not self._stuck:
            self._waiting.append(happening.text)
            self._news.set()

    async def next(self, work: asyncio.Task[Said]) -> str:
        """The next piece; empty when the answer has ended and all was fetched."""
        if not self._waiting and not work.done():
            self._news.clear()
            news = asyncio.ensure_future(self._news.wait())
            try:
                await asyncio.wait((work, news), return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
        piece, self._waiting = "".join(self._waiting), []
        self.sent += piece
        return piece


async def events(
    head: Head, chat: Chat, feed: Feed, work: asyncio.Task[Said]
) -> AsyncIterator[bytes]:
    """The server-sent events of an answer. Raises Refused only before the first of them; later an
    error is an event too, and the last one."""
    piece = await feed.next(work)
    if not piece:
        said = await asyncio.shield(work)  # nothing was handed on yet, so it may still be refused
    yield head.piece({"role": "assistant", "content": ""})
    while piece:
        yield head.piece({"content": piece})
        piece = await feed.next(work)
    try:
        said = await asyncio.shield(work)
    except Refused as error:
        yield event(error.body)
        return
    for last in _ending(head, chat, feed.sent, said):
        yield last


def _ending(head: Head, chat: Chat, sent: str, said: Said) -> list[bytes]:
    """What is left to say, and how it ended."""
    if not said.text.startswith(sent):
        return [event(Refused(BROKE_OFF, status=502, code="broke_off").body)]
    last: list[bytes] = []
    if said.text != sent:
        part = "refusal" if said.refused else "content"
        last.append(head.piece({part: said.text[len(sent) :]}))
    finish = "content_filter" if said.refused and sent else said.finish
    last.append(head.piece({}, finish, fanfold=said.about))
    if chat.include_usage:
        last.append(head.account(said.usage))
    return [*last, DONE]
