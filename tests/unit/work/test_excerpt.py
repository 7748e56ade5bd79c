"""A long text keeps its ends, and says how much is missing in between."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fanfold.work.ask import KICKED_BYTES, Ask, Message, Params, Reply
from fanfold.work.excerpt import excerpt


def test_what_fits_stays_as_it_is() -> None:
    assert excerpt("a" * 100, 100) == "a" * 100


def test_of_what_does_not_fit_the_ends_stay() -> None:
    found = excerpt("begin" + "x" * 1000 + "end", 104)
    assert found == "begin" + "x" * 15 + "\n[... 968 characters left out ...]\n" + "x" * 17 + "end"


@given(text=st.text(), most=st.integers(64, 200))
def test_it_never_takes_more_bytes_than_it_may(text: str, most: int) -> None:
    assert len(msgspec.json.encode(excerpt(text, most))) - 2 <= most


def test_half_a_surrogate_pair_is_no_reason_to_fail_here() -> None:
    assert excerpt("\ud800", 64) == "\ud800"


def test_a_kick_back_sends_at_most_so_much_of_the_reply() -> None:
    """By its tokens where the ask says how many there may be."""
    for max_tokens, most in ((None, KICKED_BYTES), (100, 800)):
        ask = Ask((Message("user", "hi"),), params=Params(max_tokens=max_tokens))
        said = ask.revised(Reply("z" * 10_000_000), ("no",)).turns[0].content
        assert most - 100 <= len(said) <= most
        assert "characters left out" in said
    short = ask.revised(Reply("short"), ("no",))
    assert [turn.content for turn in short.turns] == [
        "short",
        "That reply was not accepted:\n- no\nReply again, in full, with this put right.",
    ]


def test_a_subclass_of_str_is_shortened_too() -> None:
    """As the stand-ins of a preview are."""

    class Marked(str):
        __slots__ = ()

    assert excerpt(Marked("short"), 100) == "short"
