"""The shell of a page: one file that needs nothing else, for light and dark, screen and paper.

Nothing in a page may run or load but what stands here: its policy names the style and the script
by their hashes. Everything that comes from data must go through `esc`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape

import msgspec

from fanfold.observe.html.style import SCRIPT, STYLE

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
    "|[\ud800-\udfff]"
)
_SLUG = re.compile(r"[^a-z0-9]+")


class Section(msgspec.Struct, frozen=True):
    """`body` is HTML: made of text that was escaped."""

    title: str
    body: str

    @property
    def id(self) -> str:
        return _SLUG.sub("-", self.title.lower()).strip("-")


def esc(text: str) -> str:
    """Text, never markup. What cannot be seen is shown as a sign: it could turn text around."""
    return escape(clean(text))


def clean(text: str) -> str:
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def note(text: str) -> str:
    return f'<p class="note">{esc(text)}</p>'


def page(title: str, head: str, sections: Iterable[Section], foot: str = "") -> str:
    """`head` and `foot` are HTML; `title` is text."""
    shown = [one for one in sections if one.body]
    return "\n".join([
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="generator" content="fanfold">',
        f"<title>{esc(title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        f"<header>\n{head}\n{_contents(shown)}</header>",
        "<main>",
        *(_section(one) for one in shown),
        "</main>",
        f"<footer>{foot}</footer>" if foot else "",
        f"<script>{SCRIPT}</script>",
        "</body>",
        "</html>",
        "",
    ])  # fmt: skip


def _contents(sections: list[Section]) -> str:
    if len(sections) < 3:
        return ""
    links = " ".join(f'<a href="#{one.id}">{esc(one.title)}</a>' for one in sections)
    return f'<nav aria-label="Contents">{links}</nav>\n'


def _section(one: Section) -> str:
    return (
        f'<section aria-labelledby="{one.id}">\n<h2 id="{one.id}">{esc(one.title)}</h2>\n'
        f"{one.body}\n</section>"
    )


def _hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_POLICY = (
    f"default-src 'none'; style-src {_hashed(STYLE)}; script-src {_hashed(SCRIPT)};"
    " base-uri 'none'; form-action 'none'"
)
