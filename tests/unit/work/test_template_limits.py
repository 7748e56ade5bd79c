"""A template cannot hold up the run: what would take for ever, or all memory, is refused."""

from __future__ import annotations

import pytest

from fanfold.errors import BadInput, FanfoldError
from fanfold.work.template import Template

ENDLESS = [
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in item.l if a %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
    "{% endfor %}{% endfor %}",
    "{{ range(10 ** 9) | list }}",
    "{{ 9 ** 9999999 }}",
    "{{ 'x' * 10 ** 9 }}",
    "{{ 10 ** 9 * 'x' }}",
    "{{ [1] * 10 ** 9 }}",
    "{{ 'x' | center(10 ** 9) }}",
    "{{ 'x' | indent(width=10 ** 9) }}",
    "{{ 'x'.ljust(10 ** 9) }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ '%0999999999d' % 1 }}",
    "{{ '%0999999999d' | format(1) }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x|replace('a','aa') %}{% endfor %}",
    "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x.replace('a','aa') %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}",
    "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}",
]  # fmt: skip


@pytest.mark.parametrize("source", ENDLESS, ids=range(len(ENDLESS)))
def test_a_template_that_would_not_end_is_refused_for_the_item_that_shows_it(source: str) -> None:
    with pytest.raises(FanfoldError, match="item `i`: "):
        Template(source, name="t", known=["item"]).render(item={"id": "i", "l": [1, 2, 3]})


def test_ordinary_templates_render_as_before() -> None:
    source = (
        "{% for a in item.l %}{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}"
        "{% else %}none{% endfor %}"
        " {{ 2 ** 10 }} {{ 'ab' * 2 }} {{ 7 % 3 }} {{ 'a' ~ 1 ~ item.id }} {{ [1] + [2] }}"
        " {{ item.l | join(', ') }} {{ '%s-%s' | format('a', 'b') }} {{ 'x'.replace('x', 'y') }}"
        " {{ 'a b' | replace(' ', '_') }} {{ item.l | batch(2) | list }} {{ 3.14159 | round(2) }}"
        " {{ '%.2f' % 1.5 }} {{ '{:.1f}'.format(2) }} {{ 20000000 * 3 }} {{ 2 * 'x' }}"
    )
    said = Template(source, name="t", known=["item"]).render(item={"id": "i", "l": [1, 2, 3]})
    assert said == (
        "1/3,2/3,3/3 1024 abab 1 a1i [1, 2] 1, 2, 3 a-b y a_b [[1, 2], [3]] 3.14 1.50 2.0 60000000 xx"
    )


def test_steps_are_counted_anew_for_each_rendering() -> None:
    template = Template("{% for i in range(99999) %}{% endfor %}ok", name="t", known=[])
    assert {template.render() for _ in range(12)} == {"ok"}


@pytest.mark.parametrize(
    "source",
    ["{{ " + "[" * 2000 + "]" * 2000 + " }}", "{{ " + "[" * 150 + "]" * 150 + " }}",
     "{% for a in b %}" * 30 + "{% endfor %}" * 30],
)  # fmt: skip
def test_a_template_that_is_nested_too_deeply_for_the_parsers_is_refused(source: str) -> None:
    with pytest.raises(BadInput, match="f:3: template: it is nested too deeply"):
        Template(source, name="f", known=["b"], line=3)
