"""The shell of every page, and the small pieces that several pages are made of.

The pieces of the report are used as they are (`observe/html`). Everything that comes from data goes
through `esc`; nothing may run or load but the files of `static`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from urllib.parse import quote, urlencode

import msgspec

from fanfold.observe.closing import NAMES
from fanfold.observe.html.page import esc
from fanfold.observe.html.plots import bar
from fanfold.observe.html.style import STYLE
from fanfold.observe.html.tables import Html
from fanfold.work.outcome import STATES, Receipt

_FOLDER = files("fanfold.faces.ui") / "static"
SCRIPTS = ("idiomorph.min.js", "uPlot.iife.min.js", "ui.js")
SHEETS = ("report.css", "uPlot.min.css", "ui.css")
_KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def _static() -> dict[str, bytes]:
    names = (*SCRIPTS, *SHEETS[1:], "icon.svg")
    return {"report.css": STYLE.encode()} | {name: (_FOLDER / name).read_bytes() for name in names}


STATIC = _static()
"""All that a page loads, by name."""
_VERSION = sha256(b"".join(STATIC.values())).hexdigest()[:12]


def kind_of(name: str) -> str:
    return _KINDS[name.rpartition(".")[2]]


class UiPage(msgspec.Struct, frozen=True, kw_only=True):
    """`body` is HTML. `follow`: the number of the run whose changes it shows, `*` for any, "" for
    none; `tick`: seconds after which it is read again in any case, 0 is never. `late`: some of it is
    being counted, so it is read again soon."""

    title: str
    body: str
    at: str = ""
    follow: str = ""
    tick: float = 0.0
    late: bool = False


def document(page: UiPage, store: str, *, read_only: bool) -> str:
    """The whole page."""
    sheets = "\n".join(f'<link rel="stylesheet" href="{_asset(name)}">' for name in SHEETS)
    scripts = "\n".join(f'<script src="{_asset(name)}" defer></script>' for name in SCRIPTS)
    links = "".join(
        f'<a href="{path}"{_current(path == page.at)}>{name}</a>' for path, name in _PAGES
    )
    mode = '<span class="mode">read only</span>' if read_only else ""
    tick, late = (1.0, " data-late") if page.late else (page.tick, "")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{esc(page.title)} · fanfold</title>
<link rel="icon" href="{_asset("icon.svg")}" type="image/svg+xml">
{sheets}
{scripts}
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<div class="top">
<a class="brand" href="/">fanfold</a>
<nav aria-label="Pages">{links}</nav>
<span class="place" title="{esc(store)}">{esc(store)}</span>{mode}
<span id="live" class="live" role="status">connecting</span>
<button type="button" id="keys" aria-label="Keyboard shortcuts">?</button>
</div>
<main id="main" tabindex="-1" data-follow="{esc(page.follow)}" data-tick="{tick:g}"{late}>
{page.body}
</main>
{_HELP}
</body>
</html>
"""


_PAGES = (("/", "Runs"), ("/money", "Money"), ("/compare", "Compare"))
_HELP = """<dialog id="help" aria-labelledby="help-title"><h2 id="help-title">Keyboard</h2>
<dl class="keys"><dt><kbd>/</kbd></dt><dd>search</dd><dt><kbd>j</kbd> <kbd>k</kbd></dt>
<dd>next and previous row</dd><dt><kbd>Enter</kbd></dt><dd>open the row</dd>
<dt><kbd>u</kbd></dt><dd>one level up</dd><dt><kbd>?</kbd></dt><dd>this help</dd></dl>
<form method="dialog"><button>Close</button></form></dialog>"""


def _asset(name: str) -> str:
    return f"/static/{name}?v={_VERSION}"


def _current(here: bool) -> str:
    return ' aria-current="page"' if here else ""


# ── pieces ───────────────────────────────────────────────────────────────────────────────────


def address(path: str, **query: str | int | None) -> str:
    """A path of ours with a query; what is empty is left out. Not escaped yet."""
    given = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return path + (f"?{urlencode(given)}" if given else "")


def run_path(id: str, **query: str | int | None) -> str:
    return address(f"/run/{quote(id, safe='')}", **query)


def item_path(run: str, id: str) -> str:
    return f"{run_path(run)}/item?{urlencode({'id': id})}"


def worker_path(run: str, id: str) -> str:
    return f"{run_path(run)}/worker?{urlencode({'id': id})}"


def linked(to: str, text: str, style: str = "") -> Html:
    of = f' class="{style}"' if style else ""
    return Html(f'<a href="{esc(to)}"{of}>{esc(text)}</a>')


def crumbs(*links: tuple[str, str]) -> str:
    """The way up."""
    made = ' <span aria-hidden="true">/</span> '.join(linked(to, text) for to, text in links)
    return f'<p class="crumbs" data-up="{esc(links[-1][0])}">{made}</p>'


def pill(word: str, style: str = "") -> Html:
    return Html(f'<span class="status {esc(style or word)}">{esc(word)}</span>')


def tabs(links: Iterable[tuple[str, str, bool]]) -> str:
    """Address, name, and whether it is the present one."""
    made = "".join(
        f'<a href="{esc(to)}"{_current(here)}>{esc(name)}</a>' for to, name, here in links
    )
    return f'<nav class="tabs" aria-label="Parts of this page">{made}</nav>'


def chips(links: Iterable[tuple[str, str, bool]]) -> str:
    """Address, name as HTML, and whether it is the present choice."""
    made = "".join(
        f'<a class="chip" href="{esc(to)}"{" aria-current=true" if here else ""}>{name}</a>'
        for to, name, here in links
    )
    return f'<div class="chips">{made}</div>'


def panel(title: str, body: str, style: str = "") -> str:
    """A part of a page with a title."""
    return f'<section class="panel {style}"><h2>{esc(title)}</h2>{body}</section>' if body else ""


def outcome_bar(receipt: Receipt) -> str:
    """How the items ended, as parts of what was planned; what is pending is left empty."""
    return tally_bar({s: getattr(receipt, s) for s in STATES}, receipt.planned)


def tally_bar(counts: Mapping[str, int], whole: int) -> str:
    found = [(state, many) for state, many in counts.items() if many]
    label = ", ".join(f"{many:,} {state_name(state)}" for state, many in found) or "none ended yet"
    most = max(whole, sum(counts.values()), 1)
    return bar([n / most for _, n in found], label, [f"o-{state}" for state, _ in found])


def state_name(state: str) -> str:
    return next((shown for known, shown in NAMES.items() if known == state), state)


def chart(
    label: str, x: Sequence[float], lines: Sequence[tuple[str, str, Sequence[float | None]]]
) -> str:
    """Lines over time, drawn by the page's script; `label` says the same in words. Each line has a name,
    a style (`spent`, `reserved`, `budget`) and its values."""
    data = msgspec.json.encode({"x": x, "lines": lines}).decode()
    return f'<ff-chart role="img" aria-label="{esc(label)}" data-chart="{esc(data)}"></ff-chart>'


def copied(text: str, name: str, shown: str = "") -> str:
    """A command with a button that copies it; `shown`: these words instead of a long text."""
    seen = f'<span class="meta">{esc(shown)}</span>' if shown else f"<code>{esc(text)}</code>"
    return (
        f'<div class="copy">{seen}'
        f'<button type="button" data-copy="{esc(text)}">{esc(name)}</button></div>'
    )
