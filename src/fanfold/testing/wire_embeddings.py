"""OpenAI embeddings. A vector is made of a text's words and letters, so that texts which are alike have
vectors which are."""

from __future__ import annotations

import array
import sys
from base64 import b64encode
from collections import Counter
from hashlib import blake2b
from math import sqrt
from typing import Annotated, Any, Literal

import msgspec

from fanfold.testing.script import Asked, AskedMessage, ServedReply
from fanfold.testing.wire import Wire, WireRequest, encode
from fanfold.testing.wire_openai import error, models

DIMENSIONS = 64
MOST_INPUTS = 2048  # in one request
MOST_TOKENS = 8192  # of one input

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _EmbeddingsBody(msgspec.Struct):
    model: str
    input: _Text | Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=MOST_INPUTS)]
    dimensions: Annotated[int, msgspec.Meta(ge=1, le=4096)] | None = None
    encoding_format: Literal["float", "base64"] = "float"


_body = msgspec.json.Decoder(_EmbeddingsBody).decode


def _inputs(body: _EmbeddingsBody) -> list[str]:
    return [body.input] if isinstance(body.input, str) else body.input


def read(raw: bytes, headers: dict[str, str]) -> WireRequest:
    body = _body(raw)
    inputs = _inputs(body)
    for text in inputs:
        if len(text) // 4 > MOST_TOKENS:
            raise msgspec.ValidationError(f"an input has more than {MOST_TOKENS} tokens")
    return WireRequest(
        model=body.model,
        messages=tuple(AskedMessage("user", text) for text in inputs),
        max_tokens=0,
    )


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Each word, and each three letters in a row, adds to one place; of length 1."""
    words = text.lower().split()
    grams = [f"{word} "[at : at + 3] for word in words for at in range(max(1, len(word) - 1))]
    found = [0.0] * dimensions
    for part, many in Counter([*words, *grams]).items():
        hash = int.from_bytes(blake2b(part.encode(), digest_size=8).digest(), "big")
        found[hash % dimensions] += many if hash >> 63 else -many
    length = sqrt(sum(x * x for x in found)) or 1.0
    return [x / length for x in found]


def reply(asked: Asked, answer: ServedReply) -> bytes:
    body = _body(asked.raw)
    made = [vector(text, body.dimensions or DIMENSIONS) for text in _inputs(body)]
    data = [
        {"object": "embedding", "index": n, "embedding": _written(one, body.encoding_format)}
        for n, one in enumerate(made)
    ]
    tokens = answer.usage.input
    usage: dict[str, Any] = {"prompt_tokens": tokens, "total_tokens": tokens}
    whole: dict[str, Any] = {"object": "list", "data": data, "model": asked.model}
    if answer.tells_usage:
        whole["usage"] = usage if answer.reports is None else answer.reports
    return encode(whole)


def _written(one: list[float], form: str) -> list[float] | str:
    """As 32-bit numbers, lowest byte first, where base64 is wanted: so the official client asks."""
    if form == "float":
        return one
    numbers = array.array("f", one)
    if sys.byteorder == "big":
        numbers.byteswap()
    return b64encode(numbers.tobytes()).decode()


def _no_stream(asked: Asked, answer: ServedReply) -> list[bytes]:
    raise AssertionError("embeddings are not streamed")


EMBEDDINGS = Wire(
    name="embeddings", read=read, reply=reply, stream=_no_stream, error=error, models=models,
    id_header="x-request-id",
)  # fmt: skip
