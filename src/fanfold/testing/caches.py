"""Prompt caches of a model server: what a service keeps of the beginning of prompts.

An entry can be read only once the reply to the request that wrote it has begun, for `lifetime` seconds
after its last use. Anthropic keeps what ends with a mark, the others a prefix in blocks by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from fanfold.clock import Clock, RealClock
from fanfold.testing.script import Asked

_encode = msgspec.json.Encoder(order="sorted").encode
BYTES = 4  # of a token
BLOCK = 128  # tokens that OpenAI keeps or does not keep
MOST_MARKS = 4


class CachedPart(NamedTuple):
    """Tokens of a prompt that are read, and that will be written; under which names."""

    read: int = 0
    written: int = 0
    names: tuple[str, ...] = ()


class ServerCaches:
    """`least`: tokens of the shortest prefix that is kept. `writes` and `hits` count requests."""

    def __init__(
        self, *, least: int = 1024, lifetime: float = 300.0, clock: Clock | None = None
    ) -> None:
        self._least, self._lifetime, self._clock = least, lifetime, clock or RealClock()
        self._until: dict[str, float] = {}
        self.writes = self.hits = 0

    def arrive(self, asked: Asked) -> CachedPart:
        """What becomes of the prompt of a request, when it arrives."""
        marked = asked.wire == "anthropic"
        ends = list(_marked(asked.body) if marked else _blocks(asked.body))
        kept = [(name, tokens) for name, tokens in ends if tokens >= self._least]
        now = self._clock.monotonic()
        read = max((n for name, n in kept if now < self._until.get(name, 0.0)), default=0)
        written = max((n for _, n in kept), default=0) - read
        self.hits += read > 0
        self.writes += written > 0 and not read
        for name, _ in kept:
            if now < self._until.get(name, 0.0):
                self._until[name] = now + self._lifetime
        names = tuple(name for name, _ in kept)
        return CachedPart(read, written if marked else 0, names)

    def begin(self, part: CachedPart) -> None:
        """The reply begins: what it wrote can be read."""
        until = self._clock.monotonic() + self._lifetime
        self._until.update(dict.fromkeys(part.names, until))


def _marked(body: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Each prefix that ends with a mark: tools, system and messages, block by block."""
    state, size, marks = blake2b(_encode(body.get("model"))), 0, 0
    for block in _parts(body):
        if not block:  # what comes now depends on this too
            state.update(_encode(body.get("tool_choice")))
            continue
        plain = {name: value for name, value in block.items() if name != "cache_control"}
        state.update(_encode(plain))
        size += len(_encode(plain))
        if "cache_control" in block:
            marks += 1
            if marks > MOST_MARKS:
                raise msgspec.ValidationError(
                    "A maximum of 4 blocks with cache_control may be provided."
                )
            yield state.copy().hexdigest(), size // BYTES


def _parts(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An empty one before the messages."""
    yield from body.get("tools") or ()
    yield from _content(body.get("system") or [])
    yield {}
    for turn in body.get("messages") or ():
        for block in _content(turn.get("content") or []):
            yield {**block, "role": turn.get("role")}


def _content(written: Any) -> list[dict[str, Any]]:
    """A text is short for one block."""
    return [{"type": "text", "text": written}] if isinstance(written, str) else written


def _blocks(body: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Each prefix of whole blocks, for requests with the same model and the same `prompt_cache_key`."""
    about = (body.get("model"), body.get("prompt_cache_key"))
    state = blake2b(_encode(about))
    whole = _encode((body.get("tools"), body.get("messages") or body.get("input")))
    for at in range(0, len(whole) - BLOCK * BYTES + 1, BLOCK * BYTES):
        state.update(whole[at : at + BLOCK * BYTES])
        yield state.copy().hexdigest(), (at + BLOCK * BYTES) // BYTES
