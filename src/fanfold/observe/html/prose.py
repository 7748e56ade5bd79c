"""Markdown that people and models write, as HTML. markdown-it-py parses it.

No HTML in it is markup and nothing is loaded: images are links, and links lead to the web only. All
text stays visible: no references, no entities, no indented code that would be taken for something
else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from fanfold.observe.html.page import clean, esc

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

MOST = 200_000  # characters
_NESTING = 20  # the parser drops blocks that are nested more deeply
_MARKER = re.compile(r"^\s*<!-- more -->\s*$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s()<>\"'`\\|]{1,500}[^\s()<>\"'`\\|.,;:!?*]")
_NUMBER = re.compile(r"[~≤]?-?\$?[\d,]*\.?\d+\s?%?|n/a|-|–|\d+(\.\d+)?[smhd]( \d+[smhd])?")
_WEB = ("http://", "https://")


def prose(text: str, top: int = 3, most: int = MOST) -> str:
    """`top` is the level of a heading with one `#`; at most `most` characters are shown."""
    shown = _MARKER.sub("", clean(text[:most]).expandtabs(4))
    env, parser = {"top": top}, _parser()
    tokens = parser.parse(shown, env)
    if any(token.level >= _NESTING - 1 for token in tokens):
        html = f"<pre>{esc(shown)}</pre>"
    else:
        html = parser.renderer.render(tokens, parser.options, env).strip()
    more = len(text) - most
    return html + (f'\n<p class="note">… and {more:,} more characters</p>' if more > 0 else "")


def link(url: str) -> str:
    """A bare address, of http or https only. Nothing is loaded until somebody follows it."""
    return f'<a href="{esc(url)}" class="bare" rel="noreferrer">{esc(url)}</a>'


# ── after parsing ────────────────────────────────────────────────────────────────────────────


def _link_addresses(state: StateCore) -> None:
    """Bare addresses in texts become links."""
    for token in state.tokens:
        if token.type == "inline" and "://" in token.content:
            token.children = list(_with_links(token.children or []))


def _with_links(tokens: Sequence[Token]) -> Iterator[Token]:
    inside = 0
    for token in tokens:
        inside += token.nesting if token.type.startswith("link_") else 0
        if inside or token.type != "text":
            yield token
            continue
        at = 0
        for found in _URL.finditer(token.content):
            yield token.copy(content=token.content[at : found.start()])
            yield token.copy(type="html_inline", content=link(found[0]))
            at = found.end()
        yield token.copy(content=token.content[at:])


def _finish_tables(state: StateCore) -> None:
    """Each cell has its column's title, for narrow screens; columns of numbers align right."""
    rows: list[list[Token]] = []
    for at, token in enumerate(state.tokens):
        match token.type:
            case "table_open":
                rows = []
            case "tr_open":
                rows.append([])
            case "th_open" | "td_open":
                token.meta["text"] = state.tokens[at + 1].content
                rows[-1].append(token)
            case "table_close":
                _finish_columns(rows)


def _finish_columns(rows: list[list[Token]]) -> None:
    for column in zip(*rows, strict=True):
        head, *cells = column
        right = head.attrGet("style") == "text-align:right"
        texts = [cell.meta["text"] for cell in cells if cell.meta["text"]]
        numeric = bool(texts) and all(_NUMBER.fullmatch(text) for text in texts)
        style = {"class": "num"} if right or numeric else {}
        head.attrs = {"scope": "col", **style}
        for cell in cells:
            cell.attrs = {**style, "data-title": head.meta["text"].replace("*", "")}


# ── to HTML ──────────────────────────────────────────────────────────────────────────────────


def _heading(token: Token, top: int) -> str:
    return f"h{min(6, top + int(token.tag[1]) - 1)}"


def _link_open(token: Token, top: int) -> str:
    bare = ' class="bare"' if token.markup == "autolink" else ""
    return f'<a href="{esc(str(token.attrGet("href")))}"{bare} rel="noreferrer">'


_WRITERS: dict[str, Callable[[Token, int], str]] = {
    "heading_open": lambda token, top: f"<{_heading(token, top)}>",
    "heading_close": lambda token, top: f"</{_heading(token, top)}>\n",
    "fence": lambda token, top: f"<pre>{esc(token.content.removesuffix(chr(10)))}</pre>\n",
    "link_open": _link_open,
    "table_open": lambda token, top: '<div class="wide"><table class="stack">\n',
    "table_close": lambda token, top: "</table></div>\n",
}


def _rule(write: Callable[[Token, int], str]) -> Callable[..., str]:
    """A rule of the renderer: it is a method, and is given all tokens."""
    return lambda renderer, tokens, at, options, env: write(tokens[at], env["top"])


@cache
def _parser() -> MarkdownIt:
    """Imported when a page is made: commands that make none start sooner."""
    from markdown_it import MarkdownIt

    options = {"html": False, "breaks": True, "xhtmlOut": False, "maxNesting": _NESTING}
    parser = MarkdownIt("commonmark", options).enable("table")
    parser.disable(["image", "reference", "entity", "code", "html_block", "html_inline"])
    parser.validateLink = lambda url: url.startswith(_WEB)  # type: ignore[method-assign]
    parser.core.ruler.push("addresses", _link_addresses)
    parser.core.ruler.push("tables", _finish_tables)
    for name, write in _WRITERS.items():
        parser.add_render_rule(name, _rule(write))
    return parser
