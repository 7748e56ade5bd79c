"""Files on the wire of either API, and how many tokens each can count as at most. Pure.

What is in a file is not here: a mark holds its place in the body (`work/member.Request`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from fanfold.work.ask import Message
from fanfold.work.media import Attachment, in_turn

KEEP = {"type": "ephemeral"}

# ── chat completions ─────────────────────────────────────────────────────────────────────────


def completions_message(message: Message) -> object:
    """Text and files in their order; a message without files is as it always was."""
    if not message.parts:
        return message
    said = [
        {"type": "text", "text": one} if isinstance(one, str) else _part(one)
        for one in in_turn(message.content, message.parts)
    ]
    return {"role": message.role, "content": said}


def _part(one: Attachment) -> dict[str, Any]:
    """Every PDF has the same name there: a key does not depend on names, so a reply must not."""
    match one.kind:
        case "image":
            return {"type": "image_url", "image_url": {"url": _data_url(one)}}
        case "document":
            return {
                "type": "file",
                "file": {"filename": "document.pdf", "file_data": _data_url(one)},
            }
        case "audio":
            format = "mp3" if one.type == "audio/mpeg" else "wav"
            return {"type": "input_audio", "input_audio": {"data": _mark(one), "format": format}}


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def messages_turn(message: Message, keep: int = 0) -> dict[str, Any]:
    """`keep`: where the part of the text ends that the service is to keep; 0: it keeps none."""
    blocks: list[dict[str, Any]] = []
    at = 0
    for end, one in [*((part.at, part) for part in message.parts), (len(message.content), None)]:
        for cut in (keep, end) if at < keep <= end else (end,):
            if message.content[at:cut].strip():
                blocks.append({"type": "text", "text": message.content[at:cut]})
            if cut == keep and blocks:
                blocks[-1]["cache_control"] = KEEP
            at = cut
        if one is not None:
            source = {"type": "base64", "media_type": one.type, "data": _mark(one)}
            blocks.append({"type": one.kind, "source": source})
    return {"role": message.role, "content": blocks}


def _data_url(one: Attachment) -> msgspec.Raw:
    return msgspec.Raw(f'"data:{one.type};base64,\0{one.hash}\0"'.encode())


def _mark(one: Attachment) -> msgspec.Raw:
    return msgspec.Raw(f'"\0{one.hash}\0"'.encode())


# ── at most so many tokens ───────────────────────────────────────────────────────────────────
# What the providers publish, in the dearest of their rules that may hold for a model (docs/media.md).

_PAGE = 128  # beside its text and its picture
_AUDIO = 50  # for a second; OpenAI counts 10, Gemini 32


def completions_tokens(one: Attachment, model: str, is_openai: bool) -> int:
    """OpenAI's own models count tiles of 512 pixels, or patches of 32 times a factor; models of
    others patches of 14 pixels at the least."""
    if one.kind == "audio":
        return _AUDIO * one.seconds + _AUDIO
    if one.kind == "document":
        return one.pages * (_picture(2576, 2576, model, is_openai) + _PAGE) + one.text
    return _picture(one.width, one.height, model, is_openai)


def _picture(width: int, height: int, model: str, is_openai: bool) -> int:
    if not is_openai:
        return min(_patches(width, height, 14), 16_384) + 64
    if "4o-mini" in model:
        return 2833 + 5667 * 8
    return max(85 + 170 * 8, -(-min(_patches(width, height, 32), 2500) * 246 // 100)) + 64


def messages_tokens(one: Attachment) -> int:
    """Patches of 28 pixels, 4,784 at the most, or one token for 750 pixels; a page of a PDF is its
    picture and its text."""
    if one.kind == "document":
        return one.pages * (4_784 + 64 + _PAGE) + one.text
    pixels = -(-one.width * one.height // 750)
    return min(max(_patches(one.width, one.height, 28), pixels), 4_784) + 64


def _patches(width: int, height: int, size: int) -> int:
    return -(-width // size) * -(-height // size)
