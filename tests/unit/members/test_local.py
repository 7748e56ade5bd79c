"""The kind `local`: its fields, its server and what is asked of it, with an engine that pretends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fanfold.errors import BadInput, Terminal, Transient
from fanfold.members.entry import MemberEntry
from fanfold.members.local import Local, LocalFields, usual_threads
from fanfold.members.local_store import cache_folder
from fanfold.members.openai import OpenAI
from fanfold.members.roster import load_roster
from fanfold.price import FREE
from fanfold.testing.script import Says
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Reply, Usage
from fanfold.work.member import MemberLimits, Traits, tell_nobody
from tests.faces.cli import SRC
from tests.unit.members.embedded import (
    ask,
    asked,
    is_alive,
    pretender,
    pretending,
    replied,
    traits,
    with_member,
    without_engine,
)
from tests.waiting import wait_until

ARRAY = {"type": "array", "items": {"type": "integer"}}
MOOD = {"type": "object", "properties": {"mood": {"enum": ["bad", "fine", "good"]}}}


def entry(folder: Path, fields: str) -> MemberEntry:
    path = folder / "roster.yaml"
    path.write_text(f"members:\n  - {{id: m, kind: local{fields}}}\n")
    return load_roster(path).entries["m"]


# ── in the roster ────────────────────────────────────────────────────────────────────────────


def test_what_a_roster_need_not_say(tmp_path: Path) -> None:
    assert entry(tmp_path, "").traits == Traits(
        id="m", kind="local", answerer="local:SmolLM2-135M-Instruct.Q4_1:usual:chat", metered=False,
        price=FREE, model="SmolLM2-135M-Instruct.Q4_1", max_tokens=512, context=2048,
        keeps_time=True, limits=MemberLimits(concurrency=4), pool="m", tier="local",
    )  # fmt: skip


def test_what_a_roster_may_say(tmp_path: Path) -> None:
    (tmp_path / "my.model.gguf").write_bytes(b"GGUF")
    said = entry(
        tmp_path,
        ", model: my.model.gguf, slots: 3, threads: 2, context: 4096, max_tokens: 99,"
        " answers: labels, limits: {concurrency: 9, rpm: 5}, good_at: [sentiment]",
    )
    assert isinstance(said.fields, LocalFields)
    fields = said.fields
    assert (fields.model, fields.slots, fields.threads, fields.answers) == (
        "my.model.gguf", 3, 2, "labels",
    )  # fmt: skip
    assert said.traits.answerer == "local:my.model:4:labels"
    assert said.traits.model == "my.model"
    assert (said.traits.context, said.traits.max_tokens) == (4096, 99)
    assert said.traits.limits == MemberLimits(concurrency=3, rpm=5)


def test_another_model_is_another_answerer(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    before = entry(tmp_path, ", model: a.gguf").traits.answerer
    (tmp_path / "a.gguf").write_bytes(b"GGUF and more")
    assert (before, entry(tmp_path, ", model: a.gguf").traits.answerer) == (
        "local:a:4:chat", "local:a:13:chat",
    )  # fmt: skip


def test_a_field_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput,
        match=r":2: `base_url` is a field of kind openai, anthropic, embedding, litellm, not of kind local",
    ):
        entry(tmp_path, ", base_url: 'http://127.0.0.1:1'")


def test_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache/fanfold/local"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/fanfold/local")


def test_threads_where_the_roster_states_none() -> None:
    assert {n: usual_threads(n) for n in (1, 2, 3, 4, 8, 64)} == {
        1: 1, 2: 2, 3: 2, 4: 2, 8: 4, 64: 32,
    }  # fmt: skip


# ── what is missing ──────────────────────────────────────────────────────────────────────────


def opened(member: Local) -> None:
    asyncio.run(member.open())


@without_engine
def test_a_missing_engine_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    with pytest.raises(BadInput, match=r"the engine .* is not there; run: fanfold local setup"):
        opened(Local(traits(), LocalFields(model="a.gguf"), beside=tmp_path, cache=tmp_path))


def test_missing_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"the weights .* are not there; run: fanfold local setup"):
        opened(Local(traits(), LocalFields(), beside=tmp_path, cache=pretending(tmp_path)))


def test_a_missing_model_of_ones_own(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no\.gguf: there is no such model; `model` is the path"):
        opened(
            Local(
                traits(), LocalFields(model="no.gguf"), beside=tmp_path, cache=pretending(tmp_path)
            )
        )


@without_engine
def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    member = pretender(tmp_path)
    (tmp_path / "tiny.gguf").write_bytes(b"text")
    with pytest.raises(
        Terminal, match=r"m: the embedded model cannot be started: .*this is no mod"
    ):
        opened(member)
    assert member.server and not member.server.runs


# ── the wire ─────────────────────────────────────────────────────────────────────────────────


def test_our_own_server_takes_any_schema() -> None:
    own = OpenAI(traits(), "http://127.0.0.1:1", lambda: "k", own=True)
    assert json.loads(own.prepare(ask("hi", ARRAY)).body) == {
        "model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 64,
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": ARRAY}},
    }  # fmt: skip


def test_no_proxy_stands_before_our_own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody listens at would be noticed."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    async def main() -> Reply:
        async with ModelServer(lambda asked: Says(text="[1, 2]")) as server:
            own = OpenAI(traits(), server.url, lambda: "k", own=True)
            await own.open()
            try:
                return await own.ask(own.prepare(ask("hi", ARRAY)), tell_nobody)
            finally:
                await own.close()

    assert asyncio.run(main()).data == [1, 2]


# ── a server of its own ──────────────────────────────────────────────────────────────────────


@without_engine
def test_the_server_is_started_as_the_roster_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it sees nothing of our environment."""
    monkeypatch.setenv("ZZ_KEY", "secret")
    reply = replied(pretender(tmp_path), ask("hi", MOOD, max_tokens=9))
    told = {
        "slots": 2, "context": 1024, "threads": 1, "alias": ["tiny"], "environment": [],
        "waits": "PASSIVE", "most": 9,
        "format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": MOOD}},
    }  # fmt: skip
    assert reply.data == told
    assert reply.usage == Usage(7, 5)


@without_engine
def test_it_ends_with_the_member(tmp_path: Path) -> None:
    async def pid(member: Local) -> int:
        assert member.server and member.server.pid and is_alive(member.server.pid)
        return member.server.pid

    assert not is_alive(with_member(pretender(tmp_path), pid))


@without_engine
def test_closing_what_was_never_opened(tmp_path: Path) -> None:
    member = pretender(tmp_path)
    asyncio.run(member.close())
    assert member.server is None


@without_engine
def test_a_server_that_died_is_started_again(tmp_path: Path) -> None:
    """What was under way is lost; the next ask finds a new one."""

    async def use(member: Local) -> tuple[int | None, int | None]:
        assert member.server
        first = member.server.pid
        with pytest.raises(Transient, match="connection lost") as lost:
            await asked(member, ask("die"))
        assert lost.value.lost
        wait_until(lambda: member.server is not None and not member.server.runs)
        assert (await asked(member, ask("hi"))).finish == "stop"
        return first, member.server.pid

    first, second = with_member(pretender(tmp_path), use)
    assert first != second


@without_engine
def test_nobody_gets_in_without_the_key(tmp_path: Path) -> None:
    async def use(member: Local) -> Terminal:
        assert member.server
        stranger = OpenAI(traits(), member.server.address, lambda: "guessed", own=True)
        await stranger.open()
        try:
            with pytest.raises(Terminal) as refused:
                await stranger.ask(stranger.prepare(ask("hi")), tell_nobody)
        finally:
            await stranger.close()
        return refused.value

    assert with_member(pretender(tmp_path), use).scope == "pool"


OWNER = """
import asyncio, sys
from pathlib import Path
from tests.unit.members.embedded import pretender

async def main():
    member = pretender(Path(sys.argv[1]))
    await member.open()
    print(member.server.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@without_engine
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    path = os.pathsep.join((str(SRC), str(SRC.parent), os.environ.get("PYTHONPATH", "")))
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with owner:
        assert owner.stdout
        server = int(owner.stdout.readline())
        assert is_alive(server)
        owner.send_signal(number)
    wait_until(lambda: not is_alive(server))


# ── labels ───────────────────────────────────────────────────────────────────────────────────


@without_engine
def test_label_probabilities(tmp_path: Path) -> None:
    """One request where all labels begin differently."""
    reply = replied(pretender(tmp_path, answers="labels"), ask("Review: x\nMood: \n", MOOD))
    assert reply == Reply(
        "good",
        {"mood": "good", "probabilities": {"bad": 0.125, "fine": 0.375, "good": 0.5}},
        Usage(5, 1, cache_read=15),
        model="tiny",
    )


@without_engine
def test_labels_that_begin_alike_take_another_request(tmp_path: Path) -> None:
    """`good` has half, and of that a quarter ends there and the rest goes on with `enough`."""
    schema = {"properties": {"mood": {"enum": ["bad", "fine", "good", "good enough"]}}}
    reply = replied(pretender(tmp_path, answers="labels"), ask("Mood:", schema))
    assert reply.data == {
        "mood": "fine",
        "probabilities": {"bad": 0.125, "fine": 0.375, "good": 0.125, "good enough": 0.375},
    }
    assert reply.usage == Usage(10, 2, cache_read=30)


@without_engine
def test_weights_count_before_the_labels_are_compared(tmp_path: Path) -> None:
    member = pretender(tmp_path, answers="labels", weights={"bad": 9.0})
    assert replied(member, ask("Mood:", MOOD)).data == {
        "mood": "bad", "probabilities": {"bad": 0.5625, "fine": 0.1875, "good": 0.25},
    }  # fmt: skip


@without_engine
def test_a_weight_of_no_label(tmp_path: Path) -> None:
    member = pretender(tmp_path, answers="labels", weights={"god": 9.0})
    with pytest.raises(Terminal, match="`weights` names 'god', which is no label of the schema"):
        replied(member, ask("Mood:", MOOD))


def test_other_weights_are_another_answerer(tmp_path: Path) -> None:
    said = [entry(tmp_path, f", answers: labels, weights: {{bad: {w}, 1: 2}}") for w in (2, 3, 3)]
    assert [getattr(one.fields, "weights", None) for one in said] == [
        {"bad": w, "1": 2.0} for w in (2.0, 3.0, 3.0)
    ]
    first, second, third = (one.traits.answerer for one in said)
    assert first != second == third


@without_engine
def test_an_enum_of_numbers(tmp_path: Path) -> None:
    reply = replied(pretender(tmp_path, answers="labels"), ask("Stars:", {"enum": [1, 2]}))
    assert (reply.text, reply.data) == ("2", 2)


@without_engine
@pytest.mark.parametrize("schema", [None, ARRAY])
def test_labels_need_a_schema_with_labels(tmp_path: Path, schema: dict[str, object] | None) -> None:
    with pytest.raises(Terminal, match="`answers: labels` needs a schema with labels") as refused:
        replied(pretender(tmp_path, answers="labels"), ask("Mood:", schema))
    assert refused.value.scope == "ask"


def test_the_worst_case_of_labels_is_a_request_for_each_but_one(tmp_path: Path) -> None:
    member = pretender(tmp_path, answers="labels")
    request = member.prepare(ask("Mood:  \n", MOOD))
    assert (request.body, request.input_tokens, request.output_tokens) == (b"Mood:", 1024, 2)
