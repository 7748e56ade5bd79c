"""The one place where async begins: on uvloop where it exists."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fanfold.work.arguments import public

T = TypeVar("T")
_new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
try:
    from uvloop import new_event_loop as _new_loop
except ImportError:
    """Windows, or an installation without it: asyncio's own loop serves."""


@public
def run_sync(main: Coroutine[Any, Any, T]) -> T:
    """Run an async function to its end, from ordinary code.

    What was loaded until now is left alone by the garbage collector, which then runs less often:
    a run makes many records, and none of them in circles.
    """
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(10_000, 20, 50)
    try:
        return _run(main)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(main)
