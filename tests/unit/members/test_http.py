"""How a stream is cut into events, and which client is chosen. What both clients must do is in
tests/contract/test_http.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.members.endpoint import http_client
from fanfold.members.http import Events


@pytest.mark.parametrize(
    ("sent", "data"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\r\n\r\n: comment\r\nevent: x\r\nid: 1\r\ndata:  b\r\n\r\n", [b"a", b" b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"\n\n\nretry: 10\n\n", []),
        (b"data: left open", [b"left open"]),
        (b"", []),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_are_cut_out_however_the_bytes_arrive(
    sent: bytes, data: list[bytes], size: int
) -> None:
    events = Events()
    found = []
    for at in range(0, len(sent), size):
        found += events.feed(sent[at : at + size])
    assert found + events.end() == data


def test_a_long_line_of_a_stream_is_put_together_once() -> None:
    """Not anew with each piece of it: that would take hours for what the bound allows."""
    events = Events()
    for _ in range(20_000):
        assert events.feed(b"x" * 1000) == []
    assert events.feed(b"\ndata: a\n\n") == [b"a"]


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ({}, "AiohttpClient"),
        ({"FANFOLD_HTTP": ""}, "AiohttpClient"),
        ({"FANFOLD_HTTP": "aiohttp"}, "AiohttpClient"),
        ({"FANFOLD_HTTP": "pyreqwest"}, "PyreqwestClient"),
    ],
)
def test_fanfold_http_names_the_client(stated: dict[str, str], kind: str) -> None:
    assert type(http_client("m", environ=stated)).__name__ == kind


def test_another_name_is_a_mistake() -> None:
    with pytest.raises(BadInput) as caught:
        http_client("m", environ={"FANFOLD_HTTP": "curl"})
    assert str(caught.value) == "FANFOLD_HTTP: 'curl' is neither aiohttp nor pyreqwest"


@pytest.mark.parametrize(
    ("missing", "env", "said"),
    [
        (
            "pyreqwest",
            {"FANFOLD_HTTP": "pyreqwest"},
            "FANFOLD_HTTP: pyreqwest is not installed;"
            " install it: pip install 'fanfold[pyreqwest]'",
        ),
        (
            "aiohttp_socks",
            {"ALL_PROXY": "socks5://127.0.0.1:1"},
            "m: a SOCKS proxy needs aiohttp-socks; install it: pip install 'fanfold[socks]'",
        ),
    ],
)
def test_a_missing_extra_is_named(missing: str, env: dict[str, str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, missing],
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "src"), **env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{said}\n"


WITHOUT = """
import asyncio, sys
sys.modules[sys.argv[1]] = None  # as far as Python can tell, it is not installed
from fanfold.errors import FanfoldError
from fanfold.members.endpoint import http_client

async def main():
    http = http_client("m")
    await http.open()
    await http.post("http://127.0.0.1:1/", {}, b"", 180)

try:
    asyncio.run(main())
except FanfoldError as error:
    print(error)
"""
