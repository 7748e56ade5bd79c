"""The gate that always holds, and the stated one on top of it."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.gates.checks import require
from fanfold.gates.default import default, standard
from fanfold.work.ask import Reply, Schema
from fanfold.work.outcome import PASS, fail
from tests.unit.gates.judging import judge, verdict

EMPTY = fail("the reply is empty")
REFUSED = fail("the member refused to answer")


@pytest.mark.parametrize("reply", [Reply(), Reply(text=" \n"), Reply(data=""), Reply(data="\t")])
def test_an_empty_reply_fails(reply: Reply) -> None:
    assert judge(default(), reply) == EMPTY


@pytest.mark.parametrize("data", [0, False, [], {}, "x"])
def test_no_findings_is_an_answer(data: Any) -> None:
    assert verdict(default(), data) == PASS


def test_a_reply_that_was_cut_off_fails() -> None:
    said = judge(default(), Reply(text="The first clause", finish="length"))
    assert said == fail("the reply was cut off before its end; keep it shorter")


@pytest.mark.parametrize(
    ("reason", "why"), [("error", "`error`"), ("abort", "`abort`"), ("", "no reason given")]
)
def test_a_reply_without_a_known_end_fails(reason: str, why: str) -> None:
    reply = Reply(text="The first clause", finish="other", reason=reason)
    cut = fail(f"the reply may have been cut off: it has no known end ({why})")
    assert judge(default(), reply) == cut


def test_a_stated_gate_is_not_asked_about_a_reply_without_a_known_end() -> None:
    reply = Reply(text="The first clause", finish="other", reason="error")
    assert judge(standard(lambda task, reply, ask: PASS), reply).state == "fail"


def test_a_refusal_by_its_ending_fails() -> None:
    assert judge(default(), Reply(data={"a": 1}, finish="refusal")) == REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that request.",
        "Sorry, I can’t help.",
        "I cannot help with that",
        "I am not able to fulfill this request.",
        "I apologize, but I won't complete this task.",
        "As an AI language model, I cannot assist you with this.",
        "I’m unable to comply with this.",
    ],
)
def test_a_refusal_in_words_fails(text: str) -> None:
    assert judge(default(), Reply(text=text)) == REFUSED
    assert judge(default(), Reply(data=text)) == REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "I cannot find any risk clause in this contract.",
        "I can't help but notice the missing date.",
        "I'm sorry to say that the term is ten years.",
        'The reviewer writes: "I cannot help with that."',
        "I cannot help with that. " + "It is how the letter begins. " * 20,
    ],
)
def test_an_answer_that_sounds_like_one_passes(text: str) -> None:
    assert judge(default(), Reply(text=text)) == PASS


def test_the_schema_holds_when_there_is_one() -> None:
    gate = default(Schema.of({"type": "object", "required": ["a"]}))
    assert verdict(gate, {"a": 1}) == PASS
    assert verdict(gate, {}) == fail('"a" is a required property')
    assert judge(gate, Reply(text="I cannot help with that.")) == REFUSED


def test_a_schema_that_is_none_is_bad_input() -> None:
    with pytest.raises(BadInput):
        default(Schema.of({"type": "objekt"}))


def test_the_stated_gate_is_called_only_for_what_the_default_one_passes() -> None:
    seen = []

    def stated(task: Any, reply: Reply, ask: Any) -> Any:
        seen.append(reply.value)
        return fail("no") if reply.value["a"] else PASS

    gate = standard(stated, Schema.of({"required": ["a"], "type": "object"}))
    assert verdict(gate, {}) == fail('"a" is a required property')
    assert verdict(gate, {"a": 1}) == fail("no")
    assert verdict(gate, {"a": 0}) == PASS
    assert seen == [{"a": 1}, {"a": 0}]


def test_without_a_stated_gate_it_is_the_default_one() -> None:
    assert judge(standard(None), Reply()) == EMPTY
    assert verdict(standard(require("a")), {"a": 1}) == PASS
