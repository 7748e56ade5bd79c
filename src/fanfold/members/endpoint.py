"""One URL of one account: adds the key, and turns what is no answer into a MemberError."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from fanfold.errors import InvalidReply, Terminal, Transient
from fanfold.members.http import Answer, Http
from fanfold.members.secrets import scrubbed
from fanfold.members.status import Row, refused, shortened, told
from fanfold.work.member import Traits
from fanfold.work.nesting import TooDeep

Key = Callable[[], str | None]
T = TypeVar("T")


class Endpoint:
    """`key` is called for every request and its value is kept nowhere; `headers` puts it in."""

    def __init__(
        self,
        traits: Traits,
        url: str,
        key: Key,
        headers: Callable[[str], dict[str, str]],
        rows: tuple[Row, ...],
        *,
        direct: bool = False,
    ) -> None:
        self._member, self._timeout = traits.id, traits.timeout
        self._url, self._key, self._headers, self._rows = url, key, headers, rows
        self._http = Http(traits.id, direct=direct, most=traits.max_bytes)

    async def open(self) -> None:
        await self._http.open()

    async def close(self) -> None:
        await self._http.close()

    async def ask(self, body: bytes) -> bytes:
        key = self._resolved()
        headers = self._headers(key)
        answer = await self._http.post(self._url, headers, body, self._timeout)
        return self._checked(answer, key)

    async def listen(self, body: bytes, each: Callable[[bytes], None]) -> bytes | None:
        """Calls `each` with every event's data. The result is None then, or the whole answer if the
        server did not stream.
        """
        key = self._resolved()
        headers = self._headers(key)
        answer = await self._http.stream(self._url, headers, body, self._timeout, each)
        return None if answer.events else self._checked(answer, key)

    def read(self, decode: Callable[[bytes], T], body: bytes) -> T:
        try:
            return decode(body)
        except RecursionError:
            raise self.unreadable(str(TooDeep())) from None
        except ValueError as error:
            raise self.unreadable(str(error)) from None

    def unreadable(self, why: str) -> InvalidReply:
        said = shortened(scrubbed(why, self._resolved()))
        return InvalidReply(f"{self._member}: the answer cannot be read: {said}")

    def broke_off(self, error: object = None) -> Transient:
        """A stream that ended before the reply did, or with an error in it: it may be billed."""
        if error is None:
            return Transient(f"{self._member}: the stream ended before the reply did", lost=True)
        code, message = told(msgspec.json.encode(error))
        why = shortened(scrubbed(message or code, self._resolved()))
        return Transient(f"{self._member}: failed in mid-reply: {why}", lost=True)

    def _resolved(self) -> str:
        key = (self._key() or "").strip()
        if key.isprintable():
            return key
        raise Terminal(f"{self._member}: the key has a character no key can have", scope="pool")

    def _checked(self, answer: Answer, key: str) -> bytes:
        if answer.status == 200:
            return answer.body
        raise refused(self._member, answer, self._rows, key)
