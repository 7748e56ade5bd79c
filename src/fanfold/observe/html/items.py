"""The items of a run on its page: each with its outcome, and the reply that it ended with to open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fanfold.journal.answers import EndedItem
from fanfold.observe.account import Account
from fanfold.observe.amounts import money
from fanfold.observe.closing import NAMES
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.paged import Room, paged
from fanfold.observe.html.tables import json_text

PAGE = 20
FIRST = 30_000  # letters of the items that stand on the page
LONGEST = 4000
"""Letters of one reply."""


def items_html(account: Account, room: Room) -> Iterator[str]:
    """Those that did not pass come first."""
    items, run = account.items, account.standing.run
    if not items:
        return
    texts = [_texts(one) for one in items]
    first = room.first([_item(*one) for one in texts[:PAGE]], PAGE, FIRST)
    box = f'<div class="items">{"".join(first)}</div>'
    yield paged(box, texts, len(first), account.receipt.planned, PAGE, room)
    others = sum(one.state != "passed" for one in items)
    order = "Those that did not pass come first. " if 0 < others < len(items) else ""
    command = f"fanfold show {run.id} ITEM"
    yield note(f"{order}All of one item, with its input, prompts and attempts: {command}")


def _texts(one: EndedItem) -> tuple[str, str, str]:
    """A line, the reasons, the reply: as they are packed, too."""
    told = [one.id, NAMES.get(one.state, one.state), one.member or "", money(one.cost)]
    return " · ".join(filter(None, told)), "\n".join(one.reasons)[:LONGEST], _reply(one.value)


def _item(line: str, reasons: str, reply: str) -> str:
    why = f'<p class="note">{"<br>".join(map(esc, reasons.splitlines()))}</p>' if reasons else ""
    said = f"<pre>{esc(reply)}</pre>" if reply else note("No reply.")
    return f"<details><summary>{esc(line)}</summary>{why}{said}</details>"


def _reply(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json_text(value, LONGEST)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n… and {len(text) - LONGEST:,} more"
