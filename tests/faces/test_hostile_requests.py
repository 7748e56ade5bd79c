"""What no client in good faith sends to the HTTP faces: a 4xx in one line, and nothing else."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from fanfold.faces.connections import Bounds
from fanfold.faces.web import is_json
from fanfold.testing.member import Scripted, traits
from tests.faces.desk import HEADERS, mcp_endpoint
from tests.faces.serving import endpoint, reply
from tests.waiting import LONG

SAID = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
DEEP = "[" * 100_000 + "]" * 100_000
DEFLATED = {"content-encoding": "deflate"}
JSON = {"content-type": "application/json"}

BODIES = {
    "deep": DEEP,
    "deep in a field": '{"model":"m","messages":[],"metadata":{"a":' + DEEP + "}}",
    "deeper than schemas are": '{"a":' * 150 + "1" + "}" * 150,
    "a key twice": '{"model":"m","model":"k","messages":[]}',
    "not a number": '{"model":"m","temperature":NaN}',
    "infinity": '{"model":"m","temperature":1e999}',
    "a number of 10,000 digits": '{"seed":' + "9" * 10_000 + "}",
    "half a surrogate pair": '{"model":"\\ud800"}',
    "latin-1": '{"model":"é"}'.encode("latin-1"),
    "utf-16": '{"model":"m"}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "nothing": b"",
    "null": b"null",
}
ODD: list[Any] = [True, -1, 1.5, 10**30, "x", [1], [[]], [None], {"a": 1}, "\0"]
FIELDS = [
    "messages", "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop",
    "stream", "stream_options", "response_format", "n", "tools", "functions", "tool_choice",
]  # fmt: skip
FITTING = {("seed", -1), ("stop", "x"), ("stop", "\0"), ("stream", True), ("temperature", 1.5),
           ("stream_options", "{'a': 1}"), ("n", True)}  # fmt: skip


def echo() -> Scripted:
    return Scripted(lambda ask, n: reply("yes"), traits("m"))


def sent(folder: Path, *requests: dict[str, Any], bounds: Bounds = Bounds()) -> list[Any]:
    """The answers of `serve`: status and body, which must be an error of OpenAI's if it is one."""

    async def main() -> list[Any]:
        async with (
            endpoint(folder, echo(), bounds=bounds) as here,
            httpx.AsyncClient(headers={**HEADERS, **JSON}, timeout=LONG, verify=False) as client,
        ):
            url = f"{here.url}/chat/completions"
            return [await client.post(url, **request) for request in requests]

    return asyncio.run(main())


def refusals(answers: list[httpx.Response]) -> list[tuple[int, str]]:
    found = [(one.status_code, one.json()["error"]) for one in answers]
    for _, error in found:
        assert error.keys() == {"message", "type", "param", "code"}
        assert "\n" not in error["message"]
    return [(status, error["type"]) for status, error in found]


def test_a_body_that_cannot_be_read_is_a_400(
    memory_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = sent(memory_path, *({"content": body} for body in BODIES.values()))
    assert dict(zip(BODIES, refusals(answers), strict=True)) == dict.fromkeys(
        BODIES, (400, "invalid_request_error")
    )
    assert "nested too deeply: at most 100 levels" in answers[0].text
    assert capfd.readouterr() == ("", "")


def test_a_field_of_the_wrong_type_is_a_400(memory_path: Path) -> None:
    wrong = [
        (name, value)
        for name in FIELDS
        for value in ODD
        if (name, value if isinstance(value, int | float | str) else str(value)) not in FITTING
    ]
    answers = sent(memory_path, *({"json": {**SAID, name: value}} for name, value in wrong))
    fine = [case for case, one in zip(wrong, answers, strict=True) if one.status_code != 400]
    assert fine == []
    assert set(refusals(answers)) == {(400, "invalid_request_error")}


def test_a_body_in_another_form_is_refused(
    memory_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its size counts after unpacking."""
    bomb = gzip.compress(b'{"a":"' + b"a" * 200_000)
    packed = {"content-encoding": "gzip"}
    answers = sent(
        memory_path,
        {"json": SAID, "headers": {"content-type": "text/plain"}},
        {"content": b"not gzip", "headers": packed},
        {"content": bomb, "headers": packed},
        {"content": b'"' + b"a" * 200_000},
        {"content": gzip.compress(msgspec.json.encode(SAID))[:-9], "headers": packed},
        {"content": b"", "headers": {"content-encoding": "br"}},
        {"content": gzip.compress(msgspec.json.encode(SAID)), "headers": packed},
        {"content": zlib.compress(msgspec.json.encode(SAID)), "headers": DEFLATED},
        bounds=Bounds(body_bytes=100_000),
    )
    assert [status for status, _ in refusals(answers[:-2])] == [400, 400, 413, 413, 400, 415]
    assert [one.status_code for one in answers[-2:]] == [200, 200]
    assert capfd.readouterr() == ("", "")


def test_a_header_that_is_too_long_is_a_400(
    memory_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (answer,) = sent(memory_path, {"json": SAID, "headers": {"x-long": "a" * 100_000}})
    assert (answer.status_code, capfd.readouterr()) == (400, ("", ""))


def test_a_request_that_breaks_off_after_its_header_is_refused_in_silence(
    memory_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before it was admitted: nobody needs a key for this. The answer to HEAD has no text."""
    broken = b"Transfer-Encoding: chunked\r\n\r\nno chunk\r\n"

    async def main() -> list[bytes]:
        answers = []
        async with endpoint(memory_path, echo()) as here:
            for method in (b"GET", b"HEAD", b"POST"):
                port = here.url.rpartition(":")[2].partition("/")[0]
                reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
                writer.write(method + b" /v1/models HTTP/1.1\r\nHost: a\r\n" + broken)
                answers.append((await reader.read())[:12])
                writer.close()
        return answers

    assert asyncio.run(main()) == [b"HTTP/1.1 400"] * 3
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("said", "json"),
    [("", True), ("application/json", True), ("Application/JSON; charset=UTF-8", True),
     ('application/json; charset="utf-8"', True), ("application/json; charset=latin-1", False),
     ("text/plain", False), ("application/jsonp", False)],
)  # fmt: skip
def test_which_content_types_are_json(said: str, json: bool) -> None:
    assert is_json(said) == json


def test_mcp_says_nothing_of_a_page_of_another_site_but_to_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def main() -> int:
        async with (
            mcp_endpoint() as url,
            httpx.AsyncClient(headers=HEADERS, timeout=LONG, verify=False) as client,
        ):
            foreign = {"origin": "http://evil.example", **JSON}
            return (await client.post(url, content=b"{}", headers=foreign)).status_code

    assert asyncio.run(main()) == 403
    assert capfd.readouterr() == ("", "")


def test_mcp_refuses_what_cannot_be_read_and_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> tuple[list[httpx.Response], httpx.Response]:
        async with (
            mcp_endpoint(Bounds(body_bytes=1_000_000)) as url,
            httpx.AsyncClient(headers={**HEADERS, **JSON}, timeout=LONG, verify=False) as client,
        ):
            told = [await client.post(url, content=body) for body in BODIES.values()]
            return told, await client.post(url, content=b"x" * 1_000_001)

    answers, large = asyncio.run(main())
    assert {name: one.status_code for name, one in zip(BODIES, answers, strict=True)} == (
        dict.fromkeys(BODIES, 400)
    )
    assert answers[0].json() == {
        "jsonrpc": "2.0", "id": None,
        "error": {"code": -32700,
                  "message": "Parse error: the body is nested too deeply: at most 100 levels"},
    }  # fmt: skip
    assert large.status_code == 413
    assert capfd.readouterr() == ("", "")
