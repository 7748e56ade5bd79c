"""A member that says how long to wait (429) is waited for, but only where nobody else can go on."""

from __future__ import annotations

import asyncio
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fanfold.errors import RateLimited
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberLimits
from fanfold.work.outcome import Receipt
from tests.flow.simulation import Meanwhile, Scene, outcomes, play, words

OK = Reply("fine", usage=Usage(10, 10))
SOON = 10.0
WAIT = 300.0


def refusing(id: str = "a") -> Scripted:
    told = RateLimited(f"{id}: rate limited (429)", retry_after=WAIT)
    return Scripted(lambda ask, n: told, traits(id, limits=MemberLimits(concurrency=2)))


def busy(id: str = "b") -> Scripted:
    """One call after the other, of 10 seconds each."""
    return Scripted(lambda ask, n: OK, traits(id, limits=MemberLimits(concurrency=1)), SOON)


def after(seconds: float, act: Any) -> Meanwhile:
    async def meanwhile(run: Run, work: asyncio.Future[Any]) -> None:
        await asyncio.sleep(seconds)
        await act(run)

    return meanwhile


def played(
    store: Path, *members: Scripted, items: int = 6, meanwhile: Meanwhile | None = None
) -> Receipt:
    scene = Scene(store, members, words(items), how={"concurrency": 3, "reduce": None})
    return play(scene, meanwhile=meanwhile)


def test_what_was_refused_goes_to_whoever_is_free_before_that(memory_path: Path) -> None:
    """All others were busy when it was refused."""
    receipt = played(memory_path, refusing(), busy())
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 6})
    assert receipt.seconds == pytest.approx(6 * SOON)


def test_a_member_that_comes_meanwhile_is_asked_at_once(memory_path: Path) -> None:
    async def register(run: Run) -> None:
        run.register(busy())

    receipt = played(memory_path, refusing(), meanwhile=after(5.0, register))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 6})
    assert receipt.seconds == pytest.approx(5.0 + 6 * SOON)


def test_a_member_that_is_switched_off_meanwhile_is_not_waited_for(memory_path: Path) -> None:
    """Also where everything that is left waits by itself."""

    async def switch_off(run: Run) -> None:
        await run.order("set", "a=off")

    receipt = played(memory_path, refusing(), items=2, meanwhile=after(5.0, switch_off))
    assert (receipt.status, receipt.passed) == ("paused", 0)
    assert receipt.reason is not None and "switched off" in receipt.reason
    assert receipt.seconds == pytest.approx(5.0, abs=0.5)


def test_nobody_asks_before_the_time_that_was_told(memory_path: Path) -> None:
    """Not even when an order is given meanwhile."""

    async def more(run: Run) -> None:
        await run.order("set", "concurrency=5")

    times: list[float] = []

    def script(ask: Ask, n: int) -> Reply | Exception:
        times.append(asyncio.get_running_loop().time())
        return OK if n else RateLimited("a: rate limited (429)", retry_after=WAIT)

    member = Scripted(script, traits("a", limits=MemberLimits(concurrency=1)))
    receipt = played(memory_path, member, meanwhile=after(5.0, more))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 6})
    assert times[1] - times[0] >= WAIT


@pytest.mark.parametrize("at_once", [1, 4, 8])
@pytest.mark.parametrize("jitter", [0.0, 0.05])
def test_a_slow_account_that_says_how_long_to_wait_fails_no_item(
    memory_path: Path, at_once: int, jitter: float
) -> None:
    """One call in five seconds, after three at once. Whoever was refused is the first to go then: with one
    call at a time, another took what the account gave each time, and the refused one failed."""
    chance, left, last = Random(1), 3.0, 0.0

    async def script(ask: Ask, n: int) -> Reply | Exception:
        nonlocal left, last
        await asyncio.sleep(chance.random() * jitter)
        now = asyncio.get_running_loop().time()
        left, last = min(3.0, left + (now - last) / 5), now
        if left < 1:
            told = float(ceil((1 - left) * 5))
            return RateLimited("a: rate limited (429)", retry_after=told)
        left -= 1
        await asyncio.sleep(0.5)
        return OK

    member = Scripted(script, traits("a", limits=MemberLimits(concurrency=at_once)))
    scene = Scene(memory_path, (member,), words(60), how={"concurrency": at_once, "reduce": None})
    receipt = play(scene)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 60})
    assert receipt.seconds <= 1.1 * 57 * 5
    assert len(member.asked) <= 60 + 66
