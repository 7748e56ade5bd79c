"""OpenAI Files and Batch, as the model server has them."""

from __future__ import annotations

import time
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

import msgspec

from fanfold.testing.batch_request import COMPLETIONS, BatchRequest, Refused, found_batch
from fanfold.testing.batches import ServedLine, ServerBatch, ServerBatches, ServerFile, page
from fanfold.testing.http import HttpRequest, head
from fanfold.testing.wire import encode, json_response

MOST_LINES, MOST_BYTES = 50_000, 200_000_000


class OpenAIFilesWire:
    def __init__(self, batches: ServerBatches, about: BatchRequest) -> None:
        self._batches, self._about = batches, about

    def response(self) -> bytes:
        method, words = self._about.http.method, self._about.words[2:]
        match method, words:
            case "POST", []:
                return json_response(200, encode(_shown_file(self._upload())))
            case "GET", []:
                return self._list()
            case "GET", [id]:
                return json_response(200, encode(_shown_file(self._found(id))))
            case "GET", [id, "content"]:
                return self._content(id)
            case "DELETE", [id]:
                self._batches.remove_file(self._found(id))
                return json_response(200, encode({"id": id, "object": "file", "deleted": True}))
        raise Refused(404, f"{method} {self._about.http.path}")

    def _found(self, id: str) -> ServerFile:
        if id not in self._batches.files:
            raise Refused(404, f"No such File object: {id}")
        return self._batches.files[id]

    def _content(self, id: str) -> bytes:
        data = self._found(id).data
        return head(200, "application/octet-stream", f"content-length: {len(data)}") + data

    def _upload(self) -> ServerFile:
        fields = _form(self._about.http)
        if fields.get("purpose", ("", b""))[1] != b"batch" or "file" not in fields:
            raise Refused(400, "a file with the purpose `batch` is needed")
        name, data = fields["file"]
        if len(data) > MOST_BYTES:
            raise Refused(413, "the file is larger than 200 MB")
        return self._batches.add_file(name, "batch", data)

    def _list(self) -> bytes:
        found = list(self._batches.files.values())[::-1]
        if purpose := self._about.given("purpose"):
            found = [one for one in found if one.purpose == purpose]
        data, more = page(found, self._about.given("after"), self._about.limit, lambda one: one.id)
        shown = [_shown_file(one) for one in data]
        return json_response(200, encode({"object": "list", "data": shown, "has_more": more}))


def _shown_file(file: ServerFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": len(file.data),
        "created_at": file.created,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
    }


def _form(request: HttpRequest) -> dict[str, tuple[str, bytes]]:
    """Each field of a form with its file's name and its content."""
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        raise Refused(400, "the body must be multipart/form-data")
    whole = b"content-type: " + kind.encode("latin-1") + b"\r\n\r\n" + request.body
    fields = {}
    for part in BytesParser(policy=HTTP).parsebytes(whole).iter_parts():
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        fields[str(name)] = part.get_filename() or "", data if isinstance(data, bytes) else b""
    return fields


class _NewBatch(msgspec.Struct):
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None


class _ChatLine(msgspec.Struct):
    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


class _ModelOf(msgspec.Struct):
    model: str = ""


class OpenAIBatchWire:
    def __init__(self, batches: ServerBatches, about: BatchRequest) -> None:
        self._batches, self._about = batches, about

    def response(self) -> bytes:
        method, words = self._about.http.method, self._about.words[2:]
        match method, words:
            case "POST", []:
                return self._told(self._create())
            case "GET", []:
                return self._list()
            case "GET", [id]:
                return self._told(found_batch(self._batches, id))
            case "POST", [id, "cancel"]:
                batch = found_batch(self._batches, id)
                if batch.ended is not None:
                    raise Refused(409, f"Cannot cancel a batch with status '{batch.ending}'.")
                self._batches.cancel(batch)
                return self._told(batch)
        raise Refused(404, f"{method} {self._about.http.path}")

    def _create(self) -> ServerBatch:
        wanted = msgspec.json.decode(self._about.http.body, type=_NewBatch)
        if wanted.endpoint != COMPLETIONS or wanted.completion_window != "24h":
            raise Refused(400, "endpoint or completion_window is not supported")
        metadata = wanted.metadata or {}
        if len(metadata) > 16 or any(len(k) > 64 or len(v) > 512 for k, v in metadata.items()):
            raise Refused(400, "metadata: at most 16 pairs of 64 and 512 characters")
        file = self._batches.files.get(wanted.input_file_id)
        if file is None:
            raise Refused(400, f"Invalid input_file_id: {wanted.input_file_id}")
        lines, errors = _lines(file.data)
        batch = self._batches.create(
            "batch_", self._about.key, {} if errors else lines, file=file.id, metadata=metadata
        )
        if errors:
            self._batches.fail(batch, errors)
        return batch

    def _told(self, batch: ServerBatch) -> bytes:
        return json_response(200, encode(self._shown(batch)))

    def _shown(self, batch: ServerBatch) -> dict[str, Any]:
        ended = None if batch.ended is None else int(batch.ended)
        state = batch.ending or ("in_progress" if batch.cancelled is None else "cancelling")
        done, failed = batch.count("succeeded"), batch.count("errored") + batch.count("expired")
        good, bad = self._files(batch)
        errors = {"object": "list", "data": batch.errors} if batch.errors else None
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": COMPLETIONS,
            "errors": errors,
            "input_file_id": batch.about["file"],
            "completion_window": "24h",
            "status": state,
            "output_file_id": good,
            "error_file_id": bad,
            "created_at": int(batch.created),
            "in_progress_at": int(batch.created),
            "expires_at": int(batch.expires),
            "finalizing_at": ended,
            **{
                f"{name}_at": ended if batch.ending == name else None
                for name in ("completed", "failed", "expired", "cancelled")
            },
            "cancelling_at": None if batch.cancelled is None else int(batch.cancelled),
            "request_counts": {"total": len(batch.lines), "completed": done, "failed": failed},
            "metadata": batch.about["metadata"],
        }

    def _files(self, batch: ServerBatch) -> tuple[str | None, str | None]:
        """Written when the batch has ended and is first looked at."""
        if batch.ended is None:
            return None, None
        if "output" not in batch.about:
            good = [_chat_result(one) for one in batch.shuffled if one.end == "succeeded"]
            bad = [_chat_result(one) for one in batch.shuffled if one.end != "succeeded"]
            batch.about["output"] = self._written("output", batch, good)
            batch.about["error"] = self._written("error", batch, bad)
        return batch.about["output"], batch.about["error"]

    def _written(self, what: str, batch: ServerBatch, lines: list[bytes]) -> str | None:
        name = f"{batch.id}_{what}.jsonl"
        kept = [one.id for one in self._batches.files.values() if one.name == name]
        if kept or not lines:
            return kept[0] if kept else None
        data = b"".join(line + b"\n" for line in lines)
        return self._batches.add_file(name, "batch_output", data).id

    def _list(self) -> bytes:
        found = self._batches.newest_first("batch_", self._about.key)
        data, more = page(found, self._about.given("after"), self._about.limit, lambda one: one.id)
        ends = {
            "first_id": data[0].id if data else None,
            "last_id": data[-1].id if data else None,
        }
        shown = [self._shown(one) for one in data]
        return json_response(
            200, encode({"object": "list", "data": shown, "has_more": more, **ends})
        )


def _lines(
    data: bytes,
) -> tuple[dict[str, tuple[str, msgspec.Raw]], list[dict[str, Any]]]:
    """What a file asks for, and what is wrong with it."""
    lines: dict[str, tuple[str, msgspec.Raw]] = {}
    errors: list[dict[str, Any]] = []
    models = set()
    for n, raw in enumerate(data.splitlines(), 1):
        try:
            one = msgspec.json.decode(raw, type=_ChatLine)
        except msgspec.DecodeError as error:
            errors.append(_flaw("invalid_json_line", n, str(error)))
            continue
        if one.custom_id in lines:
            errors.append(_flaw("duplicate_custom_id", n, f"{one.custom_id} is there twice"))
        if (one.method, one.url) != ("POST", COMPLETIONS):
            errors.append(_flaw("mismatched_endpoint", n, f"{one.method} {one.url}"))
        models.add(msgspec.json.decode(one.body, type=_ModelOf).model)
        lines[one.custom_id] = one.url, one.body
    if len(models) > 1:
        errors.append(_flaw("mismatched_model", 1, "all lines must be for one model"))
    if not lines and not errors:
        errors.append(_flaw("empty_file", 1, "the file has no lines"))
    if len(lines) > MOST_LINES:
        errors.append(_flaw("too_many_tasks", 1, "at most 50,000 lines"))
    return lines, errors


def _flaw(code: str, line: int, message: str) -> dict[str, Any]:
    return {"code": code, "line": line, "message": message, "param": None}


def _chat_result(one: ServedLine) -> bytes:
    response: dict[str, Any] | None = None
    error = None
    if one.end in ("succeeded", "errored"):
        about = {"status_code": one.status, "request_id": f"req_{int(time.time())}"}
        response = {**about, "body": one.body}
    else:
        words = {
            "expired": (
                "batch_expired",
                "This request could not be executed before the completion window expired.",
            ),
            "canceled": (
                "batch_cancelled",
                "The batch was cancelled before this request executed.",
            ),
        }
        code, message = words[one.end]
        error = {"code": code, "message": message}
    line = {"id": f"batch_req_{one.custom_id}", "custom_id": one.custom_id}
    return encode({**line, "response": response, "error": error})
