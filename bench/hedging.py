"""Hedging scored on recorded latencies of real models, through the engine on a virtual clock.

    python bench/hedging.py [--data FILE] [--maps N]

Prints a Markdown table. FILE is a CSV with `model`, `latency_ms` and `completion_tokens`; by default
the copy in tests/data. Each map is 500 calls of one member, 16 at once; a call takes as long as one
recorded call of that model, drawn at random, and so does its second request. That is the best case:
a request takes long by chance. In the last column a second request takes as long as a recorded call
whose answer is about as long as that of the first: where long answers are why calls take long,
nothing can be gained.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from math import ceil
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from fanfold.journal.opening import open_store
from fanfold.patterns.arguments import PatternOptions
from fanfold.patterns.map_reduce import map_reduce
from fanfold.price import Price
from fanfold.run.member_sources import GivenMembers
from fanfold.run.open import finish
from fanfold.run.record import start
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberLimits, Request, Tell
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget, Hedge

DATA = Path(__file__).parent.parent / "tests" / "data" / "llm_calls_recorded" / "latencies.csv"
CALLS, AT_ONCE, EXTRA = 500, 16, 0.05
NEAR = 10  # calls with answers a little shorter, and so many with a little longer ones
POOLED = "all together"


class Call(NamedTuple):
    tokens: int
    seconds: float


Draw = Callable[[str, int], float]
"""How long the n-th request (from 0) with this prompt takes."""


def recorded(file: Path = DATA) -> dict[str, list[Call]]:
    """By model, sorted by the length of the answer; all together under `POOLED`."""
    calls: dict[str, list[Call]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            call = Call(int(row["completion_tokens"]), int(row["latency_ms"]) / 1000)
            for model in (row["model"], POOLED):
                calls.setdefault(model, []).append(call)
    return {model: sorted(found) for model, found in calls.items()}


def by_chance(calls: list[Call], seed: int) -> Draw:
    """The first request of a prompt is the same with and without hedging."""
    return lambda prompt, n: Random(f"{seed} {prompt} {n}").choice(calls).seconds


def as_long(calls: list[Call], seed: int) -> Draw:
    """A second request brings an answer about as long as that of the first."""

    def draw(prompt: str, n: int) -> float:
        first = Random(f"{seed} {prompt} 0").choice(calls)
        if n == 0:
            return first.seconds
        at = bisect_left(calls, first)
        return Random(f"{seed} {prompt} {n}").choice(calls[max(0, at - NEAR) : at + NEAR]).seconds

    return draw


class Timed:
    """A model that takes as long as it is told, and knows how long each ask had to wait."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.traits = traits(
            "model", price=Price(1.0, 5.0), timeout=0.0, limits=MemberLimits(concurrency=AT_ONCE)
        )
        self._sent: dict[str, list[float]] = {}
        self.waited: dict[str, float] = {}

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        return Request(ask, b"", 1100, 100)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        prompt, now = request.ask.messages[0].content, asyncio.get_running_loop().time
        sent = self._sent.setdefault(prompt, [])
        sent.append(now())
        await asyncio.sleep(self._draw(prompt, len(sent) - 1))
        self.waited.setdefault(prompt, now() - sent[0])
        return Reply("fine", usage=Usage(50, 50))

    @property
    def calls(self) -> int:
        return sum(len(sent) for sent in self._sent.values())


def mapped(draw: Draw, hedge: Hedge | None, folder: Path) -> tuple[Timed, Receipt]:
    """One map, to its end."""
    member = Timed(draw)

    async def main(clock: VirtualClock) -> Receipt:
        journal = open_store(folder, thread=False)
        try:
            record = await start(journal, "hedging", clock, Budget())
            run = Run(journal, record, GivenMembers(member), Settings(), clock)
            items = [f"item {n}" for n in range(CALLS)]
            how: PatternOptions = {"concurrency": AT_ONCE}
            if hedge is not None:
                how["hedge"] = hedge
            await map_reduce(run, items, prompt="Say {{ item.text }}", reduce=None, **how)
            return await finish(journal, run)
        finally:
            journal.close()

    return member, run_virtual(main)


def p99(member: Timed) -> float:
    times = sorted(member.waited.values())
    return times[ceil(0.99 * len(times)) - 1]


class Scored(NamedTuple):
    """Medians over the maps, but `extra` is the most of any: second requests per call."""

    plain: float
    hedged: float
    cut: float
    extra: float


def score(draws: list[Draw]) -> Scored:
    plain, hedged, cuts, extra = [], [], [], 0.0
    for draw in draws:
        with tempfile.TemporaryDirectory(dir=_memory()) as folder:
            without, _ = mapped(draw, None, Path(folder) / "plain")
            with_it, _ = mapped(draw, Hedge(EXTRA), Path(folder) / "hedged")
        plain.append(p99(without))
        hedged.append(p99(with_it))
        cuts.append(1 - hedged[-1] / plain[-1])
        extra = max(extra, with_it.calls / without.calls - 1)
    return Scored(median(plain), median(hedged), median(cuts), extra)


def quantile(calls: list[Call], share: float) -> float:
    return sorted(call.seconds for call in calls)[ceil(share * len(calls)) - 1]


def _tail(calls: list[Call]) -> float:
    """How heavy it is: the heaviest come first in the table."""
    return quantile(calls, 0.99) / quantile(calls, 0.95)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--maps", type=int, default=11, help="maps of each member")
    given = parser.parse_args()
    found = sorted(recorded(given.data).items(), key=lambda one: -_tail(one[1]))
    print("| member | recorded | p50 | p95 | p99 of a map | hedged | cut | extra calls | as long |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for model, calls in found:
        chance = score([by_chance(calls, seed) for seed in range(given.maps)])
        alike = score([as_long(calls, seed) for seed in range(given.maps)])
        p50, p95 = quantile(calls, 0.5), quantile(calls, 0.95)
        print(
            f"| {model} | {len(calls):,} | {p50:.1f} s | {p95:.1f} s | {chance.plain:.1f} s"
            f" | {chance.hedged:.1f} s | {chance.cut:.0%} | {chance.extra:.1%} | {alike.cut:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
