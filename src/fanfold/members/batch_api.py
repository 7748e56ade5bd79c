"""Batch services over HTTP: what both APIs share. Each request has a connection of its own: they are few,
and far between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from fanfold.errors import MemberError, Transient
from fanfold.members.endpoint import http_client
from fanfold.members.http import OK, Answer
from fanfold.members.keys import Key, scrubbed
from fanfold.members.status import ErrorRow, refused, shortened
from fanfold.work.ask import Reply
from fanfold.work.batch import BatchState, LineResult
from fanfold.work.member import Request, Traits
from fanfold.work.nesting import TooDeep
from fanfold.work.started import MAX_BYTES

MOST = 2_000_000_000  # bytes of results that are read; of all else MAX_BYTES
LEAST_SECONDS = 300.0  # for an upload, or results, of a whole batch
Read = Callable[[Request, bytes], Reply]
PAGE, PAGES = 100, 1000  # batches of a page, and pages, of a list of batches
T = TypeVar("T")


class ListedBatch(Protocol):
    @property
    def state(self) -> BatchState: ...


class ListPage(Protocol):
    """A page of a list, the newest first."""

    @property
    def data(self) -> Sequence[ListedBatch]: ...

    @property
    def has_more(self) -> bool: ...


class BatchApi:
    """One account's batches. `key` is called for every request and its value is kept nowhere."""

    def __init__(
        self,
        traits: Traits,
        base: str,
        key: Key,
        headers: Callable[[str], dict[str, str]],
        rows: tuple[ErrorRow, ...],
        whole: Read,
    ) -> None:
        self._member, self._timeout = traits.id, max(traits.timeout, LEAST_SECONDS)
        self._base, self._key, self._headers, self._rows = base, key, headers, rows
        self._whole = whole

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        more: Mapping[str, str] = {},
        most: int = MAX_BYTES,
    ) -> bytes:
        key = (self._key() or "").strip()
        http = http_client(self._member, most=most)
        await http.open()
        try:
            headers = {**self._headers(key), **more}
            url = f"{self._base}{path}"
            if method == "GET":
                answer = await http.get(url, headers, self._timeout)
            else:
                answer = await http.post(url, headers, body, self._timeout)
        finally:
            await http.close()
        if answer.status != OK:
            raise refused(self._member, answer, self._rows, key)
        return answer.body

    async def listed(
        self, path: str, after: str, page: Callable[[bytes], ListPage], created: float
    ) -> list[BatchState]:
        """The batches that were created since then, the newest first. `after`: what the service calls the
        last that was seen."""
        found: list[BatchState] = []
        last = ""
        for _ in range(PAGES):
            more = f"&{after}={last}" if last else ""
            body = await self.send("GET", f"{path}?limit={PAGE}{more}")
            states, goes_on = self.decoded(lambda body: _states(page(body)), body)
            found += [one for one in states if one.created >= created]
            if not goes_on or not states or states[-1].created < created:
                return found
            if states[-1].id == last:
                break
            last = states[-1].id
        raise Transient(f"{self._member}: the list of its batches has no end")

    def created(self, decode: Callable[[bytes], BatchState], body: bytes) -> BatchState:
        """What cannot be read says all the same that there may be a batch now."""
        try:
            return self.stated(decode, body)
        except Transient as error:
            error.lost = True
            raise

    def stated(self, decode: Callable[[bytes], BatchState], body: bytes) -> BatchState:
        """Why it was refused, if it was, without the key."""
        state = self.decoded(decode, body)
        flaw = shortened(scrubbed(state.flaw, (self._key() or "").strip())) if state.flaw else ""
        return state._replace(flaw=flaw)

    def decoded(self, decode: Callable[[bytes], T], body: bytes) -> T:
        try:
            return decode(body)
        except RecursionError:
            why = str(TooDeep())
        except (ValueError, OverflowError) as error:
            why = shortened(str(error))
        raise Transient(f"{self._member}: what its batch service says cannot be read: {why}")

    def read(self, request: Request, result: LineResult) -> Reply:
        if result.end == "answered":
            return self._whole(request, result.body)
        answer = Answer(result.status, result.body, _no_header)
        error = refused(self._member, answer, self._rows, (self._key() or "").strip())
        raise _unbilled(error)


def _states(page: ListPage) -> tuple[list[BatchState], bool]:
    return [one.state for one in page.data], page.has_more


def _unbilled(error: MemberError) -> MemberError:
    """A line that was refused took nothing, whatever such an error means elsewhere."""
    error.lost, error.cost = False, 0
    return error


def _no_header(name: str) -> Any:
    return None
