"""Anthropic Message Batches. The service knows no names: what was submitted when nobody heard the answer is
found by its time and the number of its lines, and known for certain by the ids in its results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from fanfold.members.batch_api import MOST, BatchApi
from fanfold.work.batch import BatchLine, BatchState, LineEnd, LineResult

_STATUS = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402,
    "permission_error": 403, "not_found_error": 404, "request_too_large": 413,
    "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
}  # fmt: skip
_ENDS: dict[str, LineEnd] = {
    "succeeded": "answered", "errored": "refused", "canceled": "cancelled", "expired": "expired",
}  # fmt: skip


class _Counts(msgspec.Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class _Batch(msgspec.Struct):
    id: str
    processing_status: str
    created_at: str
    request_counts: _Counts

    @property
    def state(self) -> BatchState:
        counts = msgspec.structs.astuple(self.request_counts)
        created = datetime.fromisoformat(self.created_at.replace("Z", "+00:00")).timestamp()
        ended = self.processing_status == "ended"
        return BatchState(self.id, ended, sum(counts), sum(counts[1:]), created)


class _Page(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"{}")


class _Line(msgspec.Struct):
    custom_id: str
    result: _Result


class _Typed(msgspec.Struct):
    type: str = ""


class _Error(msgspec.Struct):
    error: _Typed = msgspec.field(default_factory=_Typed)


_batch = msgspec.json.Decoder(_Batch).decode
_page = msgspec.json.Decoder(_Page).decode
_lines = msgspec.json.Decoder(_Line).decode_lines
_error = msgspec.json.Decoder(_Error).decode


class AnthropicBatches(BatchApi):
    most_lines, most_bytes, keeps_names = 100_000, 250_000_000, False

    async def submit(self, name: str, lines: Sequence[BatchLine]) -> BatchState:
        parts = (b'{"custom_id":"%b","params":%b}' % (id.encode(), body) for id, body in lines)
        body = b'{"requests":[' + b",".join(parts) + b"]}"
        return self.created(_state, await self.send("POST", "/messages/batches", body))

    async def since(self, created: float, known: Collection[str]) -> list[BatchState]:
        found = await self.listed("/messages/batches", "after_id", _page, created)
        return [one for one in found if one.id not in known]

    async def look(self, id: str) -> BatchState:
        return self.decoded(_state, await self.send("GET", f"/messages/batches/{id}"))

    async def results(self, id: str) -> list[LineResult]:
        body = await self.send("GET", f"/messages/batches/{id}/results", most=MOST)
        return self.decoded(_results, body)

    async def cancel(self, id: str) -> None:
        await self.send("POST", f"/messages/batches/{id}/cancel")


def _state(body: bytes) -> BatchState:
    return _batch(body).state


def _results(body: bytes) -> list[LineResult]:
    return [_result(one) for one in _lines(body)]


def _result(line: _Line) -> LineResult:
    """What is not known, now, is an end without an answer."""
    end = _ENDS.get(line.result.type, "expired")
    if end == "refused":
        error = bytes(line.result.error)
        return LineResult(line.custom_id, end, error, _status(error))
    return LineResult(line.custom_id, end, bytes(line.result.message))


def _status(error: bytes) -> int:
    try:
        return _STATUS.get(_error(error).error.type, 500)
    except (ValueError, RecursionError):  # whatever it is, the line was refused
        return 500
