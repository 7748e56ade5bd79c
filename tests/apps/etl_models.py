"""What models say about suspicious rows in these tests; the model server imports them by name."""

from __future__ import annotations

import json
from typing import Any

from fanfold.testing.script import Asked, Says

UNASKED = "Chicago"


def careful(asked: Asked) -> Says:
    """Takes the usual form where there is one, and leaves the rest."""
    return Says(data={"changes": _changes(asked), "suspect": []})


def meddling(asked: Asked) -> Says:
    """Also changes a cell that nobody asked about, until it is told so."""
    changes = _changes(asked)
    if len(asked.messages) == 1:
        changes.append({**changes[0], "column": "city", "from": "Boston", "to": UNASKED})
    return Says(data={"changes": changes, "suspect": []})


def talkative(asked: Asked) -> Says:
    """Puts prose and a fence around its JSON."""
    said = json.dumps({"changes": _changes(asked), "suspect": []})
    return Says(text=f"Here are {{all}} my repairs:\n```json\n{said}\n```\nShall I go on?")


def _changes(asked: Asked) -> list[dict[str, Any]]:
    rows = json.loads(asked.messages[0].text.partition("\nRows:\n")[2])
    return [
        {"row": row["row"], "column": sign["column"], "from": sign["value"], "to": sign["plain"],
         "rule": "form", "reason": "the others write it so"}
        for row in rows
        for sign in row["signs"]
        if "plain" in sign
    ]  # fmt: skip
