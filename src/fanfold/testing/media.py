"""Files in requests, as the services take them: what they are, whether they are what they are said to be,
and how many tokens they are billed as."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Iterator
from math import ceil, floor, sqrt
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.testing.script import ServedFile, WireName
from fanfold.work.media import Attachment
from fanfold.work.media_files import describe_content

IMAGE_BYTES = 5 * 1024 * 1024  # of base64, as Anthropic has it
REQUEST_BYTES: dict[str, int] = {"anthropic": 32 * 1024 * 1024, "openai": 50 * 1024 * 1024}
PAGES = 100


def files_in(wire: WireName, contents: Iterable[Any], size: int) -> tuple[ServedFile, ...]:
    """Those of all messages; ValidationError: the service would not take one. `size`: of the body."""
    found = [_served(wire, *one) for content in contents for one in _parts(content)]
    if found and size > REQUEST_BYTES.get(wire, size):
        raise msgspec.ValidationError(f"the request has {size} bytes, which is too large")
    return tuple(found)


def _parts(content: Any) -> Iterator[tuple[str, str, str]]:
    """Its kind, the type that it is said to have, and the content as base64."""
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                yield "image", *_of_url(url)
            case {"type": "file", "file": {"filename": str(), "file_data": str(url)}}:
                yield "document", *_of_url(url)
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
                yield "audio", {"wav": "audio/wav", "mp3": "audio/mpeg"}.get(form, form), data
            case {"type": "image" | "document" as kind, "source": {"type": "base64", **source}}:
                yield kind, str(source.get("media_type")), str(source.get("data"))
            case {"type": "image_url" | "file" | "input_audio" | "image" | "document" as kind}:
                raise msgspec.ValidationError(f"a part of type {kind} cannot be read")


def _of_url(url: str) -> tuple[str, str]:
    head, comma, data = url.partition(";base64,")
    if not comma or not head.startswith("data:"):
        raise msgspec.ValidationError("a file must be a data URL in base64")
    return head.removeprefix("data:"), data


def _served(wire: WireName, kind: str, type: str, data: str) -> ServedFile:
    try:
        content = b64decode(data, validate=True)
    except binascii.Error:
        raise msgspec.ValidationError(f"a part of type {kind} is not base64") from None
    found = _described(content)
    if found is None or found.kind != kind or found.type != type:
        is_a = "nothing known" if found is None else found.type
        raise msgspec.ValidationError(f"a part that is said to be {type} is {is_a}")
    if wire == "anthropic" and kind == "image" and len(data) > IMAGE_BYTES:
        raise msgspec.ValidationError(f"image exceeds 5 MB maximum: {len(data)} bytes")
    if wire == "anthropic" and found.pages > PAGES:
        raise msgspec.ValidationError(f"a PDF may have {PAGES} pages, not {found.pages}")
    return ServedFile(found.kind, type, found.hash, len(data), _tokens(wire, found))


def _described(content: bytes) -> Attachment | None:
    try:
        return describe_content(content, "a part", "")
    except BadInput as error:
        raise msgspec.ValidationError(f"a part cannot be processed: {error.what}") from None


# ── what they are billed as ──────────────────────────────────────────────────────────────────


def _tokens(wire: WireName, one: Attachment) -> int:
    if one.kind == "audio":
        return 10 * one.seconds
    picture = _messages_image if wire == "anthropic" else _completions_image
    if one.kind == "image":
        return picture(one.width, one.height)
    return one.pages * picture(1240, 1754) + one.text // 4


def _messages_image(width: int, height: int) -> int:
    """Scaled down to 1,568 pixels at the long side and 1.15 megapixels; then one for 750 pixels."""
    scale = min(1.0, 1568 / max(width, height), sqrt(1_150_000 / (width * height)))
    return ceil(floor(width * scale) * floor(height * scale) / 750)


def _completions_image(width: int, height: int) -> int:
    """Scaled down to 2,048 pixels, then to 768 at the short side; 85, and 170 for each tile of 512."""
    scale = min(1.0, 2048 / max(width, height))
    wide, high = width * scale, height * scale
    scale = min(1.0, 768 / min(wide, high))
    return 85 + 170 * ceil(wide * scale / 512) * ceil(high * scale / 512)
