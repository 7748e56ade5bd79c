"""A program that maps many items through a function, filters them, and reduces them in a tree.

Arguments: the store, how many items, and `resume` or nothing. It prints a Scale as JSON.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec

from fanfold.clock import RealClock
from fanfold.journal.opening import open_store
from fanfold.members.function import Function
from fanfold.patterns.fold import total
from fanfold.price import FREE
from fanfold.testing.member import traits
from fanfold.work.task import Budget
from tests.flow.scale_child import Numbers, Scale, double, peak_mb
from tests.flow.simulation import Scene, carry_out

KEPT = 3  # one of so many passes the filter


async def main(store: Path, count: int, resume: bool) -> Scale:
    like = traits(
        "double", kind="function", answerer="function:double", takes="items", shared=False,
        metered=False, price=FREE, timeout=0.0,
    )  # fmt: skip
    how = {
        "prompt": None, "concurrency": 64, "reduce": total("twice"), "fan_in": 10,
        "keep": lambda value: value["twice"] % KEPT == 0,
    }  # fmt: skip
    scene = Scene(store, (Function(like, double),), Numbers(count), Budget(), "tree", how)
    before, began = peak_mb(), time.perf_counter()
    journal = open_store(store)
    try:
        receipt = await carry_out(journal, scene, RealClock(), resume)
    finally:
        journal.close()
    return Scale(receipt, peak_mb(), time.perf_counter() - began, before)


if __name__ == "__main__":
    folder, many, *again = sys.argv[1:]
    scale = asyncio.run(main(Path(folder), int(many), bool(again)))
    sys.stdout.write(msgspec.json.encode(scale).decode())
