"""Prompt caches: a map whose asks share a long context, and the same fan-out without anybody going first.

    python bench/caches.py [--asks N] [--at-once N] [--tokens N]

Prints a Markdown table. The model server keeps marked prefixes as Anthropic does: readable once the
reply that wrote them has begun. Its replies begin after 0.25 s and end after 1 s. "Naive" sends the
same marked requests over the same connections, all at once as far as the slots go.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import fanfold as ff
from fanfold.members.anthropic import Anthropic
from fanfold.price import Price, cost
from fanfold.run.loop import run_sync
from fanfold.testing.caches import ServerCaches
from fanfold.testing.script import Asked, Says
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Ask, Message
from fanfold.work.member import Traits, tell_nobody

PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
MODEL = "claude-sonnet-4-5"


class Line(NamedTuple):
    way: str
    seconds: float
    writes: int
    billed: int  # nano-dollars, of the input
    plain: int  # the same without caches


def says(asked: Asked) -> Says:
    return Says(text="fine", latency=1.0, first=0.25)


async def naive(url: str, asks: int, at_once: int, context: str) -> None:
    traits = Traits(id="n", kind="anthropic", answerer="", model=MODEL, price=PRICE, max_tokens=50)
    member, slots = Anthropic(traits, url, lambda: "key"), asyncio.Semaphore(at_once)

    async def one(n: int) -> None:
        messages = (Message("system", context), Message("user", f"say {n}"))
        async with slots:
            request = member.prepare(Ask(messages, shared=len(context)))
            await member.ask(request, tell_nobody)

    await member.open()
    await asyncio.gather(*(one(n) for n in range(asks)))
    await member.close()


async def ours(url: str, asks: int, at_once: int, context: str, cache: str, store: Path) -> None:
    member = ff.anthropic(
        MODEL, id="m", base_url=url, key="none", price=PRICE, max_tokens=50, concurrency=at_once
    )
    async with ff.open_run("caches", members=[member], store=store, allow_paid=True) as run:
        await ff.map_reduce(
            run, [{"id": str(n)} for n in range(asks)], prompt="say {{ item.id }}",
            context=context, cache=cache, concurrency=at_once, member="m",
        )  # fmt: skip


async def measured(way: str, asks: int, at_once: int, context: str) -> Line:
    caches = ServerCaches()
    with tempfile.TemporaryDirectory() as folder:
        async with ModelServer(says, prices=PRICE, caches=caches) as server:
            began = time.perf_counter()
            if way == "naive":
                await naive(server.url, asks, at_once, context)
            else:
                cache = "off" if way.endswith("off") else "auto"
                await ours(server.url, asks, at_once, context, cache, Path(folder) / "store")
            seconds = time.perf_counter() - began
            paid = server.books.paid
    billed = sum(one.cost - cost(PRICE, 0, one.usage.output) for one in paid)
    plain = sum(cost(PRICE, one.usage.total - one.usage.output, 0) for one in paid)
    return Line(way, seconds, caches.writes, billed, plain)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--asks", type=int, default=300)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=20_000)
    given = parser.parse_args()
    context = "rule" * given.tokens
    run_sync(measured("fanfold", 2, 2, "rule"))  # all is imported then
    print(f"{given.asks} asks, {given.at_once} at once, {given.tokens:,} tokens shared\n")
    print(
        "| way | seconds | writes | input billed | of that without caches |\n|---|---:|---:|---:|---:|"
    )
    for way in ("fanfold", "naive", "fanfold, cache: off"):
        line = run_sync(measured(way, given.asks, given.at_once, context))
        share = line.billed / line.plain
        print(
            f"| {way} | {line.seconds:.1f} | {line.writes} | ${line.billed / 1e9:.2f} | {share:.1%} |"
        )


if __name__ == "__main__":
    main()
