"""Scripts: what they make the server say, and what they see."""

from __future__ import annotations

import asyncio
import json

import jsonschema_rs
import pytest

from fanfold.testing.script import (
    Asked,
    AskedMessage,
    Says,
    answer,
    by_prompt,
    echo,
    enforce_rates,
    key_required,
    random_usage,
    sequence,
)
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Usage
from fanfold.work.example import example
from tests.unit.testing.asking import ANTHROPIC, OPENAI, PATHS, once


def ask(prompt: str = "hello", **more: object) -> Asked:
    fields = {"n": 1, "path": OPENAI, "wire": "openai", "headers": {}, "prompt": prompt, **more}
    return Asked(**fields)  # type: ignore[arg-type]


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("path", PATHS)
def test_a_script_sees_the_whole_request(path: str) -> None:
    seen: list[Asked] = []

    def script(asked: Asked) -> Says:
        seen.append(asked)
        return Says()

    parts = [{"type": "text", "text": "two "}, {"type": "odd"}, {"type": "text", "text": "parts"}]
    said = [("user", "first"), ("assistant", "so"), ("user", parts)]
    messages = [{"role": role, "content": content} for role, content in said]
    system = {"role": "system", "content": "be brief"}
    body = {"messages": [system, *messages]} if path == OPENAI else {"messages": messages}
    if path == ANTHROPIC:
        body["system"] = [{"type": "text", "text": "be brief"}]
    once(ModelServer(script), path, stream=True, **body)
    (asked,) = seen
    assert (asked.n, asked.path, asked.model, asked.system) == (1, path, "m", "be brief")
    assert (asked.prompt, asked.max_tokens, asked.stream) == ("two parts", 100, True)
    assert asked.messages == (
        AskedMessage("user", "first"),
        AskedMessage("assistant", "so"),
        AskedMessage("user", "two parts"),
    )
    assert asked.body["messages"] == body["messages"]
    assert (asked.wire, asked.headers["host"][:10]) == (
        "openai" if path == OPENAI else "anthropic",
        "127.0.0.1:",
    )


def test_usage_is_derived_from_lengths_and_bounded_by_max_tokens() -> None:
    asked = ask("x" * 400, raw=b"y" * 1000)
    assert answer(asked, Says()).usage == Usage(input=251, output=101)
    bounded = ask("x" * 400, raw=b"y" * 1000, max_tokens=9)
    assert answer(bounded, Says()).usage == Usage(input=251, output=9)


def test_cache_writes_are_input_where_the_wire_knows_none() -> None:
    says = Says(usage=Usage(1, 2, 3, 4))
    assert answer(ask(), says).usage == Usage(5, 2, 3, 0)
    assert answer(ask(wire="anthropic"), says).usage == Usage(1, 2, 3, 4)


def test_a_sequence_repeats_its_last() -> None:
    script = sequence([Says(status=500), Says(text="a"), echo])
    said = [script(ask()) for _ in range(4)]
    assert said == [Says(status=500), Says(text="a"), Says(), Says()]


def test_by_prompt_takes_the_first_that_is_contained() -> None:
    script = by_prompt(
        {"item 3": sequence([Says(status=529), Says(text="three")]), "item": Says(text="any")},
        then=Says(text="rest"),
    )
    said = [script(ask(prompt)).text for prompt in ("item 3", "an item 3", "item 4", "else")]
    assert said == [None, "three", "any", "rest"]


def test_random_usage_hangs_on_seed_and_content_and_stays_in_bounds() -> None:
    asks = [ask(raw=json.dumps({"i": i}).encode(), max_tokens=50) for i in range(300)]
    drawn = [random_usage(7)(one).usage for one in asks]
    assert drawn == [random_usage(7)(one).usage for one in asks]
    assert drawn != [random_usage(8)(one).usage for one in asks]
    used = [usage for usage in drawn if usage is not None]
    assert len(used) == 300
    assert {usage.output for usage in used} == set(range(1, 51))
    inputs = [usage.input + usage.cache_read + usage.cache_write for usage in used]
    assert all(0 < total <= len(one.raw) for total, one in zip(inputs, asks, strict=True))


@pytest.mark.parametrize("headers", [{"x-api-key": "right"}, {"authorization": "Bearer right"}])
def test_only_the_right_key_is_let_in(headers: dict[str, str]) -> None:
    script = key_required("right", then=Says(text="in"))
    assert script(ask(headers=headers)).text == "in"
    wrong = {name: value.replace("right", "wrong") for name, value in headers.items()}
    assert script(ask(headers=wrong)).status == 401
    assert script(ask(headers={})).status == 401


def test_requests_beyond_the_rate_get_429_until_there_is_room() -> None:
    clock = HandClock()
    script = enforce_rates(60, 1e9, clock)
    assert [script(ask()).status for _ in range(62)] == [200] * 60 + [429] * 2
    assert script(ask()).retry_after == 1
    clock.at += 3
    assert [script(ask()).status for _ in range(5)] == [200] * 3 + [429] * 2


def test_tokens_beyond_the_rate_get_429_until_the_overdraft_is_paid() -> None:
    clock = HandClock()
    spent = Says(usage=Usage(input=500, output=400))
    script = enforce_rates(1e9, 1200, clock, then=spent)
    assert [script(ask()).status for _ in range(3)] == [200, 200, 429]
    clock.at += 30  # the bucket was 600 short and fills by 20 a second
    refused = script(ask())
    assert (refused.status, refused.retry_after) == (429, 1)
    clock.at += 1
    assert script(ask()).status == 200


def test_a_refused_request_uses_no_turn_of_the_script_behind() -> None:
    clock = HandClock()
    script = enforce_rates(1, 1e9, clock, then=sequence([Says(text="a"), Says(text="b")]))
    first, refused = script(ask()), script(ask())
    clock.at += 60
    assert (first.text, refused.status, script(ask()).text) == ("a", 429, "b")


SCHEMAS = {
    "flat": {
        "type": "object",
        "properties": {
            "s": {"type": "string", "minLength": 6},
            "short": {"type": "string", "maxLength": 2},
            "i": {"type": "integer", "minimum": 3, "exclusiveMaximum": 5},
            "even": {"type": "integer", "multipleOf": 2, "exclusiveMinimum": 2},
            "part": {"type": "number", "minimum": 0, "maximum": 1},
            "low": {"type": "number", "maximum": -3},
            "high": {"type": "number", "exclusiveMinimum": 10, "maximum": 11},
            "b": {"type": "boolean"},
            "none": {"type": "null"},
            "maybe": {"type": ["string", "null"]},
            "pick": {"enum": ["x", "y"]},
            "fixed": {"const": [1]},
            "day": {"type": "string", "format": "date"},
            "mail": {"type": "string", "format": "email"},
        },
        "required": ["s", "i", "pick"],
        "additionalProperties": False,
    },
    "lists": {"type": "array", "items": {"type": "integer"}, "minItems": 3},
    "none allowed": {"type": "array", "items": {"type": "integer"}, "maxItems": 0},
    "pair": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "items": {"type": "boolean"},
    },
    "choice": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    "joined": {
        "allOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ],
        "type": "object",
    },
    "unnamed field": {"type": "object", "required": ["z"], "additionalProperties": {"const": 4}},
    "tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "label": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["label", "children"],
            }
        },
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_example_is_valid_against_its_schema(name: str) -> None:
    schema = SCHEMAS[name]
    made = example(schema)
    jsonschema_rs.validate(schema, made)
    assert made == example(schema)


def test_an_example_fills_optional_fields_too() -> None:
    assert set(example(SCHEMAS["flat"])) == set(SCHEMAS["flat"]["properties"])  # type: ignore[call-overload]
