from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest

from fanfold.members.anthropic import Anthropic
from fanfold.members.keys import scrubbed
from fanfold.members.openai import OpenAI
from tests.unit.members.asking import KEY, Kind, refused, told, trouble
from tests.unit.members.raw import once, response

LONG = "sk-ant-api03-Zk3?q>W8~/vX1yTt0o9LmN4p"


def windows(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(len(text) - size + 1)]


@pytest.mark.parametrize("key", [KEY, LONG])
def test_no_eight_characters_of_a_key_are_left(key: str) -> None:
    for part in windows(key, 8):
        for said in (part, f"bad key {part}.", part.upper(), f"x{part}y"):
            assert "[key]" in scrubbed(said, key)
            assert not any(left in scrubbed(said, key) for left in windows(key, 8))


@pytest.mark.parametrize("key", [KEY, LONG])
@pytest.mark.parametrize("before", ["", ":", "u:", "user:", "Bearer ", "Bearer_ x"])
def test_no_base64_of_a_key_is_left_wherever_it_begins(key: str, before: str) -> None:
    """In both alphabets, whole or a part of it."""
    for encode in (b64encode, urlsafe_b64encode):
        text = encode(f"{before}{key} and more".encode()).decode()
        left = scrubbed(f"you sent {text}", key)
        assert "[key]" in left
        start = len(b64encode(before.encode()).rstrip(b"=")) + 1
        inner = text[start : start + len(key) * 4 // 3 - 4]
        assert not any(piece in left for piece in windows(inner, 12))


@pytest.mark.parametrize("key", [KEY, LONG])
def test_other_forms_of_a_key_are_not_left(key: str) -> None:
    escaped = "".join(f"%{byte:02X}" for byte in key.encode())
    for form in (quote(key, safe=""), escaped, escaped.lower(), key.encode().hex(), key.upper()):
        assert scrubbed(f"sent: {form}.", key) == "sent: [key]."


@pytest.mark.parametrize(
    "shown",
    ["sk-s****6789", "sk-secr…", "sk-…6789", "****************6789", "sk-s...6789", "XXXXXXXX6789"],
)
def test_a_key_that_the_server_masked_itself_is_taken_out(shown: str) -> None:
    assert scrubbed(f"Incorrect API key provided: {shown}.", KEY).rstrip(".") == (
        "Incorrect API key provided: [key]"
    )


@pytest.mark.parametrize(
    "text",
    [
        "", "The model does not exist.", "Rate limit reached... try again in 20s", "a **bold** word",
        "see https://platform.example.com/account/api-keys", "sk-sec is too short", "…", "xxxx",
    ],
)  # fmt: skip
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert scrubbed(text, KEY) == text
    assert scrubbed(text, "") == text


def test_a_long_text_of_nothing_is_looked_at_in_no_time() -> None:
    """Only its beginning; the rest would not be shown."""
    text = "a1b2-c3d4 " * 100_000
    assert len(scrubbed(text, KEY)) <= 4000


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_server_echoes_is_in_no_error(kind: Kind, stream: bool) -> None:
    basic = b64encode(f"user:{KEY}".encode()).decode()
    for echo in (KEY, KEY[:12], KEY[-9:], basic, quote(KEY), f"{KEY[:5]}****{KEY[-4:]}"):
        body = f'{{"error":{{"message":"no good: {echo}"}}}}'.encode()
        own = refused(kind, body, 400, stream)["text"]
        assert echo not in own and "no good: " in own and "[key]" in own
        bare = refused(kind, f"<p>{echo}</p>".encode(), 502, stream)["text"]
        assert echo not in bare and "[key]" in bare
        unread = trouble(lambda: told(kind, once(response(echo.encode())), stream=stream))  # noqa: B023
        assert echo not in unread["text"]
