"""The one place where async begins: on uvloop where it exists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
try:
    from uvloop import new_event_loop as _new_loop
except ImportError:
    """Windows, or an installation without it: asyncio's own loop serves."""


def run_sync(main: Coroutine[Any, Any, T]) -> T:
    """Run an async function to its end, from ordinary code."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(main)
