"""The HTTP client that the SDK of MCP uses: an answer that is no stream of events has a bound here, which
the SDK does not give it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2
from mcp.shared._httpx_utils import create_mcp_http_client

from fanfold.work.started import MAX_BYTES


def bounded_client(headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """Answers come as they are: of packed ones nobody knows the size before they are unpacked."""
    client = create_mcp_http_client(headers={"accept-encoding": "identity", **headers})
    client.event_hooks["response"].append(_bound)
    return client


async def _bound(response: httpx2.Response) -> None:
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, packed)


class _Bounded(httpx2.AsyncByteStream):
    """Raises what the SDK takes for an answer that cannot be read."""

    def __init__(self, body: httpx2.AsyncByteStream, packed: bool) -> None:
        self._body, self._packed = body, packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed:
            raise httpx2.StreamError("it is packed, which was not asked for")
        remaining = MAX_BYTES
        async for chunk in self._body:
            remaining -= len(chunk)
            if remaining < 0:
                raise httpx2.StreamError(f"it is larger than {MAX_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()
