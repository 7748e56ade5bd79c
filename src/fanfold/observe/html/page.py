"""The shell of a page: one file that needs nothing else, for light and dark, screen and paper; and long
tables in it, whose first rows are shown and whose others are packed for its script to show.

Nothing in a page may run or load but what is defined here: its policy names the style and the script
by their hashes. Everything that comes from data must go through `esc`."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from zlib import compress

import msgspec

from fanfold.observe.html.style import SCRIPT, STYLE

_INVISIBLE = re.compile(
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
    """Text, never markup. Invisible characters are replaced: they could reverse text."""
    return escape(clean(text))


def clean(text: str) -> str:
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


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


_encode = msgspec.json.Encoder().encode


class PageCapacity:
    """How many more characters a page may have, which is to stay small."""

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining

    def first(self, rows: Sequence[str], most_rows: int, characters: int) -> list[str]:
        """The first of these rows that fit, and one at least while there is any capacity at all."""
        taken: list[str] = []
        free = min(characters, self.remaining)
        for row in rows[:most_rows]:
            if free <= 0 or (taken and len(row) > free):
                break
            taken.append(row)
            free -= len(row)
            self.remaining -= len(row)
        return taken

    def pack(self, rows: Sequence[Sequence[str]]) -> tuple[str, int]:
        """As many of these rows as fit, as one text, and how many they are. By columns, which compresses
        better."""
        columns = [[clean(cell) for cell in column] for column in zip(*rows, strict=True)]
        count = len(rows)
        while count > 0:
            data = b64encode(compress(_encode([one[:count] for one in columns]), 9)).decode()
            if len(data) <= self.remaining:
                self.remaining -= len(data)
                return data, count
            count = min(count - 1, int(count * self.remaining / len(data) * 0.98))
        return "", 0


def paged(
    box: str,
    rows: Sequence[Sequence[str]],
    shown: int,
    whole: int,
    size: int,
    capacity: PageCapacity,
) -> str:
    """`box`, a table or a list that shows the first `shown` of `rows`; the others are packed beside it,
    for the page's script to show `size` at a time. Of `whole` rows those that do not fit are not on
    the page, and it says so."""
    if whole <= shown:
        return box
    data, there = capacity.pack(rows) if len(rows) > shown else ("", 0)
    if there <= shown:
        return box + note(f"… and {whole - shown:,} more")
    pager = (
        f"1–{shown:,} of {there:,}; the others are here too, for a browser that runs the script."
    )
    missing = f"The first {there:,} of {whole:,} are on this page." if whole > there else ""
    return (
        f'<p class="note pager">{pager}</p>{box}'
        f'<template class="more" data-size="{size}">{data}</template>'
        + (note(missing) if missing else "")
    )
