"""Answers of MCP servers over HTTP: none is read without bound."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.members.mcp_tools import server_tools
from fanfold.work.started import MAX_BYTES
from fanfold.work.tool import StatedTool, as_fields
from tests.unit.members.raw import Caller, RawServer, Talk

Pack = Callable[[bytes], bytes]


def pouring(pack: Pack, sent: list[int], status: int = 200, **headers: str) -> Talk:
    """JSON without an end, until the client is gone."""

    async def talk(caller: Caller) -> None:
        await caller.request()
        head = [f"HTTP/1.1 {status} Because", "content-type: application/json"]
        head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await caller.send("\r\n".join([*head, "transfer-encoding: chunked", "", ""]).encode())
        while sum(sent) < 4 * MAX_BYTES:
            sent.append(1_000_000)
            if data := pack(b'"' + b"a" * 999_999):
                await caller.send(b"%x\r\n%b\r\n" % (len(data), data))

    return talk


def trouble_with(talk: Talk) -> str:
    async def main() -> None:
        async with RawServer(talk) as server:
            stated: Any = ff.tool(mcp=f"{server.url}/mcp")
            tool = stated if isinstance(stated, StatedTool) else StatedTool(as_fields(stated), ".")
            await server_tools(tool)

    with pytest.raises(BadInput) as found:
        asyncio.run(main())
    return str(found.value)


@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_without_an_end_is_read_up_to_its_bound(status: int) -> None:
    sent: list[int] = []
    told = trouble_with(pouring(lambda data: data, sent, status))
    assert sum(sent) < 2 * MAX_BYTES
    assert status == 400 or f"larger than {MAX_BYTES:,} bytes" in told


def test_a_packed_answer_is_not_unpacked() -> None:
    """Nobody asked for one, and nobody knows how large it is."""
    sent: list[int] = []
    packer = zlib.compressobj(9, wbits=31)
    told = trouble_with(pouring(packer.compress, sent, content_encoding="gzip"))
    assert "it is packed, which was not asked for" in told
