"""What both sides of a comparison work on."""

from __future__ import annotations

from typing import Any

PROMPT = "Which rating does this review give, from 1 to 5? {{ item.text }}"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"rating": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["rating"],
}
MODEL = "test-model"
MAX_TOKENS = 256


def row(number: int) -> dict[str, Any]:
    """One input of some 200 bytes; no two are alike."""
    text = f"Review {number}: it came on time, it does what it says, the manual is too short. "
    return {"id": str(number), "text": text * 2, "rating": number % 5 + 1}


def rows(count: int) -> list[dict[str, Any]]:
    return [row(number) for number in range(count)]


def prompt(number: int) -> str:
    """The rendered prompt, without a template."""
    return f"Which rating does this review give, from 1 to 5? {row(number)['text']}"
