"""Texts on a page: some Markdown, and no HTML whatever stands in it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.observe.html.prose import MOST, inlined, prose
from tests.unit.observe.html.parsed import Parsed

ALLOWED = {
    "p", "br", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "code", "strong", "em", "a", "hr",
    "blockquote", "div", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


@pytest.mark.parametrize(("text", "html"), [
    ("# A\n\n### B ##", "<h3>A</h3>\n<h5>B</h5>"),
    ("one\ntwo\n\nthree", "<p>one<br>two</p>\n<p>three</p>"),
    ("text:\n- a **b**\n  more\n- c", "<p>text:</p>\n<ul><li>a <strong>b</strong> more</li><li>c</li></ul>"),
    ("1. a\n2) b", "<ol><li>a</li><li>b</li></ol>"),
    ("- a\n  > said <b>\n  > twice", "<ul><li>a</li></ul>\n<blockquote>said &lt;b&gt;<br>twice</blockquote>"),
    ("```py\na < b\n```\nc", "<pre>a &lt; b</pre>\n<p>c</p>"),
    ("```\nnever closed", "<pre>never closed</pre>"),
    ("---", "<hr>"),
    ("<!-- more -->", ""),
    ("`a*b*` _c_ *d* e_f_g", "<p><code>a*b*</code> <em>c</em> <em>d</em> e_f_g</p>"),
    ("\\*a\\* \\`b\\`", "<p>*a* `b`</p>"),
    ("a | b", "<p>a | b</p>"),
])  # fmt: skip
def test_blocks(text: str, html: str) -> None:
    assert prose(text) == html


def test_a_table_has_headers_and_its_numbers_to_the_right() -> None:
    parsed = prose(
        "| a \\| b | n | cost |\n|---|---|---|\n| **x** | 12 | $0.41 |\n| y |  | ~$1.20 |"
    )
    assert parsed == (
        '<div class="wide"><table class="stack"><thead><tr><th scope="col">a | b</th>'
        '<th scope="col" class="num">n</th><th scope="col" class="num">cost</th></tr></thead>\n'
        '<tbody><tr><td data-title="a | b"><strong>x</strong></td>'
        '<td class="num" data-title="n">12</td><td class="num" data-title="cost">$0.41</td></tr>\n'
        '<tr><td data-title="a | b">y</td><td class="num" data-title="n"></td>'
        '<td class="num" data-title="cost">~$1.20</td></tr></tbody></table></div>'
    )


def test_only_links_to_the_web_are_links() -> None:
    assert inlined("see https://a.example/b?c=1&d. Or [it](https://b.example)") == (
        'see <a href="https://a.example/b?c=1&amp;d" class="bare" rel="noreferrer">'
        "https://a.example/b?c=1&amp;d</a>. Or "
        '<a href="https://b.example" rel="noreferrer">it</a>'
    )
    assert "<a" not in inlined("[x](javascript:alert(1)) file:///etc data:text/html,x")


def test_a_long_text_is_cut_and_says_so() -> None:
    assert prose("a" * (MOST + 5)).endswith('<p class="note">… and 5 more characters</p>')


@given(st.text(alphabet="<>&\"'`*_[]()#|-+.!\\ \n1ahtps:/", max_size=80))
def test_no_other_element_can_be_made(text: str) -> None:
    parsed = Parsed(prose(text))
    assert parsed.tags <= ALLOWED
    assert all(one["href"].startswith(("http://", "https://")) for one in parsed.all("a"))


@pytest.mark.parametrize("sign", ["*", "`", "_", "[", "|", "https://", "**a", "> ", "\\", "- "])
def test_long_lines_of_signs_take_no_longer_than_others(sign: str) -> None:
    text = sign * (100_000 // len(sign))
    began = time.process_time()
    prose(text)
    assert time.process_time() - began < 5.0
