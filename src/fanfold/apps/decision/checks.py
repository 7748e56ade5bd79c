"""The gate of an answer: it names an option that this question has."""

from __future__ import annotations

from typing import Any

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def offered(value: Any, item: Any) -> bool | str:
    """True, or the reason for the one who answered."""
    many = len(item.data["options"])
    if value["answer"] in LETTERS[:many]:
        return True
    return f"there is no option {value['answer']}: this question has A to {LETTERS[many - 1]}"
