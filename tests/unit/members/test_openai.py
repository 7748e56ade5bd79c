from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from fanfold.members.openai import OpenAI
from fanfold.testing.script import Says
from fanfold.work.ask import Ask, Message, Params, Reply, Usage
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


def body(ask: Ask, base_url: str = "http://127.0.0.1:1", **traits: Any) -> dict[str, Any]:
    return dict(json.loads(member(OpenAI, base_url, **traits).prepare(ask).body))


# ── asking ───────────────────────────────────────────────────────────────────────────────────


def test_the_plainest_request() -> None:
    assert body(HI) == {
        "model": "x-1", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4096,
    }  # fmt: skip


def test_all_that_a_plan_may_state_is_sent() -> None:
    params = Params(temperature=0.0, top_p=0.5, max_tokens=7, seed=3, stop=("END",))
    ask = Ask((Message("system", "be brief"), Message("user", "hi")), schema=FINDING, params=params)
    assert body(ask, max_tokens=99) == {
        "model": "x-1",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "max_tokens": 7,
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": 3,
        "stop": ["END"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": FINDING.definition},
        },
    }


def test_a_schema_the_api_cannot_take_goes_into_the_prompt() -> None:
    sent = body(Ask(HI.messages, schema=UNCLOSED))
    assert "response_format" not in sent
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert json.dumps(UNCLOSED.definition, separators=(",", ":")) in sent["messages"][0]["content"]


@pytest.mark.parametrize(
    ("base_url", "field"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://x.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://openrouter.ai/api/v1", "max_tokens"),
        ("http://127.0.0.1:8080/v1", "max_tokens"),
    ],
)
def test_the_bound_of_the_reply_is_always_sent_as_the_server_knows_it(
    base_url: str, field: str
) -> None:
    sent = body(HI, base_url, max_tokens=5)
    assert {name: sent[name] for name in sent if name.startswith("max_")} == {field: 5}


def test_the_worst_case_is_the_whole_body_and_all_of_the_reply() -> None:
    request = member(OpenAI, "http://127.0.0.1:1", max_tokens=50).prepare(WANTED)
    assert (request.input_tokens, request.output_tokens) == (len(request.body) + 1024, 50)
    assert request.ask is WANTED


def test_a_kick_back_goes_out_with_its_turns() -> None:
    revised = HI.revised(Reply("no"), ("too short",))
    assert [message["role"] for message in body(revised)["messages"]] == [
        "user", "assistant", "user",
    ]  # fmt: skip


def test_each_ask_goes_out_with_its_own_schema() -> None:
    one = member(OpenAI, "http://127.0.0.1:1")
    other = Ask(HI.messages, schema=type(FINDING).of({"type": "object", "title": "other"}))
    sent = [json.loads(one.prepare(ask).body) for ask in (WANTED, other, WANTED, HI)]
    titles = [
        body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("title", "-")
        for body in sent
    ]
    assert titles == ["-", "other", "-", "-"]
    assert ["response_format" in body for body in sent] == [True, True, True, False]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/api/v3/", "/api/v3/chat/completions"),
    ],
)
@pytest.mark.parametrize("key", [KEY, f" {KEY}\n", None])
def test_where_it_asks_and_with_which_key(path: str, asked: str, key: str | None) -> None:
    seen: list[tuple[str, str | None]] = []

    async def talk(caller: Caller) -> None:
        line, headers, _ = await caller.request()
        seen.append((line.split()[1], headers.get("authorization")))
        await caller.send(response(b'{"choices":[{"message":{}}]}'))

    class At(OpenAI):
        def __init__(self, traits: Traits, base_url: str, _: object) -> None:
            super().__init__(traits, base_url + path, lambda: key)

    told(At, talk)
    assert seen == [(asked, f"Bearer {KEY}" if key else None)]


# ── replies ──────────────────────────────────────────────────────────────────────────────────


@both
def test_a_reply_with_its_usage(stream: bool) -> None:
    usage = Usage(input=10, output=5, cache_read=3)
    heard = listened(OpenAI, Says(text="hello you", usage=usage), stream=stream)
    assert heard.reply == Reply("hello you", usage=usage, model="x-1")
    assert "".join(event.text for event in heard.events) == ("hello you" if stream else "")
    assert {event.kind for event in heard.events} == ({"began", "delta"} if stream else set())


@both
def test_no_usage_told_is_none(stream: bool) -> None:
    heard = listened(OpenAI, Says(text="hello", tells_usage=False), stream=stream)
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
    assert listened(OpenAI, says, WANTED, stream=stream).reply.data == data


@both
def test_without_a_schema_nothing_is_parsed(stream: bool) -> None:
    assert listened(OpenAI, Says(text='{"a": 1}'), stream=stream).reply.data is None


@both
@pytest.mark.parametrize("finish", ["stop", "length", "refusal"])
def test_how_it_ended(stream: bool, finish: Any) -> None:
    heard = listened(OpenAI, Says(text="{}", finish=finish), WANTED, stream=stream)
    assert (heard.reply.finish, heard.reply.text) == (finish, "{}")
    assert heard.reply.data == (None if finish == "refusal" else {})


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("content_filter", "refusal"), ("STOP", "stop"), ("eos", "stop"), ("model_length", "length"),
        ("max_tokens", "length"), ("tool_calls", "other"), ("error", "other"), ("abort", "other"),
        ("", "other"), (None, "other"),
    ],
)  # fmt: skip
def test_other_ends(reason: str | None, finish: Any) -> None:
    """What is no known good end is none."""
    choice = {"message": {"content": "a"}, "finish_reason": reason}
    reply = told(OpenAI, once(response(json.dumps({"choices": [choice]}).encode())))
    told_why = reason if reason and finish == "other" else ""
    assert reply == Reply("a", finish=finish, reason=told_why)


def test_a_reply_without_a_reason_has_no_known_end() -> None:
    reply = told(OpenAI, once(response(b'{"choices":[{"message":{"content":"a"}}]}')))
    assert reply == Reply("a", finish="other")


def test_more_cached_than_asked_is_not_believed() -> None:
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 9},
    }
    sent = json.dumps({"choices": [{"message": {"content": "a"}}], "usage": usage}).encode()
    reply = told(OpenAI, once(response(sent)))
    assert (reply.usage, reply.unusable) == (None, "it reports 9 cached of 3 tokens")


def test_a_server_that_does_not_stream_is_heard_all_the_same() -> None:
    sent = b'{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}'
    assert told(OpenAI, once(response(sent)), stream=True) == Reply("whole")


# ── errors ───────────────────────────────────────────────────────────────────────────────────


def said(message: str, **more: str) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


GONE = "quota or credit is exhausted"
CREDIT = "add credit or raise the account's limit"
ROWS = [
    (401, said(f"Incorrect key: {KEY}."), {},
     terminal("m: key refused (401): Incorrect key: [key].", "pool")),
    (403, said("no"), {}, terminal("m: key refused (403): no", "pool")),
    (402, said("pay"), {}, terminal(f"m: {GONE} (402): pay; {CREDIT}", "pool")),
    (404, said("The model `x-1` does not exist", code="model_not_found"), {},
     terminal("m: not found (404): The model `x-1` does not exist; check model and base_url", "member")),
    (400, said("bad"), {}, terminal("m: the request was refused (400): bad", "ask")),
    (422, b'{"detail":[{"loc":1}]}', {}, terminal('m: the request was refused (422): [{"loc":1}]', "ask")),
    (400, said("This model's maximum context length is 5", code="context_length_exceeded"), {},
     terminal("m: the request is too long (400): This model's maximum context length is 5;"
              " use smaller shards or more context", "ask", too_long=True)),
    (413, b"<html>\n too big", {},
     terminal("m: the request is too long (413): <html> too big; use smaller shards or more context",
              "ask", too_long=True)),
    (429, said("You exceeded", code="insufficient_quota"), {"retry_after": "60"},
     terminal(f"m: {GONE} (429): You exceeded; {CREDIT}", "pool", reset_after=60.0)),
    (429, said("slow"), {}, limited("m: rate limited (429): slow", None)),
    (429, said("slow"), {"retry_after": "2.5"}, limited("m: rate limited (429): slow", 2.5)),
    (429, said("slow"), {"retry_after": "9", "retry_after_ms": "1500"},
     limited("m: rate limited (429): slow", 1.5)),
    (429, said("slow"), {"retry_after": "Thu, 01 Jan 2026 00:01:00 GMT",
     "date": "Thu, 01 Jan 2026 00:00:00 GMT"},
     limited("m: rate limited (429): slow", 60.0)),
    (429, said("slow"), {"x_ratelimit_reset_requests": "6m0s", "x_ratelimit_reset_tokens": "120ms"},
     limited("m: rate limited (429): slow", 0.12)),
    (429, said("slow"), {"x_ratelimit_reset_requests": "1m1.5s", "x_ratelimit_remaining_requests": "0",
                         "x_ratelimit_reset_tokens": "1s", "x_ratelimit_remaining_tokens": "0"},
     limited("m: rate limited (429): slow", 61.5)),
    (429, said("slow"), {"x_ratelimit_reset": "1767225660000", "date": "Thu, 01 Jan 2026 00:00:00 GMT"},
     limited("m: rate limited (429): slow", 60.0)),
    (429, said("slow"), {"retry_after": "soon"}, limited("m: rate limited (429): slow", None)),
    (429, said("slow"), {"retry_after": "nan"}, limited("m: rate limited (429): slow", None)),
    (429, said("slow"), {"retry_after": "-5"}, limited("m: rate limited (429): slow", 0.0)),
    (429, said("slow"), {"retry_after": "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"},
     limited("m: rate limited (429): slow", None)),
    (429, said("slow"), {"retry_after": "Fri, 31 Dec 2027 23:59:59 +99999999999999999999"},
     limited("m: rate limited (429): slow", None)),
    (429, said("slow"), {"retry_after": "9" * 400 + "s"}, limited("m: rate limited (429): slow", 1e9)),
    (529, said("full"), {"retry_after": "1"}, limited("m: overloaded (529): full", 1.0)),
    (409, b'{"error":"conflict"}', {}, error("Transient", "m: server error (409): conflict")),
    (500, said("oops"), {}, error("Transient", "m: server error (500): oops")),
    (503, said("busy"), {}, error("Transient", "m: server error (503): busy")),
    (503, b'{"object":"error","message":"busy"}', {},
     error("Transient", "m: server error (503): busy")),
    (302, b"", {"location": "/x"},
     terminal("m: redirected (302); set base_url to the final address", "member")),
    (418, b"", {}, terminal("m: unexpected response (418)", "member")),
    (204, b"", {}, terminal("m: unexpected response (204)", "member", lost=True)),
]  # fmt: skip


@both
@pytest.mark.parametrize(("status", "sent", "headers", "meaning"), ROWS)
def test_every_refusal_has_its_meaning(
    stream: bool, status: int, sent: bytes, headers: dict[str, str], meaning: dict[str, Any]
) -> None:
    assert refused(OpenAI, sent, status, stream, **headers) == meaning


def test_what_the_server_says_is_cut_to_one_short_line_without_the_key() -> None:
    long = f"a\nb {'x' * 185}{KEY}"
    text = refused(OpenAI, said(long), 400, False)["text"]
    assert text == f"m: the request was refused (400): a b {'x' * 185}[key]"
    text = refused(OpenAI, said(long + "y" * 100), 400, False)["text"]
    assert text == f"m: the request was refused (400): a b {'x' * 185}[key]yyyyy…"


def test_a_refused_connection_is_not_lost() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{one.getsockname()[1]}"

    async def main() -> None:
        asked = member(OpenAI, url)
        await asked.open()
        await asked.ask(asked.prepare(HI), [].append)

    meaning = trouble(lambda: asyncio.run(main()))
    assert (meaning["kind"], meaning["lost"]) == ("Transient", False)
    assert meaning["text"].startswith("m: no connection: Connection refused")


@both
@pytest.mark.parametrize("drop", ["before", "mid"])
def test_a_dropped_connection_is_lost(stream: bool, drop: Any) -> None:
    meaning = trouble(lambda: listened(OpenAI, Says(text="hello you", drop=drop), stream=stream))
    assert (meaning["kind"], meaning["lost"]) == ("Transient", True)
    assert meaning["text"].startswith("m: connection lost after sending: ")


def test_no_answer_in_time_is_lost() -> None:
    assert trouble(lambda: asyncio.run(hangs(OpenAI, timeout=0.2))) == error(
        "TimedOut", "m: no answer within 0.2 s", lost=True
    )


@both
@pytest.mark.parametrize(
    "sent", [b"", b"<html>", b"{}", b'{"choices":[]}', b'{"choices":' + b"[" * 9999]
)
def test_a_200_that_cannot_be_read_is_invalid(stream: bool, sent: bytes) -> None:
    meaning = trouble(lambda: told(OpenAI, once(response(sent)), stream=stream))
    assert meaning["kind"] == "InvalidReply"
    assert meaning["text"].startswith("m: the answer cannot be read: ")


@both
def test_a_broken_body_is_invalid(stream: bool) -> None:
    meaning = trouble(lambda: listened(OpenAI, Says(text="hello", broken=True), stream=stream))
    assert meaning["kind"] == "InvalidReply"


@pytest.mark.parametrize(
    ("events", "kind", "text"),
    [
        (b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', "Transient",
         "m: the stream ended before the reply did"),
        (b"", "Transient", "m: the stream ended before the reply did"),
        (b'data: {"error":{"message":"key ' + KEY.encode() + b' died"}}\n\n', "Transient",
         "m: failed in mid-reply: key [key] died"),
        (b"data: {nonsense}\n\n", "InvalidReply", "m: the answer cannot be read: "),
    ],
)  # fmt: skip
def test_a_stream_that_does_not_end_well(events: bytes, kind: str, text: str) -> None:
    meaning = trouble(lambda: told(OpenAI, once(SSE + events), stream=True))
    assert (meaning["kind"], meaning["text"][: len(text)]) == (kind, text)
    assert meaning["lost"] == (kind == "Transient")


def test_deltas_told_before_a_drop_were_told() -> None:
    events: list[Event] = []
    sent = SSE + b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'

    class Told(OpenAI):
        async def ask(self, request: Any, tell: Any) -> Reply:
            return await super().ask(request, events.append)

    trouble(lambda: told(Told, once(sent)))
    assert events == [Event("began"), Event("delta", "a")]


@pytest.mark.parametrize("key", ["sk-\nsecret-0123456789", "sk\x00"])
def test_a_key_that_cannot_be_sent_is_named_but_not_shown(key: str) -> None:
    async def main() -> None:
        asked = member(OpenAI, "http://127.0.0.1:1", key)
        await asked.open()
        await asked.ask(asked.prepare(HI), [].append)

    assert trouble(lambda: asyncio.run(main())) == terminal(
        "m: the key contains a character that is not allowed in a header", "pool"
    )


def test_the_key_is_kept_nowhere() -> None:
    one = member(OpenAI, "http://127.0.0.1:1")
    seen = [one, one.prepare(HI)]
    assert KEY not in f"{seen} {vars(one)} {vars(vars(one)['_endpoint'])}"


@both
def test_a_cancelled_ask_is_cancelled_and_the_next_is_answered(stream: bool) -> None:
    assert asyncio.run(cancelled_then_asked(OpenAI, stream)) == Reply("fine", model="x-1")
