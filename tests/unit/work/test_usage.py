from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from fanfold.work.ask import Call, Reply, Usage
from fanfold.work.usage import MOST_TOKENS, MOST_USD, with_plausible_usage

PROMPT = ("Summarise this: " + "word " * 200,)
ANSWER = "An answer of some length, as models give them. " * 20


def reported(usage: Usage | None, text: str = ANSWER, **more: Any) -> Reply:
    return with_plausible_usage(Reply(text, usage=usage, **more), PROMPT)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(-1, 200), Usage(300, -99_000), Usage(300, 200, -5), Usage(300, 200, 0, -5),
        Usage(300, MOST_TOKENS + 1), Usage(2**70, 200), Usage(300, 1.5), Usage(300, True),
        Usage(300, "200"), Usage(300, float("nan")),
    ],
)  # fmt: skip
def test_a_number_that_no_call_can_have_is_no_usage(usage: Any) -> None:
    reply = reported(usage)
    assert reply.usage is None
    assert reply.unusable.startswith("it reports ")


@pytest.mark.parametrize(
    ("usage", "why"),
    [
        (Usage(0, 0), "it reports 0 tokens for a reply of 940 characters"),
        (Usage(300, 0), "it reports 0 tokens for a reply of 940 characters"),
        (Usage(300, 20), "it reports 20 tokens for a reply of 940 characters"),
        (Usage(0, 200), "it reports 0 tokens for a prompt of 1,016 characters"),
        (Usage(20, 200), "it reports 20 tokens for a prompt of 1,016 characters"),
    ],
)  # fmt: skip
def test_far_fewer_tokens_than_the_text_has_are_no_usage(usage: Usage, why: str) -> None:
    assert reported(usage) == Reply(ANSWER, unusable=why)


def _chinese() -> str:
    return "".join(chr(n) for n in random.Random(1).choices(range(0x4E00, 0x9FA5), k=900))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("ok", 1),
        ("translatesAutoresizingMaskIntoConstraints", 1),
        (" " * 128 * 50, 50),
        ("-" * 5000, 60),
        ("\n" * 3000 + "x", 30),
        (ANSWER, 190),
        (ANSWER, 4000),
        (_chinese(), 500),
        (base64.b64encode(random.Random(2).randbytes(3000)).decode(), 2500),
        (" internationalization" * 100, 100),
    ],
)  # fmt: skip
def test_what_real_tokenizers_make_of_a_text_is_believed(text: str, tokens: int) -> None:
    reply = Reply(text, usage=Usage(300, tokens))
    assert with_plausible_usage(reply, PROMPT) is reply
    asked = Reply("ok", usage=Usage(tokens, 1))
    assert with_plausible_usage(asked, (text,)) is asked


def test_what_was_read_from_a_cache_was_sent_too() -> None:
    for usage in (Usage(3, 200, cache_read=300), Usage(3, 200, cache_write=300)):
        reply = Reply(ANSWER, usage=usage)
        assert with_plausible_usage(reply, PROMPT) is reply


@pytest.mark.parametrize(
    "cost", [-0.01, float("nan"), float("inf"), -float("inf"), MOST_USD * 2, "1", True]
)
def test_a_cost_that_cannot_be_is_no_cost(cost: Any) -> None:
    reply = reported(Usage(300, 200), cost_usd=cost)
    assert reply.usage is reply.cost_usd is None
    assert reply.unusable.startswith("it reports a cost of ")


def test_a_stated_cost_holds_where_only_the_usage_is_wrong_unless_it_is_nothing() -> None:
    assert reported(Usage(-1, 1), cost_usd=0.25).cost_usd == 0.25
    assert reported(Usage(0, 0), cost_usd=0.0).cost_usd is None


def test_a_program_of_the_user_may_take_less_than_the_prompt() -> None:
    """It may shorten it, or answer without a model."""
    reply = Reply(ANSWER, usage=Usage(0, 0), cost_usd=0.0)
    assert with_plausible_usage(reply) is reply
    assert with_plausible_usage(Reply(ANSWER, usage=Usage(-1, 0))).usage is None


def test_a_call_of_a_tool_takes_tokens_too() -> None:
    reply = Reply("", usage=Usage(300, 0), calls=(Call("1", "delegate", {}),))
    assert with_plausible_usage(reply, PROMPT).usage is None


@pytest.mark.parametrize("given", [{"text": ANSWER}, ANSWER])
def test_the_arguments_of_a_call_were_written_too(given: Any) -> None:
    """One token cannot be all of an article that a model hands to a tool."""
    calls = (Call("1", "save", given),)
    wrong = with_plausible_usage(Reply("", usage=Usage(300, 1), calls=calls), PROMPT)
    assert (wrong.usage, wrong.unusable[:24]) == (None, "it reports 1 tokens for ")
    reply = Reply("", usage=Usage(300, 200), calls=calls)
    assert with_plausible_usage(reply, PROMPT) is reply
