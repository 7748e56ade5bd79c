"""A raw client for the model server: requests of both wires, and what came back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import aiohttp

from fanfold.testing.server import ModelServer

KEY = "sk-a-very-secret-key"
OPENAI, ANTHROPIC = "/v1/chat/completions", "/v1/messages"
PATHS = (OPENAI, ANTHROPIC)
VERSION = {"anthropic-version": "2023-06-01"}


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """What the model said, on either wire."""
        reply = self.json
        if "choices" in reply:
            return str(reply["choices"][0]["message"]["content"])
        return str(reply["content"][0]["text"])

    @property
    def events(self) -> list[Any]:
        """The data of all server-sent events, `[DONE]` as it stands."""
        lines = self.body.decode().split("\n")
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [one if one == "[DONE]" else json.loads(one) for one in data]


class Client(NamedTuple):
    session: aiohttp.ClientSession
    url: str

    async def post(self, path: str, prompt: str = "hello", **more: Any) -> Got:
        """Both wires take the same simplest body."""
        body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": prompt}]}
        return await self.send("POST", path, json.dumps(body | more).encode())

    async def send(
        self, method: str, path: str, data: bytes = b"", headers: dict[str, str] | None = None
    ) -> Got:
        sent = VERSION if headers is None and path == ANTHROPIC else headers or {}
        async with self.session.request(
            method, self.url + path, data=data, headers=sent
        ) as response:
            named = {name.lower(): value for name, value in response.headers.items()}
            return Got(response.status, named, await response.read())


def with_server(server: ModelServer, act: Callable[[Client], Awaitable[Any]]) -> Any:
    """Run `act` against an open server, and close both."""

    async def whole() -> Any:
        async with (
            server,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        ):
            return await act(Client(session, server.url))

    return asyncio.run(whole())


def once(server: ModelServer, path: str, prompt: str = "hello", **more: Any) -> Got:
    """One request to a server that is opened for it."""

    async def act(client: Client) -> Got:
        return await client.post(path, prompt, **more)

    got = with_server(server, act)
    assert isinstance(got, Got)
    return got
