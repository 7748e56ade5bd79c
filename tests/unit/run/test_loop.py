"""Signals that end a program: which are listened to, and how often each counts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1

import pytest

from fanfold.run.loop import on_ending_signals


@pytest.fixture(params=[signal.SIG_DFL, signal.SIG_IGN], ids=["usual", "nohup"])
def hang_up(request: pytest.FixtureRequest) -> Iterator[object]:
    before = signal.signal(SIGHUP, request.param)
    yield request.param
    signal.signal(SIGHUP, before)


def heard_of(*sent: signal.Signals) -> list[signal.Signals]:
    """What the handler hears when these arrive; SIGINT is listened to as well."""

    async def main() -> list[signal.Signals]:
        heard: list[signal.Signals] = []
        remove = on_ending_signals(heard.append, SIGINT)
        for number in sent:
            os.kill(os.getpid(), number)
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(SIGUSR1, done.set)  # they are heard in the order they came in
        os.kill(os.getpid(), SIGUSR1)
        await done.wait()
        loop.remove_signal_handler(SIGUSR1)
        remove()
        return heard

    return asyncio.run(main())


def test_a_terminal_that_is_closed_counts_once_however_often_it_says_so(hang_up: object) -> None:
    """Somebody who presses Ctrl-C twice is out of patience; a terminal is not."""
    alone = [] if hang_up is signal.SIG_IGN else [SIGHUP]
    assert heard_of(SIGHUP, SIGHUP) == alone
    assert heard_of(SIGTERM, SIGHUP) == [SIGTERM]
    assert heard_of(SIGHUP, SIGINT, SIGINT) == [*alone, SIGINT, SIGINT]


def test_afterwards_the_signals_do_what_they_did_before(hang_up: object) -> None:
    heard_of(SIGTERM)
    assert signal.getsignal(SIGHUP) == hang_up
    assert signal.getsignal(SIGTERM) == signal.SIG_DFL
