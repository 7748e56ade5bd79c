"""The bytes of both wires, as their public documentation has them."""

from __future__ import annotations

import json

import pytest

from fanfold.price import Price
from fanfold.testing.script import Says, always
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Usage
from tests.unit.testing.asking import ANTHROPIC, OPENAI, PATHS, Client, once, with_server

_PRICE = Price(input=1.0, output=5.0)
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "why": {"type": "string"}},
    "required": ["n", "why"],
    "additionalProperties": False,
}
MADE = {"n": 1, "why": "text"}
USED = Usage(input=7, output=5, cache_read=2, cache_write=3)
FORCED = {
    "tools": [{"name": "other", "input_schema": {}}, {"name": "answer", "input_schema": SCHEMA}],
    "tool_choice": {"type": "tool", "name": "answer"},
}
FORMAT = {"type": "json_schema", "schema": SCHEMA}


def says(**what: object) -> ModelServer:
    return ModelServer(always(Says(**what)))  # type: ignore[arg-type]


def test_an_openai_reply_whole() -> None:
    got = once(says(text="hi", usage=USED), OPENAI)
    assert (got.status, got.headers["content-type"]) == (200, "application/json")
    assert got.headers["x-request-id"] == "req_1"
    assert got.json == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hi", "refusal": None},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 5,
            "total_tokens": 17,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }


def test_an_anthropic_reply_whole() -> None:
    got = once(says(text="hi", usage=USED), ANTHROPIC)
    assert (got.status, got.headers["content-type"]) == (200, "application/json")
    assert got.headers["request-id"] == "req_1"
    assert got.json == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 7,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 2,
            "output_tokens": 5,
        },
    }


def test_an_openai_stream_ends_with_usage_only_if_asked() -> None:
    long = "a reply that is longer than one piece"
    options = {"stream_options": {"include_usage": True}}
    with_usage = once(says(text=long, usage=USED), OPENAI, stream=True, **options)
    without = once(says(text=long, usage=USED), OPENAI, stream=True)
    assert with_usage.headers["content-type"] == "text/event-stream"
    *chunks, last, done = with_usage.events
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == long
    assert len(deltas) == 4
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]
    assert (last["choices"], last["usage"]["total_tokens"], done) == ([], 17, "[DONE]")
    assert {chunk["usage"] for chunk in chunks} == {None}
    assert [chunk["choices"][0]["delta"] for chunk in without.events[:-1]] == deltas
    assert not any("usage" in chunk for chunk in without.events)


def test_an_anthropic_stream_whole() -> None:
    got = once(says(text="hi", usage=USED), ANTHROPIC, stream=True)
    usage = {
        "input_tokens": 7,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 2,
        "output_tokens": 5,
    }
    start = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "hi"}
    assert got.headers["content-type"] == "text/event-stream"
    assert got.events == [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": usage},
        {"type": "message_stop"},
    ]
    named = [line[7:] for line in got.body.decode().split("\n") if line.startswith("event: ")]
    assert named == [event["type"] for event in got.events]


@pytest.mark.parametrize(
    ("path", "asks"),
    [
        (
            OPENAI,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA},
                }
            },
        ),
        (ANTHROPIC, {"output_config": {"format": FORMAT}}),
        (ANTHROPIC, {"output_format": FORMAT}),
    ],
)
def test_a_schema_is_honoured_unless_the_script_says_otherwise(
    path: str, asks: dict[str, object]
) -> None:
    assert json.loads(once(ModelServer(), path, **asks).text) == MADE
    assert json.loads(once(says(data={"n": 5}), path, **asks).text) == {"n": 5}
    assert once(says(text="no"), path, **asks).text == "no"


def test_a_forced_tool_is_used_whole_and_in_a_stream() -> None:
    whole = once(ModelServer(), ANTHROPIC, **FORCED).json
    used = {"type": "tool_use", "id": "toolu_1", "name": "answer", "input": MADE}
    assert (whole["content"], whole["stop_reason"]) == ([used], "tool_use")
    events = once(ModelServer(), ANTHROPIC, stream=True, **FORCED).events
    assert events[1]["content_block"] == {**used, "input": {}}
    deltas = [one["delta"] for one in events if one["type"] == "content_block_delta"]
    assert {delta["type"] for delta in deltas} == {"input_json_delta"}
    assert json.loads("".join(delta["partial_json"] for delta in deltas)) == MADE
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_tool_that_is_only_offered_is_not_used() -> None:
    offered = {**FORCED, "tool_choice": {"type": "auto"}}
    assert once(ModelServer(), ANTHROPIC, "plain", **offered).text == "plain"


def test_how_a_reply_ends_in_the_words_of_each_wire() -> None:
    cut = once(says(finish="length"), OPENAI, "0123456789").json["choices"][0]
    assert (cut["message"]["content"], cut["finish_reason"]) == ("01234", "length")
    no = once(says(finish="refusal"), OPENAI).json["choices"][0]["message"]
    assert no == {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    for finish, reason in (("length", "max_tokens"), ("refusal", "refusal")):
        assert once(says(finish=finish), ANTHROPIC).json["stop_reason"] == reason


@pytest.mark.parametrize("path", PATHS)
def test_usage_can_be_left_out(path: str) -> None:
    assert "usage" not in once(says(tells_usage=False), path).json


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (404, "invalid_request_error", "model_not_found"),
        (429, "requests", "rate_limit_exceeded"),
        (500, "server_error", None),
        (529, "server_error", "overloaded"),
    ],
)
def test_openai_errors(status: int, kind: str, code: str | None) -> None:
    got = once(says(status=status, message="said"), OPENAI, stream=True)
    told = {"message": "said", "type": kind, "param": None, "code": code}
    assert (got.status, got.json) == (status, {"error": told})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "not_found_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_anthropic_errors(status: int, kind: str) -> None:
    got = once(says(status=status, message="said"), ANTHROPIC, stream=True)
    told = {"type": kind, "message": "said"}
    assert (got.status, got.json) == (
        status,
        {"type": "error", "error": told, "request_id": "req_1"},
    )


def test_a_quota_that_is_gone_is_told_apart_from_a_rate() -> None:
    told = once(says(status=429, code="insufficient_quota"), OPENAI).json["error"]
    assert (told["type"], told["code"]) == ("insufficient_quota", "insufficient_quota")


@pytest.mark.parametrize(("after", "header"), [(None, None), (7, "7"), (0.5, "0.5")])
def test_retry_after_is_a_header(after: float | None, header: str | None) -> None:
    got = once(says(status=429, retry_after=after), OPENAI)
    assert got.headers.get("retry-after") == header


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (OPENAI, b"{not json", "JSON is malformed"),
        (OPENAI, b'{"messages": [{"role": "user"}]}', "`model`"),
        (OPENAI, b'{"model": "m"}', "`messages`"),
        (OPENAI, b'{"model": "m", "messages": []}', "$.messages"),
        (
            OPENAI,
            b'{"model": "m", "messages": [{"role": "user"}],'
            b' "response_format": {"type": "json_schema"}}',
            "json_schema is required",
        ),
        (ANTHROPIC, b'{"model": "m", "messages": [{"role": "user"}]}', "`max_tokens`"),
        (
            ANTHROPIC,
            b'{"model": "m", "max_tokens": 1, "messages": [{"role": "user"}],'
            b' "tool_choice": {"type": "tool", "name": "x"}}',
            "no such tool",
        ),
    ],
)
def test_a_request_the_api_would_not_take_is_refused(path: str, body: bytes, text: str) -> None:
    server = ModelServer()
    got = with_server(server, lambda client: client.send("POST", path, body))
    assert got.status == 400
    assert text in got.json["error"]["message"]
    assert [(entry.end, entry.billed) for entry in server.books.asked] == [("refused", False)]


def test_anthropic_wants_its_version_header() -> None:
    body = b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}'
    got = with_server(ModelServer(), lambda client: client.send("POST", ANTHROPIC, body, {}))
    assert (got.status, got.json["error"]["message"]) == (
        400,
        "anthropic-version: header is required",
    )


def test_the_list_of_models_in_both_shapes() -> None:
    from_prices = ModelServer(prices={"a": _PRICE, "b": _PRICE})

    async def act(client: Client) -> list[object]:
        version = {"anthropic-version": "2023-06-01"}
        plain = await client.send("GET", "/v1/models")
        other = await client.send("GET", "/v1/models", headers=version)
        return [plain.json, other.json]

    plain, other = with_server(from_prices, act)
    assert (plain["object"], [one["id"] for one in plain["data"]]) == ("list", ["a", "b"])
    assert [(one["type"], one["id"]) for one in other["data"]] == [("model", "a"), ("model", "b")]
    assert from_prices.books.paid_calls == 0


def test_an_unknown_path_is_404_and_not_in_the_books() -> None:
    server = ModelServer()
    got = with_server(server, lambda client: client.send("POST", "/v1/nothing"))
    assert (got.status, server.books.asked) == (404, [])
