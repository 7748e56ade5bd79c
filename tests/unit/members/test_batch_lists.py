"""What batch services say that cannot be: an error of theirs that is tried again later, never another."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fanfold.errors import InvalidReply, Transient
from fanfold.members.anthropic import Anthropic
from fanfold.members.openai import OpenAI
from fanfold.testing.member import traits
from fanfold.work.batch import BatchLine
from fanfold.work.started import MAX_BYTES
from tests.unit.members.asking import KEY
from tests.unit.members.raw import Caller, RawServer, Talk, always, response

HELD = {
    "id": "b",
    "processing_status": "ended",
    "created_at": "2026-01-01T00:00:00Z",
    "request_counts": {},
}
BATCH = {"id": "b", "status": "completed", "created_at": 1.0}
KINDS: dict[str, Any] = {"openai": OpenAI, "anthropic": Anthropic}
Ask = Callable[[Any], Awaitable[Any]]


def answered(kind: str, body: bytes, ask: Ask) -> Any:
    return exchanged(kind, always(response(body)), ask)


def exchanged(kind: str, talk: Talk, ask: Ask) -> Any:
    async def main() -> Any:
        async with RawServer(talk) as server:
            member = KINDS[kind](traits("m", kind=kind, model="x"), f"{server.url}/v1", lambda: KEY)
            return await ask(member.batches), server.connections

    return asyncio.run(main())


@pytest.mark.parametrize(("kind", "one"), [("openai", BATCH), ("anthropic", HELD)])
def test_a_list_of_batches_that_leads_to_itself_has_an_end(kind: str, one: dict[str, Any]) -> None:
    body = json.dumps({"data": [one], "has_more": True}).encode()
    with pytest.raises(Transient, match="m: the list of its batches has no end"):
        answered(kind, body, lambda batches: batches.since(0.0, ()))


@pytest.mark.parametrize(
    ("kind", "body"),
    [("anthropic", json.dumps({**HELD, "created_at": "yesterday"}).encode()),
     ("anthropic", json.dumps({**HELD, "created_at": "0001-01-01"}).encode()),
     ("openai", b'{"metadata": ' + b'{"a":' * 100_000), ("anthropic", b"[" * 100_000)],
)  # fmt: skip
def test_a_state_that_cannot_be_read_is_asked_for_again_later(kind: str, body: bytes) -> None:
    with pytest.raises(
        Transient, match="m: what its batch service says cannot be read: "
    ) as caught:
        answered(kind, body, lambda batches: batches.look("b"))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_whose_creation_cannot_be_read_may_be_there(kind: str) -> None:
    """So it is looked for; submitted again, it would be paid twice."""

    async def talk(caller: Caller) -> None:
        while True:
            line, *_ = await caller.request()
            uploads = line.startswith("POST /v1/files ")
            await caller.send(response(b'{"id": "f"}' if uploads else b'{"id": "b"}'))

    with pytest.raises(Transient) as caught:
        exchanged(kind, talk, lambda batches: batches.submit("name", [BatchLine("a", b"{}")]))
    assert caught.value.lost


@pytest.mark.parametrize("kind", KINDS)
def test_of_what_a_service_says_of_a_batch_no_more_is_read_than_of_a_reply(kind: str) -> None:
    packed = gzip.compress(b'{"id": "' + b"b" * MAX_BYTES + b'"}')
    body = response(packed, content_encoding="gzip")
    with pytest.raises(InvalidReply, match="larger than"):
        exchanged(kind, always(body), lambda batches: batches.look("b"))


def test_why_a_batch_was_refused_is_told_without_the_key() -> None:
    """It becomes the error of each of its lines, and that is kept."""
    flaw = {"message": f"Invalid file: Bearer {KEY}\n\x1b[2J" + "x" * 9000}
    body = json.dumps({**BATCH, "status": "failed", "errors": {"data": [flaw]}}).encode()
    state, _ = answered("openai", body, lambda batches: batches.look("b"))
    assert state.flaw.startswith("Invalid file: Bearer [key]") and len(state.flaw) <= 200


def test_an_odd_error_of_one_line_is_no_reason_to_drop_the_others() -> None:
    odd = {"custom_id": "a", "result": {"type": "errored", "error": {"error": {"type": 5}}}}
    fine = {"custom_id": "b", "result": {"type": "succeeded", "message": {}}}
    body = "\n".join(json.dumps(one) for one in (odd, fine)).encode()
    found, _ = answered("anthropic", body, lambda batches: batches.results("x"))
    assert [(one.end, one.status) for one in found] == [("refused", 500), ("answered", 200)]
