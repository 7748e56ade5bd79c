"""How tests wait: for a condition, and never for a time that a slow machine could need.

A deadline is only a guard against waiting for ever, so it is long.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LONG = 600.0
"""Seconds after which something that should have happened never will. With 25 processes on two cores an
import alone has taken more than 180."""

SHORTEST, LONGEST = 0.002, 0.05


def wait_until(true: Callable[[], object], seconds: float = LONG) -> None:
    """Look again and again, less often the longer it takes: looking may cost a process."""
    deadline, pause = time.monotonic() + seconds, SHORTEST
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(pause)
        pause = min(2 * pause, LONGEST)


def however_slow(check: Callable[[float], object]) -> None:
    """For a rule about real time itself: what has to happen within a time may come too late on a
    slow machine. So it is tried again with all times longer, and the last try counts. A rule that
    is broken is broken at any scale.
    """
    for scale in (1.0, 6.0):
        try:
            check(scale)
            return
        except (AssertionError, OSError):
            continue
    check(36.0)
