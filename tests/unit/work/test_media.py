"""Files are known by what is in them: their type, their key, whether they are whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fanfold.errors import BadInput, Terminal
from fanfold.work.ask import Ask, Message
from fanfold.work.item import Item
from fanfold.work.media import MOST_BYTES, Attachment, content_hash, in_turn, read_content
from fanfold.work.media_files import MediaFiles, describe, page_texts
from fanfold.work.member import Request, filled
from fanfold.work.wire import decode_request, encode_request, unpacked
from tests import media

PAGE = Attachment("image", "image/png", "ab" * 16, 9, name="a.png", path="/somewhere/a.png")


def moved(**changes: object) -> Attachment:
    return Attachment(**{
        "kind": "image", "type": "image/png", "hash": "ab" * 16, "size": 9, **changes,
    })  # type: ignore[arg-type]  # fmt: skip


def written(folder: Path, name: str, content: bytes) -> Attachment:
    (folder / name).write_bytes(content)
    return MediaFiles(folder).attach(name, None)


# ── what a file is ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "kind", "type", "facts"),
    [
        (media.png(640, 480), "image", "image/png", {"width": 640, "height": 480}),
        (media.jpeg(640, 481), "image", "image/jpeg", {"width": 640, "height": 481}),
        (media.gif(30, 20), "image", "image/gif", {"width": 30, "height": 20}),
        (media.webp(1000, 333), "image", "image/webp", {"width": 1000, "height": 333}),
        (media.pdf(["one", "two two"]), "document", "application/pdf", {"pages": 2, "text": 10}),
        (media.wav(3), "audio", "audio/wav", {"seconds": 3}),
        (media.mp3(40), "audio", "audio/mpeg", {"seconds": 2}),
    ],
)
def test_a_file_is_what_it_begins_as_whatever_it_is_called(
    tmp_path: Path, content: bytes, kind: str, type: str, facts: dict[str, int]
) -> None:
    found = written(tmp_path, "misleading.txt", content)
    assert found == Attachment(
        kind, type, content_hash(content), len(content), name="misleading.txt",  # type: ignore[arg-type]
        path=str(tmp_path / "misleading.txt"), **facts,
    )  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [media.png()[:-20], media.jpeg()[:-2], media.gif()[:-1], media.webp()[:-3], media.wav()[:-9],
     media.png().replace(b"page\0", b"pagf\0"), media.pdf(["one"])[:60], media.png(5, 0),
     b"\xff\xd8\xff\xe0\0\x10JF", b"%PDF-1.7 and nothing else"],
)  # fmt: skip
def test_a_file_that_is_not_whole_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadInput, match=r"part\.bin: is not a whole (PNG|JPEG|GIF|WebP|WAV|PDF)"):
        written(tmp_path, "part.bin", content)


def test_a_text_is_none_of_them(tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("not an image")
    assert describe(tmp_path / "notes.png", "notes.png") is None
    with pytest.raises(BadInput, match=r"notes\.png: is not one of these: PNG"):
        MediaFiles(tmp_path).attach("notes.png", "image")


def test_another_kind_than_was_asked_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(media.png())
    with pytest.raises(BadInput, match=r"a\.pdf: is not a PDF: it begins as a PNG image does"):
        MediaFiles(tmp_path).attach("a.pdf", "document")


def test_a_file_that_no_service_takes_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "big.pdf").open("wb") as stream:
        stream.write(b"%PDF-1.7")
        stream.truncate(MOST_BYTES + 1)
    with pytest.raises(BadInput, match=r"larger than .* MB .*which no service takes; split it"):
        MediaFiles(tmp_path).attach("big.pdf", None)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"gone\.png: no such file"):
        MediaFiles(tmp_path).attach("gone.png", None)


@pytest.mark.parametrize("name", ["pipe.png", "device.png"])
def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "device.png").symlink_to(os.devnull)
    with pytest.raises(BadInput, match=rf"{name}: is a pipe or a device, not a file"):
        MediaFiles(tmp_path, inside=False).attach(name, None)


@pytest.mark.parametrize("value", [None, 7, "", {"id": "a"}, {"path": ["a"]}])
def test_what_names_no_file_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(BadInput, match="path"):
        MediaFiles(tmp_path).attach(value, None)


def test_the_text_of_a_pdf_page_by_page() -> None:
    assert list(page_texts(media.pdf(["first (1)", "second"]))) == ["first (1)", "second"]


# ── its key ──────────────────────────────────────────────────────────────────────────────────


def test_a_key_goes_by_what_is_in_a_file_not_by_its_name() -> None:
    def key(*parts: Attachment, text: str = "what is it?") -> bytes:
        return Ask((Message("user", text, parts),)).key("messages")

    assert key(PAGE) == key(moved(name="b.png", path="/elsewhere/b.png", width=7))
    others = [(), (PAGE, PAGE), (moved(hash="cd" * 16),), (moved(at=3),), (moved(kind="document"),)]
    assert len({key(PAGE), *(key(*one) for one in others)}) == 1 + len(others)


def test_a_key_knows_which_message_a_file_is_in() -> None:
    with_it, without = Message("user", "a", (PAGE,)), Message("user", "a")
    assert Ask((with_it, without)).key("messages") != Ask((without, with_it)).key("messages")


def test_a_function_that_gets_the_item_is_asked_again_when_its_file_is_another() -> None:
    def key(part: Attachment) -> bytes:
        return Ask((Message("user", "", (part,)),), (Item("1", {"path": "a.png"}),)).key("items")

    assert key(PAGE) == key(moved(name="other")) != key(moved(hash="cd" * 16))


def test_the_key_of_an_ask_without_files_is_what_it_was() -> None:
    ask = Ask((Message("system", "be brief"), Message("user", "hi")))
    assert ask.key("messages").hex() == "8fefb5cee448e3d42c026cdacca9a404"


# ── text and files in their order ────────────────────────────────────────────────────────────


def test_files_are_at_their_places() -> None:
    first, last = moved(at=0), moved(at=8)
    assert in_turn("look at  it", (first, last)) == [first, "look at ", last, " it"]
    assert in_turn("", (first,)) == [first]
    shown = Message("user", "look at  it", (first, moved(at=8, name="b.png", width=3, height=2)))
    assert shown.shown() == "[ (image, 1 kB)]\nlook at [b.png (image, 3 × 2, 1 kB)]\n it"


# ── what is sent ─────────────────────────────────────────────────────────────────────────────


def test_a_file_that_was_changed_is_refused_by_its_name(tmp_path: Path) -> None:
    page = written(tmp_path, "a.png", media.png())
    assert read_content(page) == media.png()
    (tmp_path / "a.png").write_bytes(media.png(seed=1))
    with pytest.raises(Terminal, match=r"a\.png: was changed after its ask was made"):
        read_content(page)
    (tmp_path / "a.png").unlink()
    with pytest.raises(Terminal, match=r"a\.png: cannot be read any more"):
        read_content(page)


def test_a_body_is_filled_when_it_is_sent(tmp_path: Path) -> None:
    page = written(tmp_path, "a.png", media.png())
    ask = Ask((Message("user", "hi", (page,)),))
    body = b'{"a":"\0%s\0","b":1}' % page.hash.encode()
    assert filled(Request(ask, body)).startswith(b'{"a":"iVBORw0KGgo')
    assert filled(Request(ask, b'{"no": "marks"}')) == b'{"no": "marks"}'


def test_a_file_crosses_to_another_machine_with_its_ask(tmp_path: Path) -> None:
    page = written(tmp_path, "a.png", media.png())
    request = Request(Ask((Message("user", "hi", (page,)),)), b"x", store="/store")
    wire = encode_request(request, whole=True)
    assert str(tmp_path).encode() not in wire
    there = unpacked(decode_request(wire), tmp_path / "there")
    (again,) = there.ask.attachments()
    assert read_content(again) == media.png()
    assert again.path.startswith(str(tmp_path / "there"))
    assert there.contents == {}
    assert there.ask.key("messages") == request.ask.key("messages")
