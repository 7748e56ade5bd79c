"""Pieces: all of the whole, each part of it once and in order, and every one fits or says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput, FanfoldError
from fanfold.work.cut import Cutter, SplitMethod
from fanfold.work.item import Item
from fanfold.work.pieces import (
    Branch,
    Fits,
    Held,
    Leaf,
    NoSplit,
    Piece,
    Tree,
    content,
    contents,
    grouped,
    leaves_of,
    longest,
    stretches,
)
from tests.places import place

BLANKS = "\n .!?ab…。"
texts = st.text(st.sampled_from(BLANKS), min_size=1, max_size=120)


def length(piece: Piece) -> int:
    return sum(len(item.view()["text"]) for item in piece.items)


def at_most(most: int) -> Callable[[Piece], bool]:
    return lambda piece: length(piece) <= most


def held(sizes: list[int]) -> Held:
    """Texts of these lengths, no two alike in their beginnings."""
    words = [f"{n:x}".rjust(3, "0") + "." * 97 for n in range(len(sizes))]
    return tuple(
        (n, Item(f"i{n}", word[:size]))
        for n, (word, size) in enumerate(zip(words, sizes, strict=True))
    )


def cut(
    items: Held, fits: Callable[[Piece], bool], way: SplitMethod = "items", **caps: int
) -> Tree | None:
    cutter = Cutter(fits, way, caps.get("max_depth", 8), caps.get("max_pieces", 1000))
    tree = cutter.whole(items)
    assert cutter.pieces == (0 if tree is None else len(list(leaves_of(tree))))
    return tree


def found(tree: Tree | None, items: Held) -> list[tuple[Leaf, Held]]:
    leaves = [] if tree is None else list(leaves_of(tree))
    return list(zip(leaves, contents(leaves, iter(items)), strict=True))


def piece(leaf: Leaf, own: Held) -> Piece:
    return Piece(leaf.id, tuple(item for _, item in own))


# ── between items ────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 60))
def test_leaves_cover_all_items_once_in_order_and_each_fits_or_says_why_not(
    sizes: list[int], most: int
) -> None:
    items = held(sizes)
    leaves = found(cut(items, at_most(most)), items)
    assert tuple(one for _, own in leaves for one in own) == items
    for leaf, own in leaves:
        if leaf.flaw is None:
            assert length(piece(leaf, own)) <= most
        else:
            assert [len(item.data) > most for _, item in own] == [True]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 60))
def test_a_leaf_is_as_long_as_it_fits(sizes: list[int], most: int) -> None:
    """So appended items change none of the leaves before the last."""
    items = held(sizes)
    leaves = found(cut(items, at_most(most)), items)
    for (leaf, own), (_, after) in pairwise(leaves):
        assert leaf.flaw is not None or length(piece(leaf, (*own, after[0]))) > most


def test_the_tree_of_all_items() -> None:
    items = held([10, 10, 10, 99, 10])
    tree = cut(items, at_most(20))
    assert isinstance(tree, Branch)
    assert (tree.id, tree.start, tree.settles) == ("i0..i4", 0, False)
    why = (
        "`i3` does not fit, and one item is not split: use split paragraphs or a function,"
        " or let more fit"
    )
    assert tree.parts == (
        Leaf("i0..i1", 0, 2, 1, ends=("i0", "i1")), Leaf("i2", 2, 3, 1), Leaf("i3", 3, 4, 1, flaw=why),
        Leaf("i4", 4, 5, 1),
    )  # fmt: skip


def test_what_fits_together_is_one_leaf_and_nothing_is_none() -> None:
    assert cut(held([5, 5]), at_most(10)) == Leaf("i0..i1", 0, 2, 0, ends=("i0", "i1"))
    assert cut(held([5]), at_most(10)) == Leaf("i0", 0, 1, 0)
    assert cut((), at_most(10)) is None


def test_an_item_that_nothing_can_be_asked_about_stands_alone() -> None:
    """It would spoil the whole piece it is in."""

    def fits(piece: Piece) -> bool:
        if any(item.id == "i2" for item in piece.items):
            raise FanfoldError("there is no field `name`")
        return len(piece.items) <= 3

    tree = cut(held([1] * 6), fits)
    assert tree is not None
    assert [(leaf.id, leaf.flaw) for leaf in leaves_of(tree)] == [
        ("i0..i1", None), ("i2", "there is no field `name`"), ("i3..i5", None),
    ]  # fmt: skip


def test_positions_may_have_gaps() -> None:
    """Items that an earlier step filtered out are not there."""
    items = tuple((n * 3 + 1, item) for n, item in held([5] * 7))
    leaves = found(cut(items, at_most(10)), items)
    assert [(leaf.start, leaf.stop) for leaf, _ in leaves] == [(1, 5), (7, 11), (13, 17), (19, 20)]
    assert tuple(one for _, own in leaves for one in own) == items


def test_few_questions_are_asked_about_many_items() -> None:
    """A question is a rendered prompt, so there are only a few for each leaf."""
    asked = 0

    def fits(piece: Piece) -> bool:
        nonlocal asked
        asked += 1
        return len(piece.items) <= 20

    tree = cut(held([1] * 2000), fits)
    assert tree is not None and len(list(leaves_of(tree))) == 100
    assert asked < 6 * 100


@given(st.integers(1, 300), st.integers(1, 300))
def test_the_longest_that_fits_is_found_from_any_guess(most: int, usual: int) -> None:
    assert longest(lambda many: many <= most, usual) == most


# ── inside one item ──────────────────────────────────────────────────────────────────────────


@given(texts, st.integers(1, 40))
def test_stretches_put_together_are_the_text_and_each_fits(text: str, most: int) -> None:
    spans = list(stretches(text, lambda part: len(part) <= most))
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(0 < end - start <= most for start, end in spans)


@given(texts, st.integers(1, 40))
def test_one_text_is_split_into_parts_that_fit_and_give_it_back(text: str, most: int) -> None:
    items: Held = ((0, Item("doc", {"text": text, "lang": "en"})),)
    leaves = found(cut(items, at_most(most), "paragraphs"), items)
    data = [item.data for _, own in leaves for _, item in own]
    assert "".join(one["text"] for one in data) == text
    assert all(one == {"text": one["text"], "lang": "en"} for one in data)
    assert all(len(one["text"]) <= most for one in data)


@pytest.mark.parametrize(
    ("text", "most", "parts"),
    [
        ("one\n\ntwo\n\nthree", 10, ["one\n\ntwo\n\n", "three"]),
        ("one\ntwo\n\nthree\nfour", 9, ["one\ntwo\n\n", "three\n", "four"]),
        ("One two. Three. Four!", 9, ["One two. ", "Three. ", "Four!"]),
        ("alpha beta gamma", 11, ["alpha beta ", "gamma"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("一二。三四。", 3, ["一二。", "三四。"]),
    ],
)
def test_a_text_is_cut_at_the_widest_break_that_will_do(
    text: str, most: int, parts: list[str]
) -> None:
    spans = stretches(text, lambda part: len(part) <= most)
    assert [text[start:end] for start, end in spans] == parts


def test_parts_of_an_item_carry_its_id_and_the_branch_settles_it() -> None:
    tree = cut(((0, Item("doc", "one\n\ntwo")),), at_most(5), "paragraphs")
    assert tree == Branch(
        "doc", 0,
        (Leaf("doc/1", 0, 1, 1, "doc", (0, 5)), Leaf("doc/2", 0, 1, 1, "doc", (5, 8))), True,
    )  # fmt: skip


def test_a_text_of_which_not_one_character_fits_says_so() -> None:
    tree = cut(((0, Item("doc", "words")),), at_most(0), "paragraphs")
    assert isinstance(tree, Leaf)
    assert tree.flaw == ("`doc`: not even one character of it fits beside the prompt; let more fit")


def test_an_item_without_text_cannot_be_split_at_paragraphs() -> None:
    tree = cut(((0, Item("doc", {"n": 1})),), lambda piece: False, "paragraphs")
    assert isinstance(tree, Leaf)
    assert tree.flaw == "`doc` does not fit and has no `text` to split; give `split` a function"


def halves(data: str) -> list[str]:
    return [data[: len(data) // 2], data[len(data) // 2 :]]


def test_a_function_splits_again_until_it_fits() -> None:
    tree = cut(((0, Item("doc", "abcdef")),), at_most(2), halves)
    assert tree is not None
    assert [(leaf.id, leaf.depth, leaf.data) for leaf in leaves_of(tree)] == [
        ("doc/1/1", 2, "a"), ("doc/1/2", 2, "bc"), ("doc/2/1", 2, "d"), ("doc/2/2", 2, "ef"),
    ]  # fmt: skip
    assert {leaf.origin for leaf in leaves_of(tree)} == {"doc"}
    assert isinstance(tree, Branch) and tree.settles
    assert not any(part.settles for part in tree.parts if isinstance(part, Branch))


def forever(data: str) -> Iterator[str]:
    while True:
        yield "a"


def breaks(data: str) -> list[str]:
    raise ValueError("no idea")


@pytest.mark.parametrize(
    ("way", "flaw"),
    [
        (lambda data: [], "does not fit, and its splitter gave 0 pieces: it takes two"),
        (lambda data: [data[:1]], "does not fit, and its splitter gave 1 pieces: it takes two"),
        (lambda data: ["a", data], "does not fit, and its splitter gave it back whole"),
        (lambda data: data, "does not fit, and its splitter gave no list of pieces: it takes two"),
        (lambda data: None, "does not fit, and its splitter gave no list of pieces: it takes two"),
        (
            breaks,
            f"does not fit, and its splitter raised ValueError: no idea{place(breaks)}",
        ),
    ],
)
def test_a_splitter_that_makes_no_progress_fails_its_item_only(way: Any, flaw: str) -> None:
    items = held([2, 9, 2])
    tree = cut(items, at_most(3), way)
    assert tree is not None
    assert [leaf.flaw for leaf in leaves_of(tree)] == [None, f"`i1` {flaw}", None]


def test_a_splitter_that_gives_what_is_not_json_fails_its_item() -> None:
    tree = cut(held([9]), at_most(3), lambda data: [object(), "b"])
    assert isinstance(tree, Leaf) and tree.flaw is not None
    assert tree.flaw.startswith("`i0`: its splitter gave what is not plain JSON")


def test_too_deep_and_too_many_are_refused() -> None:
    def slowly(data: str) -> list[str]:
        return [data[:1], data[1:]]

    with pytest.raises(BadInput, match=r"`i0/2/2/2` still does not fit after 3 splits.*max_depth"):
        cut(held([20]), at_most(2), slowly, max_depth=3)
    with pytest.raises(BadInput, match=r"more than 4 pieces: .*max_pieces"):
        cut(held([1] * 5), at_most(1), max_pieces=4)
    with pytest.raises(BadInput, match=r"more than 4 pieces"):
        cut(held([9]), at_most(1), "paragraphs", max_pieces=4)
    with pytest.raises(BadInput, match=r"more than 4 pieces"):
        cut(held([9]), at_most(1), forever, max_pieces=4)
    assert cut(held([1] * 4), at_most(1), max_pieces=4) is not None


# ── smaller than it was ──────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(1, 90), min_size=2, max_size=30))
def test_a_piece_that_was_too_long_is_halved_between_its_items(sizes: list[int]) -> None:
    items = held(sizes)
    cutter = Cutter(lambda piece: True, "items", 8, 1000)
    whole = cutter.whole(items)
    assert isinstance(whole, Leaf)
    tree = cutter.smaller(whole, items)
    leaves = list(leaves_of(tree))
    assert [one for leaf in leaves for one in content(leaf, items)] == list(items)
    assert (len(leaves), cutter.pieces, {leaf.depth for leaf in leaves}) == (2, 2, {1})


@given(texts.filter(lambda text: len(text) > 1))
def test_a_text_that_was_too_long_is_cut_to_half_at_most(text: str) -> None:
    items: Held = ((0, Item("doc", text)),)
    cutter = Cutter(lambda piece: True, "paragraphs", 8, 1000)
    tree = cutter.smaller(Leaf("doc", 0, 1, 0), items)
    parts = [content(leaf, items)[0][1].data for leaf in leaves_of(tree)]
    assert "".join(parts) == text
    assert max(map(len, parts)) <= (len(text) + 1) // 2


def test_what_cannot_be_made_smaller_leaves_the_count_as_it_was() -> None:
    cutter = Cutter(lambda piece: True, "paragraphs", 1, 2)
    items = held([4])
    (leaf,) = leaves_of(cutter.whole(items) or pytest.fail("there is an item"))
    with pytest.raises(NoSplit):
        cutter.smaller(leaf, ((0, Item("i0", "x")),))
    with pytest.raises(BadInput, match="after 1 splits"):
        cutter.smaller(Leaf("i0/1", 0, 1, 1, "i0"), items)
    with pytest.raises(BadInput, match="more than 2 pieces"):
        cutter.given(leaf, items, ["a", "b", "c"])
    assert cutter.pieces == 1


def test_a_member_is_to_split_what_does_not_fit() -> None:
    cutter = Cutter(at_most(3), "asked", 8, 1000)
    items = held([7])
    whole = cutter.whole(items)
    assert whole == Leaf("i0", 0, 1, 0, unsplit=True)
    assert isinstance(whole, Leaf)
    tree = cutter.given(whole, items, ["abc", "defg"])
    assert tree == Branch(
        "i0", 0,
        (
            Leaf("i0/1", 0, 1, 1, "i0", data="abc"),
            Leaf("i0/2", 0, 1, 1, "i0", data="defg", unsplit=True),
        ), True,
    )  # fmt: skip


# ── in groups ────────────────────────────────────────────────────────────────────────────────


def branches(tree: Tree) -> list[Branch]:
    below = tree.parts if isinstance(tree, Branch) else ()
    own = [tree] if isinstance(tree, Branch) else []
    return own + [branch for part in below for branch in branches(part)]


@given(st.integers(2, 300), st.integers(2, 12))
def test_groups_have_no_more_than_the_fan_in_and_lose_no_leaf(many: int, fan_in: int) -> None:
    flat = Branch("all", 0, tuple(Leaf(str(n), n, n + 1, 1) for n in range(many)))
    tree = grouped(flat, fan_in)
    assert list(leaves_of(tree)) == list(flat.parts)
    assert all(2 <= len(branch.parts) <= fan_in for branch in branches(tree))
    assert tree.id == "all"
    levels, reach = 1, fan_in
    while reach < many:
        levels, reach = levels + 1, reach * fan_in
    assert depth(tree) == levels


def depth(tree: Tree) -> int:
    return 1 + max(map(depth, tree.parts)) if isinstance(tree, Branch) else 0


def test_more_leaves_at_the_end_leave_the_full_groups_as_they_were() -> None:
    """Their combines are on record."""
    leaves = tuple(Leaf(str(n), n, n + 1, 1) for n in range(25))
    before = grouped(Branch("all", 0, leaves[:22]), 5)
    after = grouped(Branch("all", 0, leaves), 5)
    assert isinstance(before, Branch) and isinstance(after, Branch)
    assert before.parts[:4] == after.parts[:4]
    assert [part.id for part in after.parts] == ["0..4", "5..9", "10..14", "15..19", "20..24"]


# ── what fits ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wrong", [{"tokens": 0}, {"items": -1}, {"items": True}, {"test": 3}])
def test_a_limit_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="fits: "):
        Fits(**wrong)
