"""What crosses an executor comes out as it went in, without anything of this machine."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import (
    CalledOff,
    InvalidReply,
    MemberError,
    RateLimited,
    Terminal,
    TimedOut,
    Transient,
)
from fanfold.work.ask import Ask, Call, Message, Params, Reply, Schema, Tool, Tools, Usage
from fanfold.work.item import Item
from fanfold.work.member import Request
from fanfold.work.wire import decode_answer, decode_request, encode_answer, encode_request

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
tokens = st.integers(0, 10**9)
usages = st.none() | st.builds(Usage, tokens, tokens, tokens, tokens)
seconds = st.none() | st.floats(0, 1e6)
messages = st.lists(st.builds(Message, st.just("user"), texts), max_size=3).map(tuple)
asks = st.builds(
    Ask,
    messages=messages,
    items=st.lists(st.builds(Item, texts, values), max_size=2).map(tuple),
    turns=messages,
    schema=st.none() | st.just(Schema.of({"type": "object"})),
    params=st.builds(Params, max_tokens=st.none() | st.integers(1, 99)),
    sample=st.integers(0, 3),
    tools=st.none() | st.just(Tools.of((Tool("look", "looks", {"type": "object"}),))),
)
requests = st.builds(
    Request, asks, st.binary(max_size=20), tokens, tokens, texts, st.just(""),
    most=st.none() | tokens, least=st.none() | tokens,
)  # fmt: skip
replies = st.builds(
    Reply,
    text=texts,
    data=values,
    usage=usages,
    model=st.none() | texts,
    cost_usd=st.none() | st.floats(0, 100),
    calls=st.lists(st.builds(Call, texts, texts, values), max_size=2).map(tuple),
)


@given(requests)
def test_a_request(request: Request) -> None:
    assert decode_request(encode_request(request)) == request


def test_the_path_of_the_store_stays_here() -> None:
    sent = encode_request(Request(Ask(), span="01:7", store="/srv/store"))
    assert (b"/srv" in sent, decode_request(sent).span) == (False, "01:7")


@given(replies)
def test_a_reply(reply: Reply) -> None:
    assert decode_answer(encode_answer(reply)) == reply


def told(error: MemberError) -> tuple[Any, ...]:
    more = [
        getattr(error, name, None) for name in ("retry_after", "scope", "too_long", "reset_after")
    ]
    return (type(error), str(error), error.lost, error.cost, error.bound, error.usage, *more)


errors = st.one_of(
    st.builds(MemberError, texts, lost=st.booleans()),
    st.builds(Transient, texts, lost=st.booleans()),
    st.builds(InvalidReply, texts),
    st.builds(CalledOff, texts),
    st.builds(TimedOut, texts),
    st.builds(RateLimited, texts, retry_after=seconds),
    st.builds(
        Terminal, texts, scope=st.sampled_from(["pool", "member", "ask"]), too_long=st.booleans(),
        reset_after=seconds, lost=st.booleans(),
    ),
)  # fmt: skip


@given(errors, st.none() | tokens, st.booleans(), usages)
def test_an_error_with_all_that_decides_refunds_and_doubt(
    error: MemberError, cost: int | None, bound: bool, usage: Usage | None
) -> None:
    error.cost, error.bound, error.usage = cost, bound, usage
    got = decode_answer(encode_answer(error))
    assert isinstance(got, MemberError)
    assert told(got) == told(error)


def test_a_defect_of_a_member_may_have_run() -> None:
    got = decode_answer(encode_answer(KeyError("answer")))
    assert isinstance(got, MemberError)
    assert (type(got), got.lost, "answer" in str(got)) == (MemberError, True, True)


def test_an_answer_that_is_no_text_reaches_who_waits_for_it_as_an_invalid_one() -> None:
    """Half of a surrogate pair: it was paid for, and cannot be sent."""
    got = decode_answer(encode_answer(Reply(text="good \ud800", usage=Usage(3, 4))))
    assert isinstance(got, InvalidReply)
    assert (got.lost, got.usage) == (False, Usage(3, 4))
    assert isinstance(decode_answer(encode_answer(Transient("bad \ud800"))), Transient)
    assert isinstance(decode_answer(encode_answer(ValueError("bad \ud800"))), MemberError)
