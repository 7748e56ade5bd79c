# ruff: noqa: E501
"""Answers of services that no service should give, over HTTP, to a whole run: every byte of them passes
the real client, on a wire in memory and a virtual clock. And the events of agents' programs, likewise."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
from contextlib import suppress
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler

from fanfold.errors import MemberError
from fanfold.gates.checks import predicate
from fanfold.members import http_aiohttp
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.worker import Exit
from fanfold.members.anthropic import Anthropic
from fanfold.members.embedding import Embedding
from fanfold.members.openai import OpenAI
from fanfold.members.providers import PROVIDERS
from fanfold.price import cost, dollars, lookup
from fanfold.testing.clock import run_virtual
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.batch import LineResult
from fanfold.work.member import Request, Tell
from fanfold.work.outcome import STATES, Receipt
from fanfold.work.task import Budget
from tests.flow.simulation import PRICE, Scene, play, words
from tests.fuzz.engine import Given, Wrong
from tests.fuzz.mutate import Mutation, at, noisy, paths, written

URL = "http://127.0.0.1:9/v1"
TRUE = Usage(30, 300)
BILL = cost(PRICE, TRUE.input, TRUE.output)
BUDGET = 0.02
TEXT = "fine: " + "an answer of some length, as models give them. " * 20
SCHEMA = {"type": "object", "properties": {"fine": {"type": "string"}}, "required": ["fine"]}
DATA = json.dumps({"fine": TEXT})
ARGUMENTS = '{"word": "a"}'
Value = Any

# ── what services say ────────────────────────────────────────────────────────────────────────

_USED = {"prompt_tokens": 30, "completion_tokens": 300, "total_tokens": 330,
         "prompt_tokens_details": {"cached_tokens": 0}}  # fmt: skip
_SPENT = {"input_tokens": 30, "output_tokens": 300, "cache_read_input_tokens": 0}
_CALL = {"index": 0, "id": "c1", "type": "function",
         "function": {"name": "look_up", "arguments": ARGUMENTS}}  # fmt: skip
_FIGURES = {**_USED, **_SPENT, "cached_tokens": 0}


def _chat(message: Value, finish: str) -> list[Value]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return [{"id": "x", "model": "m", "choices": [choice], "usage": _USED}]


def _chunks(deltas: list[Value], finish: str) -> list[Value]:
    told = [{"model": "m", "choices": [{"index": 0, "delta": one}]} for one in deltas]
    last = {"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return [*told, last, {"model": "m", "choices": [], "usage": _USED}]


def _message(blocks: list[Value], stop: str) -> list[Value]:
    return [
        {"type": "message", "model": "m", "content": blocks, "stop_reason": stop, "usage": _SPENT}
    ]


def _events(block: Value, deltas: list[Value], stop: str) -> list[Value]:
    inner = [{"type": "content_block_delta", "index": 0, "delta": one} for one in deltas]
    start = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 30}}}
    end = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": _SPENT}
    return [start, {"type": "content_block_start", "index": 0, "content_block": block}, *inner,
            {"type": "content_block_stop", "index": 0}, end, {"type": "message_stop"}]  # fmt: skip


_USE = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"word": "a"}}
_BATCH = {"id": "b1", "status": "completed", "created_at": 1.5e9, "output_file_id": "f1",
          "request_counts": {"total": 1, "completed": 1, "failed": 0}, "metadata": {"fanfold": "n"}}  # fmt: skip
_HELD = {"id": "b1", "processing_status": "ended", "created_at": "2026-01-01T00:00:00Z",
         "request_counts": {"processing": 0, "succeeded": 1}}  # fmt: skip
_REFUSED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}

SAYS: dict[str, dict[str, list[list[Value]]]] = {
    "openai": {
        "whole": [_chat({"content": TEXT}, "stop"), _chat({"content": DATA}, "stop"),
                  _chat({"content": None, "tool_calls": [_CALL]}, "tool_calls")],
        "stream": [_chunks([{"content": TEXT[:30]}, {"content": TEXT[30:]}], "stop"),
                   _chunks([{"content": DATA}], "stop"),
                   _chunks([{"tool_calls": [_CALL]}, {"tool_calls": [{"index": 0, "function": {
                       "arguments": " "}}]}], "tool_calls")],
        "batch": [[_BATCH], [{"data": [_BATCH], "has_more": True}], [{"id": "f1"}],
                  [{"custom_id": "l1", "response": {"status_code": 200, "body": _chat(
                      {"content": TEXT}, "stop")[0]}},
                   {"custom_id": "l2", "error": {"code": "batch_expired", "message": "m"}}]],
    },
    "anthropic": {
        "whole": [_message([{"type": "text", "text": TEXT}], "end_turn"),
                  _message([{"type": "text", "text": DATA}], "end_turn"), _message([_USE], "tool_use")],
        "stream": [_events({"type": "text", "text": ""}, [{"type": "text_delta", "text": TEXT}], "end_turn"),
                   _events({"type": "text", "text": ""}, [{"type": "text_delta", "text": DATA}], "end_turn"),
                   _events({**_USE, "input": {}}, [{"type": "input_json_delta", "partial_json": ARGUMENTS}],
                           "tool_use")],
        "batch": [[_HELD], [{"data": [_HELD], "has_more": True, "last_id": "b1"}],
                  [{"custom_id": "l1", "result": {"type": "succeeded", "message": _message(
                      [{"type": "text", "text": TEXT}], "end_turn")[0]}},
                   {"custom_id": "l2", "result": {"type": "errored", "error": _REFUSED}}]],
    },
    "embedding": {"whole": [[{"model": "m", "usage": {"prompt_tokens": 30, "total_tokens": 30}, "data": [
        {"index": 0, "embedding": [0.5, 0.25]}]}]]},
}  # fmt: skip
ERRORS = [
    (status, {"error": {"type": kind, "code": kind, "message": "no"}})
    for status, kind in ((400, "invalid_request_error"), (401, "invalid_api_key"), (404, "not_found"),
                         (429, "rate_limit_error"), (500, "api_error"), (503, "overloaded"), (529, "busy"))
]  # fmt: skip
HEADERS = (
    "retry-after: 99999999999", "retry-after: -1", "retry-after: nan", "retry-after-ms: 1e400",
    "retry-after: Fri, 99 Xxx 2026 99:99:99 GMT", "x-ratelimit-reset: 1e18", "date: 0", "date: \xff",
    "x-ratelimit-reset-requests: 9d9h", "content-type: text/event-stream; charset=utf-16", "x: " + "a" * 70_000,
    "content-length: 5", "content-length: -1", "content-length: 1e3", "transfer-encoding: chunked", "location: /",
    "transfer-encoding: gzip, chunked", "content-encoding: gzip", "content-encoding: br", "connection: upgrade",
    "upgrade: websocket", ": empty", "no colon", "anthropic-ratelimit-tokens-reset: 99999-01-01T00:00:00Z",
    "retry-after: 1e308", "set-cookie: a=b", "trailer: x", "retry-after: " + "9" * 400,
)  # fmt: skip


class _Said(NamedTuple):
    """One answer. `end`: keeps the connection, closes it, or says nothing more. `honest`: no figure of its
    usage was changed, so what is on record must not be less than the bill."""

    end: str
    honest: bool
    raw: bytes

    def piece(self) -> bytes:
        return f"{self.end}{'h' if self.honest else '-'} ".encode() + self.raw

    @classmethod
    def of(cls, piece: bytes) -> _Said:
        end = piece[:1].decode("latin-1")
        return cls(end if end in "kcw" and end else "c", piece[1:2] == b"h", piece[3:])


def _honest(value: Value) -> bool:
    """Every figure that is there is the true one."""
    told = [path for path in paths(value) if path and str(path[-1]).endswith("_tokens")]
    return all(at(value, path) == _FIGURES.get(path[-1]) for path in told)


def _http(rng: Random, status: int, body: bytes, kind: str) -> bytes:
    """Framed in one of the ways of HTTP, now and then with a header that is absurd."""
    lines = [f"HTTP/1.1 {status} Said", f"content-type: {kind}"]
    if rng.random() < 0.15:
        lines += rng.sample(HEADERS, rng.choice((1, 1, 2)))
    if kind == "application/json" and rng.random() < 0.15:
        body = gzip.compress(body, mtime=0)
        lines.append("content-encoding: gzip")
        if rng.random() < 0.3:
            body = noisy(rng, body)
    if rng.random() < 0.4:
        cut = rng.randrange(len(body) + 1)
        body = b"".join(
            b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part
        )
        body += b"0\r\n\r\n"
        lines.append("transfer-encoding: chunked")
    elif rng.random() < 0.9:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


# ── the wire ─────────────────────────────────────────────────────────────────────────────────

_CONTENT = re.compile(rb"content-length: (\d+)\r\n")


class _Service:
    """Gives the answers in turn, from the first again after the last; counts what it was asked."""

    def __init__(self, answers: list[_Said]) -> None:
        self._answers, self.asked, self.billed = answers or [_Said("c", False, b"")], 0, 0

    def next(self) -> _Said:
        said = self._answers[self.asked % len(self._answers)]
        self.asked += 1
        self.billed += BILL * (said.honest and said.raw.startswith(b"HTTP/1.1 200 "))
        return said


class _Wire(asyncio.Transport):
    """The client's end of a connection that is nowhere but here."""

    _quiet, _other = socket.socketpair()

    def __init__(self, protocol: ResponseHandler, service: _Service) -> None:
        super().__init__({"socket": self._quiet})
        self._protocol, self._service, self._closing, self._request = protocol, service, False, b""
        self._loop = asyncio.get_running_loop()

    def write(self, data: Any) -> None:
        self._request += data
        head, found, body = self._request.partition(b"\r\n\r\n")
        size = _CONTENT.search(head + b"\r\n")
        if found and len(body) >= int(size[1] if size else 0):
            self._request = b""
            said = self._service.next()
            step = max(1, len(said.raw) // 3)
            for at in range(0, len(said.raw), step):
                self._loop.call_soon(self._arrive, said.raw[at : at + step])
            if said.end == "c":
                self._loop.call_soon(self.close)

    def _arrive(self, data: bytes) -> None:
        if not self._closing:
            self._protocol.data_received(data)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Connector(aiohttp.TCPConnector):
    service: _Service

    async def _create_connection(self, *given: Any, **named: Any) -> ResponseHandler:
        protocol = ResponseHandler(asyncio.get_running_loop())
        protocol.connection_made(_Wire(protocol, self.service))
        return protocol


class _MemoryClient(http_aiohttp.AiohttpClient):
    service = _Service([])

    def _route_by(self, *given: Any) -> Any:
        connector = _Connector(limit=0)
        connector.service = self.service
        route = super()._route_by(*given)
        route.connector = connector
        return route


# ── the part ─────────────────────────────────────────────────────────────────────────────────


class _HeardOpenAI(OpenAI):
    async def ask(self, request: Request, tell: Tell) -> Reply:
        return await super().ask(request, lambda event: None)


class _HeardAnthropic(Anthropic):
    async def ask(self, request: Request, tell: Tell) -> Reply:
        return await super().ask(request, lambda event: None)


MEMBERS: dict[tuple[str, str], Any] = {
    ("openai", "whole"): OpenAI, ("openai", "stream"): _HeardOpenAI, ("openai", "batch"): OpenAI,
    ("anthropic", "whole"): Anthropic, ("anthropic", "stream"): _HeardAnthropic,
    ("anthropic", "batch"): Anthropic, ("embedding", "whole"): Embedding,
}  # fmt: skip


def look_up(word: str) -> str:
    """What a word means."""
    return f"{word} means fine"


class Replies:
    """The first piece says who is asked and how; the others are the answers."""

    name, divisible = "replies", True

    def __init__(self) -> None:
        self._mutations = {
            (kind, way): Mutation([event for one in says for event in one])
            for kind, ways in SAYS.items()
            for way, says in ways.items()
        }
        self._before = http_aiohttp.AiohttpClient
        http_aiohttp.AiohttpClient = _MemoryClient  # type: ignore[misc]

    def close(self) -> None:
        http_aiohttp.AiohttpClient = self._before  # type: ignore[misc]

    def make(self, rng: Random) -> Given:
        kind, way = rng.choice(list(MEMBERS))
        how = rng.choice(("plain", "tools", "schema"))
        answers = [self._answer(rng, kind, way) for _ in range(rng.choice((1, 2, 3, 5)))]
        return [f"{kind} {way} {how}".encode(), *(one.piece() for one in answers)]

    def _answer(self, rng: Random, kind: str, way: str) -> _Said:
        if rng.random() < 0.1:
            status, error = rng.choice(ERRORS)
            status = rng.choice((status, status, 100, 101, 204, 206, 302, 304, 599, 999))
            told = self._mutations[kind, way].changed(rng, error) if rng.random() < 0.5 else error
            return _Said("c", False, _http(rng, status, written(rng, told), "application/json"))
        events = list(rng.choice(SAYS[kind][way]))
        if rng.random() < 0.75:
            n = rng.randrange(len(events))
            events[n] = self._mutations[kind, way].changed(rng, events[n])
        if way == "stream" and rng.random() < 0.2:
            n = rng.randrange(len(events))
            events[n : n + 1] = rng.choice(([], [events[n]] * 2, events[::-1]))
        honest, form = _honest(events), "application/json"
        parts = [written(rng, one) for one in events]
        body = b"\n".join(parts)
        if way == "stream":
            form, end = "text/event-stream", rng.choice((b"\n\n", b"\r\n\r\n"))
            body = b"".join(b"data: " + part + end for part in parts) + b"data: [DONE]\n\n"
        raw = _http(rng, 200, body, form)
        if rng.random() < 0.15:
            raw, honest = noisy(rng, raw), False
        if rng.random() < 0.1:
            raw = raw[: rng.randrange(len(raw) + 1)]
        return _Said(rng.choice("kkkccw"), honest, raw)

    def check(self, given: Given) -> None:
        first = given[0].decode("latin-1").split() if given else []
        known = len(first) == 3 and (first[0], first[1]) in MEMBERS
        kind, way, how = first if known else ("openai", "whole", "plain")
        service = _MemoryClient.service = _Service([_Said.of(piece) for piece in given[known:]])
        like = traits(
            "m", kind=kind, model="m", price=PRICE, max_tokens=400, timeout=30.0, takes_tools=True
        )
        key = lambda: "sk-fuzz"  # noqa: E731
        if kind == "embedding":
            run_virtual(lambda clock: _embed(Embedding(like, URL, key, None, PROVIDERS[""])))
        elif way == "batch":
            run_virtual(lambda clock: _batches(MEMBERS[kind, way](like, URL, key)))
        else:
            member = MEMBERS[kind, way](like, URL, key)
            more = {"tools": {"tools": [look_up]}, "schema": {"schema": SCHEMA}}.get(how, {})
            gate = predicate(lambda value: _fine(value), "is fine")
            scene = Scene(
                "memory:", (member,), words(3), Budget(usd=BUDGET), how={"gate": gate, **more}
            )  # type: ignore[arg-type]
            _judge(play(scene), service)


def _fine(value: Any) -> bool:
    text = value.get("fine") if isinstance(value, dict) else value
    return isinstance(text, str) and text.startswith("fine")


def _judge(receipt: Receipt, service: _Service) -> None:
    ended = sum(getattr(receipt, state) for state in STATES)
    if not receipt.planned == ended == 3:
        raise Wrong(f"{receipt.planned} items planned, {ended} ended")
    if receipt.cost_usd > BUDGET + (receipt.overrun_usd or 0) + 1e-9:
        raise Wrong(f"${receipt.cost_usd} spent of ${BUDGET}, {receipt.overrun_usd} beyond")
    if dollars(service.billed) > receipt.cost_usd + 1e-9:
        raise Wrong(f"${dollars(service.billed)} billed, ${receipt.cost_usd} on record")
    values = [one["value"] for one in receipt.result or ()]
    whole = receipt.result is None or len(values) == receipt.passed
    if not whole or not all(map(_fine, values)):
        raise Wrong(f"{receipt.passed} passed, in the result: {values!r}"[:300])
    msgspec.json.encode(receipt)


async def _embed(member: Embedding) -> None:
    request = member.prepare(Ask((Message("user", "a text"),)))
    await member.open()
    try:
        reply = await member.ask(request, lambda event: None)
        if not all(isinstance(one, float) and isfinite(one) for one in reply.data):
            raise Wrong(f"no vector: {reply.data!r}"[:200])
    except MemberError:
        """As it should be."""
    finally:
        await member.close()


async def _batches(member: Any) -> None:
    """Whatever the service says: an answer of the right type, or a MemberError."""
    request = member.prepare(Ask((Message("user", "a text"),)))
    service, lines = member.batches, [("l1", request.body)]
    with suppress(MemberError):
        await service.submit("n", lines)
    with suppress(MemberError):
        await service.look("b1")
    with suppress(MemberError):
        async with asyncio.timeout(3600):
            await service.since(0.0, ())
    results: list[LineResult] = []
    with suppress(MemberError):
        results = await service.results("b1")
    for one in results:
        if one.end in ("answered", "refused"):
            with suppress(MemberError):
                service.read(request, one)
    with suppress(MemberError):
        await service.cancel("b1")


# ── agents ───────────────────────────────────────────────────────────────────────────────────

LOGS = Path(__file__).parents[1] / "data" / "agent_clis"
DIALECT = {"c": "claude", "x": "codex", "g": "gemini", "o": "opencode"}
WANTED = Ask((Message("user", "do it"),))


class Agents:
    """The log of a program, line by line, and the files beside it; then how it ended."""

    name, divisible = "agents", True

    def __init__(self) -> None:
        self._logs = [
            (DIALECT[path.name[0]], path.read_bytes().splitlines()) for path in sorted(LOGS.glob("*.jsonl"))
        ]  # fmt: skip
        self._mutations = {
            name: Mutation([json.loads(line) for kind, lines in self._logs if kind == name
                            for line in lines[:60] if line.startswith(b"{")])
            for name in DIALECT.values()
        }  # fmt: skip
        self._price = lookup("claude-sonnet-4-5", "anthropic", "")

    def close(self) -> None: ...

    def make(self, rng: Random) -> Given:
        name, lines = rng.choice(self._logs)
        start = rng.randrange(len(lines)) if len(lines) > 80 else 0
        made = list(lines[start : start + 80])
        for _ in range(rng.choice((1, 1, 2, 4))):
            n = rng.randrange(len(made))
            with suppress(ValueError, RecursionError):
                made[n] = written(rng, self._mutations[name].changed(rng, json.loads(made[n])))
            if rng.random() < 0.2:
                made[n] = noisy(rng, made[n])
        if rng.random() < 0.2:
            rng.shuffle(made)
        return [
            f"{name} {rng.choice((0, 1, -9))} {rng.choice(('', 'killed', 'time'))}".encode(),
            *made,
        ]

    def check(self, given: Given) -> None:
        first = (given[0] if given else b"").decode("latin-1").split(" ")
        name = first[0] if first[0] in DIALECTS else "claude"
        code = int(first[1]) if len(first) > 1 and re.fullmatch(r"-?\d", first[1]) else 0
        why: Any = first[2] if len(first) > 2 and first[2] in ("killed", "time") else ""
        reader = DIALECTS[name].reader(self._price)
        for line in given[1:]:
            for told in reader.feed(line):
                if "\n" in told.text or not isinstance(told.text, str):
                    raise Wrong(f"not one line: {told.text!r}")
            reader.meter(line)
            _possible(reader.reading.cost, reader.reading.next_call())
        made = DIALECTS[name].conclude(
            "w", reader.reading, Exit(code=code, at=1.8e9, why=why), WANTED
        )
        _possible(getattr(made, "cost", None))
        msgspec.json.encode(made if isinstance(made, Reply) else str(made))
        if isinstance(made, Reply) and made.cost_usd is not None and not 0 <= made.cost_usd < 1e18:
            raise Wrong(f"it costs {made.cost_usd}")


def _possible(*costs: int | None) -> None:
    for one in costs:
        if one is not None and (not isinstance(one, int) or one < 0):
            raise Wrong(f"it costs {one!r}")
