"""Members that a script makes without a roster file: what an entry there would be, to the letter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.members.entry import MemberEntry, ScriptedEntry
from fanfold.members.kinds import field_names, record_of
from fanfold.members.roster import read_roster
from fanfold.price import Price
from fanfold.work.arguments import names_of
from fanfold.work.document import Node
from fanfold.work.member import MemberLimits

AGENT = {"id": "a", "type": "read-only", "max_turns": 9, "env": {"A": "b"}, "version": 2}
SAME: list[tuple[ScriptedEntry, dict[str, Any]]] = [
    (ff.openai("gpt-5-mini"), {"id": "gpt-5-mini", "kind": "openai", "model": "gpt-5-mini"}),
    (
        ff.openai(
            "m", id="x", base_url="http://127.0.0.1:9/v1/", price=Price(input=1, output=2),
            concurrency=5, good_at="legal", tier="api", max_bytes=9,
        ),
        {"id": "x", "kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1/",
         "price": {"input": 1, "output": 2}, "limits": {"concurrency": 5}, "good_at": ["legal"],
         "tier": "paid", "max_bytes": 9},
    ),
    (
        ff.anthropic("claude-haiku-4-5", key="env:WORK", limits=MemberLimits(rpm=7)),
        {"id": "claude-haiku-4-5", "kind": "anthropic", "model": "claude-haiku-4-5",
         "key": "env:WORK", "limits": {"rpm": 7}},
    ),
    (
        ff.command(("/usr/bin/jq", ".a"), version=1, price={"call": 0.0}, scrub_env=["X"]),
        {"id": "jq", "kind": "command", "cmd": ["/usr/bin/jq", ".a"], "version": 1,
         "price": {"call": 0.0}, "scrub_env": ["X"]},
    ),
    (ff.command(["say", "{prompt}"]), {"id": "say", "kind": "command", "cmd": ["say", "{prompt}"]}),
    (ff.agent("claude"), {"id": "claude", "kind": "claude"}),
    (ff.agent("claude", tools="Read", **AGENT), {"kind": "claude", "tools": ["Read"], **AGENT}),  # type: ignore[typeddict-item]
    (ff.agent("codex", sandbox="read-only", network=False),
     {"id": "codex", "kind": "codex", "sandbox": "read-only", "network": False}),
    (ff.agent("gemini", model="m"), {"id": "gemini", "kind": "gemini", "model": "m"}),
]  # fmt: skip


def listed(entry: dict[str, Any]) -> MemberEntry:
    (found,) = read_roster(Node({"members": [entry]}, "", {})).entries.values()
    return found


@pytest.mark.parametrize(("made", "entry"), SAME, ids=lambda value: getattr(value, "kind", ""))
def test_it_is_what_the_entry_of_a_roster_would_be(
    made: ScriptedEntry, entry: dict[str, Any]
) -> None:
    """The answerer too, by which replies are found again: what the one paid for serves the other."""
    in_file = listed(entry)
    assert (made.entry.fields, made.traits) == (in_file.fields, in_file.traits)


@pytest.mark.parametrize(
    ("door", "kinds"),
    [
        (ff.openai, ["openai"]),
        (ff.anthropic, ["anthropic"]),
        (ff.command, ["command"]),
        (ff.agent, ["claude", "codex", "gemini", "opencode"]),
    ],
)
def test_it_takes_all_fields_of_its_kind_and_no_others(
    door: Callable[..., Any], kinds: list[str]
) -> None:
    fields = {name for kind in kinds for name in field_names(record_of(kind))}
    assert names_of(door) | {"kind"} == fields


WRONG: list[tuple[Callable[[], Any], dict[str, Any]]] = [
    (lambda: ff.openai("m", price={"input": 1}),  # type: ignore[dict-item]
     {"kind": "openai", "model": "m", "price": {"input": 1}}),
    (lambda: ff.openai("m", key="my secret"), {"kind": "openai", "model": "m", "key": "my secret"}),
    (lambda: ff.openai("m", key="sk-aaaaaaaaaaaaaaaaaaaaaaaa"),
     {"kind": "openai", "model": "m", "key": "sk-aaaaaaaaaaaaaaaaaaaaaaaa"}),
    (lambda: ff.openai(""), {"kind": "openai", "model": ""}),
    (lambda: ff.anthropic("m", base_url="ftp://x"),
     {"kind": "anthropic", "model": "m", "base_url": "ftp://x"}),
    (lambda: ff.openai("m", concurrency=0),
     {"kind": "openai", "model": "m", "limits": {"concurrency": 0}}),
    (lambda: ff.command("jq ."), {"kind": "command", "cmd": "jq ."}),
    (lambda: ff.command([]), {"kind": "command", "cmd": []}),
    (lambda: ff.command(["sh", "-c", "{prompt}"]), {"kind": "command", "cmd": ["sh", "-c", "{prompt}"]}),
    (lambda: ff.agent("claude", sandbox="read-only"), {"kind": "claude", "sandbox": "read-only"}),
    (lambda: ff.agent("codex", effort="hi"),  # type: ignore[typeddict-item]
     {"kind": "codex", "effort": "hi"}),
]  # fmt: skip


@pytest.mark.parametrize(("make", "entry"), WRONG)
def test_a_mistake_is_refused_in_the_words_of_the_roster(
    make: Callable[[], Any], entry: dict[str, Any]
) -> None:
    with pytest.raises(BadInput) as said:
        make()
    with pytest.raises(BadInput) as in_file:
        listed({"id": "m", **entry})
    assert str(said.value) == in_file.value.what
    assert "\n" not in str(said.value) and "sk-aaaa" not in str(said.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ff.openai("m", prise=1), "openai() has no argument `prise`: did you mean `price`?"),
        (lambda: ff.agent("claud"),
         "agent() needs the kind of an agent, not the text 'claud': did you mean `claude`?"),
        (lambda: ff.openai("m", limits={"rpm": 1}, concurrency=2),
         "state `limits` or `concurrency`, not both"),
        (lambda: ff.openai(5), "`model` must be a text, not the number 5"),
        (lambda: ff.command(), "command(): missing a required argument: 'cmd'"),
    ],
)  # fmt: skip
def test_a_mistake_of_the_call_is_one_line(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(BadInput) as error:
        make()
    assert str(error.value) == said


def test_a_function_takes_the_limits_of_a_roster_too() -> None:
    assert ff.function(len, limits={"rpm": 5}).traits.limits == MemberLimits(rpm=5)
    assert ff.function(len, concurrency=3).traits.limits == MemberLimits(concurrency=3)


def test_the_gate_that_was_called_model_is_called_shape() -> None:
    with pytest.warns(DeprecationWarning, match=r"fanfold\.model is called fanfold\.shape now"):
        old = ff.model  # type: ignore[attr-defined]
    assert old is ff.shape
    assert "model" not in dir(ff)
