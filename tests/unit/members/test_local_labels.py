"""Label probabilities: what a schema leaves to be chosen, and the way through the tokens."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.members.local_labels import Choice, Fork, choice, ended, fork, weighted
from fanfold.work.ask import Schema

LABEL = {"enum": ["bad", "good"]}


def of(definition: dict[str, Any]) -> Choice | None:
    return choice(Schema.of(definition))


def labelled(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"mood": LABEL}, "required": ["mood"], **more}


def test_an_enum_is_a_choice() -> None:
    assert of(LABEL) == Choice(("bad", "good"), None, shown=False)


def test_an_object_with_one_enum_is_a_choice_with_room_for_probabilities() -> None:
    assert of(labelled()) == Choice(("bad", "good"), "mood", shown=True)


def test_a_closed_object_has_room_only_where_it_says_so() -> None:
    stated = {"mood": LABEL, "probabilities": {"type": "object"}}
    closed = labelled(additionalProperties=False)
    assert of(closed) == Choice(("bad", "good"), "mood", shown=False)
    assert of({**closed, "properties": stated}) == Choice(("bad", "good"), "mood", shown=True)


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"type": "object"},
        {"enum": ["only"]},
        {"enum": ["1", 1]},
        {"enum": ["yes", True]},
        {"enum": ["a", " "]},
        {"enum": [["a"], ["b"]]},
        labelled(required=["mood", "reason"]),
        labelled(properties={"mood": LABEL, "other": LABEL}),
        {"type": "array", "items": LABEL},
    ],
)
def test_what_is_no_choice(definition: dict[str, Any]) -> None:
    assert of(definition) is None


def test_no_schema_is_no_choice() -> None:
    assert choice(None) is None


def test_the_most_probable_label_in_the_form_of_the_schema() -> None:
    shares = {"bad": 0.25, "good": 0.75}
    assert Choice(("bad", "good"), None, shown=False).data(shares) == "good"
    assert Choice(("bad", "good"), "mood", shown=False).data(shares) == {"mood": "good"}
    assert Choice(("bad", "good"), "mood", shown=True).data(shares) == {
        "mood": "good", "probabilities": {"bad": 0.25, "good": 0.75},
    }  # fmt: skip


def test_numbers_come_back_as_numbers() -> None:
    assert Choice((1, 2), "stars", shown=True).data({"1": 0.9, "2": 0.1}) == {
        "stars": 1, "probabilities": {"1": 0.9, "2": 0.1},
    }  # fmt: skip


def test_weights_move_the_balance() -> None:
    shares = {"bad": 0.25, "fine": 0.25, "good": 0.5}
    assert weighted(shares, {"bad": 4.0, "good": 0.5}) == {
        "bad": 2 / 3, "fine": 1 / 6, "good": 1 / 6,
    }  # fmt: skip
    assert weighted(shares, {}) == shares


# ── tokens ───────────────────────────────────────────────────────────────────────────────────


def test_labels_part_at_their_first_token() -> None:
    assert fork({"a": (1,), "b": (2, 3)}, ("a", "b")) == Fork((), {1: ("a",), 2: ("b",)})


def test_a_common_beginning_is_passed_over() -> None:
    tokens = {"very bad": (1, 2), "very good": (1, 3), "fair": (4,)}
    assert fork(tokens, ("very bad", "very good", "fair")) == Fork(
        (), {1: ("very bad", "very good"), 4: ("fair",)}
    )
    assert fork(tokens, ("very bad", "very good")) == Fork(
        (1,), {2: ("very bad",), 3: ("very good",)}
    )


def test_one_label_parts_from_nobody() -> None:
    assert fork({"a": (1,), "b": (2,)}, ("a",)) is None


def test_labels_of_the_same_tokens_never_part() -> None:
    assert fork({"a": (1,), "A": (1,)}, ("a", "A")) is None


def test_a_label_that_begins_another_ends_with_the_line() -> None:
    tokens = {"good": (1,), "good enough": (1, 2), "bad": (3,)}
    assert ended(tokens, 99) == {"good": (1, 99), "good enough": (1, 2), "bad": (3,)}
