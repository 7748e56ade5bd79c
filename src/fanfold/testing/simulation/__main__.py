"""Many worlds, one seed after the other; or one of them again.

python -m fanfold.testing.simulation [--schedules N] [--first SEED] [--cores N] [--sites]
python -m fanfold.testing.simulation --seed SEED
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from fanfold.testing.simulation.draw import world_of
from fanfold.testing.simulation.places import ELSEWHERE, await_sites, reason_of
from fanfold.testing.simulation.shrink import as_test, failure_of, shrink
from fanfold.testing.simulation.simulate import WorldReport, simulate
from fanfold.testing.simulation.storage import WorldDatabase, new_database

CHUNK = 250
OF_GARBAGE = 8  # worlds that are thrown away together: more of them do not fit into the caches
OFTEN = 20  # crashes at each place


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


class WorldTally(NamedTuple):
    """What many worlds came to. `uncrashed`: those in which nothing was killed; `seconds`: CPU time."""

    schedules: int
    steps: int
    uncrashed: int
    seconds: float
    crashes: Counter[str]
    commits: Counter[str]
    awaits: Counter[str]
    faults: Counter[str]
    behaviours: Counter[str]
    failed: tuple[tuple[int, str], ...]

    @staticmethod
    def none() -> WorldTally:
        return WorldTally(
            0, 0, 0, 0.0, Counter(), Counter(), Counter(), Counter(), Counter(), ()
        )  # fmt: skip

    def __add__(self, other: WorldTally) -> WorldTally:  # type: ignore[override]
        return WorldTally(
            self.schedules + other.schedules,
            self.steps + other.steps,
            self.uncrashed + other.uncrashed,
            self.seconds + other.seconds,
            self.crashes + other.crashes,
            self.commits + other.commits,
            self.awaits + other.awaits,
            self.faults + other.faults,
            self.behaviours + other.behaviours,
            self.failed + other.failed,
        )

    def with_world(self, one: WorldReport) -> WorldTally:
        """In place, as far as there are counters: there are many worlds."""
        for name in ("crashes", "commits", "awaits", "faults", "behaviours"):
            getattr(self, name).update(getattr(one, name))
        return self._replace(
            schedules=self.schedules + 1,
            steps=self.steps + one.steps,
            uncrashed=self.uncrashed + (not one.crashes),
        )


def carry_out(first: int, count: int) -> WorldTally:
    """So many worlds in this process. What they leave is in circles, and small: it is thrown away after
    every few of them, with coroutines of dead processes that nobody ever awaited."""
    began, db, tally = time.process_time(), new_database(), WorldTally.none()
    gc.collect()
    gc.freeze()
    gc.disable()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        for seed in range(first, first + count):
            tally = _with_seed(tally, seed, db)
            if seed % OF_GARBAGE == 0 or seed == first + count - 1:
                gc.collect()
    gc.enable()
    return tally._replace(seconds=time.process_time() - began)


def _with_seed(tally: WorldTally, seed: int, db: WorldDatabase) -> WorldTally:
    try:
        return tally.with_world(simulate(world_of(seed), db))
    except AssertionError as error:
        failed = (*tally.failed, (seed, str(error)))
        return tally._replace(schedules=tally.schedules + 1, failed=failed)


def many(first: int, count: int, cores: int) -> WorldTally:
    """With a line now and then, of how far it is."""
    starts = range(first, first + count, CHUNK)
    sizes = [min(CHUNK, first + count - start) for start in starts]
    tally, began = WorldTally.none(), time.monotonic()
    with ProcessPoolExecutor(cores) as pool:
        for n, part in enumerate(pool.map(carry_out, starts, sizes)):
            tally += part
            if (n + 1) % 20 == 0:
                took = time.monotonic() - began
                sys.stderr.write(
                    f"{tally.schedules:,} of {count:,} schedules in {took:.0f} s,"
                    f" {tally.seconds:.0f} s of CPU, {len(tally.failed)} failed\n"
                )
    return tally


def told(tally: WorldTally, seconds: float, *, sites: bool) -> str:
    hit = Counter({site: tally.awaits.get(site, 0) for site in await_sites()})
    rare = sorted(site for site, n in hit.items() if 0 < n < OFTEN)
    lines = [
        f"{tally.schedules:,} schedules, {tally.steps:,} steps in {seconds:.0f} s,"
        f" {tally.seconds:.0f} s of CPU; {sum(tally.crashes.values()):,} processes were killed,"
        f" none in {tally.uncrashed} schedules",
        _line("where", tally.crashes),
        _line("faults", tally.faults),
        _line("services", tally.behaviours),
        _line("facts of the commits that they were killed at", tally.commits),
        f"awaits of run/: {sum(n >= OFTEN for n in hit.values())} of {len(hit)} were hit {OFTEN} times"
        f" or more, {len(rare)} less often, {sum(not n for n in hit.values())} never; those of"
        f" {', '.join(ELSEWHERE)} are no part of a simulation",
    ]
    if sites:
        lines += [f"{n:7,}  {site}" for site, n in sorted(hit.items())]
    lines += [f"seldom ({hit[site]}): {site}" for site in rare]
    lines += [f"never: {site}{_why(site)}" for site, n in sorted(hit.items()) if not n]
    lines += [f"FAILED seed {seed}: {error}" for seed, error in tally.failed[:20]]
    lines.append(f"{len(tally.failed)} failed" if tally.failed else "no promise was broken")
    return "\n".join(lines)


def _why(site: str) -> str:
    reason = reason_of(site)
    return f": {reason}" if reason else ""


def _line(name: str, counts: Counter[str]) -> str:
    return f"{name}: " + ", ".join(f"{what} {n:,}" for what, n in sorted(counts.items()))


def replay(seed: int) -> int:
    """Twice, with the same trace; what fails is made small and printed as a test."""
    world, db = world_of(seed), new_database()
    if (error := failure_of(world, db)) is not None:
        _say(f"seed {seed}: {error}\n{world}\n\nas small as it can be:\n")
        small = shrink(world)
        _say(as_test(small, failure_of(small, db)))
        return 1
    first, again = simulate(world, db), simulate(world, db)
    _say(f"{world}\n{first}\ntrace {first.trace:x}, again {again.trace:x}")
    return int(first.trace != again.trace)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fanfold.testing.simulation")
    parser.add_argument("--seed", type=int, help="only this one, twice; made small if it fails")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--schedules", type=int, default=100_000, help="how many")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sites", action="store_true", help="list each place of a crash")
    options = parser.parse_args()
    if options.seed is not None:
        return replay(options.seed)
    if options.schedules < 1 or options.cores < 1:
        parser.error("--schedules and --cores must be 1 or more")
    began = time.monotonic()
    tally = many(options.first, options.schedules, options.cores)
    _say(told(tally, time.monotonic() - began, sites=options.sites))
    if tally.failed:
        return replay(tally.failed[0][0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
