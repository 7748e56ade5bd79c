"""Texts on a page: some Markdown, and no HTML whatever stands in it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.observe.html.prose import MOST, prose
from tests.unit.observe.html.parsed import Parsed

ALLOWED = {
    "p", "br", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "code", "strong", "em", "a", "hr",
    "blockquote", "div", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


@pytest.mark.parametrize(("text", "html"), [
    ("# A\n\n### B ##", "<h3>A</h3>\n<h5>B</h5>"),
    ("one\ntwo\n\nthree", "<p>one<br>\ntwo</p>\n<p>three</p>"),
    ("text:\n- a **b**\n  more\n- c",
     "<p>text:</p>\n<ul>\n<li>a <strong>b</strong><br>\nmore</li>\n<li>c</li>\n</ul>"),
    ("1. a\n2. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>"),
    ("> said <b>\n> twice", "<blockquote>\n<p>said &lt;b&gt;<br>\ntwice</p>\n</blockquote>"),
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


@pytest.mark.parametrize(("text", "shown"), [
    ("<b>bold</b>", "<b>bold</b>"),
    ("<!-- hidden -->", "<!-- hidden -->"),
    ("&lt;", "&lt;"),
    ("[name]: https://a.example", "[name]: https://a.example"),
    ("    indented", "indented"),
    ("> " * 40 + "deep", "deep"),
    ("".join(f"{'  ' * n}- {n}\n" for n in range(40)), "39"),
    ("a\u202eb", "a\N{REPLACEMENT CHARACTER}b"),
    ("&#x202e;", "&#x202e;"),
])  # fmt: skip
def test_all_text_stays_visible(text: str, shown: str) -> None:
    """No markup of HTML, no reference, no entity and no nesting hides what was written."""
    assert shown in Parsed(prose(text)).text


def test_a_table_has_headers_and_its_numbers_to_the_right() -> None:
    parsed = prose(
        "| a \\| b | n | cost |\n|---|---|---|\n| **x** | 12 | $0.41 |\n| y |  | ~$1.20 |"
    )
    assert parsed.replace("\n", "") == (
        '<div class="wide"><table class="stack"><thead><tr><th scope="col">a | b</th>'
        '<th scope="col" class="num">n</th><th scope="col" class="num">cost</th></tr></thead>'
        '<tbody><tr><td data-title="a | b"><strong>x</strong></td>'
        '<td class="num" data-title="n">12</td><td class="num" data-title="cost">$0.41</td></tr>'
        '<tr><td data-title="a | b">y</td><td class="num" data-title="n"></td>'
        '<td class="num" data-title="cost">~$1.20</td></tr></tbody></table></div>'
    )
    assert '<th scope="col" class="num">n</th>' in prose("| n |\n|--:|")


def test_only_links_to_the_web_are_links() -> None:
    assert prose("see https://a.example/b?c=1&d. Or [it](https://b.example)") == (
        '<p>see <a href="https://a.example/b?c=1&amp;d" class="bare" rel="noreferrer">'
        "https://a.example/b?c=1&amp;d</a>. Or "
        '<a href="https://b.example" rel="noreferrer">it</a></p>'
    )
    for text in ("[x](javascript:alert(1))", "file:///etc", "data:text/html,x", "<mailto:a@b>"):
        assert "<a" not in prose(text)


def test_an_image_is_a_link_and_is_not_loaded() -> None:
    assert prose("![it](https://a.example/b.png)") == (
        '<p>!<a href="https://a.example/b.png" rel="noreferrer">it</a></p>'
    )


def test_a_long_text_is_cut_and_says_so() -> None:
    assert prose("a" * (MOST + 5)).endswith('<p class="note">… and 5 more characters</p>')


@given(st.text(alphabet="<>&\"'`*_[]()#|-+.!\\ \n1ahtps:/", max_size=80))
def test_no_other_element_can_be_made(text: str) -> None:
    parsed = Parsed(prose(text))
    assert parsed.tags <= ALLOWED
    assert all(one["href"].startswith(("http://", "https://")) for one in parsed.all("a"))


@pytest.mark.parametrize(
    "sign", ["*", "`", "_", "[", "|", "https://", "**a", "> ", "\\", "- ", "![", "[a]("]
)
def test_long_lines_of_signs_take_no_longer_than_others(sign: str) -> None:
    """Where that takes long, on a slow machine, it is at least not more than the length is."""

    def took(length: int) -> float:
        text = sign * (length // len(sign))
        began = time.process_time()
        prose(text)
        return time.process_time() - began

    whole = took(20_000)
    assert whole < 0.5 or whole < 10 * took(5_000)
