"""Limits: the allowed rate is used and not passed, refusals slow us down, dead ends stop us."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fanfold.clock import RealClock
from fanfold.errors import RateLimited, Terminal, Transient
from fanfold.journal.opening import open_store
from fanfold.members.openai import OpenAI
from fanfold.members.roster import RosterSettings
from fanfold.run.breaker import DOWN
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import Script, Scripted, traits
from fanfold.testing.script import key_required
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberLimits
from fanfold.work.outcome import Receipt
from tests.examples import seeds
from tests.flow.simulation import Scene, carry_out, outcomes, play, words

RPM, TPM = 600, 60_000
OK = Reply("fine", usage=Usage(10, 10))


def now() -> float:
    return asyncio.get_running_loop().time()


class Window:
    """At most so much in any 60 seconds, as a provider with a sliding window counts it."""

    def __init__(self, most: int) -> None:
        self.most, self.total = most, 0
        self._taken: deque[tuple[float, int]] = deque()
        self._sum = 0

    def allows(self, amount: int) -> bool:
        while self._taken and self._taken[0][0] <= now() - 60.0:
            self._sum -= self._taken.popleft()[1]
        return self._sum + amount <= self.most

    def take(self, amount: int) -> None:
        self._taken.append((now(), amount))
        self._sum += amount
        self.total += amount


class Enforcing:
    """A script that answers 429 above 600 requests or 60,000 tokens in any minute.

    A call uses `least` to `most` tokens and takes up to `slowest` seconds. Tokens are counted
    when the call arrives; a refused one counts for nothing.
    """

    def __init__(self, seed: int, least: int, most: int, slowest: float = 4.0) -> None:
        self._chance = Random(seed)
        self._usage = (least, most)
        self._slowest = slowest
        self.requests, self.tokens = Window(RPM), Window(TPM)
        self.refused = 0
        self.ended = 0.0

    async def __call__(self, ask: Ask, n: int) -> Reply | Exception:
        total = self._chance.randint(*self._usage)
        seconds = self._chance.uniform(0.2, self._slowest)
        if not (self.requests.allows(1) and self.tokens.allows(total)):
            self.refused += 1
            return RateLimited("429", retry_after=1.0)
        self.requests.take(1)
        self.tokens.take(total)
        await asyncio.sleep(seconds)
        self.ended = now()
        return Reply("fine", usage=Usage(total // 2, total - total // 2))


def limited(most_tokens: int) -> object:
    return traits(
        "limited", max_tokens=most_tokens, limits=MemberLimits(concurrency=256, rpm=RPM, tpm=TPM)
    )


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_where_requests_are_scarce_95_percent_of_them_are_used(
    memory_path: Path, seed: int
) -> None:
    """Small calls: 600 a minute are 30,000 tokens at most. Two minutes, or five in the sweep."""
    server, items = Enforcing(seed, 10, 50), RPM * (5 if seed else 2)
    receipt = enforced(memory_path, server, items=items, most_tokens=50)
    assert outcomes(receipt) == {"passed": items}
    assert server.requests.total / (server.ended / 60) >= 0.95 * RPM
    assert server.refused < 0.01 * items


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_where_tokens_are_scarce_95_percent_of_them_are_used(memory_path: Path, seed: int) -> None:
    """Large calls of very uneven size: 60,000 tokens a minute are about 150 of them. What a call
    takes is known only afterwards; its worst case is four times what it takes on average."""
    server, items = Enforcing(seed, 50, 750), 1000 if seed else 600
    receipt = enforced(memory_path, server, items=items, most_tokens=576)
    assert outcomes(receipt) == {"passed": items}
    minutes = server.ended / 60
    assert server.tokens.total / minutes >= 0.95 * TPM
    assert server.refused < 0.01 * items


def enforced(store: Path, server: Enforcing, *, items: int, most_tokens: int) -> Receipt:
    member = Scripted(server, limited(most_tokens))  # type: ignore[arg-type]
    how = {"concurrency": 128, "reduce": None}
    return play(
        Scene(store, (member,), words(items), how=how, roster=RosterSettings(max_concurrency=128))
    )


# ── refusals ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("told", [2.0, None])
def test_a_storm_of_refusals_completes_without_hammering(
    memory_path: Path, told: float | None
) -> None:
    """One minute of nothing but 429s, with and without a retry-after; 200 items, 32 at once."""
    during: list[float] = []

    def script(ask: Ask, n: int) -> Reply | Exception:
        if now() < 60.0:
            during.append(now())
            return RateLimited("429", retry_after=told)
        return OK

    member = Scripted(script, latency=0.1)
    receipt = play(Scene(memory_path, (member,), words(200), how={"concurrency": 32}))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 200})
    assert len(during) <= 32 + 60 / 2.0 * 2
    late = [moment for moment in during if moment > 10.0]
    assert len(late) <= 50 / 2.0 * 2


def test_in_a_storm_the_work_goes_to_the_member_that_is_well(memory_path: Path) -> None:
    def stormy(ask: Ask, n: int) -> Reply | Exception:
        return RateLimited("429", retry_after=30.0) if now() < 120.0 else OK

    sick = Scripted(stormy, traits("sick"), latency=0.1)
    well = Scripted(lambda ask, n: OK, traits("well"), latency=0.1)
    receipt = play(Scene(memory_path, (sick, well), words(100), how={"concurrency": 8}))
    assert outcomes(receipt) == {"passed": 100}
    assert (len(well.asked), len(sick.asked) <= 8) == (100, True)


def test_after_a_refusal_half_as_many_go_at_once_and_then_more_again(memory_path: Path) -> None:
    flying: list[tuple[float, int]] = []
    refused_at = 8.0

    def script(ask: Ask, n: int) -> Reply | Exception:
        flying.append((now(), member.in_flight))
        early = refused_at <= now() < refused_at + 1.0
        return RateLimited("429", retry_after=1.0) if early else OK

    member = Scripted(script, traits(limits=MemberLimits(concurrency=32)), latency=1.0)
    receipt = play(Scene(memory_path, (member,), words(1200), how={"concurrency": 32}))
    assert outcomes(receipt) == {"passed": 1200}
    assert most(flying, 2.0, 7.0) == 32
    assert 8 <= most(flying, 10.5, 13.0) <= 20
    assert most(flying, 35.0, 45.0) == 32


def most(flying: list[tuple[float, int]], start: float, end: float) -> int:
    return max(many for moment, many in flying if start <= moment <= end)


# ── breakers ─────────────────────────────────────────────────────────────────────────────────


def test_a_bad_key_over_http_costs_one_request(tmp_path: Path) -> None:
    """64 could go at once: the first one goes alone."""
    asyncio.run(_bad_key(tmp_path))


async def _bad_key(store: Path) -> None:
    async with ModelServer(key_required("right"), latency=0.01) as server:
        receipt = await over_http(store, server.url, 200)
        assert len(server.books) == 1
        assert (receipt.status, receipt.passed, receipt.cost_usd) == ("paused", 0, 0.0)
        assert receipt.reason is not None and "http: key refused (401)" in receipt.reason
        assert "\n" not in receipt.reason
        assert sum(outcomes(receipt).values()) == receipt.planned == 200


async def over_http(store: Path, url: str, items: int) -> Receipt:
    slots = MemberLimits(concurrency=64)
    like = traits("http", kind="openai", answerer="openai:m", model="m", remote=True, limits=slots)
    journal = open_store(store)
    try:
        how = {"concurrency": 64}
        scene = Scene(store, (OpenAI(like, url, lambda: "wrong"),), words(items), how=how)
        return await carry_out(journal, scene, RealClock())
    finally:
        journal.close()


REMOTE = traits("a", remote=True, limits=MemberLimits(concurrency=64))


def test_the_first_request_to_a_member_goes_alone_until_it_is_answered(memory_path: Path) -> None:
    """In a store that has no answer of it; in the next run all go at once."""
    came: list[float] = []

    def script(ask: Ask, n: int) -> Reply | Exception:
        came.append(now())
        return OK

    member = Scripted(script, REMOTE, latency=1.0)
    scene = Scene(memory_path, (member,), words(64), how={"concurrency": 64})
    assert outcomes(play(scene)) == {"passed": 64}
    assert [sum(moment == at for moment in came) for at in (1.0, 2.0)] == [1, 63]
    came.clear()
    assert outcomes(play(replace(scene, settings={"fresh": True}))) == {"passed": 64}
    assert came == [1.0] * 64


def test_a_slow_first_answer_does_not_hold_up_the_others(memory_path: Path) -> None:
    """A refusal comes soon; what takes longer is an answer on its way."""
    member = Scripted(lambda ask, n: OK, REMOTE, latency=60.0)
    receipt = play(Scene(memory_path, (member,), words(64), how={"concurrency": 64}))
    assert (outcomes(receipt), receipt.seconds) == ({"passed": 64}, 62.0)


def test_a_first_request_that_is_asked_too_often_shows_that_the_key_is_right(
    memory_path: Path,
) -> None:
    member = Scripted(lambda ask, n: RateLimited("429") if n == 0 else OK, REMOTE, latency=1.0)
    receipt = play(Scene(memory_path, (member,), words(65), how={"concurrency": 64}))
    assert (outcomes(receipt), receipt.seconds <= 3.0) == ({"passed": 65}, True)


def test_a_closed_port_pauses_the_run_after_a_handful_of_tries(tmp_path: Path) -> None:
    """Nothing was ever sent: no item has failed, and the reason is told."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        receipt = asyncio.run(over_http(tmp_path, url, 200))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"cancelled": 200})
    assert receipt.reason is not None and receipt.reason.startswith("http: no connection: ")
    assert receipt.retries + receipt.calls <= 3 * DOWN


def test_others_take_over_from_a_member_that_nobody_reaches_and_it_is_looked_at_again(
    memory_path: Path,
) -> None:
    came: list[float] = []

    def comes_back(ask: Ask, n: int) -> Reply | Exception:
        came.append(now())
        return Transient("a: no connection") if now() < 20.0 else OK

    away = Scripted(comes_back, REMOTE)
    well = Scripted(lambda ask, n: OK, traits("b"), latency=1.0)
    how = {"members": ["a", "b"], "concurrency": 4}
    receipt = play(Scene(memory_path, (away, well), words(200), how=how))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 200})
    before = [moment for moment in came if moment < 20.0]
    assert DOWN <= len(before) <= 2 * DOWN
    assert len(came) - len(before) > 10


def test_members_of_one_pool_share_one_breaker(memory_path: Path) -> None:
    """The account's quota is gone: the other model of the account is not asked either."""
    first = Scripted(
        lambda ask, n: Terminal("402: no credit", scope="pool"), traits("a", pool="account"), 1.0
    )
    second = Scripted(lambda ask, n: OK, traits("b", pool="account"), latency=5.0)
    other = Scripted(lambda ask, n: OK, traits("c", pool="c"), latency=1.0)
    how = {"concurrency": 3}
    receipt = play(Scene(memory_path, (first, second, other), words(30), how=how))
    assert outcomes(receipt) == {"passed": 30}
    assert (len(first.asked), len(second.asked), len(other.asked)) == (1, 1, 29)


def test_an_unknown_model_closes_only_its_own_member(memory_path: Path) -> None:
    gone = Terminal("404: no such model", scope="member")
    first = Scripted(lambda ask, n: gone, traits("a", pool="account"), latency=1.0)
    second = Scripted(lambda ask, n: OK, traits("b", pool="account"), latency=1.0)
    receipt = play(Scene(memory_path, (first, second), words(30), how={"concurrency": 4}))
    assert outcomes(receipt) == {"passed": 30}
    assert (len(first.asked) <= 2, len(second.asked)) == (True, 30)


def test_a_breaker_with_a_reset_time_lets_one_through_then_all(memory_path: Path) -> None:
    asked: list[float] = []

    def script(ask: Ask, n: int) -> Reply | Exception:
        asked.append(now())
        if now() < 3600.0:
            return Terminal("429: quota gone", scope="pool", reset_after=3600.0 - now())
        return OK

    member = Scripted(script, latency=1.0)
    scene = Scene(memory_path, (member,), words(40), how={"concurrency": 4})
    receipt = play(replace(scene, roster=RosterSettings(max_wait=3600.0)))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 40})
    before = [moment for moment in asked if moment < 3600.0]
    assert len(before) == 4
    probe, *rest = asked[4:]
    assert 3600.0 <= probe < 3605.0 and min(rest) >= probe
    assert [moment for moment in rest if moment < probe + 0.9] == []


def test_a_probe_that_fails_keeps_the_others_waiting(memory_path: Path) -> None:
    asked: list[float] = []

    def script(ask: Ask, n: int) -> Reply | Exception:
        asked.append(now())
        if now() < 600.0:
            return Terminal("429: quota gone", scope="pool", reset_after=100.0)
        return OK

    receipt = play(
        Scene(memory_path, (Scripted(script, latency=1.0),), words(20), how={"concurrency": 4})
    )
    assert outcomes(receipt) == {"passed": 20}
    assert len([moment for moment in asked if moment < 600.0]) <= 4 + 6


def test_a_probe_that_is_not_needed_after_all_leaves_the_breaker_to_the_next(
    memory_path: Path,
) -> None:
    """At the reset time the head of the queue finds that another run has brought its reply
    meanwhile. It was to be the probe, so the next in the queue must be."""

    def quota_gone(ask: Ask, n: int) -> Reply | Exception:
        if now() < 50.0:
            return Terminal("429: quota gone", scope="pool", reset_after=100.0)
        return OK

    waits = Scripted(quota_gone, latency=1.0)
    brings = Scripted(lambda ask, n: OK, latency=30.0)
    ours = Scene(memory_path, (waits,), ["first", "shared"], name="ours", how={"concurrency": 1})
    others = Scene(memory_path, (brings,), ["shared"], name="others")
    receipt, _ = play_both(ours, others, later=10.0)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 2})
    assert waits.asked == ["Say first", "Say first"]


def play_both(first: Scene, second: Scene, *, later: float) -> list[Receipt]:
    """Two runs in one store at once, each with a journal of its own, the second a little later."""

    async def one(scene: Scene, clock: VirtualClock, delay: float) -> Receipt:
        await clock.sleep(delay)
        journal = open_store(scene.store, thread=False)
        try:
            return await carry_out(journal, scene, clock)
        finally:
            journal.close()

    async def main(clock: VirtualClock) -> list[Receipt]:
        async with asyncio.timeout(5000):
            return await asyncio.gather(one(first, clock, 0.0), one(second, clock, later))

    return run_virtual(main)


# ── refusals by chance, and limits that nobody stated ────────────────────────────────────────


def seconds_of(
    store: Path, script: Script, items: int = 400, at_once: int = 64
) -> tuple[float, int]:
    """How long a run takes, and how many calls it makes."""
    member = Scripted(script, traits(limits=MemberLimits(concurrency=at_once)))
    how = {"concurrency": at_once, "reduce": None}
    receipt = play(Scene(store, (member,), words(items), how=how))
    assert outcomes(receipt) == {"passed": items}
    return receipt.seconds, len(member.asked)


def limited_to(rate: int, told: bool) -> Script:
    """So many calls in any second; the others are refused, and `told` when to come back."""
    second: deque[float] = deque()

    async def limited(ask: Ask, n: int) -> Reply | Exception:
        while second and second[0] <= now() - 1.0:
            second.popleft()
        if len(second) >= rate:
            return RateLimited("429", retry_after=second[0] + 1.0 - now() if told else None)
        second.append(now())
        await asyncio.sleep(1.0)
        return OK

    return limited


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_one_call_in_ten_refused_by_chance_makes_a_run_hardly_slower(
    memory_path: Path, seed: int
) -> None:
    """At most by half, with answers after a second and refusals at once."""
    chance = Random(seed)

    async def answers(ask: Ask, n: int) -> Reply | Exception:
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        return OK

    async def refuses_some(ask: Ask, n: int) -> Reply | Exception:
        return RateLimited("429") if chance.random() < 0.1 else await answers(ask, n)

    quiet, _ = seconds_of(memory_path / "quiet", answers)
    noisy, _ = seconds_of(memory_path / "noisy", refuses_some)
    assert noisy <= 1.5 * quiet


@pytest.mark.parametrize("at_once", [4, 8])
def test_refusals_by_chance_that_say_how_long_to_wait_do_not_halve_few_calls(
    memory_path: Path, at_once: int
) -> None:
    """One call in twenty; each holds the others for as long as it says, and no longer."""
    chance = Random(1)

    async def answers(ask: Ask, n: int) -> Reply | Exception:
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        return OK

    async def refuses_some(ask: Ask, n: int) -> Reply | Exception:
        if chance.random() < 0.05:
            return RateLimited("429", retry_after=0.5)
        return await answers(ask, n)

    quiet, _ = seconds_of(memory_path / "quiet", answers, 160, at_once)
    noisy, _ = seconds_of(memory_path / "noisy", refuses_some, 160, at_once)
    assert noisy <= 1.3 * quiet


@pytest.mark.parametrize(("told", "rate"), [(True, 1), (True, 2), (False, 3)])
def test_a_low_rate_that_nobody_stated_fails_no_item(
    memory_path: Path, told: bool, rate: int
) -> None:
    """Whoever was refused goes before those who were not asked yet: nobody is refused for ever."""
    seconds, calls = seconds_of(memory_path, limited_to(rate, told), 60, 8)
    assert (seconds <= 1.3 * 60 / rate, calls <= 2.2 * 60) == (True, True)


@pytest.mark.parametrize("told", [True, False])
def test_a_rate_that_nobody_stated_is_found_without_hammering(
    memory_path: Path, told: bool
) -> None:
    """The account takes 20 calls a second. It is used well, and few calls are refused."""
    seconds, calls = seconds_of(memory_path, limited_to(20, told))
    assert calls <= 1.2 * 400
    assert seconds <= 1.7 * 400 / 20


def test_a_retry_after_of_a_year_pauses_the_run(memory_path: Path) -> None:
    """Nobody waits that long; the reason says how long it would be, and a resumed run goes on."""
    year = RateLimited("a: rate limited (429)", retry_after=365 * 86_400.0)
    member = Scripted(lambda ask, n: year if n < 3 else OK, traits("a"), latency=1.0)
    scene = Scene(memory_path, (member,), words(20), how={"concurrency": 2})
    receipt = play(scene)
    assert (receipt.status, receipt.passed) == ("paused", 0)
    assert receipt.reason == (
        "a: rate limited (429); it can be asked again in 365 days, and `max_wait` is 10 minutes"
    )
    assert receipt.seconds < 60.0
    well = Scripted(lambda ask, n: OK, traits("a"))
    assert outcomes(play(replace(scene, members=(well,)), resume=True)) == {"passed": 20}


@pytest.mark.parametrize("told", [0.0, -3.0, 0.001, 0.3])
@pytest.mark.parametrize("quota", [False, True])
def test_a_wait_that_only_leads_to_more_refusals_is_not_believed(
    memory_path: Path, told: float, quota: bool
) -> None:
    """Come back at once, again and again: as seldom as where nothing is said, and the run pauses."""

    def script(ask: Ask, n: int) -> Exception:
        if quota:
            return Terminal("a: quota gone (402)", scope="pool", reset_after=told)
        return RateLimited("a: rate limited (429)", retry_after=told)

    member = Scripted(script, traits("a", limits=MemberLimits(16)), latency=0.05)
    receipt = play(Scene(memory_path, (member,), words(100), how={"concurrency": 16}))
    assert (receipt.status, receipt.passed) == ("paused", 0)
    assert len(member.asked) < 70 and receipt.seconds < 700.0


def test_a_quota_that_is_never_back_pauses_the_run(memory_path: Path) -> None:
    """It says each time that it is back in a minute."""
    gone = Terminal("a: quota gone (402)", scope="pool", reset_after=60.0)
    member = Scripted(lambda ask, n: gone, traits("a"), latency=1.0)
    receipt = play(Scene(memory_path, (member,), words(20), how={"concurrency": 2}))
    assert (receipt.status, receipt.passed, len(member.asked)) == ("paused", 0, 12)
    assert receipt.reason == (
        "a: quota gone (402) (nothing but refusals for 11 minutes; `max_wait` is 10 minutes)"
    )


def test_a_wait_without_an_end_pauses_the_run(memory_path: Path) -> None:
    endless = RateLimited("a: rate limited (429)", retry_after=float("inf"))
    member = Scripted(lambda ask, n: endless, traits("a"))
    receipt = play(Scene(memory_path, (member,), words(20), how={"concurrency": 2}))
    assert (receipt.status, receipt.passed, len(member.asked)) == ("paused", 0, 1)
    assert receipt.reason is not None and "`max_wait` is 10 minutes" in receipt.reason


def test_others_take_over_from_a_member_that_says_to_come_back_next_year(
    memory_path: Path,
) -> None:
    year = RateLimited("a: rate limited (429)", retry_after=365 * 86_400.0)
    away = Scripted(lambda ask, n: year, traits("a"), latency=1.0)
    well = Scripted(lambda ask, n: OK, traits("b"), latency=1.0)
    how = {"members": ["a", "b"], "concurrency": 4}
    receipt = play(Scene(memory_path, (away, well), words(20), how=how))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 20})
    assert (len(away.asked) <= 4, len(well.asked)) == (True, 20)
