from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from fanfold.members.anthropic import Anthropic
from fanfold.testing.script import Says
from fanfold.work.ask import Ask, Message, Params, Reply, Schema, Usage
from fanfold.work.member import Event, Traits
from tests.unit.members.asking import (
    FINDING,
    HI,
    KEY,
    UNCLOSED,
    WANTED,
    cancelled_then_asked,
    error,
    hangs,
    limited,
    listened,
    member,
    refused,
    terminal,
    told,
    trouble,
)
from tests.unit.members.raw import Caller, once, response

both = pytest.mark.parametrize("stream", [False, True])
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def body(ask: Ask, **traits: Any) -> dict[str, Any]:
    return dict(json.loads(member(Anthropic, "http://127.0.0.1:1", **traits).prepare(ask).body))


# ── asking ───────────────────────────────────────────────────────────────────────────────────


def test_the_plainest_request() -> None:
    assert body(HI) == {
        "model": "x-1", "max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}],
    }  # fmt: skip


def test_all_that_a_plan_may_state_is_sent() -> None:
    """But no seed: the API knows none."""
    messages = (Message("system", "be brief"), Message("user", "hi"), Message("system", "be kind"))
    params = Params(temperature=0.0, top_p=0.5, max_tokens=7, seed=3, stop=("END",))
    assert body(Ask(messages, schema=FINDING, params=params), max_tokens=99) == {
        "model": "x-1",
        "max_tokens": 7,
        "messages": [{"role": "user", "content": "hi"}],
        "system": "be brief\n\nbe kind",
        "temperature": 0.0,
        "top_p": 0.5,
        "stop_sequences": ["END"],
        "output_config": {
            "format": {
                "type": "json_schema",
                "schema": {**FINDING.definition, "additionalProperties": False},
            }
        },
    }


def test_a_schema_the_api_cannot_take_goes_into_the_prompt() -> None:
    sent = body(Ask((Message("system", "be brief"), *HI.messages), schema=UNCLOSED))
    assert "output_config" not in sent
    assert sent["system"].startswith("be brief\n\nReply with nothing but JSON")
    assert json.dumps(UNCLOSED.definition, separators=(",", ":")) in sent["system"]


def test_each_ask_goes_out_with_its_own_schema() -> None:
    one = member(Anthropic, "http://127.0.0.1:1")
    other = Ask(HI.messages, schema=Schema.of({**FINDING.definition, "title": "other"}))
    unsayable = Ask(HI.messages, schema=UNCLOSED)
    sent = [json.loads(one.prepare(ask).body) for ask in (WANTED, other, unsayable, WANTED, HI)]
    titles = [
        body["output_config"]["format"]["schema"].get("title", "-")
        if "output_config" in body
        else None
        for body in sent
    ]
    assert titles == ["-", "other", None, "-", None]
    assert ["system" in body for body in sent] == [False, False, True, False, False]


def test_the_worst_case_is_the_whole_body_and_all_of_the_reply() -> None:
    request = member(Anthropic, "http://127.0.0.1:1", max_tokens=50).prepare(WANTED)
    assert (request.input_tokens, request.output_tokens) == (len(request.body) + 1024, 50)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
@pytest.mark.parametrize("key", [KEY, f" {KEY}\n", None])
def test_where_it_asks_and_with_which_key(path: str, key: str | None) -> None:
    seen: list[tuple[str, str | None, str]] = []

    async def talk(caller: Caller) -> None:
        line, headers, _ = await caller.request()
        seen.append((line.split()[1], headers.get("x-api-key"), headers["anthropic-version"]))
        await caller.send(response(b'{"content":[]}'))

    class At(Anthropic):
        def __init__(self, traits: Traits, base_url: str, _: object) -> None:
            super().__init__(traits, base_url + path, lambda: key)

    told(At, talk)
    assert seen == [("/v1/messages", KEY if key else None, "2023-06-01")]


# ── replies ──────────────────────────────────────────────────────────────────────────────────


@both
def test_a_reply_with_its_usage(stream: bool) -> None:
    usage = Usage(input=10, output=5, cache_read=3, cache_write=2)
    heard = listened(Anthropic, Says(text="hello you", usage=usage), stream=stream)
    assert heard.reply == Reply("hello you", usage=usage, model="x-1")
    assert "".join(event.text for event in heard.events) == ("hello you" if stream else "")
    assert {event.kind for event in heard.events} == ({"began", "delta"} if stream else set())


@both
def test_no_usage_told_is_none(stream: bool) -> None:
    heard = listened(Anthropic, Says(text="hello", tells_usage=False), stream=stream)
    assert heard.reply == Reply("hello", model="x-1")


@both
@pytest.mark.parametrize(
    ("says", "data"),
    [
        (Says(data={"a": 1}), {"a": 1}),
        (Says(text='Here: ```json\n{"a": 2}\n```'), {"a": 2}),
        (Says(text="no"), None),
        (Says(data={"a": 1}, finish="length"), None),
    ],
)
def test_data_is_the_json_that_was_asked_for(stream: bool, says: Says, data: Any) -> None:
    assert listened(Anthropic, says, WANTED, stream=stream).reply.data == data


@both
@pytest.mark.parametrize("finish", ["stop", "length", "refusal", "other"])
def test_how_it_ended(stream: bool, finish: Any) -> None:
    heard = listened(Anthropic, Says(text="{}", finish=finish), WANTED, stream=stream)
    assert (heard.reply.finish, heard.reply.text) == (finish, "{}")
    assert heard.reply.data == (None if finish == "refusal" else {})


def answer(**fields: Any) -> bytes:
    return response(json.dumps({"content": [{"type": "text", "text": "a"}], **fields}).encode())


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop_sequence", "stop"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "other"),
        ("pause_turn", "other"),
        ("error", "other"),
        (None, "other"),
    ],
)
def test_other_ends(reason: str | None, finish: Any) -> None:
    why = reason if reason and finish == "other" else ""
    reply = told(Anthropic, once(answer(stop_reason=reason)))
    assert reply == Reply("a", finish=finish, reason=why)


@pytest.mark.parametrize(
    ("told_so", "usage"),
    [
        ({"input_tokens": 1, "output_tokens": 2}, Usage(1, 2)),
        (
            {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 9,
             "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5}},
            Usage(1, 2, cache_write=9),
        ),
        (
            {"input_tokens": 1, "output_tokens": 2,
             "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5}},
            Usage(1, 2, cache_write=9),
        ),
        ({"input_tokens": 1}, None),
    ],
)  # fmt: skip
def test_writes_to_the_cache_count_whatever_their_kind(told_so: Any, usage: Usage | None) -> None:
    assert told(Anthropic, once(answer(usage=told_so))).usage == usage


def test_only_text_blocks_are_the_reply() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "1", "name": "n", "input": {}},
        {"type": "text", "text": "b"},
    ]
    assert told(Anthropic, once(answer(content=blocks, stop_reason="end_turn"))) == Reply("ab")


def test_a_server_that_does_not_stream_is_heard_all_the_same() -> None:
    assert told(Anthropic, once(answer(stop_reason="end_turn")), stream=True) == Reply("a")


# ── errors ───────────────────────────────────────────────────────────────────────────────────


def said(message: str, kind: str = "some_error") -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


CREDIT = "add credit or raise the account's limit"
RESET = "anthropic_ratelimit_{}_reset".format
LEFT = "anthropic_ratelimit_{}_remaining".format
NOW = {"date": "Thu, 01 Jan 2026 00:00:00 GMT"}
ROWS = [
    (401, said(f"invalid x-api-key {KEY}"), {},
     terminal("m: key refused (401): invalid x-api-key [key]", "pool")),
    (403, said("no"), {}, terminal("m: key refused (403): no", "pool")),
    (402, said("pay", "billing_error"), {},
     terminal(f"m: quota or credit is exhausted (402): pay; {CREDIT}", "pool")),
    (400, said("Your credit balance is too low"), {},
     terminal(f"m: quota or credit is exhausted (400): Your credit balance is too low; {CREDIT}", "pool")),
    (404, said("model: x-1"), {},
     terminal("m: not found (404): model: x-1; check model and base_url", "member")),
    (400, said("messages: empty"), {}, terminal("m: the request was refused (400): messages: empty", "ask")),
    (400, said("prompt is too long: 9 tokens > 5 maximum"), {},
     terminal("m: the request is too long (400): prompt is too long: 9 tokens > 5 maximum;"
              " use smaller shards or more context", "ask", too_long=True)),
    (413, said("", "request_too_large"), {},
     terminal("m: the request is too long (413): request_too_large; use smaller shards or more context",
              "ask", too_long=True)),
    (429, said("slow"), {"retry_after": "7"}, limited("m: rate limited (429): slow", 7.0)),
    (429, said("slow"), {RESET("requests"): "2026-01-01T00:00:05Z",
     RESET("tokens"): "2026-01-01T00:00:30Z", **NOW},
     limited("m: rate limited (429): slow", 5.0)),
    (429, said("slow"), {RESET("requests"): "2026-01-01T00:00:05Z", LEFT("requests"): "3",
                         RESET("input-tokens"): "2026-01-01T00:00:30Z", LEFT("input-tokens"): "0", **NOW},
     limited("m: rate limited (429): slow", 30.0)),
    (429, said("slow"), {RESET("requests"): "2025-12-31T00:00:00Z", **NOW},
     limited("m: rate limited (429): slow", 0.0)),
    (529, said("Overloaded", "overloaded_error"), {}, limited("m: overloaded (529): Overloaded", None)),
    (409, b"", {}, error("Transient", "m: server error (409)")),
    (500, said("Internal"), {}, error("Transient", "m: server error (500): Internal")),
]  # fmt: skip


@both
@pytest.mark.parametrize(("status", "sent", "headers", "meaning"), ROWS)
def test_every_refusal_has_its_meaning(
    stream: bool, status: int, sent: bytes, headers: dict[str, str], meaning: dict[str, Any]
) -> None:
    assert refused(Anthropic, sent, status, stream, **headers) == meaning


@both
@pytest.mark.parametrize("drop", ["before", "mid"])
def test_a_dropped_connection_is_lost(stream: bool, drop: Any) -> None:
    meaning = trouble(lambda: listened(Anthropic, Says(text="hello you", drop=drop), stream=stream))
    assert (meaning["kind"], meaning["lost"]) == ("Transient", True)
    assert meaning["text"].startswith("m: connection lost after sending: ")


def test_no_answer_in_time_is_lost() -> None:
    assert trouble(lambda: asyncio.run(hangs(Anthropic, timeout=0.2))) == error(
        "TimedOut", "m: no answer within 0.2 s", lost=True
    )


@both
@pytest.mark.parametrize("sent", [b"<html>", b"{}", b'{"content":"a"}'])
def test_a_200_that_cannot_be_read_is_invalid(stream: bool, sent: bytes) -> None:
    meaning = trouble(lambda: told(Anthropic, once(response(sent)), stream=stream))
    assert (meaning["kind"], meaning["text"][:30]) == (
        "InvalidReply", "m: the answer cannot be read: ",
    )  # fmt: skip


@both
def test_a_broken_body_is_invalid(stream: bool) -> None:
    meaning = trouble(lambda: listened(Anthropic, Says(text="hello", broken=True), stream=stream))
    assert meaning["kind"] == "InvalidReply"


START = b'data: {"type":"message_start","message":{"model":"x","usage":{"input_tokens":1}}}\n\n'
DELTA = b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}\n\n'
END = (
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}'
    b'\n\ndata: {"type":"message_stop"}\n\n'
)


def test_usage_told_in_two_places_is_put_together() -> None:
    thinking = DELTA.replace(b"text_delta", b"thinking_delta")
    unknown = b'data: {"type":"something_new"}\n\n'
    stream = SSE + START + thinking + unknown + DELTA + END
    assert told(Anthropic, once(stream), stream=True) == Reply("a", usage=Usage(1, 4), model="x")


@pytest.mark.parametrize(
    ("events", "kind", "text"),
    [
        (START + DELTA, "Transient", "m: the stream ended before the reply did"),
        (START + DELTA + END[: END.index(b"\n\n") + 2], "Transient",
         "m: the stream ended before the reply did"),
        (START + b"event: error\ndata: " + said(f"Overloaded {KEY}", "overloaded_error") + b"\n\n",
         "Transient", "m: failed in mid-reply: Overloaded [key]"),
        (b"data: {nonsense}\n\n", "InvalidReply", "m: the answer cannot be read: "),
    ],
)  # fmt: skip
def test_a_stream_that_does_not_end_well(events: bytes, kind: str, text: str) -> None:
    meaning = trouble(lambda: told(Anthropic, once(SSE + events), stream=True))
    assert (meaning["kind"], meaning["text"][: len(text)]) == (kind, text)
    assert meaning["lost"] == (kind == "Transient")


def test_deltas_come_while_the_reply_is_still_being_written() -> None:
    """The server goes on only when the first delta was told."""
    heard: list[Event] = []
    first = asyncio.Event()

    async def talk(caller: Caller) -> None:
        await caller.request()
        await caller.send(SSE + START + DELTA)
        await first.wait()
        await caller.send(END)

    class Told(Anthropic):
        async def ask(self, request: Any, tell: Any) -> Reply:
            return await super().ask(request, self.hear)

        def hear(self, event: Event) -> None:
            heard.append(event)
            if event.kind == "delta":
                first.set()

    told(Told, talk)
    assert heard == [Event("began"), Event("delta", "a")]


@both
def test_a_cancelled_ask_is_cancelled_and_the_next_is_answered(stream: bool) -> None:
    assert asyncio.run(cancelled_then_asked(Anthropic, stream)) == Reply("fine", model="x-1")


def test_the_key_is_kept_nowhere() -> None:
    one = member(Anthropic, "http://127.0.0.1:1")
    seen = [one, one.prepare(HI)]
    assert KEY not in f"{seen} {vars(one)} {vars(vars(one)['_endpoint'])}"
