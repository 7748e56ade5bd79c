"""Files that go with a message: images, PDFs, audio. Known by what is in them, read when they are sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Literal

import msgspec

from fanfold.errors import Terminal

MediaKind = Literal["image", "document", "audio"]
KINDS: tuple[MediaKind, ...] = ("image", "document", "audio")
MOST_BYTES = 24_000_000
"""Of one file: as base64 it is 32 MB, and no service takes a request that is much larger."""


class Attachment(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A file at character `at` of a message's text. `hash` says what is in it. `path` is where this
    machine has it, and `name` what people call it: both may differ for the same ask. `text`: bytes
    that the text of a document has; `seconds`: of audio, rounded up."""

    kind: MediaKind
    type: str
    hash: str
    size: int
    at: int = 0
    name: str = ""
    path: str = ""
    width: int = 0
    height: int = 0
    pages: int = 0
    text: int = 0
    seconds: int = 0

    @property
    def identity(self) -> tuple[int, str, str, str]:
        """What of it is part of a key."""
        return self.at, self.kind, self.type, self.hash

    def moved(self, by: int) -> Attachment:
        """The same, so many characters further on."""
        return msgspec.structs.replace(self, at=self.at + by) if by else self

    @property
    def estimate(self) -> int:
        """About how many tokens it is, by the most common rules; never a bound."""
        pixels = min(self.width * self.height // 750, 1600)
        return pixels + self.pages * 1600 + self.text // 4 + self.seconds * 10

    def describe(self) -> str:
        """For people: `page-7.png (image, 1,240 × 1,754, 214 kB)`."""
        parts: list[str] = [self.kind]
        if self.width:
            parts.append(f"{self.width:,} × {self.height:,}")
        if self.pages:
            parts.append(f"{self.pages:,} {'page' if self.pages == 1 else 'pages'}")
        if self.seconds:
            parts.append(f"{self.seconds:,} s")
        return f"{self.name} ({', '.join(parts)}, {size_text(self.size)})"


def count_files(files: Sequence[Attachment]) -> str:
    """`6 files: 4 images, 2 PDFs (4 pages), 1.2 MB`."""
    kinds = Counter(one.kind for one in files)
    parts = []
    for kind, (one, many) in _NAMES.items():
        if n := kinds[kind]:
            pages = sum(f.pages for f in files) if kind == "document" else 0
            parts.append(f"{n:,} {one if n == 1 else many}{f' ({pages:,} pages)' if pages else ''}")
    size = size_text(sum(one.size for one in files))
    return f"{len(files):,} {'file' if len(files) == 1 else 'files'}: {', '.join(parts)}, {size}"


_NAMES: dict[MediaKind, tuple[str, str]] = {
    "image": ("image", "images"), "document": ("PDF", "PDFs"), "audio": ("recording", "recordings"),
}  # fmt: skip


def size_text(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1_000_000 else f"{-(-size // 1000):,} kB"


def content_hash(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def read_content(one: Attachment) -> bytes:
    """What is in it; refused by name if that is no longer what was planned."""
    try:
        with open(one.path, "rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Terminal(f"{one.name}: cannot be read any more ({why})", scope="ask") from None
    if content_hash(content) != one.hash:
        raise Terminal(f"{one.name}: was changed after its ask was made", scope="ask")
    return content


def with_parts(text: str, parts: tuple[Attachment, ...], show: Callable[[Attachment], str]) -> str:
    """The text, with what is shown of each file at its place."""
    pieces, at = [], 0
    for one in parts:
        pieces += [text[at : one.at], show(one)]
        at = one.at
    return "".join([*pieces, text[at:]])


def in_turn(text: str, parts: tuple[Attachment, ...]) -> list[str | Attachment]:
    """Text and files in the order in which they are read; a text of blanks between is left out."""
    pieces: list[str | Attachment] = []
    at = 0
    for one in parts:
        pieces += [text[at : one.at], one]
        at = one.at
    pieces.append(text[at:])
    return [piece for piece in pieces if not isinstance(piece, str) or piece.strip()]
