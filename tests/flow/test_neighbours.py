"""Context for the pieces of a split text: what stands beside a piece goes with it, and is not its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.plans.drawing.picture import picture
from fanfold.plans.load import load_plan
from fanfold.testing.script import Asked, Says
from fanfold.work.cut import Cutter
from fanfold.work.item import Item
from fanfold.work.neighbours import Around, Neighbours
from fanfold.work.pieces import Fits, Piece, content, leaves_of
from fanfold.work.split import estimate_tokens
from tests.flow.killed_plans import carried_through

SIDES = st.none() | st.builds(Neighbours, tokens=st.integers(1, 6)) | st.builds(
    Neighbours, paragraphs=st.integers(1, 2)
)  # fmt: skip


@given(st.lists(st.text("ab ä", min_size=1, max_size=30), min_size=1, max_size=6), SIDES, SIDES)
@settings(max_examples=40)
def test_pieces_are_the_whole_and_context_is_what_stands_beside_them(
    paragraphs: list[str], before: Neighbours | None, after: Neighbours | None
) -> None:
    """Own texts come to the whole, once. A context ends where the piece begins, and the other way
    round; with it a piece still fits, and is no longer than was stated."""
    text, around = "\n\n".join(paragraphs), Around(before, after)
    most = 60 + sum(len(one) for one in around.longest(text))

    def fits(piece: Piece) -> bool:
        return sum(len(str(value)) for one in piece.items for value in one.view().values()) <= most

    tree = Cutter(fits, "paragraphs", 8, 1000, around).whole([(0, Item("t", {"text": text}))])
    assert tree is not None
    whole, at = "", 0
    for leaf in leaves_of(tree):
        ((_, piece),) = content(leaf, [(0, Item("t", {"text": text}))])
        own = piece.data["text"]
        assert leaf.flaw is not None or fits(Piece(piece.id, (piece,)))
        if around:
            left, right = piece.data["context_before"], piece.data["context_after"]
            assert text[:at].endswith(left) and text[at + len(own) :].startswith(right)
            for stated, given_ in ((before, left), (after, right)):
                assert stated is not None or given_ == ""
                if stated is not None and stated.tokens and given_:
                    assert estimate_tokens(given_) <= stated.tokens
        else:
            assert "context_before" not in piece.data
        whole, at = whole + own, at + len(own)
    assert whole == text


TEXT = "First one.\n\nSecond one.\n\nThird one.\n\nFourth one."


def seen(store: Path, **how: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def look(item: dict[str, Any]) -> str:
        found.append(item)
        return str(item["text"])

    async def main() -> Any:
        async with ff.open_run("near", store=str(store), members=[ff.function(look)]) as run:
            fits = Fits(items=1, test=lambda piece: len(piece.items[0].view()["text"]) < 15)
            return await ff.divide_and_conquer(
                run, [{"id": "t", "text": TEXT}], combine=ff.concat(""), member="look", fits=fits,
                split="paragraphs", **how,
            )  # fmt: skip

    assert ff.run_sync(main()).value == TEXT
    return sorted(found, key=lambda one: TEXT.index(one["text"]))


def test_paragraphs_beside_a_piece_are_fields_of_it(tmp_path: Path) -> None:
    found = seen(
        tmp_path, context_before=Neighbours(paragraphs=1), context_after=Neighbours(paragraphs=2)
    )
    assert [(one["context_before"].strip(), one["text"].strip()) for one in found] == [
        ("", "First one."),
        ("First one.", "Second one."),
        ("Second one.", "Third one."),
        ("Third one.", "Fourth one."),
    ]
    assert found[0]["context_after"].strip() == "Second one.\n\nThird one."
    assert found[3]["context_after"] == ""


def test_without_it_a_piece_has_no_such_fields(tmp_path: Path) -> None:
    assert "context_before" not in seen(tmp_path)[1]


@pytest.mark.parametrize("wrong", [
    lambda: Neighbours(), lambda: Neighbours(tokens=0), lambda: Neighbours(tokens=1, paragraphs=1),
])  # fmt: skip
def test_what_is_wrong_is_refused_in_python(wrong: Any) -> None:
    with pytest.raises(BadInput):
        wrong()


PLAN = """\
name: killed
input: {list: [{id: t, text: "TEXT"}, {id: short, text: "Only one."}]}
steps:
  - divide:
      prompt: "Before: {{ item.context_before }} Quote from: {{ item.text }}"
      member: m
      fits: {tokens: 30}
      split: paragraphs
      context_before: {paragraphs: 1}
      gate: {quotes: quote}
      revise: 0
      schema: {type: object}
      combine: {prompt: "one of {{ parts }}", member: m}
"""
LONG = "\\n\\n".join(f"Paragraph {n} of it is about the thing {n}." for n in range(6))


def load(folder: Path, plan: str) -> Any:
    (folder / "p.yaml").write_text(plan)
    return load_plan(folder / "p.yaml")


@pytest.mark.parametrize(("old", "new", "line", "why"), [
    ("{paragraphs: 1}", "{paragraphs: 1, tokens: 2}", 9, "a context is {tokens: 200} or"),
    ("{paragraphs: 1}", "{paragraphs: 0}", 9, "`paragraphs` must be 1 or more"),
    ("{paragraphs: 1}", "{words: 3}", 9, "unknown field `words` in a context"),
    ("split: paragraphs", "split: items", 9, "`context_before` needs `split: paragraphs`"),
])  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, why: str
) -> None:
    with pytest.raises(BadInput) as error:
        load(tmp_path, PLAN.replace(old, new))
    assert why in str(error.value) and f"p.yaml:{line}" in str(error.value)


def test_the_picture_says_so(tmp_path: Path) -> None:
    inside = picture(load(tmp_path, PLAN)).boxes[1].inside
    assert inside is not None and "with 1 paragraph before it" in inside.boxes[0].lines


def quoted(asked: Asked) -> Says:
    if asked.prompt.startswith("one of"):
        return Says(text="all")
    own = asked.prompt.partition("Quote from: ")[2]
    return Says(data={"quote": own.split("\n")[0][:12]})


def from_before(asked: Asked) -> Says:
    """Quotes what stands before the piece."""
    before = asked.prompt.partition("Quote from: ")[0].removeprefix("Before: ").strip()
    return Says(data={"quote": before[:12]}) if before else quoted(asked)


def test_what_is_quoted_from_the_context_is_no_quote_of_the_piece(tmp_path: Path) -> None:
    ended = carried_through(tmp_path, PLAN.replace("TEXT", LONG), from_before, 0, kills=0)
    assert ended.receipt.kicked == 1 and ended.receipt.passed == 1


@pytest.mark.parametrize("seed", range(2))
def test_killed_and_resumed_no_piece_is_asked_about_twice(tmp_path: Path, seed: int) -> None:
    ended = carried_through(tmp_path, PLAN.replace("TEXT", LONG), quoted, seed, kills=2, requests=9)
    ended.check()
    receipt = ended.receipt
    assert (receipt.status, receipt.planned, receipt.passed) == ("complete", 2, 2)
    assert len(ended.asked) > 4
