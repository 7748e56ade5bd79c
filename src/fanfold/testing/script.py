"""What the model server is asked, and what a script makes it say.

A script is any callable from Asked to Says. The ready-made ones below combine: wherever one takes
`then` or a reply, it takes a Says or another script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from math import ceil
from random import Random
from typing import Any, Literal, TypeAlias

import msgspec

from fanfold.clock import Clock, RealClock
from fanfold.work.ask import Finish, Usage
from fanfold.work.example import example

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_refuses = "I cannot help with that."

WireName = Literal["openai", "anthropic", "responses", "embeddings"]
_SESSIONS = ("x-claude-code-session-id", "session-id")


class AskedMessage(msgspec.Struct, frozen=True):
    role: str
    text: str


class ServedFile(msgspec.Struct, frozen=True):
    """A file in a request. `hash` is that of its content, `size` that of its base64 in the body; it is
    billed as so many tokens."""

    kind: str
    type: str
    hash: str
    size: int
    tokens: int


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request as the server understood it.

    `n` counts requests from 1. `prompt` is the last user text. `headers` are lower-case and hold
    the key as it was sent, so do not print them. `tool` is the tool that the request forces.
    A request for the list of models has the path `/v1/models` and an empty prompt. A line of a batch has
    its `custom_id`; a request about batches or files has the path and the `method`, and n is 0.
    """

    n: int
    path: str
    wire: WireName
    headers: dict[str, str]
    model: str = ""
    system: str = ""
    messages: tuple[AskedMessage, ...] = ()
    prompt: str = ""
    max_tokens: int | None = None
    schema: dict[str, Any] | None = None
    tool: str | None = None
    stream: bool = False
    raw: bytes = b""
    method: str = "POST"
    custom_id: str = ""
    files: tuple[ServedFile, ...] = ()

    @property
    def body(self) -> dict[str, Any]:
        """The request's JSON, decoded anew each time."""
        return dict(_decode(self.raw or b"{}"))

    @property
    def content(self) -> str:
        """A digest of the body: the same request has the same."""
        return blake2b(self.raw, digest_size=8).hexdigest()

    @property
    def key(self) -> str:
        """The key that was sent, in the header of either wire; empty if there was none."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key", "") or bearer

    @property
    def session(self) -> str:
        """The agent's own session, as claude and codex name it in a header; empty for others."""
        return next((self.headers[name] for name in _SESSIONS if name in self.headers), "")


class Says(msgspec.Struct, frozen=True, kw_only=True):
    """What the server does with one request.

    Neither `text` nor `data`: an example valid against the schema if one was asked for, else the
    prompt comes back. `latency` in seconds; None is the server's own. `usage` None is derived from
    the lengths and bounded by max_tokens. A `status` other than 200 gives the wire's own error body
    (`code` and `message` replace its usual words) and is not billed. `drop` cuts the connection
    "before" the headers or in the "mid"dle of the reply; `broken` sends a body that is not JSON:
    both were produced, so they are billed. `hang` never answers and is not billed.
    `tells_usage` False leaves usage out of a reply that is billed all the same, and `reports` is sent
    instead of it, as it is. `reason` is sent as the reason why the reply ended. `billed`:
    an error that comes from a gateway after the reply was produced. `tool`: call this
    tool of the client's with `data`, whether the request forces it or not. `reasoning`: how much
    of the output was that, where the wire tells it (Responses). `also`: more calls of tools in the
    same reply, each a name and arguments (not Responses). `first`: seconds until the reply
    begins, where it is streamed; None is with its end.

    Of a line of a batch count `latency` (None is that of the batches), `hang` (it is never done), and what
    the reply or the error is. Of a request about batches: a `status` other than 200 is an error without
    effect; `latency`, `hang` and `drop` are about the response alone, when all was carried out.
    """

    text: str | None = None
    data: Any = None
    latency: float | None = None
    usage: Usage | None = None
    tells_usage: bool = True
    finish: Finish = "stop"
    status: int = 200
    retry_after: float | None = None
    code: str | None = None
    message: str | None = None
    drop: Literal["before", "mid"] | None = None
    broken: bool = False
    hang: bool = False
    tool: str | None = None
    reasoning: int = 0
    reports: Any = None
    reason: str | None = None
    billed: bool = False
    first: float | None = None
    also: tuple[tuple[str, Any], ...] = ()


Script: TypeAlias = Callable[[Asked], Says]


class ServedReply(msgspec.Struct, frozen=True):
    """A Says completed for one request. `usage` is what is billed, reported or not."""

    text: str
    data: Any
    usage: Usage
    finish: Finish
    tells_usage: bool
    tool: str | None = None
    reasoning: int = 0
    reports: Any = None
    reason: str | None = None
    also: tuple[tuple[str, Any], ...] = ()

    @property
    def calls(self) -> list[tuple[str, str]]:
        """All calls of tools: name and arguments as JSON."""
        return [
            (self.tool or "", self.arguments),
            *((name, _encode(data).decode()) for name, data in self.also),
        ]

    @property
    def uses_tool(self) -> bool:
        """Text that a script states is sent as text, whatever tool the request forces."""
        return self.tool is not None and self.data is not None

    @property
    def arguments(self) -> str:
        """Of the tool, as JSON; half of it when the reply was cut off."""
        text = _encode(self.data).decode()
        return text[: len(text) // 2] if self.finish == "length" else text


def answer(asked: Asked, says: Says, cached: tuple[int, int] = (0, 0)) -> ServedReply:
    """`cached`: tokens of the prompt that were read from a cache, and written to one."""
    data = says.data
    if says.text is None and data is None and says.finish != "refusal" and asked.schema is not None:
        data = example(asked.schema)
    text = says.text if says.text is not None else _default_text(asked, says, data)
    usage = _as_reported(asked, says.usage or _by_length(asked, text, *cached))
    tool = says.tool or asked.tool
    return ServedReply(
        text, data, usage, says.finish, says.tells_usage, tool, says.reasoning, says.reports,
        says.reason, says.also,
    )  # fmt: skip


def _default_text(asked: Asked, says: Says, data: Any) -> str:
    """The text where the script states none. A reply that was cut off lacks its second half."""
    if says.finish == "refusal":
        return _refuses
    whole = asked.prompt if data is None else _encode(data).decode()
    return whole[: len(whole) // 2] if says.finish == "length" else whole


def _by_length(asked: Asked, text: str, read: int, written: int) -> Usage:
    most = len(text) // 4 + 1 if asked.max_tokens is None else asked.max_tokens
    size = len(asked.raw) - sum(one.size for one in asked.files)
    files = sum(one.tokens for one in asked.files)
    plain = max(1, size // 4 + 1 + files - read - written)
    return Usage(plain, min(len(text) // 4 + 1, most), read, written)


def _as_reported(asked: Asked, usage: Usage) -> Usage:
    """Chat completions know no writes to the cache: they are plain input there."""
    if asked.wire != "openai" or not usage.cache_write:
        return usage
    return msgspec.structs.replace(usage, input=usage.input + usage.cache_write, cache_write=0)


def echo(asked: Asked) -> Says:
    """The prompt comes back, or an example of the schema."""
    return Says()


def always(says: Says) -> Script:
    return lambda asked: says


def _script(reply: Says | Script) -> Script:
    return always(reply) if isinstance(reply, Says) else reply


def sequence(replies: Iterable[Says | Script]) -> Script:
    """One after the other, in the order of arrival; the last one again for all that follow."""
    scripts = [_script(reply) for reply in replies]
    served = iter(scripts)
    return lambda asked: next(served, scripts[-1])(asked)


def by_prompt(replies: Mapping[str, Says | Script], then: Says | Script = echo) -> Script:
    """The first entry whose key is contained in the prompt. "item 1" is contained in "item 10"."""
    scripts = {part: _script(reply) for part, reply in replies.items()}
    rest = _script(then)

    def says(asked: Asked) -> Says:
        found = (script for part, script in scripts.items() if part in asked.prompt)
        return next(found, rest)(asked)

    return says


def random_usage(seed: int, then: Says | Script = echo) -> Script:
    """Usage drawn at random: input up to the body's bytes (some of it cached), output up to
    max_tokens. The draw depends on the seed and the content, not on the order of arrival.
    """
    script = _script(then)

    def says(asked: Asked) -> Says:
        chance = Random(seed ^ int(asked.content, 16))
        size = chance.randint(1, max(1, len(asked.raw)))
        read = chance.randint(0, size)
        write = chance.randint(0, size - read)
        output = chance.randint(1, asked.max_tokens or 4096)
        usage = Usage(size - read - write, output, read, write)
        return msgspec.structs.replace(script(asked), usage=usage)

    return says


def key_required(key: str, then: Says | Script = echo) -> Script:
    """401 for every other key."""
    script = _script(then)
    return lambda asked: script(asked) if asked.key == key else Says(status=401, latency=0.0)


class _Bucket:
    """Fills evenly to a minute's worth. It may be overdrawn by the last one it let through."""

    def __init__(self, per_minute: float, now: float) -> None:
        self._most, self._rate = per_minute, per_minute / 60
        self._level, self._at = per_minute, now

    def wait(self, need: float, now: float) -> float:
        """Seconds until `need` is there; 0 when it is."""
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, (need - self._level) / self._rate)

    def take(self, amount: float) -> None:
        self._level -= amount


def enforce_rates(
    rpm: float, tpm: float, clock: Clock | None = None, then: Says | Script = echo
) -> Script:
    """429 with retry-after beyond so many requests and tokens per minute.

    Both are buckets that start full. Tokens are taken as used, so a request is let in while any
    are left and the next ones wait for what it overdrew. A refused request counts for nothing.
    """
    time = clock or RealClock()
    script = _script(then)
    requests, tokens = _Bucket(rpm, time.monotonic()), _Bucket(tpm, time.monotonic())

    def says(asked: Asked) -> Says:
        now = time.monotonic()
        wait = max(requests.wait(1, now), tokens.wait(1, now))
        if wait > 1e-9:
            return Says(status=429, retry_after=ceil(wait), latency=0.0)
        reply = script(asked)
        if reply.status == 200:
            requests.take(1)
            tokens.take(answer(asked, reply).usage.total)
        return reply

    return says
