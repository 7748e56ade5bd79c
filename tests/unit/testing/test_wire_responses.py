"""OpenAI Responses: the bytes, and what the official client makes of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from fanfold.price import Price, cost
from fanfold.testing.script import Asked, Says, Script, always, sequence
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Usage
from tests.unit.testing.asking import Client, Got, with_server

PATH = "/v1/responses"
PRICE = Price(input=1.0, output=5.0, cache_read=0.1)
USED = Usage(input=7, output=5, cache_read=2, cache_write=3)
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
RUN = {"type": "function", "name": "exec_command", "parameters": {"type": "object"}}
PATCH = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}}
SEARCH = {"type": "tool_search", "execution": "client", "parameters": {}}
ECHO = {"type": "function", "name": "echo", "parameters": {}}
ECHOES = {"type": "namespace", "name": "mcp__ech", "tools": [ECHO]}


async def post(client: Client, asks: str | list[Any] = "hello", **more: Any) -> Got:
    body = {"model": "m", "input": asks} | more
    return await client.send("POST", PATH, json.dumps(body).encode())


def once(says: Says, asks: str | list[Any] = "hello", **more: Any) -> Got:
    async def act(client: Client) -> Got:
        return await post(client, asks, **more)

    got = with_server(ModelServer(always(says)), act)
    assert isinstance(got, Got)
    return got


def asked_of(asks: str | list[Any], **more: Any) -> Asked:
    """The request as a script sees it."""
    seen: list[Asked] = []

    def script(asked: Asked) -> Says:
        seen.append(asked)
        return Says()

    async def act(client: Client) -> Got:
        return await post(client, asks, **more)

    with_server(ModelServer(script), act)
    return seen[0]


# ── the bytes ────────────────────────────────────────────────────────────────────────────────


def test_a_reply_whole() -> None:
    got = once(Says(text="hi", usage=USED, reasoning=4))
    assert (got.status, got.headers["x-request-id"]) == (200, "req_1")
    part = {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}
    assert got.json == {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "m",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [part],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 4},
            "total_tokens": 17,
        },
    }


def test_a_stream_whole() -> None:
    long = "a reply that is longer than one piece"
    got = once(Says(text=long), stream=True)
    assert got.headers["content-type"] == "text/event-stream"
    names = [event["type"].removeprefix("response.") for event in got.events]
    assert names == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    assert [event["sequence_number"] for event in got.events] == list(range(10))
    assert "".join(event.get("delta", "") for event in got.events) == long
    assert got.events[-1]["response"]["output"] == [got.events[-2]["item"]]
    assert got.events[0]["response"]["usage"] is None
    named = [line[7:] for line in got.body.decode().split("\n") if line.startswith("event: ")]
    assert named == [event["type"] for event in got.events]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("says", "item"),
    [
        (
            Says(tool="exec_command", data={"cmd": "ls"}),
            {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}'},
        ),
        (
            Says(tool="apply_patch", data="*** Begin Patch"),
            {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch"},
        ),
        (
            Says(tool="tool_search", data={"query": "q"}),
            {"type": "tool_search_call", "execution": "client", "arguments": {"query": "q"}},
        ),
        (
            Says(tool="mcp__ech__echo", data={"s": 1}),
            {
                "type": "function_call",
                "name": "echo",
                "namespace": "mcp__ech",
                "arguments": '{"s":1}',
            },
        ),
        (
            Says(tool="unknown", data={}),
            {"type": "function_call", "name": "unknown", "arguments": "{}"},
        ),
    ],
)
def test_a_tool_is_called_as_it_was_declared(
    says: Says, item: dict[str, Any], stream: bool
) -> None:
    """Also one that was found in the course of the conversation."""
    found = {"type": "tool_search_output", "call_id": "c", "tools": [ECHOES]}
    asks = [{"role": "user", "content": "go"}, found]
    got = once(says, asks, stream=stream, tools=[RUN, PATCH, SEARCH])
    (made,) = (got.events[-1]["response"] if stream else got.json)["output"]
    assert made.pop("id").endswith("_1")
    assert made == {"call_id": "call_1", "status": "completed", **item}


def test_a_cut_off_reply_is_incomplete() -> None:
    got = once(Says(text="half", finish="length"), stream=True)
    last = got.events[-1]
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_refusal_is_a_part_of_its_own() -> None:
    got = once(Says(finish="refusal"))
    refusal = {"type": "refusal", "refusal": "I cannot help with that."}
    assert got.json["output"][0]["content"] == [refusal]


def test_usage_can_be_left_out() -> None:
    assert once(Says(text="x", tells_usage=False)).json["usage"] is None


# ── what a script sees ───────────────────────────────────────────────────────────────────────


def test_a_conversation_as_codex_sends_it() -> None:
    asks = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "D"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]},
        {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
        {
            "type": "function_call_output",
            "call_id": "d",
            "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        },
    ]
    asked = asked_of(asks, instructions="I", max_output_tokens=9)
    assert (asked.system, asked.prompt, asked.max_tokens) == ("I\nD", "do it", 9)
    assert [(turn.role, turn.text) for turn in asked.messages] == [
        ("user", "do it"), ("tool", "done"), ("tool", "ab"),
    ]  # fmt: skip
    assert (asked.wire, asked.stream) == ("responses", False)


def test_a_schema_is_honoured() -> None:
    format = {"type": "json_schema", "name": "n", "strict": True, "schema": SCHEMA}
    got = once(Says(), text={"format": format, "verbosity": "low"})
    assert got.json["output"][0]["content"][0]["text"] == '{"n":1}'
    assert asked_of("hello", text={"verbosity": "low"}).schema is None


def test_a_forced_tool_gets_an_example_of_its_parameters() -> None:
    tool = {"type": "function", "name": "f", "parameters": SCHEMA}
    got = once(Says(), tools=[tool], tool_choice={"type": "function", "name": "f"})
    assert got.json["output"][0]["arguments"] == '{"n":1}'


@pytest.mark.parametrize(
    "body",
    [
        {"input": "x"},
        {"model": "m"},
        {"model": "m", "input": [3]},
        {"model": "m", "input": "x", "text": {"format": {"type": "json_schema"}}},
        {"model": "m", "input": "x", "tool_choice": {"type": "function", "name": "no"}},
    ],
)
def test_what_is_not_a_request_is_refused(body: dict[str, Any]) -> None:
    async def act(client: Client) -> Got:
        return await client.send("POST", PATH, json.dumps(body).encode())

    got = with_server(ModelServer(), act)
    assert (got.status, got.json["error"]["type"]) == (400, "invalid_request_error")


# ── the books ────────────────────────────────────────────────────────────────────────────────


def test_the_books_know_whose_session_asked() -> None:
    """codex and claude each have a header of their own; others have none."""
    headers: list[dict[str, str]] = [
        {"session-id": "codex-1"}, {"x-claude-code-session-id": "claude-1"}, {},
    ]  # fmt: skip
    server = ModelServer(always(Says(usage=USED)), prices=PRICE)

    async def act(client: Client) -> None:
        for sent in headers:
            await client.send("POST", PATH, b'{"model":"m","input":"x"}', headers=sent)

    with_server(server, act)
    books = server.books
    assert [entry.session for entry in books.asked] == ["codex-1", "claude-1", ""]
    each = cost(PRICE, 7, 5, 2, 3)
    assert (books.of_session("codex-1").bill, books.bill) == (each, 3 * each)


# ── the official client ──────────────────────────────────────────────────────────────────────


def with_client(script: Script, act: Callable[[AsyncOpenAI], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with (
            ModelServer(script, prices=PRICE) as server,
            AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
        ):
            return await act(client)

    return asyncio.run(whole())


def test_the_client_reads_text_usage_and_calls() -> None:
    replies = [Says(text="hi", usage=USED, reasoning=4), Says(tool="f", data={"a": 1})]

    async def act(client: AsyncOpenAI) -> None:
        tool: Any = {"type": "function", "name": "f", "parameters": {}, "strict": False}
        said = await client.responses.create(model="m", input="x")
        call = await client.responses.create(model="m", input="x", tools=[tool])
        assert said.output_text == "hi" and said.usage is not None
        details = said.usage.input_tokens_details, said.usage.output_tokens_details
        assert (said.usage.input_tokens, said.usage.output_tokens) == (12, 5)
        assert (details[0].cached_tokens, details[1].reasoning_tokens) == (2, 4)
        (item,) = call.output
        assert item.type == "function_call"
        assert (item.name, item.arguments, item.call_id) == ("f", '{"a":1}', "call_2")

    with_client(sequence(replies), act)


def test_the_client_streams() -> None:
    async def act(client: AsyncOpenAI) -> tuple[str, str]:
        text, last = "", ""
        async for event in await client.responses.create(model="m", input="x", stream=True):
            last = event.type
            text += event.delta if event.type == "response.output_text.delta" else ""
        return text, last

    long = "one two three " * 5
    assert with_client(always(Says(text=long)), act) == (long, "response.completed")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_the_client_knows_the_errors(status: int, kind: type[openai.APIStatusError]) -> None:
    async def act(client: AsyncOpenAI) -> None:
        with pytest.raises(kind):
            await client.responses.create(model="m", input="x")

    with_client(always(Says(status=status)), act)


def test_the_client_sees_a_stream_break_off() -> None:
    async def act(client: AsyncOpenAI) -> list[str]:
        seen: list[str] = []

        async def read() -> None:
            async for event in await client.responses.create(model="m", input="x", stream=True):
                seen.append(event.type)

        with pytest.raises(openai.APIConnectionError):
            await read()
        return seen

    seen = with_client(always(Says(text="word " * 50, drop="mid")), act)
    assert seen[0] == "response.created" and "response.completed" not in seen
