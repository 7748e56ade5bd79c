"""A table of recorded replies: who answered which item, was it right, and what it took."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from fanfold.errors import BadInput
from fanfold.patterns.tables import CellWriter
from fanfold.tune.policy import Labelled, LabelledReply
from fanfold.work.document import read_text
from fanfold.work.truth import TRUTH
from fanfold.work.vote import ballot

ITEM, MEMBER, ANSWER, RIGHT = "item", "member", "answer", "right"
AMOUNTS = ("usd", "seconds")
MOST_BYTES = 500_000_000
_YES, _NO = frozenset({"1", "true", "yes"}), frozenset({"0", "false", "no"})


def read_replies(file: Path) -> list[Labelled]:
    """A row for each item and member: `item`, `member`, `answer`, and `truth` or `right`; `usd` and
    `seconds` where they are known; every other column is a feature of the item."""
    table = csv.DictReader(io.StringIO(read_text(file, limit=MOST_BYTES)))
    columns = list(table.fieldnames or ())
    if lacking := [name for name in (ITEM, MEMBER, ANSWER) if name not in columns]:
        raise BadInput(f"no column {', '.join(lacking)}", file=str(file), line=1)
    if TRUTH not in columns and RIGHT not in columns:
        raise BadInput(f"no column {TRUTH} or {RIGHT}: what is right?", file=str(file), line=1)
    known = {ITEM, MEMBER, ANSWER, TRUTH, RIGHT, *AMOUNTS}
    features = [name for name in columns if name not in known]
    replies: dict[str, dict[str, LabelledReply]] = {}
    told: dict[str, dict[str, str]] = {}
    for row in table:
        place = table.line_num
        own = replies.setdefault(row[ITEM], {})
        if row[MEMBER] in own:
            what = f"{row[MEMBER]} answers {row[ITEM]} twice"
            raise BadInput(what, file=str(file), line=place)
        own[row[MEMBER]] = _reply(row, file, place)
        told.setdefault(row[ITEM], {name: row[name] or "" for name in features})
    found = [Labelled(id, own, told[id]) for id, own in replies.items()]
    _check(found, file)
    return found


def replies_table(items: Sequence[Labelled]) -> str:
    """The same as a text, with `right` in place of `truth`."""
    features = sorted({name for item in items for name in item.features})
    text = io.StringIO()
    table = CellWriter(text)
    table.row([ITEM, MEMBER, ANSWER, RIGHT, *AMOUNTS, *features])
    for item in items:
        told = [item.features.get(name, "") for name in features]
        for member, one in item.replies.items():
            row = [item.id, member, one.answer or "", int(one.right), one.usd, one.seconds, *told]
            table.row(map(str, row))
    return text.getvalue()


def _reply(row: dict[str, str], file: Path, line: int) -> LabelledReply:
    answer = ballot(row[ANSWER]) if row[ANSWER] else None
    if row.get(RIGHT):
        word = row[RIGHT].lower()
        if word not in _YES | _NO:
            raise BadInput(f"`{RIGHT}` is {row[RIGHT]!r}, not 1 or 0", file=str(file), line=line)
        right = word in _YES
    else:
        right = answer is not None and answer == ballot(row.get(TRUTH) or "")
    amounts = (_amount(row.get(name) or "0", name, file, line) for name in AMOUNTS)
    return LabelledReply(answer, right and answer is not None, *amounts)


def _amount(text: str, name: str, file: Path, line: int) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise BadInput(f"`{name}` is {text!r}, not an amount", file=str(file), line=line)
    return found


def _check(items: list[Labelled], file: Path) -> None:
    if not items:
        raise BadInput("no rows", file=str(file))
    rights = [reply.right for item in items for reply in item.replies.values()]
    if not any(rights):
        what = "no reply is right: do the labels fit the items, and are they written as the answers are?"
        raise BadInput(what, file=str(file))
