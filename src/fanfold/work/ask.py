"""What is sent to a member and what comes back."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from fanfold.errors import BadInput
from fanfold.work.carried import AskFiles, BranchBundle, CarriedFile
from fanfold.work.excerpt import excerpt
from fanfold.work.item import Item, canonical, digest
from fanfold.work.media import Attachment, with_parts
from fanfold.work.reader import Count, NonNegative, Positive

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length", "refusal", "other"]
Reasoning = Literal["none", "minimal", "low", "medium", "high"]
ServiceTier = Literal["auto", "default", "flex"]
Takes = Literal["messages", "items", "both"]

_encode = msgspec.json.Encoder().encode
REPLY_BYTES = 8  # per token, of a reply that goes into a later ask, escapes included
KICKED_BYTES = 32_768  # of a reply that is sent back to be put right, at most
WHY_BYTES = 2048  # of the reasons of a gate, at most


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`parts` are the files in it, in the order of their places in the text."""

    role: Role
    content: str
    parts: tuple[Attachment, ...] = ()

    def shown(self) -> str:
        """For people: with the files by their names."""
        return with_parts(self.content, self.parts, lambda one: f"[{one.describe()}]\n")

    def spoken(self) -> str:
        """For whoever can open files: with their paths."""
        return with_parts(self.content, self.parts, lambda one: f"[{one.kind}: {one.path}]\n")


class Schema(msgspec.Struct, frozen=True):
    """A JSON Schema with its digest, so that a key does not hash it again for every item."""

    definition: dict[str, Any]
    digest: str

    @staticmethod
    def of(definition: dict[str, Any]) -> Schema:
        try:
            return Schema(definition, digest(canonical(definition)).hex())
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise BadInput(f"`schema` is not plain JSON: {error}") from None


class Params(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Sampling parameters that the plan states. Part of the key; `None` is the member's own default."""

    temperature: NonNegative | None = None
    top_p: Positive | None = None
    max_tokens: Count | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    reasoning: Reasoning | None = None
    service_tier: ServiceTier | None = None

    def stated(self) -> dict[str, Any]:
        """Those that a plan states."""
        named = msgspec.structs.asdict(self).items()
        return {name: value for name, value in named if value not in (None, ())}


PLAIN = Params()


@lru_cache(256)
def _plain_head(takes: Takes, schema: str) -> bytes:
    """What most keys of a step begin with: no kick-back, no parameters, the first sample."""
    return _encode((takes, (), schema, PLAIN, 0))


class Tool(msgspec.Struct, frozen=True):
    """What a model reads about a tool that it may use; `schema` is that of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class Call(msgspec.Struct, frozen=True):
    """A model calls a tool. `given` are the arguments: an object, or the text that was meant to be
    one."""

    id: str
    name: str
    given: Any


class Round(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model said, the tool calls it made, and the result of each, in the same order; `failed`
    are the numbers of those that are errors. `turns`: so many turns of kick-backs were before it."""

    said: str
    calls: tuple[Call, ...]
    results: tuple[str, ...]
    failed: tuple[int, ...] = ()
    turns: int = 0


class ToolBounds(msgspec.Struct, frozen=True):
    """What a loop with tools may come to: rounds, calls in each, bytes of a result."""

    rounds: int
    calls: int
    result_bytes: int

    @property
    def round_bytes(self) -> int:
        """That a round adds to the ask, at most, beside the model's own words: what is sent around a
        result, the result, and the same again for what frames a call."""
        return self.calls * (self.result_bytes + 512)


class Tools(msgspec.Struct, frozen=True):
    """The tools on offer, and the calls so far. `closed`: no more calls, an answer is required.
    `bounds`: for forecasts; not part of the key."""

    offered: tuple[Tool, ...]
    digest: str
    rounds: tuple[Round, ...] = ()
    closed: bool = False
    bounds: ToolBounds | None = None

    @staticmethod
    def of(offered: tuple[Tool, ...], bounds: ToolBounds | None = None) -> Tools:
        mark = digest(canonical(msgspec.to_builtins(offered))).hex()
        return Tools(offered, mark, bounds=bounds)

    @property
    def rounds_left(self) -> int:
        """Of a forecast: in which tools may still be used."""
        if self.closed or self.bounds is None:
            return 0
        return max(0, self.bounds.rounds - len(self.rounds))


class Ask(msgspec.Struct, frozen=True, gc=False):
    """`messages` is the rendered prompt; `turns` is what kick-backs added (a reply, the reasons).
    `tools` are only for members that take them (`Traits.takes_tools`). `shared`: so many characters
    at its beginning are those of other asks too, which a service may keep; -1: it is to keep nothing. Not
    part of the key. `files`: what whoever works on it needs and is to leave, of commands and agents."""

    messages: tuple[Message, ...] = ()
    items: tuple[Item, ...] = ()
    turns: tuple[Message, ...] = ()
    schema: Schema | None = None
    params: Params = PLAIN
    sample: int = 0
    tools: Tools | None = None
    shared: int = 0
    files: AskFiles | None = None

    def key(self, takes: Takes) -> bytes:
        """Content hash: the same content has the same key, in any order, in any run.

        Item ids, prices, gates, limits, order and the member are not in it. A member that takes
        items (a function) is keyed by what it receives, all others by the rendered messages; one
        that looks at both, by both.
        """
        schema = self.schema.digest if self.schema else ""
        params = self.params
        if self.turns or self.sample or (params is not PLAIN and params != PLAIN):
            whole = _encode((takes, self.turns, schema, params, self.sample))
        else:
            whole = _plain_head(takes, schema)
        if self.tools is not None:
            whole += _encode((self.tools.digest, self.tools.rounds, self.tools.closed))
        attached = [
            (n, *part.identity) for n, one in enumerate(self.messages) for part in one.parts
        ]
        if takes != "items":
            whole += _encode(self._texts() if attached else self.messages)
        if takes != "messages":
            for item in self.items:
                whole += canonical(item.data)
        if attached:
            whole += _encode(attached)
        if self.files is not None:
            whole += _encode(self.files.identity)
        return blake2b(whole, digest_size=16).digest()

    def _texts(self) -> tuple[Message, ...]:
        """The messages without their files, whose names and paths may differ."""
        return tuple([Message(one.role, one.content) for one in self.messages])

    def attachments(self) -> tuple[Attachment, ...]:
        """All files in it."""
        return tuple([part for message in self.messages for part in message.parts])

    @property
    def shows_files(self) -> bool:
        """Whether there are files in its messages."""
        for message in self.messages:  # noqa: SIM110 - a loop is the cheapest, and each ask has it
            if message.parts:
                return True
        return False

    @property
    def holds_files(self) -> bool:
        return self.files is not None or self.shows_files

    def conversation(self) -> tuple[Message, ...]:
        return self.messages + self.turns if self.turns else self.messages

    def shared_texts(self) -> tuple[str, ...]:
        """What `shared` counts, message by message; the last one may be the beginning of one."""
        texts, left = [], self.shared
        for message in self.messages:
            if left <= 0:
                break
            whole = left >= len(message.content)
            texts.append(message.content if whole else message.content[:left])
            left -= len(message.content)
        return tuple(texts)

    def spoken(self) -> str:
        """The conversation as one text; a single message is just its content."""
        messages = self.conversation()
        if len(messages) == 1:
            return messages[0].spoken()
        return "\n\n".join(f"{message.role.upper()}:\n{message.spoken()}" for message in messages)

    def revised(self, reply: Reply, reasons: tuple[str, ...]) -> Ask:
        """The kick-back: the same ask with the earlier reply and why it was not accepted. Of a reply
        that is longer than it should be only the beginning and the end are sent."""
        said = reply.text or (_encode(reply.data).decode() if reply.data is not None else "(empty)")
        said = excerpt(said, kicked_bytes(self.params.max_tokens))
        why = excerpt("\n".join(f"- {reason}" for reason in reasons), WHY_BYTES)
        again = f"That reply was not accepted:\n{why}\nReply again, in full, with this put right."
        turns = (*self.turns, Message("assistant", said), Message("user", again))
        return msgspec.structs.replace(self, turns=turns)

    def wants_tools(self, reply: Reply) -> bool:
        """The reply is no answer yet: tools are called, as it may."""
        return bool(reply.calls) and self.tools is not None and not self.tools.closed

    def after(
        self, reply: Reply, results: tuple[str, ...], *, failed: tuple[int, ...] = (),
        last: bool = False,
    ) -> Ask:  # fmt: skip
        """The next ask, with the results of the tool calls, of which some `failed`. `last`: an answer
        is required now."""
        assert self.tools is not None
        one = Round(reply.text, reply.calls, results, failed, len(self.turns))
        rounds = (*self.tools.rounds, one)
        tools = msgspec.structs.replace(self.tools, rounds=rounds, closed=last)
        return msgspec.structs.replace(self, tools=tools)


def kicked_bytes(max_tokens: int | None) -> int:
    """How much of a reply goes into a kick-back, when it has at most so many tokens."""
    return KICKED_BYTES if max_tokens is None else min(KICKED_BYTES, REPLY_BYTES * max_tokens)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens as billed. `input` excludes what was read from or written to a cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


class Reply(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`data` is the parsed answer when a schema was asked for or a function returned a value.
    With `calls` it is not an answer yet: tools are called first. `unusable`: what is wrong with the
    usage or cost that was reported, which is left out then. `reason`: why it ended, as the service
    calls it, where that is not one of `Finish`. `files`: the outputs that were asked for. `branch`: what an
    agent on another machine did in its worktree there."""

    text: str = ""
    data: Any = None
    usage: Usage | None = None
    finish: Finish = "stop"
    model: str | None = None
    cost_usd: float | None = None
    calls: tuple[Call, ...] = ()
    unusable: str = ""
    reason: str = ""
    files: tuple[CarriedFile, ...] = ()
    branch: BranchBundle | None = None

    @property
    def value(self) -> Any:
        return self.text if self.data is None else self.data
