"""Files as parts of asks: what they are, found by what they begin with, and whether they are whole."""

from __future__ import annotations

import io
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fanfold.errors import BadInput
from fanfold.work.document import why_unreadable
from fanfold.work.files import expanded, is_inside
from fanfold.work.media import MOST_BYTES, Attachment, MediaKind, content_hash, size_text

_MOST_PIXELS = 20_000  # of a side: what no service takes
KNOWN = "PNG, JPEG, GIF and WebP images, PDFs, WAV and MP3 audio"
_EXTRA = "PDFs need pypdf: pip install 'fanfold[pdf]'"


class _Broken(Exception):
    """The file is not whole, or not what it begins as."""


class _Found(NamedTuple):
    """What is known of a file beside its size and hash."""

    kind: MediaKind
    type: str
    facts: dict[str, int]


def media_type(head: bytes) -> str | None:
    """By the first 16 bytes; None: a text, or something that no ask takes."""
    if head.startswith(b"%PDF-"):
        return "application/pdf"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if head[8:12] == b"WEBP" else "audio/wav"
    tagged = head.startswith(b"ID3") and head[3:4] in (b"\2", b"\3", b"\4")
    framed = head[:1] == b"\xff" and len(head) > 2 and _frame(head) is not None
    return "audio/mpeg" if tagged or framed else None


def describe(path: Path, name: str) -> Attachment | None:
    """A file as a part of an ask; None: it is none of those. BadInput names it: broken, or too large.
    Read once as long as it is not changed."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise BadInput(
                "is a pipe or a device, not a file; save it to a file first", file=str(path)
            )
        return _described(str(path), name, found.st_mtime_ns, found.st_size, found.st_ino)
    except OSError as error:
        raise BadInput(why_unreadable(error), file=str(path)) from None
    except ValueError:
        raise BadInput("is not a file name", file=repr(str(path))) from None


@lru_cache(100_000)
def _described(path: str, name: str, changed: int, size: int, inode: int) -> Attachment | None:
    with open(path, "rb") as stream:
        head = stream.read(16)
        type = media_type(head)
        if type is None:
            return None
        if size > MOST_BYTES:
            pdf = type == "application/pdf"
            how = (
                "split it by its pages (docs/media.md has a program)" if pdf else "make it smaller"
            )
            what = f"is larger than {size_text(MOST_BYTES)} ({size_text(size)}), which no service takes"
            raise BadInput(f"{what}; {how}", file=path)
        content = head + stream.read(MOST_BYTES + 1)
    return describe_content(content, path, name)


def describe_content(content: bytes, path: str, name: str) -> Attachment | None:
    """The same of what is in a file at `path`."""
    type = media_type(content[:16])
    if type is None:
        return None
    try:
        found = _READ[type](content)
    except (_Broken, struct.error, IndexError) as error:
        why = str(error) if isinstance(error, _Broken) else "it ends too early"
        raise BadInput(f"is not a whole {_NAMES[type]}: {why}", file=path) from None
    return Attachment(
        found.kind, type, content_hash(content), len(content), name=name, path=os.path.abspath(path),
        **found.facts,
    )  # fmt: skip


# ── images ───────────────────────────────────────────────────────────────────────────────────


def _image(type: str, width: int, height: int) -> _Found:
    if not 0 < width <= _MOST_PIXELS or not 0 < height <= _MOST_PIXELS:
        raise _Broken(f"{width:,} × {height:,} pixels")
    return _Found("image", type, {"width": width, "height": height})


def _png(content: bytes) -> _Found:
    """Every chunk has a checksum; all of them are looked at."""
    at, size, seen = 8, (0, 0), b""
    while seen != b"IEND":
        if at + 12 > len(content):
            raise _Broken("it ends too early")
        (length,) = struct.unpack_from(">I", content, at)
        seen, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        (crc,) = struct.unpack_from(">I", content, at + 8 + length)
        if zlib.crc32(body, zlib.crc32(seen)) != crc:
            raise _Broken("a checksum in it is wrong")
        if seen == b"IHDR":
            size = struct.unpack_from(">II", body)
        at += 12 + length
    return _image("image/png", *size)


def _jpeg(content: bytes) -> _Found:
    """Segments up to the first scan; behind the last one there must be an end."""
    at, size = 2, (0, 0)
    while True:
        if content[at] != 0xFF:
            raise _Broken("a segment in it does not begin as one")
        mark = content[at + 1]
        if mark == 0xFF:
            at += 1
            continue
        (length,) = struct.unpack_from(">H", content, at + 2)
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", content, at + 5)
            size = width, height
        if mark == 0xDA:
            break
        at += 2 + length
    if b"\xff\xd9" not in content[at:]:
        raise _Broken("it ends too early")
    return _image("image/jpeg", *size)


def _gif(content: bytes) -> _Found:
    if content.rstrip(b"\0")[-1:] != b"\x3b":
        raise _Broken("it ends too early")
    return _image("image/gif", *struct.unpack_from("<HH", content, 6))


def _webp(content: bytes) -> _Found:
    (length,) = struct.unpack_from("<I", content, 4)
    if len(content) < length + 8:
        raise _Broken("it ends too early")
    kind = content[12:16]
    if kind == b"VP8X":
        wide, high = content[24:27], content[27:30]
        size = int.from_bytes(wide, "little") + 1, int.from_bytes(high, "little") + 1
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", content, 21)
        size = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8 ":
        wide, high = struct.unpack_from("<HH", content, 26)
        size = wide & 0x3FFF, high & 0x3FFF
    else:
        raise _Broken("its first chunk is not known")
    return _image("image/webp", *size)


# ── audio ────────────────────────────────────────────────────────────────────────────────────

_RATES = (44_100, 48_000, 32_000)
_BITS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


def _wav(content: bytes) -> _Found:
    at, rate = 12, 0
    while at + 8 <= len(content):
        kind, length = content[at : at + 4], struct.unpack_from("<I", content, at + 4)[0]
        if kind == b"fmt ":
            (rate,) = struct.unpack_from("<I", content, at + 16)
        if kind == b"data":
            if not rate or at + 8 + length > len(content):
                raise _Broken("it ends too early" if rate else "its rate is not known")
            return _Found("audio", "audio/wav", {"seconds": -(-length // rate)})
        at += 8 + length + length % 2
    raise _Broken("it ends too early")


def _mp3(content: bytes) -> _Found:
    at = 0
    if content.startswith(b"ID3"):
        a, b, c, d = content[6:10]
        at = 10 + (a << 21 | b << 14 | c << 7 | d)
    samples, rate = 0, 0
    while (frame := _frame(content[at : at + 4])) is not None:
        length, many, rate = frame
        samples, at = samples + many, at + length
    if not samples:
        raise _Broken("it has no frame of layer III")
    return _Found("audio", "audio/mpeg", {"seconds": -(-samples // rate)})


def _frame(head: bytes) -> tuple[int, int, int] | None:
    """Bytes, samples and rate of a frame of layer III; None: none begins here."""
    if len(head) < 4:
        return None
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    bits, rate = head[2] >> 4, head[2] >> 2 & 3
    sync = head[0] == 0xFF and head[1] >= 0xE0
    if not sync or version == 1 or layer != 1 or not 0 < bits < 15 or rate == 3:
        return None
    first = version == 3
    hertz = _RATES[rate] // (1 if first else 2 if version == 2 else 4)
    samples = 1152 if first else 576
    return samples * 125 * _BITS[first][bits] // hertz + (head[2] >> 1 & 1), samples, hertz


# ── PDFs ─────────────────────────────────────────────────────────────────────────────────────


def _pdf(content: bytes) -> _Found:
    texts = list(page_texts(content))
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    if not texts:
        raise _Broken("it has no pages")
    return _Found("document", "application/pdf", {"pages": len(texts), "text": size})


def page_texts(content: bytes) -> Iterator[str]:
    """The text of each page. BadInput: pypdf is not there; _Broken: it cannot read this."""
    try:
        import pypdf
    except ModuleNotFoundError:
        raise BadInput(_EXTRA) from None
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise _Broken("it is encrypted; save it without a password")
        for page in reader.pages:
            yield page.extract_text()
    except _Broken:
        raise
    except Exception as error:  # of a foreign file anything may be wrong
        why = " ".join(str(error).split())[:100] or type(error).__name__
        raise _Broken(why[:1].lower() + why[1:]) from None


_READ: dict[str, Callable[[bytes], _Found]] = {
    "image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp,
    "audio/wav": _wav, "audio/mpeg": _mp3, "application/pdf": _pdf,
}  # fmt: skip
_NAMES = {
    "image/png": "PNG image", "image/jpeg": "JPEG image", "image/gif": "GIF image",
    "image/webp": "WebP image", "audio/wav": "WAV file", "audio/mpeg": "MP3 file",
    "application/pdf": "PDF",
}  # fmt: skip


# ── for templates and `attach` ───────────────────────────────────────────────────────────────


class MediaFiles:
    """The files that items name, looked for in a folder. `inside`: an item may come from anybody, so what
    it names must lie in the folder, unless an input found it there."""

    def __init__(self, folder: str | Path, *, inside: bool = False) -> None:
        self._folder, self._inside = Path(folder), inside

    def attach(self, value: Any, kind: MediaKind | None) -> Attachment:
        """The file that a path, or an item of `files`, names. `kind` None: whatever it is."""
        data = value if isinstance(value, dict) else {"path": value}
        name = data.get("path")
        if not isinstance(name, str) or not name.strip():
            raise BadInput(
                "has no `path` of a file" if value is data else "is not the path of a file"
            )
        if self._inside and "hash" not in data and not is_inside(self._folder, name):
            what = "leads out of the plan's folder; if that is meant, allow it with --allow-outside"
            raise BadInput(what, file=name)
        found = describe(self._folder / expanded(name), name)
        if found is None:
            raise BadInput(f"is not one of these: {KNOWN}", file=name)
        if kind is not None and found.kind != kind:
            raise BadInput(
                f"is not {_ONE[kind]}: it begins as a {_NAMES[found.type]} does", file=name
            )
        if data.get("hash", found.hash) != found.hash:
            raise BadInput("was changed after it was read", file=name)
        return found


_ONE: dict[MediaKind, str] = {"image": "an image", "document": "a PDF", "audio": "audio"}
