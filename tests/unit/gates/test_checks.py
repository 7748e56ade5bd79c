"""The pure gates: what passes, what fails, and with which reason."""

from __future__ import annotations

from datetime import date
from types import GenericAlias
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from fanfold.errors import BadInput
from fanfold.gates.checks import number_range, quotes, regex, require, schema, shape
from fanfold.work.ask import Reply
from fanfold.work.item import Item
from fanfold.work.outcome import PASS, fail, unjudged
from tests.unit.gates.judging import item, judge, verdict


class TestRequire:
    gate = staticmethod(require("clause", "severity"))

    def test_without_a_field_it_is_refused(self) -> None:
        with pytest.raises(
            BadInput, match=r'^require\(\) names no field; write require\("a", "b"\)$'
        ):
            require()

    def test_zero_and_false_are_values(self) -> None:
        assert verdict(self.gate, {"clause": 0, "severity": False}) == PASS

    @pytest.mark.parametrize("empty", [None, "", " \n\t", [], {}])
    def test_empty_and_blank_are_not(self, empty: Any) -> None:
        said = verdict(self.gate, {"clause": empty, "severity": "high"})
        assert said == fail("missing or empty: `clause`")

    def test_one_reason_names_all_that_is_missing(self) -> None:
        assert verdict(self.gate, {}) == fail("missing or empty: `clause`, `severity`")

    def test_a_text_has_no_fields(self) -> None:
        said = judge(self.gate, Reply(text="clause and severity"))
        assert said == fail("missing or empty: `clause`, `severity`")

    def test_a_list_is_asked_element_by_element(self) -> None:
        good = {"clause": "a", "severity": "low"}
        assert verdict(self.gate, [good, good]) == PASS
        said = verdict(self.gate, [good, {"clause": "a"}, 5])
        assert said == fail("missing or empty: `[2].clause`, `[1].severity`, `[2].severity`")

    def test_an_empty_list_lacks_nothing(self) -> None:
        assert verdict(self.gate, []) == PASS
        assert verdict(require("findings.clause"), {"findings": []}) == PASS
        assert verdict(require("findings"), {"findings": []}) == fail(
            "missing or empty: `findings`"
        )

    def test_a_dotted_path_goes_through_objects_and_lists(self) -> None:
        gate = require("report.findings.clause")
        assert verdict(gate, {"report": {"findings": [{"clause": "x"}]}}) == PASS
        said = verdict(gate, {"report": {"findings": [{"clause": "x"}, {}]}})
        assert said == fail("missing or empty: `report.findings[1].clause`")
        assert verdict(gate, {"report": 3}) == fail("missing or empty: `report.findings.clause`")

    def test_a_long_list_of_faults_is_cut(self) -> None:
        said = verdict(require("a"), [{}] * 12)
        places = ", ".join(f"`[{n}].a`" for n in range(10))
        assert said == fail(f"missing or empty: {places} and 2 more")

    @pytest.mark.parametrize("fields", [(), ("",), ("a..b",), ("a", " "), (5,)])
    def test_no_field_is_bad_input(self, fields: Any) -> None:
        with pytest.raises(BadInput):
            require(*fields)


FINDING = {
    "type": "object",
    "properties": {
        "severity": {"enum": ["low", "high"]},
        "pages": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["severity"],
}


class TestSchema:
    gate = staticmethod(schema(FINDING))

    def test_valid_data_passes(self) -> None:
        assert verdict(self.gate, {"severity": "low", "pages": [1]}) == PASS

    def test_reasons_name_the_place_and_the_fault(self) -> None:
        said = verdict(self.gate, {"pages": [1, "two"]})
        assert said == fail(
            '"severity" is a required property', '`pages[1]`: "two" is not of type "integer"'
        )

    def test_at_most_three_reasons(self) -> None:
        said = verdict(self.gate, {"severity": "low", "pages": list("abcdef")})
        assert said == fail(
            *(f'`pages[{n}]`: "{c}" is not of type "integer"' for n, c in enumerate("abc"))
        )

    def test_a_long_value_is_cut_in_the_middle(self) -> None:
        (reason,) = verdict(self.gate, "x" * 5000).reasons
        assert reason.startswith('"xxxx')
        assert reason.endswith(" … " + "x" * 75 + '" is not of type "object"')
        assert len(reason) == 203

    def test_text_instead_of_json_is_said_plainly(self) -> None:
        said = judge(self.gate, Reply(text="Sure! Here it is."))
        assert said == fail(
            "the reply is not JSON; reply with JSON that fits the schema, nothing else"
        )

    def test_plain_text_can_be_the_answer(self) -> None:
        gate = schema({"type": "string", "maxLength": 5})
        assert judge(gate, Reply(text="short")) == PASS
        said = judge(gate, Reply(text="longer"))
        assert said == fail('"longer" is longer than 5 characters')

    def test_null_can_be_the_answer(self) -> None:
        assert judge(schema({"type": ["object", "null"]}), Reply(text=" null\n")) == PASS

    @pytest.mark.parametrize(
        ("definition", "reason"),
        [
            ({"type": "objekt"}, '`type`: "objekt" is not valid'),
            ({"required": "a"}, '`required`: "a" is not of type "array"'),
            (
                {"properties": {"a": {"pattern": "("}}},
                '`properties.a.pattern`: "(" is not a "regex"',
            ),
            ({"$ref": "#/nowhere"}, "Pointer '/nowhere' does not exist"),
            (["no schema"], "is not of types"),
            ("{", ""),
        ],
    )
    def test_a_schema_that_is_none_is_bad_input(self, definition: Any, reason: str) -> None:
        with pytest.raises(BadInput) as bad:
            schema(definition)
        text = str(bad.value)
        assert text.startswith("not a valid JSON Schema: ")
        assert reason in text
        assert "\n" not in text

    @pytest.mark.parametrize("uri", ["http://127.0.0.1:9/schema", "file:///etc/hostname"])
    def test_references_to_other_documents_are_refused(self, uri: str) -> None:
        with pytest.raises(BadInput, match="Retrieval is disabled"):
            schema({"$ref": uri})


class Signed(BaseModel):
    model_config = ConfigDict(strict=True)
    party: str
    on: date


class TestModel:
    gate = staticmethod(shape(Signed))

    def test_a_strict_model_takes_a_date_from_its_text(self) -> None:
        assert verdict(self.gate, {"party": "Acme", "on": "2024-02-29"}) == PASS
        assert judge(self.gate, Reply(text='{"party": "Acme", "on": "2024-02-29"}')) == PASS

    def test_reasons_name_the_place(self) -> None:
        said = verdict(self.gate, {"party": 5})
        assert said == fail("`party`: Input should be a valid string", "`on`: Field required")

    def test_places_in_lists(self) -> None:
        said = verdict(shape(list[Signed]), [{"party": "Acme", "on": "2024-01-01"}, {"party": "B"}])
        assert said == fail("`[1].on`: Field required")

    def test_what_pydantic_does_not_know_is_bad_input(self) -> None:
        with pytest.raises(BadInput, match="gate `shape` cannot use"):
            shape(object())
        with pytest.raises(BadInput, match="gate `shape` cannot use"):
            shape(GenericAlias(list, "mod:Type"))
        for no_type in ("mod:Type", None):
            with pytest.raises(BadInput, match=f"`shape` needs a type, .*, not {no_type!r}"):
                shape(no_type)


TEXT = "The  vendor\ncarries unlimited\tliability. The term is five years."


class TestQuotes:
    gate = staticmethod(quotes("evidence"))

    def said(self, evidence: Any) -> Any:
        return verdict(self.gate, {"evidence": evidence}, item(text=TEXT))

    def test_verbatim_passes(self) -> None:
        assert self.said("term is five years") == PASS

    def test_only_white_space_may_differ(self) -> None:
        assert self.said("The vendor carries unlimited liability.") == PASS
        assert self.said("  unlimited\n liability ") == PASS

    def test_an_invented_quote_is_shown(self) -> None:
        assert self.said("the term is ten  years") == fail(
            '`evidence` is not in the item\'s text word for word: "the term is ten years"'
        )

    def test_a_long_invented_quote_is_shortened(self) -> None:
        (reason,) = self.said("ab " * 100).reasons
        assert reason.endswith(f'"{("ab " * 14)[:40]} … {("ab " * 100).strip()[-40:]}"')

    @pytest.mark.parametrize("none", ["", " \n", None, 7, {"text": "term"}])
    def test_what_is_no_quote_fails(self, none: Any) -> None:
        assert self.said(none) == fail("`evidence` holds no quote")

    def test_a_missing_field_fails(self) -> None:
        assert verdict(self.gate, {}, item(text=TEXT)) == fail("`evidence` holds no quote")

    def test_each_of_a_list_counts_and_none_at_all_pass(self) -> None:
        assert self.said(["five years", "unlimited liability"]) == PASS
        assert self.said([]) == PASS
        assert self.said(["five years", "six years"]) == fail(
            '`evidence[1]` is not in the item\'s text word for word: "six years"'
        )

    def test_the_field_of_each_finding(self) -> None:
        findings = [{"evidence": "five years"}, {"evidence": "nine"}]
        reason = 'is not in the item\'s text word for word: "nine"'
        assert verdict(self.gate, findings, item(text=TEXT)) == fail(f"`[1].evidence` {reason}")
        nested = verdict(quotes("findings.evidence"), {"findings": findings}, item(text=TEXT))
        assert nested == fail(f"`findings[1].evidence` {reason}")

    def test_reasons_are_counted_beyond_three(self) -> None:
        *_, last = self.said(["five", *"qwzx"]).reasons
        assert last == '`evidence[3]` is not in the item\'s text word for word: "z" (and 1 more)'

    def test_the_source_can_be_another_field(self) -> None:
        gate = quotes("evidence", source="doc.body")
        assert verdict(gate, {"evidence": "b c"}, item(text="x", doc={"body": "a b c"})) == PASS
        assert (
            verdict(gate, {"evidence": "x"}, item(text="x", doc={"body": "a b c"})).state == "fail"
        )

    def test_an_item_that_is_a_text_is_its_own_source(self) -> None:
        assert verdict(self.gate, {"evidence": "b c"}, Item("c-1", "a b c")) == PASS
        assert verdict(self.gate, {"evidence": "d"}, Item("c-1", "a b c")).state == "fail"

    def test_any_item_of_several_will_do(self) -> None:
        both = (item(text="a b"), item(text="c d"))
        assert verdict(self.gate, {"evidence": "c d"}, *both) == PASS
        assert verdict(self.gate, {"evidence": "b c"}, *both).state == "fail"

    def test_an_item_without_text_cannot_be_judged(self) -> None:
        said = verdict(self.gate, {"evidence": "x"}, item(body="x"))
        assert said == unjudged("item `c-1` has no text in `text` to find quotes in")

    @given(st.text(), st.integers(0, 50), st.integers(1, 50))
    def test_any_piece_of_the_text_passes(self, text: str, start: int, length: int) -> None:
        """However its white space is changed, as long as something is left of it."""
        piece = text[start : start + length]
        loose = " \n ".join(piece.split())
        expected = "pass" if piece.strip() else "fail"
        for quote in (piece, loose, f" {loose} "):
            assert verdict(self.gate, {"evidence": quote}, item(text=text)).state == expected


class TestRange:
    gate = staticmethod(number_range("score", 0, 1))

    @pytest.mark.parametrize("fine", [0, 1, 0.5, [0.1, 0.2]])
    def test_bounds_are_included(self, fine: Any) -> None:
        assert verdict(self.gate, {"score": fine}) == PASS

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (-0.1, "`score` is -0.1, below 0"),
            (7, "`score` is 7, above 1"),
            ("0.5", '`score` is not a number: "0.5"'),
            (True, "`score` is not a number: true"),
            (float("nan"), "`score` is not a number: null"),
            (None, "`score` is not a number: null"),
            ([0.5, 2], "`score[1]` is 2, above 1"),
        ],
    )
    def test_what_is_outside_or_no_number_fails(self, value: Any, reason: str) -> None:
        assert verdict(self.gate, {"score": value}) == fail(reason)

    def test_a_missing_field_fails(self) -> None:
        assert verdict(self.gate, {}) == fail("`score` is not a number: it is missing")

    def test_one_side_may_be_open_and_the_whole_reply_may_be_the_number(self) -> None:
        assert verdict(number_range(None, low=3), 10**30) == PASS
        assert verdict(number_range(None, high=3), 4) == fail("the reply is 4, above 3")

    @pytest.mark.parametrize(
        "bounds", [(None, None), (2, 1), ("0", 1), (0, float("nan")), (True, 2)]
    )
    def test_bad_bounds_are_bad_input(self, bounds: Any) -> None:
        with pytest.raises(BadInput, match="`range` of `score`"):
            number_range("score", *bounds)


class TestRegex:
    def test_found_anywhere_in_the_text(self) -> None:
        assert judge(regex("b+"), Reply(text="abbc")) == PASS
        assert judge(regex("^b+$"), Reply(text="abbc")) == fail("the reply does not match ^b+$")

    def test_without_a_field_data_is_searched_as_json(self) -> None:
        assert verdict(regex('"a":1'), {"a": 1}) == PASS

    def test_a_field_may_be_a_number_or_a_list(self) -> None:
        gate = regex(r"^\d{2}$", "code")
        assert verdict(gate, {"code": [12, "34"]}) == PASS
        assert verdict(gate, {"code": [1, True, "x"]}) == fail(
            r"`code[0]` does not match ^\d{2}$: 1",
            "`code[1]` is not text: true",
            r'`code[2]` does not match ^\d{2}$: "x"',
        )
        assert verdict(gate, {}) == fail("`code` is not text: it is missing")

    @pytest.mark.parametrize("pattern", ["(", "*", 5])
    def test_a_bad_pattern_is_bad_input(self, pattern: Any) -> None:
        with pytest.raises(BadInput, match="is not a regular expression"):
            regex(pattern)
