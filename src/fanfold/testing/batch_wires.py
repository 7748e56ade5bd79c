"""Batch services over HTTP: whose service a request is for, what a line asks, and what comes of it."""

from __future__ import annotations

import msgspec

from fanfold.testing.batch_anthropic import AnthropicBatchWire
from fanfold.testing.batch_openai import OpenAIBatchWire, OpenAIFilesWire
from fanfold.testing.batch_request import MESSAGES, BatchRequest, Refused
from fanfold.testing.batches import BatchTimes, ServedLine, ServerBatch, ServerBatches
from fanfold.testing.books import ServerBooks, key_digest
from fanfold.testing.http import HttpRequest
from fanfold.testing.script import Asked, Says, Script, answer
from fanfold.testing.wire import Fault, Wire, WireRequest, json_response
from fanfold.testing.wire_anthropic import ANTHROPIC
from fanfold.testing.wire_openai import OPENAI


def wire_of(path: str) -> Wire | None:
    """Whose service it is; None where it is about something else."""
    if path.startswith("/v1/messages/batches"):
        return ANTHROPIC
    return OPENAI if path.startswith(("/v1/batches", "/v1/files")) else None


class BatchWires:
    """The batch services of a server: its script says what becomes of a line, its books bill it."""

    def __init__(self, service: BatchTimes, script: Script, books: ServerBooks) -> None:
        self._script, self._books = script, books
        self.all = ServerBatches(service, self._read_line, self._make_line)

    def carry_out(self, wire: Wire, request: HttpRequest, base: str) -> tuple[bytes, Says]:
        """The whole response, and what the script says about it. What is refused has no effect."""
        asked = Asked(
            n=0, path=request.path, wire=wire.name, headers=request.headers, raw=request.body,
            method=request.method,
        )  # fmt: skip
        says = self._script(asked)
        if says.status != 200:
            fault = Fault(says.status, says.code, says.message)
            return json_response(says.status, wire.error(fault, 0)), says
        about = BatchRequest(request, key_digest(asked.key), base)
        try:
            return self._responder(wire, about).response(), says
        except Refused as error:
            fault = Fault(error.status, None, str(error))
        except (msgspec.DecodeError, KeyError, ValueError) as error:
            fault = Fault(400, None, str(error))
        return json_response(fault.status, wire.error(fault, 0)), says

    def _responder(
        self, wire: Wire, about: BatchRequest
    ) -> AnthropicBatchWire | OpenAIFilesWire | OpenAIBatchWire:
        if wire is ANTHROPIC:
            return AnthropicBatchWire(self.all, about)
        return (OpenAIFilesWire if about.words[1] == "files" else OpenAIBatchWire)(self.all, about)

    # ── lines ──

    def _read_line(self, path: str, custom_id: str, body: bytes) -> Says:
        asked = self._line(path, custom_id, body)
        return asked if isinstance(asked, Says) else self._script(asked)

    def _line(self, path: str, custom_id: str, body: bytes) -> Asked | Says:
        """What a line asks; or why it is refused."""
        wire = ANTHROPIC if path == MESSAGES else OPENAI
        try:
            reading = wire.read(body, {"anthropic-version": "batch"})
        except msgspec.DecodeError as error:
            return Says(status=400, message=str(error), latency=0.0)
        if reading.stream:
            return Says(status=400, message="stream is not supported in batches", latency=0.0)
        found = {
            name: getattr(reading, name) for name in (*WireRequest.__struct_fields__, "prompt")
        }
        return Asked(
            n=len(self._books) + 1, path=path, wire=wire.name, headers={}, raw=body,
            custom_id=custom_id, **found,
        )  # fmt: skip

    def _make_line(self, batch: ServerBatch, custom_id: str, says: Says) -> ServedLine:
        """Into the books, and its result. What is refused is not billed."""
        path, body = batch.lines[custom_id]
        wire = ANTHROPIC if path == MESSAGES else OPENAI
        asked = self._line(path, custom_id, bytes(body))
        if isinstance(asked, Says) or says.status != 200:
            fault = Fault(says.status, says.code, says.message)
            refused = msgspec.Raw(wire.error(fault, len(self._books)))
            return ServedLine(custom_id, "errored", says.status, refused)
        made = answer(asked, says)
        self._books.arrive(asked, batch.id)
        self._books.settle(asked.n, "answered", usage=made.usage)
        return ServedLine(custom_id, "succeeded", 200, msgspec.Raw(wire.reply(asked, made)))
