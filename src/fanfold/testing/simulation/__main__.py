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
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from fanfold.testing.simulation.places import await_sites
from fanfold.testing.simulation.shrink import as_test, failure_of, shrink
from fanfold.testing.simulation.simulate import simulate
from fanfold.testing.simulation.storage import new_database
from fanfold.testing.simulation.world import world_of

CHUNK = 250


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


class WorldTally(NamedTuple):
    """What many worlds came to."""

    schedules: int
    steps: int
    crashes: Counter[str]
    awaits: Counter[str]
    faults: Counter[str]
    behaviours: Counter[str]
    failed: list[tuple[int, str]]

    def __add__(self, other: WorldTally) -> WorldTally:  # type: ignore[override]
        return WorldTally(
            self.schedules + other.schedules,
            self.steps + other.steps,
            self.crashes + other.crashes,
            self.awaits + other.awaits,
            self.faults + other.faults,
            self.behaviours + other.behaviours,
            self.failed + other.failed,
        )


NOTHING = WorldTally(0, 0, Counter(), Counter(), Counter(), Counter(), [])


def carry_out(first: int, count: int) -> WorldTally:
    """So many worlds in this process."""
    tally = NOTHING
    db = new_database()
    gc.freeze()
    for seed in range(first, first + count):
        try:
            one = simulate(world_of(seed), db)
            tally += WorldTally(
                1, one.steps, one.crashes, one.awaits, one.faults, one.behaviours, []
            )
        except AssertionError as error:
            tally += NOTHING._replace(schedules=1, failed=[(seed, str(error))])
    return tally


def many(first: int, count: int, cores: int) -> WorldTally:
    starts = range(first, first + count, CHUNK)
    sizes = [min(CHUNK, first + count - start) for start in starts]
    if cores == 1:
        return sum(map(carry_out, starts, sizes), NOTHING)
    with ProcessPoolExecutor(cores) as pool:
        parts = pool.map(carry_out, starts, sizes)
        return sum(parts, NOTHING)


def told(tally: WorldTally, seconds: float, *, sites: bool) -> str:
    crashes = sum(tally.crashes.values())
    commits = {place: n for place, n in tally.crashes.items() if place != "await"}
    awaits, ours = tally.awaits, await_sites()
    lines = [
        f"{tally.schedules:,} schedules, {tally.steps:,} steps, {crashes:,} crashes in {seconds:.0f} s:"
        f" {sum(commits.values()):,} at {len(commits)} kinds of commits, the others between two steps;"
        f" tasks that waited at {len(awaits)} places ({len(ours & awaits.keys())} of the {len(ours)}"
        " awaits of run/)",
        _line("faults", tally.faults),
        _line("services", tally.behaviours),
    ]
    if sites:
        lines += [f"{n:7,}  {place}" for place, n in sorted(commits.items())]
        lines += [f"{awaits.get(site, 0):7,}  {site}" for site in sorted({*ours, *awaits})]
    lines += [f"FAILED seed {seed}: {error}" for seed, error in tally.failed[:20]]
    lines.append(f"{len(tally.failed)} failed" if tally.failed else "no promise was broken")
    return "\n".join(lines)


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
    began = time.monotonic()
    tally = many(options.first, options.schedules, options.cores)
    _say(told(tally, time.monotonic() - began, sites=options.sites))
    if tally.failed:
        return replay(tally.failed[0][0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
