"""Refusals (429) without end: of one ask, which fails; of an account, which pauses the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fanfold.clock import RealClock
from fanfold.errors import RateLimited
from fanfold.journal.opening import open_store
from fanfold.members.openai import OpenAI
from fanfold.members.roster import RosterSettings
from fanfold.run.throttle import Refusals
from fanfold.testing.member import Script, Scripted, traits
from fanfold.testing.script import Says, by_prompt
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberLimits
from tests.flow.simulation import Scene, carry_out, outcomes, play, words

OK = Reply("fine", usage=Usage(10, 10))
REFUSED = RateLimited("a: rate limited (429)")


def now() -> float:
    return asyncio.get_running_loop().time()


def item_of(ask: Ask) -> int:
    """Which of `words(n)` it asks about."""
    return int(ask.messages[0].content.rpartition(" ")[2])


def scene(store: Path, script: Script, items: int, at_once: int = 16) -> Scene:
    member = Scripted(script, traits("a", limits=MemberLimits(concurrency=at_once)))
    how = {"concurrency": at_once, "reduce": None}
    return Scene(store, (member,), words(items), how=how)


def refusing(those: set[int], wait: float | None = None) -> Script:
    """Answers after a second; asks about some items are refused at once, for ever."""

    async def script(ask: Ask, n: int) -> Reply | Exception:
        if item_of(ask) in those:
            return RateLimited("a: rate limited (429)", retry_after=wait)
        await asyncio.sleep(1.0)
        return OK

    return script


# ── one ask ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wait", [None, 1.0])
def test_asks_that_are_refused_for_ever_fail_while_the_others_go_on(
    memory_path: Path, wait: float | None
) -> None:
    """Also where the member says when to come back: it holds nobody for minutes."""
    bad = {3, 77, 150, 151}
    given = scene(memory_path, refusing(bad, wait), 300)
    receipt = play(given)
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 296, "failed": 4})
    assert receipt.seconds <= 2 * 300 / 16 + 60.0
    times = Counter(given.members[0].asked)  # type: ignore[attr-defined]
    assert sum(times.values()) - 296 <= 4 * 12
    [why] = receipt.reasons
    assert why.items == 4
    assert "a: rate limited (429) (refused " in why.reason
    assert why.reason.endswith("while other calls were answered)")


def test_all_sent_at_once_and_only_the_refused_are_left(memory_path: Path) -> None:
    """The others were sent after them and answered, so that it is not the account."""
    receipt = play(scene(memory_path, refusing({3, 6}), 40, at_once=64))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 38, "failed": 2})
    assert receipt.seconds <= 240.0


def test_a_resumed_run_asks_for_them_again(memory_path: Path) -> None:
    given = scene(memory_path, refusing({3}), 40)
    assert outcomes(play(given)) == {"passed": 39, "failed": 1}
    well = Scripted(lambda ask, n: OK, traits("a"))
    again = play(replace(given, members=(well,)), resume=True)
    assert (outcomes(again), len(well.asked)) == ({"passed": 40}, 1)


def test_another_member_that_may_answer_is_asked_first(memory_path: Path) -> None:
    """Also one that is otherwise not asked yet."""
    first = Scripted(refusing({3, 77}), traits("a", limits=MemberLimits(concurrency=16)))
    second = Scripted(lambda ask, n: OK, traits("b"), latency=1.0)
    how = {"member": "a", "fallback": ["b"], "concurrency": 16, "reduce": None}
    receipt = play(Scene(memory_path, (first, second), words(200), how=how))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 200})


def test_refusals_by_chance_fail_nobody(memory_path: Path) -> None:
    """Three calls in ten are refused, whatever is asked."""
    chance = Random(1)

    async def script(ask: Ask, n: int) -> Reply | Exception:
        await asyncio.sleep(0.5)
        return REFUSED if chance.random() < 0.3 else OK

    assert outcomes(play(scene(memory_path, script, 400, 32))) == {"passed": 400}


def test_a_strict_limit_fails_nobody_however_often_asks_are_refused(memory_path: Path) -> None:
    """One call in a minute, and 40 wait: each is refused again and again, and is answered."""
    last = -60.0

    async def script(ask: Ask, n: int) -> Reply | Exception:
        nonlocal last
        if now() - last < 60.0:
            return REFUSED
        last = now()
        return OK

    assert outcomes(play(scene(memory_path, script, 60, 40))) == {"passed": 60}


def test_over_http_the_books_count_a_few_requests_for_an_ask_that_is_always_refused(
    tmp_path: Path,
) -> None:
    asyncio.run(_over_http(tmp_path))


async def _over_http(store: Path) -> None:
    slots = MemberLimits(concurrency=8)
    like = traits("http", kind="openai", answerer="openai:m", model="m", remote=True, limits=slots)
    async with ModelServer(by_prompt({"word 27": Says(status=429)})) as server:
        member = OpenAI(like, server.url, lambda: "key")
        given = Scene(store, (member,), words(40), how={"concurrency": 8, "reduce": None})
        journal = open_store(store)
        try:
            receipt = await carry_out(journal, given, RealClock())
        finally:
            journal.close()
        assert outcomes(receipt) == {"passed": 39, "failed": 1}
        refused = [one for one in server.books.asked if one.status == 429]
        assert (len(server.books) - len(refused), 6 <= len(refused) <= 12) == (39, True)


# ── the account ──────────────────────────────────────────────────────────────────────────────


def test_an_account_that_only_refuses_pauses_the_run_and_no_item_has_failed(
    memory_path: Path,
) -> None:
    """After `max_wait`. Nothing is lost: a resumed run asks for all of them."""
    given = scene(memory_path, lambda ask, n: REFUSED, 10)
    receipt = play(given)
    assert (receipt.status, outcomes(receipt)) == ("paused", {"cancelled": 10})
    assert receipt.reason is not None
    assert receipt.reason.startswith("a: rate limited (429) (nothing but refusals for 1")
    assert receipt.reason.endswith(" minutes; `max_wait` is 10 minutes)")
    assert 600.0 <= receipt.seconds <= 700.0
    assert len(given.members[0].asked) < 100  # type: ignore[attr-defined]
    well = Scripted(lambda ask, n: OK, traits("a"))
    assert outcomes(play(replace(given, members=(well,)), resume=True)) == {"passed": 10}


@pytest.mark.parametrize("items", [1, 5])
def test_short_waits_of_an_account_that_only_refuses_fail_no_item(
    memory_path: Path, items: int
) -> None:
    """For two minutes it says to come back in a second, and no other ask was answered meanwhile."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        told = RateLimited("a: rate limited (429)", retry_after=1.0)
        return told if now() < 120.0 else OK

    receipt = play(scene(memory_path, script, items, 4))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": items})


def test_a_quota_that_ends_in_mid_run_pauses_it_and_no_item_has_failed(memory_path: Path) -> None:
    """100 of 300 are answered; what is refused from then on says nothing about its own prompt."""
    answered = 0

    async def script(ask: Ask, n: int) -> Reply | Exception:
        nonlocal answered
        if answered >= 100:
            return REFUSED
        answered += 1
        await asyncio.sleep(1.0)
        return OK

    receipt = play(scene(memory_path, script, 300, 32))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 100, "cancelled": 200})
    assert receipt.seconds <= 700.0


def test_waits_that_add_up_to_more_than_max_wait_close_the_account(memory_path: Path) -> None:
    """Each is shorter. The reason says when it can be asked again."""
    told = RateLimited("a: rate limited (429)", retry_after=50.0)
    given = scene(memory_path, lambda ask, n: told, 5)
    receipt = play(replace(given, roster=RosterSettings(max_wait=120.0)))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"cancelled": 5})
    assert receipt.reason is not None and "it can be asked again in 50 seconds" in receipt.reason
    assert receipt.seconds <= 120.0


def test_others_take_over_from_an_account_that_only_refuses(memory_path: Path) -> None:
    """Also those that are not asked while it is merely busy; it is looked at now and then."""
    away = Scripted(lambda ask, n: REFUSED, traits("a"))
    well = Scripted(lambda ask, n: OK, traits("b"), latency=1.0)
    how = {"member": "a", "fallback": ["b"], "concurrency": 2, "reduce": None}
    receipt = play(Scene(memory_path, (away, well), words(400), how=how))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 400})
    assert len(well.asked) == 400


# ── how often is too often ───────────────────────────────────────────────────────────────────


def test_the_more_is_refused_the_more_refusals_of_one_ask_it_takes() -> None:
    """Six where a tenth or less is refused. Without others that were answered nothing is certain."""
    quiet, half, nothing_else = Refusals(), Refusals(), Refusals()
    for order in range(2, 202, 2):
        half.refused(order)
    for order in range(2, 6):
        nothing_else.refused(order)
    assert nothing_else.needed(1, 5) > 1000
    assert quiet.needed(1, 201) == 6
    assert half.needed(1, 201) == 20
    assert quiet.needed(1, 1) > 1000


def test_those_that_are_always_refused_do_not_vouch_for_each_other() -> None:
    """Repeated calls do not count, neither as refused nor as answered."""
    refusals = Refusals()
    refusals.refused(2)
    for order in range(30, 130):
        refusals.repeated(order)
    assert refusals.needed(1, 129) == 6


def test_what_is_remembered_of_refusals_is_bounded() -> None:
    """Nothing is concluded from what was forgotten."""
    refusals = Refusals()
    for order in range(1, 70_000):
        refusals.refused(order) if order % 2 else refusals.repeated(order)
    assert len(refusals._refused) + len(refusals._repeats) <= 65_536
    assert refusals.needed(1, 70_000) > 1000
