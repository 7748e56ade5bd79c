"""Time and chance. Everything that waits, stamps or draws lots for a run goes through its Clock, so that
tests can move time by hand and a simulation follows from its seed: real, or virtual."""

from __future__ import annotations

import asyncio
import secrets
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
EPOCH = 1_750_000_000.0  # when a virtual clock begins


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


# ── a clock that jumps: when everything waits, time moves to the next thing that is due ──────


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.offset = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("everything waits and nothing is due: a deadlock")
        self.offset += max(timeout, 1e-9)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is virtual. Not for real I/O or threads: it never waits for them."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.offset


class VirtualClock:
    """Reads the time of the virtual loop it is used in. Ids are by chance: two runs that start at the
    same virtual moment may be in one store."""

    random_bits = staticmethod(secrets.randbits)

    def now(self) -> float:
        return EPOCH + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run `main(clock)` to its end on a virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main(VirtualClock()))
