"""Recorded replies: found by key or by item id, never made up."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from fanfold.errors import BadInput, Terminal
from fanfold.members.replay import Replay, _digest
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.item import Item
from fanfold.work.member import Traits, tell_nobody

TRAITS = Traits(id="rec", kind="replay", answerer="replay:0")
BY_KEY = Ask(messages=(Message("user", "hello"),), items=(Item("a", {}),))


def asked(path: Path, ask: Ask) -> Reply:
    async def once() -> Reply:
        member = Replay(TRAITS, path)
        await member.open()
        return await member.ask(member.prepare(ask), tell_nobody)

    return asyncio.run(once())


def ask_for(*ids: str) -> Ask:
    return Ask(messages=(Message("user", "p"),), items=tuple(Item(id, {}) for id in ids))


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"id": "a", "reply": "text"}\n\n'
        '{"id": 7, "reply": {"n": 1}, "usage": {"input": 3, "output": 4}}\n'
        f'{{"key": "{BY_KEY.key("messages").hex().upper()}", "reply": [1]}}\n'
    )
    return path


def test_replies_by_id_by_key_and_of_a_shard(recorded: Path) -> None:
    assert asked(recorded, ask_for("a")) == Reply(text="text")
    assert asked(recorded, ask_for("7")) == Reply(data={"n": 1}, usage=Usage(3, 4))
    assert asked(recorded, BY_KEY) == Reply(data=[1])
    assert asked(recorded, ask_for("a", "7")) == Reply(
        data={"answers": [{"id": "a", "answer": "text"}, {"id": "7", "answer": {"n": 1}}]},
        usage=Usage(3, 4),
    )


@pytest.mark.parametrize(
    ("ask", "what"),
    [(ask_for("b"), "item `b`"), (ask_for("a", "b"), "item `b`"), (Ask(), "this ask")],
)
def test_what_is_not_recorded_is_refused(recorded: Path, ask: Ask, what: str) -> None:
    with pytest.raises(Terminal) as error:
        asked(recorded, ask)
    assert (str(error.value), error.value.scope) == (
        f"no recorded reply for {what} in {recorded}",
        "ask",
    )


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"id": "b", "reply": ', "broken recorded reply: Input data was truncated"),
        ('{"id": "b"}', "broken recorded reply: Object missing required field `reply`"),
        ('{"id": "b", "key": "c", "reply": ""}', "a recorded reply needs either `key` or `id`"),
        ('{"reply": ""}', "a recorded reply needs either `key` or `id`"),
        ('{"id": "a", "reply": ""}', "duplicate reply for `a`"),
        ('{"id": "b", "reply": "", "replay": 1}',
         "broken recorded reply: Object contains unknown field `replay`"),
    ],
)  # fmt: skip
def test_a_broken_line_is_named(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f'{{"id": "a", "reply": "x"}}\n\n{line}\n')
    with pytest.raises(BadInput) as error:
        asked(path, Ask())
    assert str(error.value) == f"{path}:3: {what}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        asked(tmp_path / "none.jsonl", Ask())
    assert str(error.value) == f"{tmp_path / 'none.jsonl'}: no such file"


def test_a_pipe_is_no_recording(tmp_path: Path) -> None:
    """It is neither waited for when the roster is read nor when it is opened."""
    path = tmp_path / "answers.jsonl"
    os.mkfifo(path)
    assert _digest(path) == "unreadable"
    with pytest.raises(BadInput, match="is a pipe or a device; it is read more than once"):
        asked(path, BY_KEY)
