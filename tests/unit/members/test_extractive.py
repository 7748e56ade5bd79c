"""The summariser of the packaged roster: sentences of the text, the same ones every time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import Terminal
from fanfold.members.extractive import MOST_SENTENCES, central, split_sentences, summarise
from fanfold.members.roster import DEFAULT_ROSTER, load_roster
from fanfold.work.ask import Ask, Reply
from fanfold.work.item import Item
from fanfold.work.member import tell_nobody

LEASE = (
    "Contracts are long. The tenant pays rent on the first day of each month. If the tenant pays "
    "the rent late, a fee is due. Spring was wet. The landlord may end the contract when the "
    "tenant does not pay the rent for two months. Pets are allowed. The garden is green."
)
CENTRAL = [
    "The tenant pays rent on the first day of each month.",
    "If the tenant pays the rent late, a fee is due.",
    "The landlord may end the contract when the tenant does not pay the rent for two months.",
]


def test_the_sentences_that_are_like_most_others_are_taken_in_their_order() -> None:
    assert central(LEASE) == CENTRAL
    assert central(LEASE, 1) == CENTRAL[1:2]
    assert summarise({"id": "c1", "text": LEASE}) == " ".join(CENTRAL)


def test_what_says_the_same_is_taken_once() -> None:
    text = "The rent is due on Monday. The rent is due on Monday! It rains. The dog sleeps now."
    assert central(text) == ["The rent is due on Monday.", "The dog sleeps now."]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("It costs 1.50 dollars, i.e. little.", ["It costs 1.50 dollars, i.e. little."]),
        ("A line\nthat goes on.\n\nA paragraph", ["A line that goes on.", "A paragraph"]),
        ("- one\n- two", ["- one", "- two"]),
        ("一。二！", ["一。", "二！"]),
        (" \n ", []),
    ],
)
def test_where_a_sentence_ends(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    ("data", "summary"),
    [
        ("Only this.", "Only this."),
        ({"id": "a b", "text": "Only this."}, "Only this."),
        ({"id": "x1", "note": "Only this."}, "Only this."),
        ({"parts": [{"id": "a", "ids": ["a"], "value": "Part one."}], "missing": []}, "Part one."),
        ({"prompt": "Only this."}, "Only this."),
    ],
)
def test_where_the_text_of_an_item_is(data: Any, summary: str) -> None:
    assert summarise(data) == summary


@pytest.mark.parametrize("data", [{}, None, 3, "", {"text": " "}])
def test_without_a_text_it_says_so(data: Any) -> None:
    with pytest.raises(Terminal, match="there is no text") as error:
        summarise(data)
    assert error.value.scope == "ask"


@given(st.text(max_size=300))
def test_it_only_ever_quotes_and_always_the_same(text: str) -> None:
    found = central(text)
    sentences = split_sentences(text)
    assert found == central(text)
    assert set(found) <= set(sentences)
    assert len(found) <= MOST_SENTENCES
    assert bool(found) == bool(sentences)


def test_the_packaged_roster_needs_nothing_and_answers(tmp_path: Path) -> None:
    """Also where a module of the user's own is called like ours."""
    (tmp_path / "fanfold.py").write_text("raise RuntimeError('not this one')\n")
    roster = load_roster(DEFAULT_ROSTER)
    assert {
        id: (e.traits.kind, e.traits.good_at, e.fields.key_reference)
        for id, e in roster.entries.items()
    } == {"extractive": ("function", ("summaries", "extraction"), "none")}
    member = roster.build("extractive", folder=tmp_path)
    ask = Ask(items=(Item("c1", {"text": LEASE}),))
    assert asyncio.run(member.ask(member.prepare(ask), tell_nobody)) == Reply(" ".join(CENTRAL))
