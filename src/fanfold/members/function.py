"""The kind `function`: a Python callable that answers, in this process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, cast

import msgspec

from fanfold.errors import BadInput, InvalidReply, Transient
from fanfold.members.entry import for_scripts, read_fields
from fanfold.members.kinds import BuildContext, MemberFields, Version
from fanfold.members.target import look_for, resolve_target
from fanfold.price import FREE
from fanfold.work import held
from fanfold.work.arguments import takes
from fanfold.work.ask import Ask, Reply, Takes
from fanfold.work.check import described
from fanfold.work.item import Item
from fanfold.work.member import Request, Tell, Traits
from fanfold.work.nesting import TooDeep, decode_json, too_deep
from fanfold.work.raised import error_text
from fanfold.work.reader import Positive, Text

P = ParamSpec("P")


def _dumped(value: Any) -> Any:
    """A pydantic model as plain data; everything else is not JSON."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"type {type(value).__name__} has no JSON form")
    return dump(mode="json")


_encode = msgspec.json.Encoder(enc_hook=_dumped).encode


class FunctionOptions(MemberFields, frozen=True, kw_only=True, tag="function"):
    """What can be said of a function, in a script as in a roster. It keeps its own time unless a
    timeout is stated: most cannot be interrupted."""

    timeout: Positive = 0.0
    version: Version | None = None
    effects: bool = False
    threads: bool = False

    def traits_of(self, target: str) -> Traits:
        """`@run`: without a version its replies serve no other run."""
        price = self.stated_price or FREE
        version = "run" if self.version is None else str(self.version)
        return Traits(
            **self.common() | {"keeps_time": False}, answerer=f"function:{target}@{version}",
            takes="items", shared=self.version is not None, price=price,
            metered=self.effects or price != FREE,
        )  # fmt: skip


class FunctionFields(FunctionOptions, frozen=True, kw_only=True, tag="function"):
    """`target`: `module:attribute`, imported from the plan's folder."""

    target: Text

    def traits(self, roster: Path) -> Traits:
        return self.traits_of(self.target)

    def build(self, traits: Traits, context: BuildContext) -> Function:
        file, line = context.file, context.line("target")
        target = resolve_target(self.target, context.folder, file=file, line=line)
        if why := _misfit(target):
            raise BadInput(f"target `{self.target}` {why}", file=file, line=line)
        return Function(traits, target, threads=self.threads)

    async def trouble(self, traits: Traits, context: BuildContext) -> str | None:
        """Looking at it does not run it."""
        look_for(self.target, context.folder, file=context.file, line=context.line("target"))
        return None


def _constructor(
    record: Callable[P, FunctionOptions],
) -> Callable[Concatenate[Callable[..., Any], P], Function]:
    def function(target: Callable[..., Any], *args: P.args, **fields: P.kwargs) -> Function:
        """A member out of a Python function, for scripts: `members=[ff.function(flag_risks)]`.

        `version=1` lets its replies serve later runs too. `concurrency`, `good_at`, `timeout` and
        the other fields of a roster can be given by name.
        """
        if not callable(target):
            raise BadInput(f"function() needs a function to call, not {described(target)}")
        name = str(getattr(target, "__name__", "function"))
        if why := _misfit(target):
            raise BadInput(f"function(): `{name}` {why}")
        read = read_fields(FunctionOptions, {"id": name, **fields})
        where = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', name)}"
        return Function(read.traits_of(f"{where}#{read.id}"), target, threads=read.threads)

    made: Any = for_scripts(function, record, "target")
    return cast("Callable[Concatenate[Callable[..., Any], P], Function]", made)


function = _constructor(FunctionOptions)


class Function:
    """Calls `target(data)` with the item's data, or `target(data, ask)` if it takes two arguments.

    A text comes back as the reply's text, any other JSON-able value as its data, a Reply as it is.
    For a shard it is called once per item; a target marked `takes_many = True` gets the list of
    data instead and gives back a list of answers in the same order.

    A plain (not async) target holds up all other work while it runs. For slow work write an async
    one, set `threads: true`, or use a command. What the target raises is passed on as it is, but a
    ConnectionError or a TimeoutError as Transient: it is worth another try.
    """

    def __init__(
        self, traits: Traits, target: Callable[..., Any], *, threads: bool = False
    ) -> None:
        self._with_ask = _takes_two(target)
        seen: Takes = "both" if self._with_ask else traits.takes
        self._traits = msgspec.structs.replace(traits, sees_ask=self._with_ask, takes=seen)
        self._target, self._threads = target, threads
        self._takes_many = bool(getattr(target, "takes_many", False))
        self._simple = not (threads or self._with_ask or self._takes_many)

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        return Request(ask)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        ask = request.ask
        items = ask.items
        try:
            if self._simple and len(items) == 1:
                result = held.loop.call(self._target, items[0].data)
                return self._reply(await result if hasattr(result, "__await__") else result)
            if self._takes_many:
                return self._taken_apart(
                    items, await self._call([item.data for item in items], ask)
                )
            if len(items) == 1:
                return self._reply(await self._call(items[0].data, ask))
            values = [self._reply(await self._call(item.data, ask)).value for item in items]
            return _shard_reply(items, values)
        except (
            ConnectionError,
            TimeoutError,
        ) as error:  # whatever it calls may be there again soon
            what = f"{self._traits.id}: {error_text(error)}"
            raise Transient(what, lost=self._traits.metered) from error

    async def _call(self, data: Any, ask: Ask) -> Any:
        given = (data, ask) if self._with_ask else (data,)
        if self._threads:
            result = await asyncio.to_thread(self._target, *given)
        else:
            result = held.loop.call(self._target, *given)
        return await result if hasattr(result, "__await__") else result

    def _reply(self, result: Any) -> Reply:
        if type(result) is str and result.isascii():
            return Reply(text=result)
        if isinstance(result, Reply):
            return self._whole(result)
        plain = self._plain(result)
        return Reply(text=plain) if isinstance(plain, str) else Reply(data=plain)

    def _whole(self, reply: Reply) -> Reply:
        if too_deep(reply.data):
            raise InvalidReply(f"{self._traits.id} returned a reply that is not JSON: {TooDeep()}")
        return reply

    def _plain(self, result: Any) -> Any:
        """The value as it will come back from the journal, so a resumed run sees the same."""
        try:
            return decode_json(_encode(result))
        except (TypeError, ValueError, RecursionError) as error:
            why = TooDeep() if isinstance(error, RecursionError) else error
            raise InvalidReply(
                f"{self._traits.id} returned a value that is not JSON: {why}"
            ) from None

    def _taken_apart(self, items: tuple[Item, ...], result: Any) -> Reply:
        if isinstance(result, Reply):
            return self._whole(result)
        if not isinstance(result, Sequence) or isinstance(result, str | bytes):
            raise InvalidReply(
                f"{self._traits.id} takes many, so it must return a list of answers, "
                f"not a {type(result).__name__}"
            )
        if len(result) != len(items):
            raise InvalidReply(
                f"{self._traits.id} returned {len(result)} answers for {len(items)} items"
            )
        replies = [self._reply(answer) for answer in result]
        if len(replies) == 1:
            return replies[0]
        return _shard_reply(items, [reply.value for reply in replies])


def _shard_reply(items: tuple[Item, ...], values: list[Any]) -> Reply:
    pairs = zip(items, values, strict=True)
    return Reply(data={"answers": [{"id": item.id, "answer": value} for item, value in pairs]})


def _misfit(target: Any) -> str | None:
    """Why it cannot be called with an item, as far as its signature says."""
    if takes(target, 1) or takes(target, 2):
        return None
    return "must take one argument, the item, or two, the item and the ask"


def _takes_two(target: Callable[..., Any]) -> bool:
    """Whether the ask can be passed along: a second positional parameter without a default."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # some built-ins do not tell
        return False
    positional = [
        p
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    return len(positional) >= 2
