"""Exchanges with each provider, after its documentation: what is sent, and what its answers become."""

from __future__ import annotations

import asyncio
import json
from math import isclose
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fanfold.members.openai import OpenAI, OpenAIFields
from fanfold.members.providers import PROVIDERS
from fanfold.price import Price, cost, dollars
from fanfold.work.ask import Ask, Message, Params, Reply
from fanfold.work.member import tell_nobody
from tests.unit.members.asking import KEY, trouble
from tests.unit.members.raw import Caller, RawServer, response

DATA = Path(__file__).parents[2] / "data" / "providers"
FILES = {file.stem: json.loads(file.read_text("utf-8")) for file in sorted(DATA.glob("*.json"))}
EXCHANGES = [
    pytest.param(name, one, id=f"{name}: {one['about']}")
    for name, file in FILES.items()
    for one in file["exchanges"]
]
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
ASK = Ask(
    (Message("system", "Answer in one word."), Message("user", "Which colour has the sky?")),
    params=Params(max_tokens=50, seed=7),
)
Sent = tuple[str, dict[str, str], dict[str, Any]]


def stated(name: str) -> OpenAIFields:
    file = FILES[name]
    return OpenAIFields(
        id="m", model=file["model"], provider=file["provider"], base_url=file.get("base_url", "")
    )


def answered(answer: dict[str, Any]) -> bytes:
    before = answer.get("before", "").encode()
    if "events" not in answer:
        whole = before + json.dumps(answer["body"]).encode()
        return response(whole, answer["status"], **answer.get("headers", {}))
    events = [f"data: {json.dumps(one)}\n\n" for one in answer["events"]]
    return SSE + before + "".join([*events, "data: [DONE]\n\n"]).encode()


async def exchanged(name: str, exchange: dict[str, Any], sent: list[Sent]) -> Reply:
    """The member of the provider, as a roster makes it, but at an address of this machine."""
    fields = stated(name)

    async def talk(caller: Caller) -> None:
        line, headers, body = await caller.request()
        sent.append((line.split()[1], headers, json.loads(body)))
        await caller.send(answered(exchange["answer"]))

    async with RawServer(talk) as server:
        url = server.url + urlsplit(fields.base_url).path
        key = KEY if fields.key != "none" else None
        known = PROVIDERS[name]
        one = OpenAI(fields.traits(Path()), url, lambda: key, provider=known)
        await one.open()
        try:
            streams = "events" in exchange["answer"]
            return await one.ask(one.prepare(ASK), [].append if streams else tell_nobody)
        finally:
            await one.close()


def test_each_provider_has_its_exchanges_and_says_where_they_come_from() -> None:
    assert {*FILES, ""} == set(PROVIDERS)
    for file in FILES.values():
        assert all(one.startswith("https://") for one in file["sources"])
        becomes = [one["becomes"] for one in file["exchanges"]]
        assert any("usage" in one for one in becomes)
        assert any("error" in one for one in becomes)


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_price_is_found_by_the_address_and_the_model(name: str) -> None:
    price = FILES[name]["price"]
    assert stated(name).traits(Path()).price == (None if price is None else Price(**price))


@pytest.mark.parametrize(("name", "exchange"), EXCHANGES)
def test_an_exchange(name: str, exchange: dict[str, Any]) -> None:
    sent: list[Sent] = []
    becomes = exchange["becomes"]
    if "error" in becomes:
        found = trouble(lambda: asyncio.run(exchanged(name, exchange, sent)))
        found |= {"error": found["kind"], "says": becomes["says"] in found["text"]}
        assert {key: found[key] for key in becomes} == {**becomes, "says": True}, found["text"]
    else:
        reply = asyncio.run(exchanged(name, exchange, sent))
        check_reply(name, reply, becomes)
    ((path, headers, body),) = sent
    if "sent" in exchange:
        wanted = exchange["sent"]
        assert (path, body) == (wanted["path"], wanted["body"])
        keys = {key: headers[key] for key in ("authorization", "api-key") if key in headers}
        if "headers" in wanted:
            shown = {key: text.replace("KEY", KEY) for key, text in wanted["headers"].items()}
            assert keys == shown


def check_reply(name: str, reply: Reply, becomes: dict[str, Any]) -> None:
    assert (reply.text, reply.finish) == (becomes["text"], becomes["finish"])
    usage = reply.usage
    assert usage is not None, reply.unusable
    counted = {"input": usage.input, "output": usage.output, "cache_read": usage.cache_read}
    assert counted == becomes["usage"]
    price = stated(name).traits(Path()).price
    if price is None:
        assert becomes["usd"] is None
    else:
        paid = dollars(cost(price, usage.input, usage.output, usage.cache_read))
        assert isclose(paid, becomes["usd"], abs_tol=1e-9)
