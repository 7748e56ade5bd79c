"""The same jobs by fanfold: durable, gated, budgeted."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from data import MAX_TOKENS, MODEL, PROMPT, SCHEMA, row, rows

from fanfold.journal.facts import CloseRun
from fanfold.journal.following import StoreFollower
from fanfold.journal.opening import look
from fanfold.journal.stream import Commit
from fanfold.members.command import CommandMember
from fanfold.members.endpoint import http_client
from fanfold.members.function import Function
from fanfold.members.openai import OpenAI
from fanfold.observe.script import open_run
from fanfold.patterns import fold
from fanfold.patterns.map_reduce import map_batch, map_reduce
from fanfold.patterns.prompt import KNOWN_NAMES, Prompt
from fanfold.price import FREE, Price
from fanfold.run.run import Run
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.item import Item
from fanfold.work.member import Member, MemberLimits, Request, Tell, Traits
from fanfold.work.outcome import PASS
from fanfold.work.task import Budget, Terms
from fanfold.work.template import Template

PAID = Price(input=1.0, output=5.0)
http_client("none")  # so that the client is imported before anything is measured


class Reviews:
    """The rows, made as they are walked through."""

    def __init__(self, count: int) -> None:
        self._count = count

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        for number in range(self._count):
            if number >= len(skip) or not skip[number]:
                yield number, Item(str(number), row(number))

    def fingerprint(self) -> str:
        return f"reviews {self._count}"


def rate(review: dict[str, Any]) -> dict[str, Any]:
    """The no-op."""
    return {"rating": review["rating"]}


def function_traits(concurrency: int) -> Traits:
    return Traits(
        id="rules", kind="function", answerer="function:ours:rate@run", takes="items",
        shared=False, metered=False, price=FREE, timeout=0.0,
        limits=MemberLimits(concurrency=concurrency),
    )  # fmt: skip


def model_traits(concurrency: int) -> Traits:
    return Traits(
        id="model", kind="openai", answerer=f"openai:{MODEL}", model=MODEL, price=PAID,
        max_tokens=MAX_TOKENS, tier="paid", enabled_written=True, keeps_time=True,
        limits=MemberLimits(concurrency=concurrency),
    )  # fmt: skip


def openai(url: str, concurrency: int) -> OpenAI:
    return OpenAI(model_traits(concurrency), url, lambda: "none-at-all")


async def mapped(run: Run, items: int, concurrency: int) -> dict[str, Any]:
    begun = time.monotonic()
    found = await map_reduce(
        run, Reviews(items), prompt=PROMPT, schema=SCHEMA, concurrency=concurrency,
        reduce=fold.count("rating"),
    )  # fmt: skip
    took = time.monotonic() - begun
    receipt = found.receipt
    if receipt.passed != items:
        raise RuntimeError(f"{receipt.passed} of {items} passed: {receipt}")
    return {"calls": receipt.calls, "took": took}


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────


async def function_map(folder: str, items: int, concurrency: int) -> dict[str, Any]:
    member = Function(function_traits(concurrency), rate)
    async with open_run(
        "bench", members=[member], store=folder, budget=Budget(usd=1.0, calls=10 * items),
        max_concurrency=concurrency,
    ) as run:  # fmt: skip
        return await mapped(run, items, concurrency)


async def http_map(
    folder: str, items: int, concurrency: int, url: str, slots: int | None = None
) -> dict[str, Any]:
    """`slots`: so many calls at once does the member take; more workers wait."""
    member = openai(url, slots or concurrency)
    async with open_run(
        "bench", members=[member], store=folder, budget=Budget(usd=1000.0),
        max_concurrency=concurrency,
    ) as run:  # fmt: skip
        return await mapped(run, items, concurrency)


async def rostered_map(folder: str, items: int, concurrency: int, roster: str) -> dict[str, Any]:
    """By the member of a roster; `median`: of the seconds that a call took."""
    async with open_run(
        "bench", roster=roster, store=folder, budget=Budget(usd=1.0), max_concurrency=concurrency
    ) as run:
        found = await mapped(run, items, concurrency)
        await run.flush()
        found["median"] = median(run.store.read.latencies("rules", "function:slow:rate@run", "map"))
    return found


async def http_script(folder: str, items: int, concurrency: int, url: str) -> dict[str, Any]:
    """The same as a user writes it, with what `fanfold` exports and nothing else."""
    import fanfold as ff

    member = ff.openai(
        MODEL, base_url=url, price={"input": 1.0, "output": 5.0}, max_tokens=MAX_TOKENS,
        limits={"concurrency": concurrency},
    )  # fmt: skip
    async with ff.open_run(
        "bench", members=[member], store=folder, budget=ff.Budget(usd=1000.0),
        max_concurrency=concurrency,
    ) as run:  # fmt: skip
        found = await ff.map_reduce(
            run, rows(items), prompt=PROMPT, schema=SCHEMA, concurrency=concurrency,
            reduce=ff.fold.count("rating"),
        )  # fmt: skip
    if found.receipt.passed != items:
        raise RuntimeError(f"not all passed: {found.receipt}")
    return {"calls": found.receipt.calls}


async def followed(folder: str, items: int, concurrency: int) -> dict[str, Any]:
    """The function map with a subscriber, and with another process that follows the store."""
    member = Function(function_traits(concurrency), rate)
    seen = 0

    def hook(commit: Commit) -> None:
        nonlocal seen
        seen += len(commit.facts)

    async with open_run(
        "bench", members=[member], store=folder, budget=Budget(usd=1.0, calls=10 * items),
        max_concurrency=concurrency,
    ) as run:  # fmt: skip
        run.store.subscribe(hook)
        command = (sys.executable, __file__, folder)
        follower = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert follower.stdout is not None
        await follower.stdout.readline()
        found = await mapped(run, items, concurrency)
    told, _ = await follower.communicate()
    if seen < items or int(told) < items:
        raise RuntimeError(f"{items} items; {seen} facts were heard, {int(told)} endings followed")
    return found


def follow(folder: str) -> None:
    """Ten looks a second, until the run has ended. Prints when it is ready, and in the end how many
    endings of items it saw."""
    follower, ended, closed = StoreFollower(), 0, False
    follower.news(look(folder))
    print("ready", flush=True)
    while not closed:
        time.sleep(0.1)
        for fact, _ in follower.news(look(folder)) or ():
            closed = closed or isinstance(fact, CloseRun)
            ended += len(getattr(fact, "endings", ()))
    print(ended)


async def command_map(folder: str, items: int, concurrency: int) -> None:
    """`true` says nothing, which the usual gate refuses; here any reply passes."""
    traits = Traits(
        id="true", kind="command", answerer="command:true@run", shared=False, timeout=60.0,
        limits=MemberLimits(concurrency=concurrency),
    )  # fmt: skip
    prompt = Prompt(Template("{{ item.id }}", name="prompt", known=KNOWN_NAMES))
    terms = Terms("map", lambda task, reply, ask: PASS, concurrency=concurrency)
    async with open_run(
        "bench", members=[CommandMember(traits, ["true"], folder)], store=folder
    ) as run:
        batch = await run.plan(Reviews(items), terms)
        await map_batch(run, batch, terms, prompt)
        if run.receipt().passed != items:
            raise RuntimeError(f"not all passed: {run.receipt()}")


# ── resume ───────────────────────────────────────────────────────────────────────────────────


class Watched:
    """A member that notes when it is first asked. With `instant`, that answers for it."""

    def __init__(self, member: Member, instant: Callable[[Ask], Reply] | None = None) -> None:
        self._member, self._instant = member, instant
        self.traits = member.traits
        self.open, self.close, self.prepare = member.open, member.close, member.prepare
        self.first: float | None = None

    async def ask(self, request: Request, tell: Tell) -> Reply:
        if self.first is None:
            self.first = time.monotonic()
        if self._instant is not None:
            return self._instant(request.ask)
        return await self._member.ask(request, tell)


def _answer(ask: Ask) -> Reply:
    return Reply('{"rating":1}', {"rating": 1}, Usage(100, 8), model=MODEL)


def _member(kind: str, url: str) -> Member:
    return openai(url, 64) if kind == "openai" else Function(function_traits(64), rate)


async def half_done(folder: str, kind: str, done: int, items: int) -> None:
    """A store with a run of `items` of which `done` are done: the budget ended there."""
    member = _member(kind, "http://127.0.0.1:9/v1")
    instant = Watched(member, _answer if kind == "openai" else None)
    options: dict[str, Any] = {"members": [instant], "store": folder, "budget": Budget(calls=done)}
    try:
        async with open_run("bench", **options) as run:
            await map_reduce(run, Reviews(items), prompt=PROMPT, schema=SCHEMA, concurrency=64)
    except Exception as stopped:
        if run.statistics().calls != done:
            raise RuntimeError(f"{run.statistics()}") from stopped


async def resume(folder: str, kind: str, done: int, items: int, url: str) -> dict[str, Any]:
    """Go on, and tell when the first new call was made (on the clock all processes share)."""
    member = Watched(_member(kind, url))
    options: dict[str, Any] = {"members": [member], "store": folder, "budget": Budget(usd=1000.0)}
    async with open_run("bench", **options) as run:
        found = await mapped(run, items, 64)
    if found["calls"] != items - done:
        raise RuntimeError(f"{found['calls']} calls for {items - done} items")
    return {**found, "first": member.first}


if __name__ == "__main__":
    follow(sys.argv[1])
