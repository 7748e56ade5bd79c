"""Images, PDFs and sound in their real formats, each different from the others, made without a library."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 64, height: int = 48, seed: int = 0) -> bytes:
    """8 bits of grey; `seed` decides the pixels."""
    row = bytes((x * 7 + seed * 13) & 255 for x in range(width))
    pixels = b"".join(b"\0" + row[y % width :] + row[: y % width] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    text = b"page\0" + str(seed).encode()
    chunks = [(b"IHDR", head), (b"tEXt", text), (b"IDAT", zlib.compress(pixels)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*one) for one in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def jpeg(width: int = 64, height: int = 48, seed: int = 0) -> bytes:
    """Baseline, one component, all of one grey: one bit for each DC difference, one for each end."""
    blocks = -(-width // 8) * -(-height // 8)
    bits = "00" * blocks
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    table = b"\1" + b"\0" * 15 + b"\0"
    frame = struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0)
    return (
        b"\xff\xd8" + _segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0") + _segment(0xFE, b"%d" % seed)
        + _segment(0xDB, b"\0" + b"\x10" * 64) + _segment(0xC0, frame)
        + _segment(0xC4, b"\0" + table) + _segment(0xC4, b"\x10" + table)
        + _segment(0xDA, b"\1\1\0\0\x3f\0") + data + b"\xff\xd9"
    )  # fmt: skip


def _segment(mark: int, data: bytes) -> bytes:
    return b"\xff" + bytes([mark]) + struct.pack(">H", len(data) + 2) + data


def gif(width: int = 64, height: int = 48) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return head + b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\2\2\x44\1\0\x3b"


def webp(width: int = 64, height: int = 48) -> bytes:
    """A lossless header; its pixels are not there."""
    bits = (width - 1) | (height - 1) << 14
    data = b"VP8L" + struct.pack("<I", 6) + b"\x2f" + struct.pack("<I", bits) + b"\0"
    return b"RIFF" + struct.pack("<I", len(data) + 4) + b"WEBP" + data


def pdf(pages: list[str], padding: int = 0) -> bytes:
    """A page for each text, in Helvetica; `padding`: a stream of so many bytes that nothing uses."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        fonts = "<< /Font << /F1 3 0 R >> >>"
        box = "[0 0 595 842]"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox {box} /Resources {fonts}"
            f" /Contents {5 + 2 * n} 0 R >>".encode()
        )
        shown = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        objects.append(_stream(f"BT /F1 12 Tf 72 720 Td ({shown}) Tj ET".encode()))
    if padding:
        objects.append(_stream(b"\x55" * padding))
    made, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    size = len(objects) + 1
    return made + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table) + end % (size, len(made))


def _stream(data: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(data), data)


def wav(seconds: int = 1, rate: int = 8000) -> bytes:
    data = b"\0\0" * rate * seconds
    form = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    body = (
        b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def mp3(frames: int = 40) -> bytes:
    """MPEG 1 layer III, 128 kbit/s, 44.1 kHz: 417 bytes and 1,152 samples each."""
    return (b"\xff\xfb\x90\x00" + b"\0" * 413) * frames
