"""The embedded model itself. Skipped where it is not there; `fanfold local setup` fetches it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fanfold.errors import MemberError, Terminal
from fanfold.members.local import Local, LocalFields
from fanfold.members.openai import OpenAI
from fanfold.work.ask import Ask, Reply
from fanfold.work.member import tell_nobody
from tests.faces.cli import SRC
from tests.unit.members.embedded import CACHE, ask, asked, is_alive, real_engine, traits
from tests.waiting import wait_until

pytestmark = real_engine

COLOUR = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "count": {"type": "integer"}},
    "required": ["colour", "count"],
    "additionalProperties": False,
}
LIST = {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3}
MOOD = {"properties": {"mood": {"enum": ["negative", "positive"]}}}
SHOTS = """\
Review: It broke on the first day and nobody answered me.
Sentiment: negative

Review: Lovely, soft and it fits me well.
Sentiment: positive

Review: A waste of money, I sent it back.
Sentiment: negative

Review: I wear it all the time and get compliments.
Sentiment: positive

Review: {}
Sentiment:
"""


def served(answers: str = "chat") -> Local:
    fields = LocalFields(slots=2, threads=1, answers=answers)  # type: ignore[arg-type]
    return Local(traits(timeout=110.0), fields, beside=Path(), cache=CACHE)


class Chat(NamedTuple):
    """What one server answered, to all that is asked of it here."""

    at_once: list[Reply]
    coloured: Reply
    listed: Reply
    too_long: MemberError
    stranger: MemberError
    pid: int


@pytest.fixture(scope="module")
def chat() -> Chat:
    return asyncio.run(_chat())


async def _chat() -> Chat:
    member = served()
    await member.open()
    try:
        return await _talk(member)
    finally:
        await member.close()


async def _talk(member: Local) -> Chat:
    assert member.server and member.server.pid
    plain = [ask(f"Say hello to {name}.", max_tokens=6) for name in ("Ann", "Ben", "Cleo", "Dan")]
    return Chat(
        at_once=await asyncio.gather(*(asked(member, one) for one in plain)),
        coloured=await asked(member, ask("Two red balls: colour and count?", COLOUR, seed=1)),
        listed=await asked(member, ask("Name fruits.", LIST, max_tokens=60, seed=1)),
        too_long=await _refused(member, ask("word " * 600)),
        stranger=await _stranger(member.server.address),
        pid=member.server.pid,
    )


async def _refused(member: Local, one: Ask) -> MemberError:
    with pytest.raises(MemberError) as refused:
        await asked(member, one)
    return refused.value


async def _stranger(address: str) -> MemberError:
    stranger = OpenAI(traits(), address, lambda: "guessed", own=True)
    await stranger.open()
    try:
        with pytest.raises(MemberError) as refused:
            await stranger.ask(stranger.prepare(ask("hi")), tell_nobody)
    finally:
        await stranger.close()
    return refused.value


def test_more_asks_than_slots_are_all_answered(chat: Chat) -> None:
    told = [(reply.finish in ("stop", "length"), bool(reply.text)) for reply in chat.at_once]
    assert told == [(True, True)] * 4
    assert all(reply.usage and 1 <= reply.usage.output <= 6 for reply in chat.at_once)


def test_a_reply_has_the_form_of_the_schema(chat: Chat) -> None:
    data: Any = chat.coloured.data
    assert (set(data), data["colour"] in ("red", "blue"), type(data["count"])) == (
        {"colour", "count"}, True, int,
    )  # fmt: skip


def test_so_has_one_whose_root_is_no_object(chat: Chat) -> None:
    data: Any = chat.listed.data
    assert isinstance(data, list) and len(data) <= 3
    assert {type(one) for one in data} <= {str}


def test_a_prompt_beyond_its_context_is_known_as_such(chat: Chat) -> None:
    assert isinstance(chat.too_long, Terminal) and chat.too_long.too_long


def test_a_wrong_key_is_refused(chat: Chat) -> None:
    assert isinstance(chat.stranger, Terminal) and chat.stranger.scope == "pool"


def test_the_server_is_gone_with_its_member(chat: Chat) -> None:
    assert not is_alive(chat.pid)


def test_sentiment_by_label_probabilities() -> None:
    texts = ("I hate it, poor quality.", "I love it, perfect!")

    async def main() -> list[Reply]:
        member = served("labels")
        await member.open()
        try:
            return [await asked(member, ask(SHOTS.format(text), MOOD)) for text in texts]
        finally:
            await member.close()

    replies = asyncio.run(main())
    assert [reply.data["mood"] for reply in replies] == ["negative", "positive"]
    for reply in replies:
        assert sum(reply.data["probabilities"].values()) == pytest.approx(1.0, abs=1e-4)
        assert reply.usage and reply.usage.output == 1
    second = replies[1].usage
    assert second and second.cache_read > second.input  # the examples are read once


OWNER = """
import asyncio
from tests.unit.members.test_local_engine import served

async def main():
    member = served()
    await member.open()
    print(member.server.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_no_server_outlives_its_owner() -> None:
    path = os.pathsep.join((str(SRC), str(SRC.parent), os.environ.get("PYTHONPATH", "")))
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with owner:
        assert owner.stdout
        server = int(owner.stdout.readline())
        assert is_alive(server)
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(server))


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_text("just a text")
    member = Local(traits(), LocalFields(model="no.gguf"), beside=tmp_path, cache=CACHE)
    with pytest.raises(Terminal, match="cannot be started: invalid magic characters") as refused:
        asyncio.run(member.open())
    assert refused.value.scope == "member"
