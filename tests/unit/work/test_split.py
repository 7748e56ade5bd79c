"""Shards: nothing lost on the way in, nothing invented on the way out."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.price import nanos
from fanfold.work.ask import Ask, Message, Params, Reply, Schema, Usage
from fanfold.work.item import Item
from fanfold.work.split import estimate_tokens, fields_of, shard_ask, take_apart

IDS = ["a", "b", "c"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*IDS, "id", "answer", "answers", "x"]), inner, max_size=3
        )
        | st.fixed_dictionaries({"id": st.sampled_from([*IDS, "z", 1]), "answer": inner})
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 1), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 4, 2), ("\ud800", 1)]
)
def test_the_estimate_is_a_token_for_four_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


SCHEMA = Schema.of({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


def an_ask(id: str, schema: Schema | None = None, **more: Any) -> tuple[str, Ask]:
    messages = (Message("system", "Be brief."), Message("user", f"Count {id}.\n"))
    return id, Ask(messages, (Item(id, {"text": id}),), schema=schema, **more)


def wrapper(answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    one = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "answer": answer},
        "required": ["id", "answer"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"answers": {"type": "array", "items": one}},
        "required": ["answers"],
        "additionalProperties": False,
        **more,
    }


HOW = (
    'These were 2 separate items. Their ids, in the same order: "a", "x\\"y"\n'
    "Answer each of them once and by itself, under its id exactly as written here. "
    "Reply with this JSON and nothing else:\n"
    '{"answers": [{"id": "...", "answer": ...}]}'
)


class TestShardAsk:
    def test_prompts_stand_side_by_side_under_their_ids(self) -> None:
        params = Params(temperature=0.5)
        whole = shard_ask(
            [an_ask("a", params=params, sample=2), an_ask('x"y', params=params, sample=2)]
        )
        body = '### "a"\nCount a.\n\n### "x\\"y"\nCount x"y.'
        assert whole == Ask(
            messages=(Message("system", "Be brief."), Message("user", f"{body}\n\n{HOW}")),
            items=(Item("a", {"text": "a"}), Item('x"y', {"text": 'x"y'})),
            schema=Schema.of(wrapper({"type": "string"})),
            params=params,
            sample=2,
        )

    def test_a_prompt_rendered_together_stands_instead(self) -> None:
        whole = shard_ask([an_ask("a"), an_ask('x"y')], Message("user", "Count a and x.\n"))
        assert whole.messages == (
            Message("system", "Be brief."),
            Message("user", f"Count a and x.\n\n{HOW}"),
        )

    def test_the_schema_of_one_is_wrapped(self) -> None:
        whole = shard_ask([an_ask("a", SCHEMA), an_ask("b", SCHEMA)])
        assert whole.schema == Schema.of(wrapper(SCHEMA.definition))

    def test_references_still_lead_to_their_definitions(self) -> None:
        """Definitions move to the top; a reference to anything else follows the schema down."""
        tree = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "kind": {"$ref": "#/$defs/kind"},
                "children": {"type": "array", "items": {"$ref": "#"}},
                "$ref": {"type": "string"},
            },
            "$defs": {"kind": {"enum": ["x"]}, "again": {"$ref": "#/properties/kind"}},
        }
        down = "#/properties/answers/items/properties/answer"
        moved = {
            "type": "object",
            "properties": {
                "kind": {"$ref": "#/$defs/kind"},
                "children": {"type": "array", "items": {"$ref": down}},
                "$ref": {"type": "string"},
            },
        }
        definitions = {"kind": {"enum": ["x"]}, "again": {"$ref": f"{down}/properties/kind"}}
        whole = shard_ask([an_ask("a", Schema.of(tree))])
        assert whole.schema == Schema.of(wrapper(moved, **{"$defs": definitions}))

    def test_a_stated_max_tokens_grows_with_the_shard(self) -> None:
        """It is meant for one item; the ids and brackets around each answer come on top."""
        small = Params(max_tokens=5, temperature=0.5)
        whole = shard_ask([an_ask(id, params=small) for id in ("a", "src/deep/file.py")])
        around = (2 * 1 + 16) + (2 * 5 + 16)
        assert whole.params == Params(max_tokens=2 * 5 + around, temperature=0.5)
        unstated = [an_ask("a", params=Params(seed=1)), an_ask("b", params=Params(seed=1))]
        assert shard_ask(unstated).params == Params(seed=1)

    def test_a_kick_back_is_never_sharded(self) -> None:
        revised = an_ask("a")[1].revised(Reply(text="x"), ("no",))
        with pytest.raises(ValueError, match="not kicked back"):
            shard_ask([("a", revised)])
        with pytest.raises(ValueError, match="one or more"):
            shard_ask([])


@pytest.mark.parametrize(
    ("definition", "fields"),
    [
        ({"type": "string"}, set()),
        ({"properties": {"id": {}, "n": {"properties": {"deep": {}}}}}, {"id", "n"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {}}}}}, {"a"}),
        ({"$ref": "#/definitions/A", "definitions": {"A": {"$ref": "#/definitions/A"}}}, set()),
        ({"$ref": "#/$defs/B", "$defs": {"A": {}}}, set()),
        (
            {"anyOf": [{"properties": {"a": {}}}, {"allOf": [{"properties": {"b": {}}}]}]},
            {"a", "b"},
        ),
        ({"properties": ["no"], "oneOf": [True]}, set()),
    ],
)
def test_the_fields_of_a_schema(definition: dict[str, Any], fields: set[str]) -> None:
    assert fields_of(Schema.of(definition)) == fields
    assert fields_of(None) == frozenset()


def values(reply: Reply, schema: bool = True) -> dict[str, Any]:
    return {id: one.value for id, one in take_apart(reply, IDS, schema).items()}


RECORDS = [{"id": "a", "answer": {"n": 1}}, {"id": "b", "answer": {"n": 2}}]
TWO = {"a": {"n": 1}, "b": {"n": 2}}


class TestTakeApart:
    @pytest.mark.parametrize(
        "data",
        [
            {"answers": RECORDS},
            RECORDS,
            [{"id": "a", "n": 1}, {"id": "b", "n": 2}],
            TWO,
            {"answers": TWO},
            {"results": RECORDS},
            list(reversed(RECORDS)),
            [*RECORDS, {"id": "a", "answer": {"n": 9}}],
            [*RECORDS, {"id": "zz", "answer": {"n": 9}}, "noise", {"answer": {"n": 9}}, None],
        ],
    )
    def test_known_shapes(self, data: Any) -> None:
        """The first answer of an id counts, unknown ids are ignored, forgotten ones absent."""
        assert list(values(Reply(data=data)).items()) == list(TWO.items())
        assert values(Reply(text=json.dumps(data))) == TWO
        assert (
            values(Reply(text=f"Sure:\n```json\n{json.dumps(data, indent=2)}\n```\nDone.")) == TWO
        )

    def test_an_id_that_the_schema_states_stays_in_the_answer(self) -> None:
        """Inline it is the item's id too; under `answer` it may be any other."""
        fields = frozenset({"id", "n"})
        inline = [{"id": "a", "n": 1}, {"id": "b", "answer": {"id": "x", "n": 2}}]
        found = take_apart(Reply(data=inline), IDS, True, fields)
        assert {id: one.value for id, one in found.items()} == {
            "a": {"id": "a", "n": 1},
            "b": {"id": "x", "n": 2},
        }

    def test_a_field_called_answer_is_no_wrapper_beside_others(self) -> None:
        inline = [{"id": "a", "answer": "yes", "n": 1}, {"id": "b", "answer": {"answer": "no"}}]
        found = take_apart(Reply(data=inline), IDS, True, frozenset({"answer", "n"}))
        assert {id: one.value for id, one in found.items()} == {
            "a": {"answer": "yes", "n": 1},
            "b": {"answer": "no"},
        }

    def test_one_record_alone(self) -> None:
        assert values(Reply(data={"id": "b", "answer": {"n": 2}})) == {"b": {"n": 2}}

    def test_an_id_written_as_a_number(self) -> None:
        found = take_apart(Reply(data=[{"id": 7, "answer": "x"}]), ["7"], per_item_schema=False)
        assert found == {"7": Reply(text="x")}

    @pytest.mark.parametrize("text", ["", "no answer", "{broken", "[1, 2", '"a"', "42"])
    def test_what_cannot_be_read_answers_nothing(self, text: str) -> None:
        assert values(Reply(text=text)) == {}

    def test_the_whole_answers_of_a_shard_that_was_cut_off_are_kept(self) -> None:
        whole = json.dumps({"answers": RECORDS})
        for text in (whole[:-20], json.dumps(RECORDS)[:-3], f"```json\n{whole[:-9]}"):
            found = take_apart(Reply(text=text, finish="length"), IDS, per_item_schema=True)
            assert found == {"a": Reply(text='{"n":1}', data={"n": 1})}

    def test_a_list_further_inside_is_never_taken_for_the_answers(self) -> None:
        text = '{"a": {"refs": [{"id": "b", "page": 2}], "mo'
        assert values(Reply(text=text)) == {}

    def test_each_is_like_the_reply_it_would_have_got_alone(self) -> None:
        data = {
            "answers": [
                {"id": "a", "answer": "yes"},
                {"id": "b", "answer": 5},
                {"id": "c", "answer": None},
            ]
        }
        reply = Reply(data=data, model="m", finish="other")
        assert take_apart(reply, IDS, per_item_schema=False) == {
            "a": Reply(text="yes", model="m", finish="other"),
            "b": Reply(text="5", model="m", finish="other"),
            "c": Reply(text="null", model="m", finish="other"),
        }
        assert take_apart(reply, IDS, per_item_schema=True) == {
            "a": Reply(text='"yes"', data="yes", model="m", finish="other"),
            "b": Reply(text="5", data=5, model="m", finish="other"),
            "c": Reply(text="null", model="m", finish="other"),
        }

    def test_usage_and_cost_are_shared_and_the_rest_goes_to_the_first(self) -> None:
        reply = Reply(data=TWO, usage=Usage(7, 4, 1, 0), cost_usd=0.000000003)
        found = take_apart(reply, IDS, per_item_schema=True)
        assert [one.usage for one in found.values()] == [Usage(4, 2, 1, 0), Usage(3, 2, 0, 0)]
        assert [one.cost_usd for one in found.values()] == [0.000000002, 0.000000001]

    @given(
        st.lists(st.sampled_from(IDS), min_size=1),
        st.builds(Usage, *[st.integers(0, 10**9)] * 4),
        st.floats(0, 1000),
    )
    def test_the_shares_add_up_to_the_whole(
        self, answered: list[str], usage: Usage, cost_usd: float
    ) -> None:
        data = [{"id": id, "answer": id} for id in answered]
        reply = Reply(data=data, usage=usage, cost_usd=cost_usd)
        found = take_apart(reply, IDS, per_item_schema=False)
        assert sum((one.usage or Usage() for one in found.values()), Usage()) == usage
        assert sum(nanos(one.cost_usd or 0.0) for one in found.values()) == nanos(cost_usd)

    @given(JSON, st.booleans(), st.booleans())
    def test_no_id_is_ever_invented(self, data: Any, as_text: bool, per_item: bool) -> None:
        reply = Reply(text=msgspec.json.encode(data).decode()) if as_text else Reply(data=data)
        found = take_apart(reply, IDS, per_item)
        assert list(found) == [id for id in IDS if id in found]
        said = json.dumps(data)
        assert all(f'"{id}"' in said for id in found)

    @given(st.text() | st.text('{}[]",:ab id answers'))
    def test_no_text_breaks_it(self, text: str) -> None:
        assert set(take_apart(Reply(text=text), IDS, per_item_schema=False)) <= set(IDS)
