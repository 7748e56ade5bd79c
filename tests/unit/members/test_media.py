"""Files on the wire: in their places, under their types, and never more tokens than were reserved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fanfold.members.anthropic import Anthropic
from fanfold.members.media import completions_tokens, messages_tokens, messages_turn
from fanfold.members.openai import OpenAI
from fanfold.work.ask import Ask, Message
from fanfold.work.media import Attachment
from tests.unit.members.asking import member

HASH = "ab" * 16
IMAGE = Attachment("image", "image/png", HASH, 100, at=5, width=1240, height=1754)
PDF = Attachment("document", "application/pdf", HASH, 100, pages=3, text=500)
SOUND = Attachment("audio", "audio/mpeg", HASH, 100, seconds=30)
ASK = Ask((Message("system", "be brief"), Message("user", "look: here", (PDF, IMAGE))))


def body(kind: Any, ask: Ask) -> dict[str, Any]:
    raw = member(kind, "http://127.0.0.1:1").prepare(ask).body
    assert raw.count(b"\0") == 2 * len(ask.attachments())
    return dict(json.loads(raw.replace(b"\0", b"|")))


def test_chat_completions() -> None:
    ask = Ask((Message("user", "hear", (SOUND,)),))
    url = f"base64,|{HASH}|"
    assert body(OpenAI, ASK)["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [
            {"type": "file", "file": {
                "filename": "document.pdf", "file_data": f"data:application/pdf;{url}",
            }},
            {"type": "text", "text": "look:"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;{url}"}},
            {"type": "text", "text": " here"},
        ]},
    ]  # fmt: skip
    assert body(OpenAI, ask)["messages"][0]["content"] == [
        {"type": "input_audio", "input_audio": {"data": f"|{HASH}|", "format": "mp3"}},
        {"type": "text", "text": "hear"},
    ]


def test_messages() -> None:
    source = {"type": "base64", "data": f"|{HASH}|"}
    assert body(Anthropic, ASK)["messages"] == [
        {"role": "user", "content": [
            {"type": "document", "source": {**source, "media_type": "application/pdf"}},
            {"type": "text", "text": "look:"},
            {"type": "image", "source": {**source, "media_type": "image/png"}},
            {"type": "text", "text": " here"},
        ]},
    ]  # fmt: skip


def test_what_is_kept_ends_before_the_files_of_the_item() -> None:
    turn = messages_turn(Message("user", "rules here", (IMAGE,)), 5)
    assert [one["type"] for one in turn["content"]] == ["text", "image", "text"]
    assert [one.get("cache_control") for one in turn["content"]] == [
        {"type": "ephemeral"}, None, None,
    ]  # fmt: skip


def test_a_nul_in_a_text_is_no_mark() -> None:
    ask = Ask((Message("user", f"\0{HASH}\0", (IMAGE,)),))
    for kind in (OpenAI, Anthropic):
        assert member(kind, "http://127.0.0.1:1").prepare(ask).body.count(b"\0") == 2


@pytest.mark.parametrize(
    ("width", "height", "billed"),
    [(1024, 1024, 765), (2048, 4096, 1105), (512, 512, 255), (20_000, 20_000, 1445)],
)
def test_openai_counts_tiles(width: int, height: int, billed: int) -> None:
    """By the examples of its documentation."""
    image = Attachment("image", "image/png", HASH, 1, width=width, height=height)
    assert billed <= completions_tokens(image, "gpt-4o", True) <= 6300


def test_a_small_image_is_not_reserved_as_a_large_one() -> None:
    small = Attachment("image", "image/png", HASH, 1, width=200, height=200)
    large = Attachment("image", "image/png", HASH, 1, width=4000, height=4000)
    assert messages_tokens(small) < 200 < 4784 <= messages_tokens(large) < 5000
    assert completions_tokens(large, "gpt-4o-mini", True) >= 2833 + 8 * 5667
    assert completions_tokens(small, "llava", False) >= 225


def test_pages_and_seconds_count() -> None:
    assert messages_tokens(PDF) > 3 * 4784 + 500
    assert completions_tokens(PDF, "gpt-5", True) > 3 * 1445 + 500
    assert completions_tokens(SOUND, "gpt-4o-audio-preview", True) >= 30 * 32


def test_tokens_of_files_are_in_the_worst_case() -> None:
    plain = Ask((ASK.messages[0], Message("user", "look: here")))
    for kind in (OpenAI, Anthropic):
        one = member(kind, "http://127.0.0.1:1")
        more = one.prepare(ASK).input_tokens - one.prepare(plain).input_tokens
        assert more > 3 * 4784
