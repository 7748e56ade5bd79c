"""A clock that jumps: when everything waits, time moves to the next thing that is due.

An hour of backoff takes no time at all, and runs are the same every time.
"""

from __future__ import annotations

from fanfold.clock import EPOCH, VirtualClock, VirtualLoop, run_virtual

__all__ = ["EPOCH", "VirtualClock", "VirtualLoop", "run_virtual"]
