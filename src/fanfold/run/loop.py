"""The one place where async begins: on uvloop where it exists."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Container, Coroutine
from typing import Any, TypeVar

from fanfold.work import held

T = TypeVar("T")
_HANG_UP = getattr(signal, "SIGHUP", None)  # Windows has none
_new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
try:
    from uvloop import new_event_loop as _new_loop
except ImportError:
    """Windows, or an installation without it: asyncio's own loop serves."""


def run_sync(main: Coroutine[Any, Any, T]) -> T:
    """Run an async function to its end, from ordinary code; scripts have `observe/script.py`.

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


def handled_signals() -> frozenset[signal.Signals]:
    """Those that this program handles itself, or ignores. To be asked before the loop begins, which
    handles Ctrl-C."""
    usual = (signal.SIG_DFL, signal.default_int_handler)
    return frozenset(n for n in signal.valid_signals() if signal.getsignal(n) not in usual)


def signal_text(number: signal.Signals) -> str:
    """Why a run paused."""
    return "interrupted by Ctrl-C" if number == signal.SIGINT else f"ended by {number.name}"


def on_ending_signals(
    handler: Callable[[signal.Signals], object],
    *numbers: signal.Signals,
    left_out: Container[signal.Signals] = (),
) -> Callable[[], None]:
    """Call the handler for the signals that end a program: SIGTERM, SIGHUP (its terminal is gone),
    and others that are named. Returns what takes it away again.

    A SIGHUP that is ignored stays so, as `nohup` wants it. It counts once: a terminal that is closed
    may send it twice, and that is not somebody who is out of patience.

    While a plain function holds the loop up, the handler is called at once, and the second signal ends
    the function.
    """
    loop, process = asyncio.get_running_loop(), os.getpid()
    heard, calling, over = list[int](), False, False
    listened = {signal.SIGTERM, *numbers}
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) != signal.SIG_IGN:
        listened.add(_HANG_UP)
    before = {number: signal.getsignal(number) for number in listened if number not in left_out}

    def on(number: signal.Signals) -> None:
        if not over and (number != _HANG_UP or not heard):
            handler(number)
        heard.append(number)

    def receive(number: int, frame: object) -> None:
        nonlocal calling
        if loop.is_closed() or os.getpid() != process:  # nobody listens there
            remove()
            signal.raise_signal(number)
        elif not held.loop.held or calling:
            loop.call_soon_threadsafe(on, signal.Signals(number))
        else:
            calling = True
            on(signal.Signals(number))
            calling = False
            if len(heard) > 1:
                held.loop.held = False
                raise KeyboardInterrupt

    def remove() -> None:
        nonlocal over
        over = True
        for number, earlier in before.items():
            if signal.getsignal(number) is receive:
                signal.signal(number, earlier)

    for number in before:
        signal.signal(number, receive)
    return remove


def no_interrupts_for(seconds: float) -> None:
    """Ctrl-C does nothing so long: what it was pressed for, perhaps several times, is over."""
    until = time.monotonic() + seconds

    def on(number: int, frame: object) -> None:
        if time.monotonic() >= until:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on)
