from __future__ import annotations

from typing import Any

import pytest

from fanfold.members.anthropic import Anthropic
from fanfold.members.openai import OpenAI
from fanfold.members.reported import of_completions, of_embeddings, of_messages
from fanfold.testing.script import Says
from fanfold.work.ask import Usage
from tests.unit.members.asking import Kind, listened

WRONG = "its usage is not in whole numbers"
both = pytest.mark.parametrize("stream", [False, True])


def completions(**more: Any) -> dict[str, Any]:
    return {"prompt_tokens": 30, "completion_tokens": 20, **more}


@pytest.mark.parametrize(
    ("found", "usage"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": 3}, None),
        (completions(), Usage(30, 20)),
        (completions(completion_tokens=20.0), Usage(30, 20)),
        (completions(prompt_tokens_details={"cached_tokens": 10}), Usage(20, 20, 10)),
        (completions(prompt_tokens_details=None), Usage(30, 20)),
        (completions(completion_tokens_details={"reasoning_tokens": 15}), Usage(30, 20)),
        # reasoning that is not part of the completion's tokens
        (completions(completion_tokens_details={"reasoning_tokens": 90}), Usage(30, 110)),
        (completions(total_tokens=140), Usage(30, 110)),
        (completions(total_tokens=50), Usage(30, 20)),
        (completions(total_tokens=0), Usage(30, 20)),
    ],
)
def test_usage_of_chat_completions(found: Any, usage: Usage | None) -> None:
    assert of_completions(found) == (usage, "")


@pytest.mark.parametrize(
    "found",
    [
        "many", [3], completions(prompt_tokens="30"), completions(completion_tokens=1.5),
        completions(completion_tokens=True), completions(prompt_tokens_details=3),
        completions(prompt_tokens_details={"cached_tokens": "all"}),
        completions(prompt_tokens_details={"cached_tokens": -1}),
        completions(prompt_tokens_details={"cached_tokens": 31}),
        completions(completion_tokens_details={"reasoning_tokens": -1}),
        # what another figure would make good
        completions(completion_tokens=-99, total_tokens=60), completions(total_tokens=-1),
        completions(prompt_tokens_details={"cached_tokens": 0}, prompt_cache_hit_tokens=-5),
    ],
)  # fmt: skip
def test_usage_of_chat_completions_that_cannot_be(found: Any) -> None:
    reported = of_completions(found)
    assert (reported.usage, bool(reported.unusable)) == (None, True)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, (None, "")),
        ({"input_tokens": 3}, (None, "")),
        ({"input_tokens": 3, "output_tokens": 4}, (Usage(3, 4), "")),
        ({"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5,
          "cache_creation": {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 7}},
         (Usage(3, 4, 5, 13), "")),
        ({"input_tokens": "3", "output_tokens": 4}, (None, WRONG)),
        ({"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 0.5}, (None, WRONG)),
        ({"input_tokens": 3, "output_tokens": 4, "cache_creation": 1}, (None, WRONG)),
        ({"input_tokens": 3, "output_tokens": 4,
          "cache_creation": {"ephemeral_5m_input_tokens": -9, "ephemeral_1h_input_tokens": 9}},
         (None, WRONG)),
    ],
)  # fmt: skip
def test_usage_of_messages(found: Any, expected: tuple[Usage | None, str]) -> None:
    assert of_messages(found) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"prompt_tokens": 500}, (Usage(500, 0), "")),
        ({"prompt_tokens": 500, "total_tokens": 500}, (Usage(500, 0), "")),
        ({"prompt_tokens": 500, "total_tokens": 5}, (Usage(500, 0), "")),
        ({"total_tokens": 500}, (Usage(500, 0), "")),
        ({"prompt_tokens": -500, "total_tokens": 5}, (None, WRONG)),
        ({}, (None, "")),
    ],
)
def test_usage_of_embeddings(found: Any, expected: tuple[Usage | None, str]) -> None:
    assert of_embeddings(found) == expected


@both
@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
@pytest.mark.parametrize("told", ["all", {"prompt_tokens": "x", "input_tokens": "x"}])
def test_a_reply_whose_usage_cannot_be_read_is_a_reply(
    kind: Kind, told: object, stream: bool
) -> None:
    """It was paid for; only what it took is not known."""
    reply = listened(kind, Says(text="fine", reports=told), stream=stream).reply
    assert (reply.text, reply.usage, reply.unusable) == ("fine", None, WRONG)


def test_tokens_that_a_stream_tells_before_the_reply_was_written_are_not_its_usage() -> None:
    """`message_start` has one token of output, whatever follows."""
    says = Says(text="fine", usage=Usage(9, 40), reports={})
    assert listened(Anthropic, says, stream=True).reply.usage is None
