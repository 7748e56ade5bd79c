"""Time and chance. Everything that waits, stamps or draws lots for a run goes through its Clock, so that
tests can move time by hand and a simulation follows from its seed."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Protocol


class Clock(Protocol):
    """`now` is for stamps (seconds since the epoch), `monotonic` for measuring and deadlines, `random_bits`
    for names that nobody else has."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...

    def random_bits(self, bits: int) -> int: ...


class RealClock:
    """The machine's clocks, and its source of chance."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)
    random_bits = staticmethod(secrets.randbits)
