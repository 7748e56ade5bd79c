"""The pure reducers."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from math import fsum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput, FanfoldError
from fanfold.patterns import fold
from fanfold.work.outcome import Part
from fanfold.work.task import Reducer

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("abAB ", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
SEVERITIES = st.sampled_from(["low", "Medium", "HIGH", "critical"])


def parts(*values: Any) -> Iterator[Part]:
    """One at a time, as the run hands them on."""
    return (Part(f"i{n}", n, value) for n, value in enumerate(values))


def misfit(reducer: Reducer, *values: Any) -> str:
    with pytest.raises(FanfoldError) as wrong:
        reducer(parts(*values))
    return str(wrong.value)


@pytest.mark.parametrize(
    ("reducer", "nothing"),
    [
        (fold.concat(), ""),
        (fold.collect(), []),
        (fold.total(), 0),
        (fold.count(), 0),
        (fold.count("a"), {}),
        (fold.union(), []),
        (fold.merge(), {}),
        (fold.sort_by("a"), []),
        (fold.top(3, "a"), []),
        (fold.best("a"), None),
        (fold.vote(), {"winner": None, "votes": {}, "of": 0}),
    ],
)
def test_of_nothing(reducer: Reducer, nothing: Any) -> None:
    assert reducer(parts()) == nothing


def test_concat_joins_texts_and_writes_the_rest_as_json() -> None:
    assert fold.concat()(parts("a", "b\n", {"n": [1, None]})) == 'a\n\nb\n\n\n{"n":[1,null]}'
    assert fold.concat(sep=", ")(parts("a", 2, True)) == "a, 2, true"


def test_collect_keeps_the_ids() -> None:
    kept = fold.collect()(parts("a", None))
    assert kept == [{"id": "i0", "value": "a"}, {"id": "i1", "value": None}]


class TestTotal:
    def test_of_values_fields_and_lists(self) -> None:
        assert fold.total()(parts(1, " 2 ", [3, 4])) == 10
        assert fold.total("a.n")(parts({"a": {"n": 1}}, {"a": [{"n": 2}, {"n": [3, 4]}]})) == 10

    def test_whole_numbers_stay_whole_and_exact(self) -> None:
        summed = fold.total()(parts(10**20, 1, 1))
        assert (summed, type(summed)) == (10**20 + 2, int)

    def test_fractions_do_not_drift(self) -> None:
        assert fold.total()(parts(*[0.1] * 10)) == 1.0

    @given(st.lists(st.integers() | st.floats(-1e9, 1e9)))
    def test_the_order_does_not_matter(self, amounts: list[float]) -> None:
        summed = fold.total()(parts(*amounts))
        assert summed == fold.total()(parts(*reversed(amounts)))
        assert summed == pytest.approx(fsum(amounts))

    @pytest.mark.parametrize("bad", ["four", None, True, {"n": 1}, float("nan")])
    def test_what_is_no_number_names_its_item(self, bad: Any) -> None:
        assert misfit(fold.total(), 1, bad).startswith("reduce: item `i1`: not a number: ")

    def test_a_missing_field_names_its_item(self) -> None:
        assert misfit(fold.total("n"), {"n": 1}, {}) == "reduce: item `i1`: has no field `n`"


class TestCount:
    def test_parts(self) -> None:
        assert fold.count()(parts("a", [1, 2], None)) == 3

    def test_by_a_field_first_seen_first(self) -> None:
        counts = fold.count("s")(
            parts({"s": "b"}, {"s": ["a", "b"]}, {"s": True}, {"s": None}, {"s": 1})
        )
        assert list(counts.items()) == [("b", 2), ("a", 1), ("true", 1), ("null", 1), ("1", 1)]

    def test_what_is_no_plain_value_names_its_item(self) -> None:
        assert misfit(fold.count("s"), {"s": {"x": 1}}) == (
            'reduce: item `i0`: `s` is no plain value: {"x":1}'
        )


def test_union_keeps_each_different_value_once_in_order() -> None:
    assert fold.union()(parts(["b", "a"], "b", "c", [{"x": 1, "y": 2}, {"y": 2, "x": 1}])) == [
        "b", "a", "c", {"x": 1, "y": 2},
    ]  # fmt: skip
    assert fold.union("tags")(parts({"tags": ["x", 1]}, {"tags": [True, "x"]})) == ["x", 1, True]
    assert misfit(fold.union("tags"), {}) == "reduce: item `i0`: has no field `tags`"


class TestMerge:
    def test_objects_in_depth_and_lists_appended(self) -> None:
        first = {"a": {"x": [1], "n": 1}, "only": "one"}
        second = {"a": {"x": [2], "n": 2, "m": {"deep": True}}, "b": [3]}
        assert fold.merge()(parts(first, second)) == {
            "a": {"x": [1, 2], "n": 2, "m": {"deep": True}},
            "only": "one",
            "b": [3],
        }

    def test_lists_at_the_top(self) -> None:
        assert fold.merge()(parts([1], [], [2, 3])) == [1, 2, 3]

    def test_null_gives_way_and_takes_nothing_away(self) -> None:
        assert fold.merge()(parts({"a": None, "b": [1]}, {"a": {"x": 1}, "b": None})) == {
            "a": {"x": 1},
            "b": [1],
        }

    @pytest.mark.parametrize(
        ("values", "text"),
        [
            (("text",), "reduce: item `i0`: only objects and lists can be merged: text"),
            (
                ({"a": [1]}, {"a": {"x": 1}}),
                'reduce: item `i1`: `a` is of another kind than in the items before: {"x":1}',
            ),
            (
                ({"a": {"x": 1}}, {"a": 5}),
                "reduce: item `i1`: `a` is of another kind than in the items before: 5",
            ),
            (
                ({}, []),
                "reduce: item `i1`: the value is of another kind than in the items before: []",
            ),
        ],
    )
    def test_what_does_not_fit_names_its_item(self, values: Any, text: str) -> None:
        assert misfit(fold.merge(), *values) == text

    @given(st.lists(st.dictionaries(st.sampled_from("ab"), st.lists(st.integers()))))
    def test_nothing_is_lost_and_the_replies_stay_as_they_were(self, values: list[Any]) -> None:
        before = deepcopy(values)
        merged = fold.merge()(parts(*values))
        assert values == before
        assert merged == {
            name: [n for value in before for n in value.get(name, [])]
            for name in "ab"
            if any(name in value for value in before)
        }


class TestSort:
    def test_severities_by_rank_numbers_by_size_missing_last(self) -> None:
        by = fold.sort_by("s")
        keys: list[Any] = ["high", None, 10, "9", "Low", "zebra", "CRITICAL ", "apple", "medium"]
        found = by(parts(*[{"s": key} for key in keys], {}))
        expected = ["9", 10, "Low", "medium", "high", "CRITICAL ", "apple", "zebra", None]
        assert [record.get("s") for record in found] == [*expected, None]
        down = fold.sort_by("s", descending=True)(parts(*[{"s": key} for key in keys], {}))
        assert [record.get("s") for record in down] == [*reversed(expected[:-1]), None, None]

    def test_lists_of_records_are_opened_and_carry_their_item(self) -> None:
        found = fold.sort_by("s")(parts([{"s": 2}, {"s": 1, "item": "own"}], [], {"s": 0}))
        assert found == [{"s": 0, "item": "i2"}, {"s": 1, "item": "own"}, {"s": 2, "item": "i0"}]

    def test_a_dotted_field_opens_the_list_on_its_way(self) -> None:
        replies = [
            {"found": [{"s": {"n": 2}}, {"s": {"n": 1}}]},
            {"found": []},
            {"found": {"s": 0}},
        ]
        assert fold.sort_by("found.s.n")(parts(*replies)) == [
            {"s": {"n": 1}, "item": "i0"},
            {"s": {"n": 2}, "item": "i0"},
            {"found": {"s": 0}, "item": "i2"},
        ]

    def test_the_replies_stay_as_they_were(self) -> None:
        record = {"s": 1}
        fold.sort_by("s")(parts(record))
        assert record == {"s": 1}

    @pytest.mark.parametrize("bad", ["text", 5, [["nested"]], None])
    def test_what_is_no_record_names_its_item(self, bad: Any) -> None:
        assert misfit(fold.sort_by("s"), {"s": 1}, bad).startswith(
            "reduce: item `i1`: not a record with fields: "
        )

    @given(st.lists(SEVERITIES | st.integers(0, 3) | st.none()), st.booleans())
    def test_equal_ones_stay_in_planned_order(self, keys: list[Any], descending: bool) -> None:
        values = [{"s": key, "n": n} for n, key in enumerate(keys)]
        found = fold.sort_by("s", descending)(parts(*values))
        assert sorted(record["n"] for record in found) == list(range(len(keys)))
        for one, other in pairwise(found):
            if one["s"] == other["s"]:
                assert one["n"] < other["n"]


NO_FIELD = [
    ("scor", [{"score": 1, "text": "a"}, {}], "`scor`: did you mean `score`?"),
    ("nope", [{"score": 1, "text": "a"}], "`nope`: known: score, text"),
    ("nope", [{}], "`nope`: they have none"),
    ("found.sevrity", [{"found": [{"severity": 1}]}, {"found": []}],
     "`found.sevrity`: did you mean `severity`?"),
    ("fund.s", [{"found": [{"s": 1}]}], "`fund.s`: did you mean `found`?"),
    ("s.n", [{"s": 1}], "`s.n`: `s` has no such field"),
]  # fmt: skip
ORDERING = [fold.sort_by, fold.best, lambda by: fold.top(1, by)]


class TestAFieldThatNoReplyHas:
    """It is misspelt: what came of it would look like a result."""

    @pytest.mark.parametrize("make", ORDERING)
    @pytest.mark.parametrize(("by", "replies", "said"), NO_FIELD)
    def test_names_those_that_there_are(
        self, make: Any, by: str, replies: list[Any], said: str
    ) -> None:
        reduce = make(by)
        with pytest.raises(FanfoldError) as error:
            reduce(parts(*replies))
        assert str(error.value) == f"reduce: no reply has the field {said}"
        pieces = [Part(f"n{n}", n, reduce.gather([part])) for n, part in enumerate(parts(*replies))]
        with pytest.raises(FanfoldError):
            reduce.result(reduce.join(pieces))

    @pytest.mark.parametrize(
        "replies",
        [[], [{"a": 1}, {"s": {"n": 2}}], [{"s": {"n": None}}], [{"s": None}], [{"s": []}]],
    )
    def test_is_none_where_one_has_it_or_there_is_nothing_to_order(
        self, replies: list[Any]
    ) -> None:
        fold.sort_by("s.n")(parts(*replies))
        fold.top(2, "s.n")(parts(*replies))


class TestTopAndBest:
    @given(st.lists(SEVERITIES | st.integers(0, 3) | st.none()), st.integers(1, 5))
    def test_top_is_the_beginning_of_the_sorted_list(self, keys: list[Any], n: int) -> None:
        values = [{"s": key} for key in keys]
        ordered = fold.sort_by("s", descending=True)(parts(*values))
        assert fold.top(n, "s")(parts(*values)) == ordered[:n]
        assert fold.best("s")(parts(*values)) == (ordered[0] if ordered else None)

    def test_only_n_records_are_held(self) -> None:
        alive: set[int] = set()
        most = 0

        class Record(dict[str, Any]):
            def __del__(self) -> None:
                alive.discard(id(self))

        def coming() -> Iterator[Part]:
            nonlocal most
            for n in range(1000):
                record = Record(s=n, item="x")
                alive.add(id(record))
                most = max(most, len(alive))
                yield Part("x", n, record)

        assert [record["s"] for record in fold.top(2, "s")(coming())] == [999, 998]
        assert most < 10

    @pytest.mark.parametrize("n", [0, -1, 1.5, True, "3"])
    def test_a_bad_number_is_bad_input(self, n: Any) -> None:
        with pytest.raises(BadInput, match="`top` needs a whole number"):
            fold.top(n, "s")


class TestVote:
    def test_case_white_space_and_the_writing_of_numbers_do_not_matter(self) -> None:
        assert fold.vote()(parts("Yes", "no", " yes\n", "YES")) == {
            "winner": "Yes",
            "votes": {"Yes": 3, "no": 1},
            "of": 4,
        }
        assert fold.vote()(parts("4", 4.0, 4, 5)) == {
            "winner": "4",
            "votes": {"4": 3, "5": 1},
            "of": 4,
        }

    def test_the_first_in_planned_order_wins_a_tie(self) -> None:
        assert fold.vote()(parts("b", "a", "a", "b"))["winner"] == "b"

    def test_the_same_object_written_as_text_is_the_same_vote(self) -> None:
        votes = fold.vote()(parts({"b": 1, "a": 2}, '{"b": 1, "a": 2}', '{"b": 1}'))["votes"]
        assert votes == {'{"a":2,"b":1}': 2, '{"b": 1}': 1}

    def test_of_a_field(self) -> None:
        votes = fold.vote("label")(parts({"label": True}, {"label": False}, {"label": False}))
        assert votes == {"winner": False, "votes": {"true": 1, "false": 2}, "of": 3}

    @pytest.mark.parametrize("bad", [{}, [{"label": "a"}, {"label": "b"}], "text"])
    def test_no_single_value_names_its_item(self, bad: Any) -> None:
        assert misfit(fold.vote("label"), {"label": "a"}, bad).startswith(
            "reduce: item `i1`: has no single `label`: "
        )

    @given(st.lists(JSON))
    def test_every_vote_counts_once(self, values: list[Any]) -> None:
        said = fold.vote()(parts(*values))
        assert said["of"] == len(values) == sum(said["votes"].values())
        assert not values or max(said["votes"].values()) >= len(values) / len(said["votes"])


def test_python_gets_the_parts() -> None:
    found = fold.python(lambda all_parts: [(p.id, p.position, p.value) for p in all_parts])(
        parts("a")
    )
    assert found == [("i0", 0, "a")]
    with pytest.raises(BadInput):
        fold.python("len")  # type: ignore[arg-type]
