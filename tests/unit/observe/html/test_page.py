"""The shell of a page: it loads nothing, and nothing of data becomes markup."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from fanfold.observe.html.page import Section, esc, page
from fanfold.observe.html.style import SCRIPT, STYLE
from tests.unit.observe.html.parsed import Parsed


def hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_the_policy_allows_only_what_stands_in_the_page() -> None:
    parsed = Parsed(page("t", "<h1>t</h1>", []))
    (policy,) = (one["content"] for one in parsed.all("meta") if "http-equiv" in one)
    assert policy == (
        f"default-src 'none'; style-src {hashed(STYLE)}; script-src {hashed(SCRIPT)};"
        " base-uri 'none'; form-action 'none'"
    )
    html = page("t", "", [])
    assert re.findall("<style>(.*?)</style>", html, re.DOTALL) == [STYLE]
    assert re.findall("<script>(.*?)</script>", html, re.DOTALL) == [SCRIPT]


def test_nothing_is_loaded() -> None:
    html = page("t", "", [Section("A", "<p>a</p>")])
    assert re.findall(r"\b(?:src|href|srcset|action)=|url\(|@import", html) == []


def test_sections_have_headings_and_are_listed_when_there_are_several() -> None:
    sections = [Section(name, f"<p>{name}</p>") for name in ("One thing", "B", "C", "Empty")]
    sections[3] = Section("Empty", "")
    parsed = Parsed(page("t", "<h1>t</h1>", sections, "bye"))
    assert [one["href"] for one in parsed.all("a")] == ["#one-thing", "#b", "#c"]
    assert [one["id"] for one in parsed.all("h2")] == ["one-thing", "b", "c"]
    assert [one["aria-labelledby"] for one in parsed.all("section")] == ["one-thing", "b", "c"]
    assert parsed.text == "t t One thing B C One thing One thing B B C C bye"
    assert Parsed(page("t", "", sections[:2])).all("nav") == []


@given(st.text())
def test_text_stays_text(text: str) -> None:
    parsed = Parsed(f"<p>{esc(text)}</p>")
    assert parsed.tags == {"p"}
    assert Parsed(f'<p class="{esc(text)}"></p>').tags == {"p"}


def test_what_cannot_be_seen_is_shown() -> None:
    assert esc("a\x00b\u202ec\ud800<&\"'>\n\t") == "a�b�c�&lt;&amp;&quot;&#x27;&gt;\n\t"
