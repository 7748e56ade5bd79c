"""The one place where async begins: on uvloop where it exists."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    from uvloop import new_event_loop
except ImportError:  # Windows, or an installation without it
    new_event_loop = asyncio.new_event_loop

T = TypeVar("T")


def run_sync(main: Coroutine[Any, Any, T]) -> T:
    """Run an async function to its end, from ordinary code."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
