"""Tools on both wires: what is offered, what was used, and what a model wants used."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fanfold.members.anthropic import Anthropic
from fanfold.members.openai import OpenAI
from fanfold.members.toolcalls import call
from fanfold.testing.script import Says
from fanfold.work.ask import Ask, Call, Message, Params, Reply, Tool, Tools, Usage
from tests.unit.members.asking import HI, Heard, Kind, listened, member, told
from tests.unit.members.raw import once, response

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"prompt": {"type": "string"}}}
TOOL = Tool("delegate", "Hand it over.", SCHEMA)
OFFERED = msgspec.structs.replace(HI, tools=Tools.of((TOOL,)))
GIVEN = {"prompt": "é" * 40, "needs": ["legal", "long"]}
SAYS = Says(tool="delegate", data=GIVEN, usage=Usage(7, 3))
KINDS = pytest.mark.parametrize("kind", [OpenAI, Anthropic])


def body(kind: Kind, ask: Ask) -> dict[str, Any]:
    """What would be sent."""
    found: dict[str, Any] = msgspec.json.decode(
        member(kind, "http://127.0.0.1:1").prepare(ask).body
    )
    return found


def wanted(found: Heard) -> Reply:
    (use,) = found.reply.calls
    assert use.id
    return msgspec.structs.replace(found.reply, calls=(Call("", use.name, use.given),))


@KINDS
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_model_wants_used_is_in_the_reply(kind: Kind, stream: bool) -> None:
    found = listened(kind, SAYS, OFFERED, stream=stream)
    assert wanted(found) == Reply(
        usage=Usage(7, 3), model="x-1", calls=(Call("", "delegate", GIVEN),)
    )
    assert {event.kind for event in found.events} <= {"began"}


@KINDS
@pytest.mark.parametrize("stream", [False, True])
def test_without_an_offer_there_are_no_calls(kind: Kind, stream: bool) -> None:
    found = listened(kind, SAYS, HI, stream=stream)
    assert (found.reply.calls, found.reply.finish) == ((), "other")


@KINDS
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("reason", "finish"), [("length", "length"), ("error", "other")])
def test_calls_that_were_cut_off_are_none(
    kind: Kind, stream: bool, reason: str, finish: str
) -> None:
    cut = msgspec.structs.replace(SAYS, reason=reason)
    found = listened(kind, cut, OFFERED, stream=stream)
    assert (found.reply.calls, found.reply.finish) == ((), finish)


@KINDS
def test_an_answer_stays_an_answer(kind: Kind) -> None:
    found = listened(kind, Says(text="It is fine."), OFFERED, stream=True)
    assert (found.reply.text, found.reply.calls) == ("It is fine.", ())


# ── what is sent ─────────────────────────────────────────────────────────────────────────────

ROUND = OFFERED.after(
    Reply("I ask.", calls=(Call("c1", "delegate", {"prompt": "a"}), Call("c2", "menu", "{bro"))),
    ("done", "no object"),
)
KICKED = ROUND.revised(Reply("bad"), ("too bad",))


def test_on_the_wire_of_chat_completions() -> None:
    function = {"name": "delegate", "description": "Hand it over.", "parameters": SCHEMA}
    first = body(OpenAI, OFFERED)
    assert first["tools"] == [{"type": "function", "function": function}]
    assert (first["messages"], "tool_choice" in first) == (
        [{"role": "user", "content": "hi"}], False,
    )  # fmt: skip
    assert body(OpenAI, ROUND)["messages"][1:] == [
        {
            "role": "assistant", "content": "I ask.",
            "tool_calls": [
                {"id": "c1", "type": "function",
                 "function": {"name": "delegate", "arguments": '{"prompt":"a"}'}},
                {"id": "c2", "type": "function",
                 "function": {"name": "menu", "arguments": "{bro"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "tool", "tool_call_id": "c2", "content": "no object"},
    ]  # fmt: skip
    assert [one["role"] for one in body(OpenAI, KICKED)["messages"][-2:]] == ["assistant", "user"]


def test_on_the_wire_of_messages() -> None:
    first = body(Anthropic, OFFERED)
    assert first["tools"] == [
        {"name": "delegate", "description": "Hand it over.", "input_schema": SCHEMA}
    ]
    assert (first["messages"], "tool_choice" in first) == (
        [{"role": "user", "content": "hi"}], False,
    )  # fmt: skip
    assert body(Anthropic, ROUND)["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I ask."},
                {"type": "tool_use", "id": "c1", "name": "delegate", "input": {"prompt": "a"}},
                {"type": "tool_use", "id": "c2", "name": "menu", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "done"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no object"},
            ],
        },
    ]
    assert [one["role"] for one in body(Anthropic, KICKED)["messages"][-2:]] == [
        "assistant", "user",
    ]  # fmt: skip


def test_a_system_text_stands_where_the_wire_has_it() -> None:
    ask = msgspec.structs.replace(ROUND, messages=(Message("system", "be brief"), *HI.messages))
    assert body(Anthropic, ask)["system"] == "be brief"
    assert body(Anthropic, ask)["messages"][0] == {"role": "user", "content": "hi"}
    assert body(OpenAI, ask)["messages"][0] == {"role": "system", "content": "be brief"}


def test_when_an_answer_is_due_tools_are_named_but_not_to_be_used() -> None:
    """They must be named, since they stand in the conversation."""
    due = OFFERED.after(Reply(calls=(Call("c1", "delegate", {}),)), ("done",), last=True)
    assert (body(OpenAI, due)["tool_choice"], len(body(OpenAI, due)["tools"])) == ("none", 1)
    assert (body(Anthropic, due)["tool_choice"], len(body(Anthropic, due)["tools"])) == (
        {"type": "none"}, 1,
    )  # fmt: skip


@KINDS
def test_they_are_in_the_worst_case(kind: Kind) -> None:
    one = member(kind, "http://127.0.0.1:1")
    plain, with_tools = one.prepare(HI), one.prepare(ROUND)
    assert (
        with_tools.input_tokens - plain.input_tokens == len(with_tools.body) - len(plain.body) > 0
    )


@KINDS
def test_an_ask_without_tools_is_sent_as_ever(kind: Kind) -> None:
    ask = msgspec.structs.replace(HI, params=Params(max_tokens=5))
    assert body(kind, ask) == {
        "model": "x-1", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}],
    }  # fmt: skip


# ── what comes back, byte for byte ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "given"),
    [("", {}), ("  ", {}), ('{"a": 1}', {"a": 1}), ("{bro", "{bro"), ("[1]", [1]), ("x", "x")],
)
def test_arguments_that_cannot_be_read_stay_as_they_are(written: str, given: object) -> None:
    assert call("c", "n", written) == Call("c", "n", given)


def test_several_calls_in_one_answer_keep_their_order() -> None:
    uses = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": text}}
        for n, (name, text) in enumerate([("menu", ""), ("delegate", '{"prompt": "x"}')])
    ]
    choice = {"message": {"content": None, "tool_calls": uses}, "finish_reason": "tool_calls"}
    found = told(OpenAI, once(response(msgspec.json.encode({"choices": [choice]}), 200)), OFFERED)
    assert found.calls == (Call("c0", "menu", {}), Call("c1", "delegate", {"prompt": "x"}))
    blocks = [
        {"type": "text", "text": "I ask."},
        {"type": "tool_use", "id": "c0", "name": "menu", "input": {}},
        {"type": "tool_use", "id": "c1", "name": "delegate", "input": {"prompt": "x"}},
    ]
    whole = {"content": blocks, "stop_reason": "tool_use"}
    found = told(Anthropic, once(response(msgspec.json.encode(whole), 200)), OFFERED)
    assert (found.text, found.calls) == (
        "I ask.", (Call("c0", "menu", {}), Call("c1", "delegate", {"prompt": "x"})),
    )  # fmt: skip
