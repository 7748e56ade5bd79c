"""How a piece becomes an ask, and what a divide refuses to begin with."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.patterns.asked_reduce import asked
from fanfold.patterns.divide import Division, PieceAsk
from fanfold.patterns.fold import collect
from fanfold.patterns.prompt import prompt_of
from fanfold.work.item import Item
from fanfold.work.pieces import Piece

REVIEWS = (Item("a", {"id": "a", "text": "Good."}), Item("b", {"id": "b", "text": "Bad."}))
BOTH = Piece("a..b", REVIEWS)


def said(prompt: str, piece: Piece) -> str:
    (message,) = PieceAsk(prompt_of(prompt, None), alone=False)(piece).messages
    return message.content


def test_items_are_those_of_the_piece() -> None:
    prompt = "Sum up:{% for item in items %} {{ item.id }}={{ item.text }}{% endfor %}"
    assert said(prompt, BOTH) == "Sum up: a=Good. b=Bad."


def test_a_prompt_that_shows_nothing_has_the_items_appended_under_their_ids() -> None:
    assert said("Sum up.", BOTH) == "Sum up.\n\n### a\nGood.\n\n### b\nBad."


@pytest.mark.parametrize(
    ("data", "shown"), [("plain", "plain"), ({"n": 1}, '{"n":1}'), ([1, 2], "[1,2]")]
)
def test_an_item_without_text_is_appended_as_json(data: Any, shown: str) -> None:
    assert said("Sum up.", Piece("x", (Item("x", data),))) == f"Sum up.\n\n### x\n{shown}"


def test_a_function_receives_all_items_of_a_piece_in_one_call() -> None:
    ask = PieceAsk(prompt_of(None, None), alone=False)(BOTH)
    data = {"items": [item.data for item in REVIEWS], "text": "Good.\n\nBad."}
    assert (ask.messages, ask.items) == ((), (Item("a..b", data),))


def test_a_function_receives_the_item_itself_when_a_piece_is_never_more() -> None:
    ask = PieceAsk(prompt_of(None, None), alone=True)(Piece("a", REVIEWS[:1]))
    assert ask.items == REVIEWS[:1]


def test_the_key_hangs_on_the_content_not_on_ids_or_places() -> None:
    renamed = Piece("x..y", tuple(Item(f"new {item.id}", item.data) for item in REVIEWS))
    ask = PieceAsk(
        prompt_of("Sum up: {{ items | map(attribute='text') | join }}", None), alone=False
    )
    for takes in ("messages", "items"):
        assert ask(BOTH).key(takes) == ask(renamed).key(takes)
    other = Piece("a..b", REVIEWS[::-1])
    assert ask(BOTH).key("items") != ask(other).key("items")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"split": "paragraph"}, "unknown split `paragraph`: did you mean `paragraphs`"),
        ({"split": 7}, "`split` is a word, a function or asked"),
        ({"combine": "concat"}, "`combine` must be a function of the parts, such as concat()"),
        ({"max_depth": 0}, "`max_depth` must be 1 or more, not 0"),
        ({"max_pieces": True}, "`max_pieces` must be a whole number, not true"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        Division(**{"combine": collect(), **wrong})


def test_functions_words_and_members_split_and_combine() -> None:
    way = asked("Split it.")
    assert Division(collect(), split=way).method == "asked"
    assert Division(way, split=str.split).method == str.split
    assert Division(way, split="paragraphs").method == "paragraphs"
