"""Anthropic Message Batches, as the model server has them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from fanfold.testing.batch_request import MESSAGES, BatchRequest, Refused, found_batch
from fanfold.testing.batches import ServedLine, ServerBatch, ServerBatches, page
from fanfold.testing.http import head
from fanfold.testing.wire import encode, json_response

MOST_LINES, MOST_BYTES = 100_000, 256_000_000
_CUSTOM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch


def jsonl(lines: list[bytes]) -> bytes:
    body = b"".join(line + b"\n" for line in lines)
    return head(200, "application/x-jsonl", f"content-length: {len(body)}") + body


class _MessagesLine(msgspec.Struct):
    custom_id: str
    params: msgspec.Raw


class _MessagesLines(msgspec.Struct):
    requests: list[_MessagesLine]


class AnthropicBatchWire:
    def __init__(self, batches: ServerBatches, about: BatchRequest) -> None:
        self._batches, self._about = batches, about

    def response(self) -> bytes:
        method, words = self._about.http.method, self._about.words[3:]
        match method, words:
            case "POST", []:
                return self._told(self._create())
            case "GET", []:
                return self._list()
            case "GET", [id]:
                return self._told(found_batch(self._batches, id))
            case "POST", [id, "cancel"]:
                batch = found_batch(self._batches, id)
                self._batches.cancel(batch)
                return self._told(batch)
            case "GET", [id, "results"]:
                return self._results(found_batch(self._batches, id))
            case "DELETE", [id]:
                return self._delete(found_batch(self._batches, id))
        raise Refused(404, f"{method} {self._about.http.path}")

    def _create(self) -> ServerBatch:
        body = self._about.http.body
        if len(body) > MOST_BYTES:
            raise Refused(413, "Request exceeds the maximum allowed number of bytes.")
        found = msgspec.json.decode(body, type=_MessagesLines).requests
        lines = {one.custom_id: (MESSAGES, one.params) for one in found}
        if not found or len(found) > MOST_LINES:
            raise Refused(400, "requests: there must be 1 to 100,000")
        if len(lines) < len(found):
            raise Refused(400, "requests: custom_id must be unique")
        if bad := [id for id in lines if not _CUSTOM_ID(id)]:
            raise Refused(400, f"requests: custom_id {bad[0]!r} does not match the pattern")
        return self._batches.create("msgbatch_", self._about.key, lines)

    def _told(self, batch: ServerBatch) -> bytes:
        return json_response(200, encode(self._shown(batch)))

    def _shown(self, batch: ServerBatch) -> dict[str, Any]:
        ended = batch.ended is not None
        state = "ended" if ended else "in_progress" if batch.cancelled is None else "canceling"
        counts = {
            end: batch.count(end) if ended else 0
            for end in ("succeeded", "errored", "canceled", "expired")
        }
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": state,
            "request_counts": {"processing": 0 if ended else len(batch.lines), **counts},
            "created_at": _stamp(batch.created),
            "expires_at": _stamp(batch.expires),
            "ended_at": _stamp(batch.ended),
            "cancel_initiated_at": _stamp(batch.cancelled),
            "archived_at": None,
            "results_url": f"{self._about.base}/v1/messages/batches/{batch.id}/results"
            if ended
            else None,
        }

    def _list(self) -> bytes:
        found = self._batches.newest_first("msgbatch_", self._about.key)
        if before := self._about.given("before_id"):
            ids = [one.id for one in found]
            at = ids.index(before)
            found = found[max(0, at - self._about.limit) : at]
        data, more = page(
            found, self._about.given("after_id"), self._about.limit, lambda one: one.id
        )
        ends = {
            "first_id": data[0].id if data else None,
            "last_id": data[-1].id if data else None,
        }
        return json_response(
            200, encode({"data": [self._shown(one) for one in data], "has_more": more, **ends})
        )

    def _results(self, batch: ServerBatch) -> bytes:
        if batch.ended is None:
            raise Refused(404, "the batch has no results yet")
        return jsonl([encode(_messages_result(one)) for one in batch.shuffled])

    def _delete(self, batch: ServerBatch) -> bytes:
        if batch.ended is None:
            raise Refused(400, "only batches that have ended can be deleted")
        self._batches.delete(batch)
        return json_response(200, encode({"id": batch.id, "type": "message_batch_deleted"}))


def _messages_result(one: ServedLine) -> dict[str, Any]:
    result: dict[str, Any] = {"type": one.end}
    if one.end == "succeeded":
        result["message"] = one.body
    elif one.end == "errored":
        result["error"] = one.body
    return {"custom_id": one.custom_id, "result": result}


def _stamp(at: float | None) -> str | None:
    return (
        None if at is None else datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    )
