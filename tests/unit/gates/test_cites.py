"""The gate on cited ids."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.gates.cites import cites
from fanfold.gates.kinds import from_plan
from fanfold.work.ask import Reply
from fanfold.work.item import Item
from fanfold.work.outcome import PASS, Verdict, fail
from tests.unit.gates.judging import judge, verdict

PARTS = Item(
    "2.0",
    {
        "parts": [
            {"id": "1.0", "ids": ["c-1", "c-2"], "value": "…"},
            {"id": "1.1", "ids": ["c-17"], "value": "…"},
            {"id": "lone", "ids": [], "value": "…"},
        ],
        "missing": [{"id": "c-3", "state": "failed", "reasons": []}],
    },
)


def unknown(*ids: str) -> Verdict:
    named = ", ".join(ids)
    return fail(f"cites what was not given: {named}; cite only ids that are in the request")


@pytest.mark.parametrize(
    "cited",
    [
        "c-17",
        " c-17 ",
        ["c-1", "c-2"],
        [],
        {"id": "c-1", "why": "x"},
        {"ids": ["c-1", "c-2"], "id": "what this record is called"},
        [{"id": "c-1"}, {"ids": ["c-2"]}, "c-17"],
        "lone",
    ],
)
def test_known_ids_pass_in_every_shape(cited: Any) -> None:
    assert verdict(cites("sources"), {"sources": cited}, PARTS) == PASS


@pytest.mark.parametrize(
    ("cited", "told"),
    [
        ("c-9", unknown("c-9")),
        (["c-1", "c-9", "c-8", "c-9"], unknown("c-9", "c-8")),
        ([{"id": "c-9"}], unknown("c-9")),
        ({"ids": ["c-1", "1.0"]}, unknown("1.0")),
        ("c-3", unknown("c-3")),
        (17, unknown("17")),
        (
            [f"x{n}" for n in range(12)],
            unknown(*[f"x{n}" for n in range(9)], "x9 and 2 more"),
        ),
    ],
)
def test_ids_that_were_not_told_fail_by_name(cited: Any, told: Verdict) -> None:
    """Neither the name of a node nor a missing item is a source."""
    assert verdict(cites("sources"), {"sources": cited}, PARTS) == told


@pytest.mark.parametrize("cited", [None, True, "", 1.5, {"name": "c-1"}, ["c-1", None]])
def test_what_is_no_id_fails(cited: Any) -> None:
    wrong = fail("`sources` must hold ids, or records with an `id` or `ids`")
    assert verdict(cites("sources"), {"sources": cited}, PARTS) == wrong


def test_a_missing_field_fails() -> None:
    lacks = fail("`sources` is missing; it must name the ids that the answer rests on")
    assert verdict(cites("sources"), {"text": "x"}, PARTS) == lacks


def test_a_path_is_asked_of_each_record() -> None:
    claims = [{"text": "a", "from": "c-1"}, {"text": "b", "from": ["c-2", "c-4"]}]
    assert verdict(cites("claims.from"), {"claims": claims}, PARTS) == unknown("c-4")


def test_of_an_ordinary_ask_its_own_items_are_known() -> None:
    items = (Item("7", {"text": "a"}), Item("8", "b"))
    assert verdict(cites("from"), {"from": [7, "8"]}, *items) == PASS
    assert verdict(cites("from"), {"from": "9"}, items[0]) == unknown("9")


@pytest.mark.parametrize("parts", [[], "c-1", ["c-1"], [{"id": "c-1"}]])
def test_an_item_that_happens_to_have_such_fields_is_an_item(parts: Any) -> None:
    item = Item("c-7", {"parts": parts, "missing": []})
    assert verdict(cites("from"), {"from": "c-7"}, item) == PASS
    assert verdict(cites("from"), {"from": "c-1"}, item) == unknown("c-1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Nothing is cited.", PASS),
        ("Two are late [c-1], one is not [c-17; c-2].", PASS),
        ("See [the rules](https://x.test) and [c-1].", PASS),
        ("Late [c-1, c-9], early [c-4].", unknown("c-9", "c-4")),
        ("As he said [sic].", unknown("sic")),
    ],
)
def test_without_a_field_ids_stand_in_brackets_in_the_text(text: str, told: Verdict) -> None:
    assert judge(cites(), Reply(text=text), PARTS) == told
    assert verdict(cites(), {"summary": ["", text], "list": [1, 2]}, PARTS) == told


def test_ids_with_commas_and_brackets_are_found_whole() -> None:
    items = (Item("a, b", 1), Item("src/[id].ts", 2))
    good = Reply(text="See [a, b] and [src/[id].ts].")
    assert judge(cites(), good, *items) == PASS
    assert judge(cites(), Reply(text="See [src/[no].ts]."), *items) == unknown("no")


def test_in_a_plan() -> None:
    def resolve(target: str) -> Any:
        raise AssertionError(target)

    fields = from_plan([{"cites": ["a", "b"]}], resolve)
    assert verdict(fields, {"a": "c-1", "b": "c-2"}, PARTS) == PASS
    assert verdict(fields, {"a": "c-1", "b": "c-9"}, PARTS) == unknown("c-9")
    assert verdict(from_plan({"cites": "a"}, resolve), {"a": "c-9"}, PARTS) == unknown("c-9")
    assert verdict(from_plan({"cites": True}, resolve), "so [c-9]", PARTS) == unknown("c-9")
    with pytest.raises(BadInput, match=r"^gate `cites` takes a field or a list of fields, not 5$"):
        from_plan({"cites": 5}, resolve)


def test_a_field_that_is_none_is_bad_input() -> None:
    with pytest.raises(BadInput, match="is not a field"):
        cites("a..b")
