"""JSON of 100,000 brackets, or a few more than anybody needs: one line, of the right kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.errors import BadInput, InvalidReply
from fanfold.members.anthropic import Anthropic
from fanfold.members.command import CommandMember
from fanfold.members.function import function
from fanfold.members.openai import OpenAI
from fanfold.members.replay import Replay
from fanfold.members.structured import find
from fanfold.members.toolcalls import call
from fanfold.plans.header import Input
from fanfold.plans.inputs import open_input
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Call, Reply
from fanfold.work.item import Item
from fanfold.work.member import tell_nobody
from fanfold.work.nesting import DEEPEST, TooDeep, decode_json
from fanfold.work.split import take_apart
from tests.unit.members.asking import WANTED, Kind, told, trouble
from tests.unit.members.raw import once, response

DEEP = f"it is nested deeper than {DEEPEST} levels"
depths = pytest.mark.parametrize("depth", [DEEPEST + 2, 900, 100_000])


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@depths
def test_what_is_nested_too_deeply_is_a_value_error(depth: int) -> None:
    for raw in (nested(depth), nested(depth).encode()):
        with pytest.raises(TooDeep, match=DEEP):
            decode_json(raw)


def test_as_deep_as_it_may_be() -> None:
    assert decode_json(nested(DEEPEST)) is not None
    assert decode_json(b"[" + b"[]," * 5000 + b"[]]") == [[]] * 5001


@depths
@pytest.mark.parametrize(("kind", "line"), [("jsonl", 2), ("json", 2)])
def test_in_an_input_it_is_refused_with_its_line(
    tmp_path: Path, depth: int, kind: str, line: int
) -> None:
    rows = ['{"id": "a"}', f'{{"id": "b", "x": {nested(depth)}}}']
    text = "\n".join(rows) if kind == "jsonl" else "[" + ",\n".join(rows) + "]"
    (tmp_path / "in").write_text(text)

    def read() -> list[Item]:
        source = open_input(Input(kind, "in"), tmp_path, spool=tmp_path)
        return [item for _, item in source.walk()]

    assert _refusal(read) == f"{tmp_path}/in:{line}: broken JSON: {DEEP}"


def _refusal(read: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as caught:
        read()
    return str(caught.value)


@depths
@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
def test_of_an_api_it_is_an_answer_that_cannot_be_read_or_no_json(depth: int, kind: Kind) -> None:
    assert find(nested(depth)) is None
    body = f'{{"usage": {nested(100_000)}, "choices": []}}'.encode()
    found = trouble(lambda: told(kind, once(response(body)), WANTED))
    assert (found["kind"], found["text"]) == (
        "InvalidReply", f"m: the answer cannot be read: {DEEP}",
    )  # fmt: skip


@depths
def test_of_a_command_it_is_a_text(depth: int) -> None:
    """The gate of the schema sees it then."""
    member = CommandMember(traits("cmd", kind="command"), ["cat"], Path())
    request = member.prepare(WANTED)
    body = nested(depth) + '\n{"fanfold": ' + nested(depth) + "}"
    asked = type(request)(request.ask, body.encode())
    assert asyncio.run(member.ask(asked, tell_nobody)) == Reply(body)


@depths
def test_of_a_function_it_is_an_invalid_reply(depth: int) -> None:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    for result in (value, Reply(data=value)):
        member = function(lambda data, result=result: result, id="f")
        with pytest.raises(InvalidReply, match=DEEP):
            asyncio.run(member.ask(member.prepare(Ask(items=(Item("a", 1),))), tell_nobody))
    while value:  # taken apart by hand: freeing it is recursive too
        value = value[0]  # type: ignore[assignment]


@depths
def test_of_recorded_replies_it_is_bad_input(tmp_path: Path, depth: int) -> None:
    (tmp_path / "r.jsonl").write_text(f'{{"id": "a", "reply": {nested(depth)}}}\n')
    member = Replay(traits("r", kind="replay"), tmp_path / "r.jsonl")
    refused = _refusal(lambda: asyncio.run(member.open()))
    assert refused == f"{tmp_path}/r.jsonl:1: broken recorded reply: {DEEP}"


@depths
def test_of_a_tool_and_of_a_shard_it_is_passed_over(depth: int) -> None:
    assert call("1", "t", nested(depth)) == Call("1", "t", nested(depth))
    text = f'{{"answers": [{{"id": "a", "answer": {nested(depth)}}}]}}'
    assert take_apart(Reply(text), ("a",), False) == {}
