"""A program that maps many items through a function and tells its peak memory.

Arguments: the store, the run's name, how many items. It prints a Scale as JSON.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fanfold.clock import RealClock
from fanfold.journal.opening import open_store
from fanfold.members.function import Function
from fanfold.patterns.fold import total
from fanfold.price import FREE
from fanfold.testing.member import traits
from fanfold.work.item import Item
from fanfold.work.outcome import Receipt
from tests.flow.simulation import Scene, carry_out


class Scale(msgspec.Struct, frozen=True):
    receipt: Receipt
    peak_mb: float
    seconds: float
    before_mb: float


class Numbers:
    """A Source of so many small records that never sit in memory together."""

    def __init__(self, count: int) -> None:
        self._count = count

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        for n in range(self._count):
            if n >= len(skip) or not skip[n]:
                yield n, Item(str(n), {"n": n})

    def fingerprint(self) -> str:
        return f"numbers below {self._count}"


def double(data: dict[str, int]) -> dict[str, int]:
    return {"twice": 2 * data["n"]}


def peak_mb() -> float:
    """Of this program alone: on Linux the usual figure also knows the one who started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def main(store: Path, name: str, count: int) -> Scale:
    like = traits(
        "double", kind="function", answerer="function:double", takes="items", shared=False,
        metered=False, price=FREE, timeout=0.0,
    )  # fmt: skip
    how = {"prompt": None, "reduce": total("twice"), "concurrency": 64}
    scene = Scene(store, (Function(like, double),), Numbers(count), name=name, how=how)
    before, began = peak_mb(), time.perf_counter()
    journal = open_store(store)
    try:
        receipt = await carry_out(journal, scene, RealClock())
    finally:
        journal.close()
    return Scale(receipt, peak_mb(), time.perf_counter() - began, before)


if __name__ == "__main__":
    folder, run, many = sys.argv[1:]
    sys.stdout.write(msgspec.json.encode(asyncio.run(main(Path(folder), run, int(many)))).decode())
