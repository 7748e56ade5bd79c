"""OpenAI Batch: lines in a file that is uploaded first. Our own name for a batch is in its metadata, so one
whose creation nobody heard of is found by that."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence

import msgspec

from fanfold.members.batch_api import MOST, BatchApi
from fanfold.work.batch import BatchLine, BatchState, LineEnd, LineResult

PATH = "/v1/chat/completions"
NAME = "fanfold"  # of our name in the metadata
_ENDED = ("failed", "completed", "expired", "cancelled")
_ENDS: dict[str, LineEnd] = {"batch_cancelled": "cancelled", "batch_expired": "expired"}


class _Counts(msgspec.Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _Flaw(msgspec.Struct):
    message: str | None = None
    line: int | None = None


class _Flaws(msgspec.Struct):
    data: list[_Flaw] | None = None


class _Batch(msgspec.Struct):
    id: str
    status: str
    created_at: float
    request_counts: _Counts | None = None
    metadata: dict[str, str] | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Flaws | None = None

    @property
    def state(self) -> BatchState:
        counts = self.request_counts or _Counts()
        name = (self.metadata or {}).get(NAME, "")
        done = counts.completed + counts.failed
        ended = self.status in _ENDED
        return BatchState(self.id, ended, counts.total, done, self.created_at, name, self._flaw())

    def _flaw(self) -> str:
        if self.status != "failed":
            return ""
        first = next(iter((self.errors or _Flaws()).data or ()), _Flaw())
        return first.message or "it failed"


class _Page(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _File(msgspec.Struct):
    id: str


class _Response(msgspec.Struct):
    status_code: int = 200
    body: msgspec.Raw = msgspec.Raw(b"{}")


class _LineError(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: _LineError | None = None


_batch = msgspec.json.Decoder(_Batch).decode
_page = msgspec.json.Decoder(_Page).decode
_file = msgspec.json.Decoder(_File).decode
_lines = msgspec.json.Decoder(_Line).decode_lines
_encode = msgspec.json.Encoder().encode


class OpenAIBatches(BatchApi):
    most_lines, most_bytes, keeps_names = 50_000, 195_000_000, True

    async def submit(self, name: str, lines: Sequence[BatchLine]) -> BatchState:
        parts = (
            b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n'
            % (id.encode(), PATH.encode(), body)
            for id, body in lines
        )
        kind, form = _form(f"{name}.jsonl", b"".join(parts))
        # An upload alone asks for nothing: whatever became of it, it may be repeated
        file = self.decoded(_file, await self.send("POST", "/files", form, {"content-type": kind}))
        wanted = {
            "input_file_id": file.id,
            "endpoint": PATH,
            "completion_window": "24h",
            "metadata": {NAME: name},
        }
        return self.created(_state, await self.send("POST", "/batches", _encode(wanted)))

    async def since(self, created: float, known: Collection[str]) -> list[BatchState]:
        found = await self.listed("/batches", "after", _page, created)
        return [one for one in found if one.id not in known]

    async def look(self, id: str) -> BatchState:
        return self.stated(_state, await self.send("GET", f"/batches/{id}"))

    async def results(self, id: str) -> list[LineResult]:
        """Of both files. A line that is in neither was not done."""
        batch: _Batch = self.decoded(_batch, await self.send("GET", f"/batches/{id}"))
        found: list[LineResult] = []
        for file in (batch.output_file_id, batch.error_file_id):
            if file:
                body = await self.send("GET", f"/files/{file}/content", most=MOST)
                found += self.decoded(_results, body)
        return found

    async def cancel(self, id: str) -> None:
        await self.send("POST", f"/batches/{id}/cancel")


def _state(body: bytes) -> BatchState:
    return _batch(body).state


def _results(body: bytes) -> list[LineResult]:
    return [_result(one) for one in _lines(body)]


def _result(line: _Line) -> LineResult:
    response, error = line.response, line.error
    if response is not None and response.status_code == 200:
        return LineResult(line.custom_id, "answered", bytes(response.body))
    if response is not None:
        return LineResult(line.custom_id, "refused", bytes(response.body), response.status_code)
    code = "" if error is None else error.code or ""
    if code in _ENDS:
        return LineResult(line.custom_id, _ENDS[code])
    told = _encode({"error": {"code": code, "message": error and error.message}})
    return LineResult(line.custom_id, "refused", told, 500)


def _form(name: str, data: bytes) -> tuple[str, bytes]:
    """A file for a batch, as a form: its type, and its bytes."""
    boundary = f"fanfold{secrets.token_hex(16)}"
    head = (
        f'--{boundary}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n'
        "content-type: application/jsonl\r\n\r\n"
    )
    end = f"\r\n--{boundary}--\r\n"
    return f"multipart/form-data; boundary={boundary}", head.encode() + data + end.encode()
