"""Prompt templates: strict, sandboxed, and right about what they read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput, FanfoldError
from fanfold.work.template import Template

KNOWN = {"item", "items", "steps", "parents", "task"}


def template(source: str, **more: Any) -> Template:
    return Template(source, name="review.md", known=KNOWN, **more)


def render(source: str, **names: Any) -> str:
    return template(source).render(**names)


def test_text_stays_as_it_is_to_the_last_line_end() -> None:
    assert render("<b> & 'x'\n\n") == "<b> & 'x'\n\n"


@given(st.text())
def test_what_an_item_says_is_never_escaped_nor_run(text: str) -> None:
    assert render("a {{ item.text }} b", item={"id": "1", "text": text}) == f"a {text} b"


def test_a_field_comes_before_a_method_of_its_name() -> None:
    item = {"id": "1", "items": "I", "values": "V", "n": {"copy": "C"}}
    assert render("{{ item.items }}{{ item.values }}{{ item.n.copy }}", item=item) == "IVC"
    assert (
        render("{% for k, v in item.items() %}{{ k }}={{ v }} {% endfor %}", item={"a": 1})
        == "a=1 "
    )


def test_objects_and_lists_are_printed_as_json() -> None:
    item = {"id": "1", "tags": ["é", None], "o": {"b": True, "a": "'<"}}
    assert (
        render("{{ item.tags }} {{ item.o }}", item=item) == '["é", null] {"a": "\'<", "b": true}'
    )
    assert render("{{ item.o | tojson }}", item=item) == '{"a": "\'<", "b": true}'
    assert render("{{ item.tags | tojson(indent=1) }}", item=item) == '[\n "é",\n null\n]'


NULL = "is null; if that is meant, write"


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ("Q: {{ item.text }}", "item.text"),
        ("{{ item['text'] }}", "item.text"),
        ("{{ item.of.text }}", "item.of.text"),
        (
            "{% if item.ok %}{% set said %}{{ item.text }}{% endset %}{{ said }}{% endif %}",
            "item.text",
        ),
        ("{% for item in items %}{{ item.text }}{% endfor %}", "item.text"),
    ],
)
def test_a_field_that_is_null_is_not_printed(source: str, field: str) -> None:
    item = {"id": "1", "text": None, "of": {"text": None}, "ok": True}
    with pytest.raises(FanfoldError) as error:
        render(source, item=item, items=[item])
    hint = f"{{{{ {field} | default('none', true) }}}}"
    assert str(error.value).endswith(f"`{field}` {NULL} {hint}")
    assert "item `1`: " in str(error.value)
    assert render(hint, item=item) == "none", "what it says to write does"


def test_a_null_may_be_tested_filtered_and_shown_as_data() -> None:
    item = {"id": "1", "text": None, "steps": {"read": {"note": None}}}
    for source, said in [
        ("{% if item.text %}a{% else %}b{% endif %}", "b"),
        ("{{ item.text is none }} {{ item.text == none }}", "True True"),
        ("{{ item.text | tojson }} {{ item.text or '-' }}", "null -"),
        ("{{ item.text | default('-') }}", "None"),
        ("{{ item }}", '{"id": "1", "steps": {"read": {"note": null}}, "text": null}'),
        ("{{ steps.read.note }}", "None"),
        ("{{ item.steps.read.note }}", "None"),
    ]:
        assert render(source, item=item, steps=item["steps"]) == said


def test_usual_filters_are_there() -> None:
    source = "{{ item.t | upper }} {{ item.l | join(', ') }} {{ item.x | default('none') }}"
    assert render(source, item={"t": "a", "l": [1, 2]}) == "A 1, 2 none"


def test_usual_functions_are_there() -> None:
    assert render("{% for n in range(3) %}{{ n }}{% endfor %}") == "012"


def test_one_rendering_leaves_nothing_for_the_next() -> None:
    made = template(
        "{% if item.n == 1 %}{% set seen = 'yes' %}{% endif %}{{ seen | default('no') }}"
    )
    assert [made.render(item={"n": n}) for n in (1, 2)] == ["yes", "no"]


NOT_HERE = "is not possible in a prompt: put the text here"
ALL = "known: item, items, parents, steps, task"


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        ("{{ itm.text }}", 1, "`itm` is not defined: did you mean `item`?"),
        ("\n\n{% if zzz %}{% endif %}", 3, f"`zzz` is not defined: {ALL}"),
        ("{{ lipsum() }}", 1, f"`lipsum` is not defined: {ALL}"),
        ("{% for x in items %}{% endfor %}{{ x }}", 1, f"`x` is not defined: {ALL}"),
        ("{{ item | tojsn }}", 1, "there is no filter `tojsn`: did you mean `tojson`?"),
        ("{% if item.a %}\n{{ item | zzzzz }}{% endif %}", 2, "there is no filter `zzzzz`"),
        ("{{ items | random }}", 1, "there is no filter `random`"),
        ("{{ item is odder }}", 1, "No test named 'odder'."),
        ("a\nb {item.text}", 2, "`{item.text}` is no value; write {{ item.text }}"),
        ("{ items[0].text }", 1, "`{items[0].text}` is no value; write {{ items[0].text }}"),
        ("{task}", 1, "`{task}` is no value; write {{ task }}"),
        ("a\n{% include 'x' %}", 2, f"`include` {NOT_HERE}"),
        ("{% extends 'x' %}", 1, f"`extends` {NOT_HERE}"),
        ("{% import 'x' as y %}", 1, f"`import` {NOT_HERE}"),
        ("{% from 'x' import y %}", 1, f"`fromimport` {NOT_HERE}"),
    ],
)
def test_mistakes_are_found_when_it_is_read(source: str, line: int, text: str) -> None:
    with pytest.raises(BadInput) as bad:
        template(source)
    assert str(bad.value) == f"review.md:{line}: template: {text}"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{ 'item': 1 } {x} {item text} {itemize}", "{ 'item': 1 } {x} {item text} {itemize}"),
        ("{% raw %}f'{item.n}'{% endraw %}", "f'{item.n}'"),
        ("{{ item.n }} of {item.n}", "1 of {item.n}"),
    ],
)
def test_single_braces_may_stand_in_a_text(source: str, said: str) -> None:
    """Where they name nothing that is known, or the text is a template beside them."""
    assert template(source).render(item={"n": 1}) == said


@pytest.mark.parametrize("source", ["a\n{{ item.", "a\nb {% for x in items %}", "\n{% fro %}"])
def test_broken_syntax_names_its_line(source: str) -> None:
    with pytest.raises(BadInput, match=r"\Areview\.md:2: template: .+\Z"):
        template(source)


def test_a_template_inside_a_plan_counts_from_its_line() -> None:
    with pytest.raises(BadInput) as bad:
        template("a\n{{ itm }}", line=41)
    assert (bad.value.file, bad.value.line) == ("review.md", 42)


@pytest.mark.parametrize(
    ("source", "item", "text"),
    [
        ("{{ item.txt }}", {"id": "c-7", "text": "x"}, "there is no field `txt`; did you mean `text`?"),
        ("{{ item['body'] }}", {"id": "c-7", "text": "x"}, "there is no field `body`"),
        ("{{ item.a.b }}", {"id": "c-7", "a": "x"}, "`b` is not there"),
        ("{% if item.zzz %}{% endif %}", {"id": "c-7"}, "there is no field `zzz`"),
        ("{% for x in item.l %}{% endfor %}", {"id": "c-7"}, "there is no field `l`"),
        ("{{ item.n + 'a' }}", {"id": "c-7", "n": 1}, "unsupported operand type(s) for +: 'int' and 'str'"),
        ("{{ 1 // item.n }}", {"id": "c-7", "n": 0}, "integer division or modulo by zero"),
    ],
)  # fmt: skip
def test_what_one_item_lacks_names_item_and_field(source: str, item: Any, text: str) -> None:
    with pytest.raises(FanfoldError) as wrong:
        render(source, item=item)
    assert str(wrong.value) == f"review.md: item `c-7`: {text}"
    assert not isinstance(wrong.value, BadInput)


def test_of_several_items_the_first_is_named() -> None:
    with pytest.raises(FanfoldError) as wrong:
        render("{% for i in items %}{{ i.text }}{% endfor %}", items=[{"id": "a"}, {"id": "b"}])
    assert str(wrong.value) == "review.md: items from `a` on: there is no field `text`"


def test_a_name_that_was_not_given_is_an_error_too() -> None:
    with pytest.raises(FanfoldError) as wrong:
        render("{{ steps.map }}", item={"id": "a"})
    assert str(wrong.value) == "review.md: item `a`: `steps` is not there"


@pytest.mark.parametrize(
    "source",
    [
        "{{ item.__class__ }}",
        "{{ item.text.__class__.__mro__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ item.l.append(1) }}",
        "{{ item.update({'a': 1}) }}",
        "{{ '{0.__class__}'.format(item) }}",
        "{{ item.text | attr('__class__') }}",
        "{% for x in range(10000000) %}{% endfor %}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    item = {"id": "a", "text": "t", "l": [1]}
    with pytest.raises(FanfoldError):
        render(source, item=item)
    assert item == {"id": "a", "text": "t", "l": [1]}


def test_uses_knows_outer_names_from_loop_variables() -> None:
    one, many = (
        template("{{ item.text }}"),
        template("{% for item in items %}{{ item.text }}{% endfor %}"),
    )
    assert [one.uses("item"), one.uses("items")] == [True, False]
    assert [many.uses("item"), many.uses("items")] == [False, True]


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("{{ item.text }} {{ item['title'] }} {{ item.a.b }}", {"text", "title", "a"}),
        ("{{ item.text | upper | default('x') }}", set()),
        ("{{ item.a | default(item.b) }}", set()),
        ("{% if item.x is defined %}{{ item.x }}{% endif %}{{ item.y }}", {"y"}),
        ("{% if item.x %}{% endif %}", {"x"}),
        ("{{ item.get('x') }}{% for k in item.keys() %}{% endfor %}", set()),
        ("{{ item[item.which] }}", {"which"}),
        ("{% for item in items %}{{ item.text }}{% endfor %}", {"text"}),
        ("{% for item in steps.found %}{{ item.other }}{% endfor %}{{ item.text }}", {"text"}),
        ("{% for item, n in item.pairs %}{{ item.other }}{% endfor %}", {"pairs"}),
        ("no fields", set()),
    ],
)
def test_fields_are_what_every_item_needs(source: str, fields: set[str]) -> None:
    assert template(source).fields("item") == fields


def test_fields_of_other_names() -> None:
    assert template("{{ steps.map }}{{ parents.a.b }}").fields("steps") == {"map"}


NAMES: dict[str, Any] = {
    "task": "Sort",
    "vars": {"rules": ["kind", "brief"], "law": "L"},
    "steps": {"outline": "first, last"},
}


@pytest.mark.parametrize(
    ("source", "head", "after"),
    [
        ("Rules. {{ item.n }} More rules.", "Rules.", " More rules."),
        ("{{ item.n }} Rules.", "", " Rules."),
        ("{{ vars.law }} and {{ steps.outline }}: {{ item.n }} {{ task }}", "L and first, last:", " Sort"),
        ("{% for r in vars.rules %}{{ loop.index }} {{ r }}{% endfor %} {{ item.n }}", "1 kind2 brief", ""),
        ("{% if vars.law %}{{ vars.law }}{% endif %} {{ items[0].n }}!", "L", "!"),
        ("{% if item.n %}yes{% endif %} so", "", " so"),
        ("{{ steps.own }} {{ vars.law }}", "", " L"),
        ("{{ steps }} {{ vars.law }}", "", " L"),
        ("{{ steps[task] }} so", "", " so"),
        ("{% set n = item.n %}{{ n }} so", "", " so"),
        ("{% for one in items %}{{ vars.law }}{% endfor %} so", "", " so"),
        ("{{ vars.law | image }} so", "", " so"),
        ("{{ vars.none }} {{ item.n }}", "", ""),
    ],
)  # fmt: skip
def test_what_is_the_same_for_all_items_is_found(source: str, head: str, after: str) -> None:
    """By what it reads: the task, variables, and results that are the whole plan's."""
    made = Template(source, name="review.md", known={*KNOWN, "vars"})
    assert (made.head(NAMES), made.common_after(NAMES)) == (head, after)
    if head and not made.media:
        item = {"id": "a", "n": 7}
        assert made.render(item=item, items=[item], **NAMES).startswith(head)
