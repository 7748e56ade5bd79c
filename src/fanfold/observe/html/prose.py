"""Texts on a page: the Markdown that people and models write, as far as it is worth it.

Headings, lists, tables, code, emphasis, links to the web. Nothing else is markup, least of all
HTML: it is shown as it was written. Each letter is looked at a fixed number of times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from fanfold.observe.html.page import esc

MOST = 200_000  # letters
_INLINE = re.compile(
    r"\\([\\`*_\[\]<>|~#&.!()+-])"
    r"|`([^`\n]{1,400})`"
    r"|\*\*([^*\n]{1,400})\*\*"
    r"|(?<!\w)_([^_\s][^_\n]{0,400})_(?!\w)|\*([^*\s][^*\n]{0,400})\*"
    r"|\[([^\]\n]{1,200})\]\((https?://[^\s()<>\"]{1,500})\)"
    r"|(https?://[^\s()<>\"'`\\|]{1,500}[^\s()<>\"'`\\|.,;:!?])"
)
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_BULLET = re.compile(r"\s{0,12}[-*•]\s+(.*)")
_NUMBERED = re.compile(r"\s{0,12}\d{1,4}[.)]\s+(.*)")
_QUOTE = re.compile(r"\s{0,12}>\s?(.*)")
_RULE = re.compile(r"\s*([-*_])(\s*\1){2,}\s*$")
_UNDER = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
_BAR = re.compile(r"(?<!\\)\|")
_NUMBER = re.compile(r"[~≤]?-?\$?[\d,]*\.?\d+\s?%?|n/a|-|–|\d+(\.\d+)?[smhd]( \d+[smhd])?")


def prose(text: str, top: int = 3, most: int = MOST) -> str:
    """`top` is the level of a heading with one sign; `most`: so many letters are shown."""
    lines = text[:most].expandtabs(4).splitlines()
    html = "\n".join(_blocks(lines, top))
    more = len(text) - most
    return html + (f'\n<p class="note">… and {more:,} more characters</p>' if more > 0 else "")


def inlined(text: str) -> str:
    """One line: emphasis, code and links."""
    out, at = [], 0
    for found in _INLINE.finditer(text):
        out.append(esc(text[at : found.start()]))
        out.append(_marked(found))
        at = found.end()
    return "".join([*out, esc(text[at:])])


def link(url: str, text: str = "") -> str:
    """Only for what begins with http; nothing of it is loaded until somebody follows it."""
    bare = ' class="bare"' if not text else ""
    return f'<a href="{esc(url)}"{bare} rel="noreferrer">{inlined(text) if text else esc(url)}</a>'


def _marked(found: re.Match[str]) -> str:
    sign, code, strong, slanted, starred, name, target, url = found.groups()
    if sign:
        return esc(sign)
    if code:
        return f"<code>{esc(code)}</code>"
    if strong:
        return f"<strong>{inlined(strong)}</strong>"
    if slanted or starred:
        return f"<em>{inlined(slanted or starred)}</em>"
    return link(target, name) if target else link(url)


def _blocks(lines: list[str], top: int) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.strip() == "<!-- more -->":
            at += 1
        elif line.lstrip().startswith("```"):
            end = _until(lines, at + 1, lambda one: one.strip().startswith("```"))
            yield f"<pre>{esc(chr(10).join(lines[at + 1 : end]))}</pre>"
            at = end + 1
        elif heading := _HEADING.match(line):
            level = min(6, top + len(heading[1]) - 1)
            yield f"<h{level}>{inlined(heading[2].rstrip('# '))}</h{level}>"
            at += 1
        elif _is_table(lines, at):
            end = _until(lines, at + 2, lambda one: "|" not in one)
            yield _table(lines[at], lines[at + 1], lines[at + 2 : end])
            at = end
        elif _QUOTE.match(line):
            end = _until(lines, at, lambda one: not _QUOTE.match(one))
            inner = "<br>".join(inlined(_QUOTE.sub(r"\1", one)) for one in lines[at:end])
            yield f"<blockquote>{inner}</blockquote>"
            at = end
        elif _RULE.match(line):
            yield "<hr>"
            at += 1
        else:
            end = _end_of_block(lines, at)
            yield _list(lines[at:end]) or _paragraph(lines[at:end])
            at = end


def _until(lines: list[str], at: int, stop: Callable[[str], object]) -> int:
    while at < len(lines) and not stop(lines[at]):
        at += 1
    return at


def _end_of_block(lines: list[str], at: int) -> int:
    """A list ends where something else begins at the margin, a paragraph where a list does."""
    listed = _item(lines[at]) is not None
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _begins(lines, end):
        inside = _item(lines[end]) is not None or (listed and lines[end].startswith(" "))
        if inside is not listed:
            break
        end += 1
    return end


def _begins(lines: list[str], at: int) -> bool:
    line = lines[at]
    fenced = line.lstrip().startswith("```") or bool(_QUOTE.match(line))
    return fenced or bool(_HEADING.match(line)) or bool(_RULE.match(line)) or _is_table(lines, at)


# ── lists and paragraphs ─────────────────────────────────────────────────────────────────────


def _item(line: str) -> tuple[str, str] | None:
    """The kind of list, and the text."""
    for tag, pattern in (("ul", _BULLET), ("ol", _NUMBERED)):
        if found := pattern.match(line):
            return tag, found[1]
    return None


def _list(lines: list[str]) -> str:
    first = _item(lines[0])
    if first is None:
        return ""
    entries: list[str] = []
    for line in lines:
        item = _item(line)
        if item is not None:
            entries.append(item[1])
        else:
            entries[-1] += " " + line.strip()
    inside = "".join(f"<li>{inlined(entry)}</li>" for entry in entries)
    return f"<{first[0]}>{inside}</{first[0]}>"


def _paragraph(lines: list[str]) -> str:
    return f"<p>{'<br>'.join(inlined(line.strip()) for line in lines)}</p>"


# ── tables ───────────────────────────────────────────────────────────────────────────────────


def _is_table(lines: list[str], at: int) -> bool:
    return "|" in lines[at] and at + 1 < len(lines) and bool(_UNDER.match(lines[at + 1]))


def _cells(line: str) -> list[str]:
    line = line.strip()
    inner = line.removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip() for cell in _BAR.split(inner)]


def _table(head: str, under: str, body: list[str]) -> str:
    """Columns of numbers stand to the right, whether it was said or not."""
    titles, rows = _cells(head), [_cells(line) for line in body]
    right = [cell.endswith(":") and not cell.startswith(":") for cell in _cells(under)]
    plain = [title.replace("\\|", "|").replace("*", "") for title in titles]
    styles = [
        ' class="num"' if (n < len(right) and right[n]) or _numeric(rows, n) else ""
        for n in range(len(titles))
    ]
    top = "".join(
        f'<th scope="col"{style}>{inlined(title)}</th>'
        for style, title in zip(styles, titles, strict=True)
    )
    inside = "\n".join(
        "<tr>"
        + "".join(
            f'<td{style} data-title="{esc(title)}">{inlined(c)}</td>'
            for style, title, c in zip(styles, plain, row, strict=False)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide"><table class="stack"><thead><tr>{top}</tr></thead>\n'
        f"<tbody>{inside}</tbody></table></div>"
    )


def _numeric(rows: list[list[str]], n: int) -> bool:
    cells = [row[n] for row in rows if n < len(row) and row[n]]
    return bool(cells) and all(_NUMBER.fullmatch(cell) for cell in cells)
