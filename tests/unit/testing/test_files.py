"""Files and embeddings as the model server takes them, as the official clients send and read them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fanfold.price import Price
from fanfold.testing.books import ServerBooks
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.wire_embeddings import vector
from tests import media

pytestmark = pytest.mark.slow  # the clients take long to import

PAGE = media.jpeg(1240, 1754)
LETTER = media.pdf(["Dear Ada,", "yours"])


def encoded(content: bytes) -> str:
    return b64encode(content).decode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books", price=Price(input=1.0)) as one:
        yield one


def billed(server: RunningServer) -> tuple[int, list[int]]:
    """Dollars of all calls in millionths, and how many files each had."""
    books: ServerBooks = server.books()
    return books.bill // 1000, [len(one.files) for one in books.asked]


def chat(server: RunningServer, *parts: Any) -> Any:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        content: Any = [*parts, {"type": "text", "text": "What is it?"}]
        said: Any = [{"role": "user", "content": content}]
        return client.chat.completions.create(model="m", messages=said)


def message(server: RunningServer, *blocks: Any) -> Any:
    import anthropic

    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        content: Any = [*blocks, {"type": "text", "text": "What is it?"}]
        said: Any = [{"role": "user", "content": content}]
        return client.messages.create(model="m", max_tokens=50, messages=said)


def image_url(content: bytes, type: str = "image/jpeg") -> Any:
    return {"type": "image_url", "image_url": {"url": f"data:{type};base64,{encoded(content)}"}}


def block(kind: str, type: str, content: bytes) -> Any:
    source = {"type": "base64", "media_type": type, "data": encoded(content)}
    return {"type": kind, "source": source}


def test_chat_completions_take_images_pdfs_and_sound(server: RunningServer) -> None:
    """1,240 × 1,754 pixels are scaled to 768 at the short side: 2 × 3 tiles."""
    letter = {
        "filename": "letter.pdf", "file_data": f"data:application/pdf;base64,{encoded(LETTER)}",
    }  # fmt: skip
    sound = {"data": encoded(media.wav(30)), "format": "wav"}
    plain = chat(server).usage.prompt_tokens
    image = chat(server, image_url(PAGE)).usage.prompt_tokens
    document = chat(server, {"type": "file", "file": letter}).usage.prompt_tokens
    heard = chat(server, {"type": "input_audio", "input_audio": sound}).usage.prompt_tokens
    assert 85 + 6 * 170 <= image - plain < 85 + 6 * 170 + 30
    assert 2 * (85 + 6 * 170) <= document - plain < 2 * (85 + 6 * 170) + 50
    assert 300 <= heard - plain < 330
    assert billed(server) == (plain + image + document + heard, [0, 1, 1, 1])


def test_messages_take_images_and_pdfs(server: RunningServer) -> None:
    """1,240 × 1,754 pixels are scaled to 1.15 megapixels."""
    plain = message(server).usage.input_tokens
    image = message(server, block("image", "image/jpeg", PAGE)).usage.input_tokens
    document = message(server, block("document", "application/pdf", LETTER)).usage.input_tokens
    assert 1500 < image - plain < 1600
    assert 3000 < document - plain < 3150
    assert billed(server) == (plain + image + document, [0, 1, 1])


def test_a_file_that_is_not_what_it_is_said_to_be_is_refused_and_not_billed(
    server: RunningServer,
) -> None:
    import anthropic
    import openai

    with pytest.raises(openai.BadRequestError, match="is said to be image/png is image/jpeg"):
        chat(server, image_url(PAGE, "image/png"))
    with pytest.raises(anthropic.BadRequestError, match="cannot be processed"):
        message(server, block("image", "image/png", media.png()[:-20]))
    with pytest.raises(anthropic.BadRequestError, match="exceeds 5 MB"):
        message(server, block("image", "image/jpeg", PAGE[:-2] + b"\0" * 4_000_000 + PAGE[-2:]))
    with pytest.raises(anthropic.BadRequestError, match="100 pages"):
        message(server, block("document", "application/pdf", media.pdf(["x"] * 101)))
    assert billed(server)[0] == 0


def test_embeddings(server: RunningServer) -> None:
    """The client asks for base64, and reads numbers of 32 bits."""
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        found = client.embeddings.create(model="m", input=["a blue chair", "a lamp"])
        short = client.embeddings.create(
            model="m", input="a blue chair", dimensions=8, encoding_format="float"
        )
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(model="m", input=[])
    assert [one.index for one in found.data] == [0, 1]
    for one, text in zip(found.data, ("a blue chair", "a lamp"), strict=True):
        assert one.embedding == pytest.approx(vector(text), abs=1e-6)
    assert short.data[0].embedding == pytest.approx(vector("a blue chair", 8))
    used = found.usage.total_tokens + short.usage.prompt_tokens
    assert billed(server)[0] == used
