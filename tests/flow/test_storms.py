"""Storms: refusals by the hundred, an account that runs dry, a member that is down for ten minutes.

Nothing is lost, nothing is sent to an open breaker, and throughput is back within one growth
period. Each seed is a storm of its own; 12 here, 210 more under `make sweep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from fanfold.errors import MemberError, RateLimited, Terminal, TimedOut, Transient
from fanfold.run.breaker import DOWN
from fanfold.run.throttle import SLOWEST_BACKOFF
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberLimits, Traits
from fanfold.work.outcome import Receipt
from tests.flow.simulation import Scene, outcomes, play, words

OK = Reply("fine", usage=Usage(10, 10))
FEW = (0, 1, 2, 4)  # each kind of refusal and of being down, alone and with another member
MANY = (3, 5, 6, *range(100, 167))
JITTER = 0.25  # seconds that are added to what a member says


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Seen:
    """One request as the member saw it: which, when it came, when it was answered, and how."""

    member: str
    came: float
    ended: float = 0.0
    error: Exception | None = None


@dataclass
class Books:
    """All requests to all members, in the order in which they came."""

    seen: list[Seen] = field(default_factory=list)

    def of(self, *members: str) -> list[Seen]:
        """Of these members, or of all."""
        return [one for one in self.seen if not members or one.member in members]

    def under_way(self, at: float, *members: str) -> int:
        return sum(one.came <= at < one.ended for one in self.of(*members))

    def full_again(self, many: int, after: float, *members: str) -> float:
        """When for the first time after that so many were under way at once."""
        came = (one.came for one in self.of(*members) if one.came >= after)
        return next(at for at in came if self.under_way(at, *members) >= many)


Answers = Callable[[float], MemberError | None]
"""What happens to a request that ends at this time."""


class Weather:
    """A member whose requests take half to one and a half of `seconds`, and end as `answers` says;
    a silent one is given up after 20 seconds more."""

    def __init__(
        self, books: Books, like: Traits, chance: Random, answers: Answers, seconds: float = 1.0
    ) -> None:
        self._books, self._chance, self._answers = books, chance, answers
        self._seconds = seconds
        self.member = Scripted(self._script, like)

    async def _script(self, ask: Ask, n: int) -> Reply | Exception:
        seen = Seen(self.member.traits.id, now())
        self._books.seen.append(seen)
        await asyncio.sleep(self._seconds * self._chance.uniform(0.5, 1.5))
        error = self._answers(now())
        if isinstance(error, TimedOut):
            await asyncio.sleep(20.0)
        seen.ended, seen.error = now(), error
        return OK if error is None else error


SLOWEST_CALL = 1.5


def like(id: str, slots: int, pool: str = "") -> Traits:
    return traits(id, pool=pool or id, limits=MemberLimits(concurrency=slots))


def growth(slots: int) -> float:
    """One growth period: one slot more in each round of answers, from one slot to all."""
    return slots * SLOWEST_CALL


def carried_out(store: Path, seed: int, weathers: list[Weather], items: int, slots: int) -> Receipt:
    members = tuple(weather.member for weather in weathers)
    return play(
        Scene(store, members, words(items), how={"concurrency": slots, "reduce": None},
              settings={"seed": seed})
    )  # fmt: skip


def all_passed(receipt: Receipt, items: int) -> None:
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": items})
    assert receipt.planned == items


def before_and_sweep(test: Callable[[Path, int], None]) -> Callable[[Path, int], None]:
    seeds = [*FEW, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in MANY)]
    return pytest.mark.parametrize("seed", seeds)(test)


# ── refusals ─────────────────────────────────────────────────────────────────────────────────


@before_and_sweep
def test_a_storm_of_refusals(memory_path: Path, seed: int) -> None:
    """Nothing but 429 for 10 to 90 seconds, with a retry-after or without."""
    chance, books = Random(seed), Books()
    slots = chance.randint(4, 16)
    begins = chance.uniform(5.0, 15.0)
    ends = begins + chance.uniform(10.0, 90.0)
    told = chance.choice((None, None, 1.0, 5.0))

    def answers(at: float) -> MemberError | None:
        return RateLimited("429", retry_after=told) if begins <= at < ends else None

    weather = Weather(books, like("a", slots), chance, answers)
    items = int(slots * (begins + 1.5 * growth(slots) + 10))
    all_passed(carried_out(memory_path, seed, [weather], items, slots), items)
    refused = [one for one in books.seen if one.error is not None]
    longest = SLOWEST_BACKOFF if told is None else told + JITTER
    waves = (ends - begins) / (told or 0.5) + 1
    assert len(refused) <= 2 * slots + waves
    back = books.full_again(slots, ends)
    assert back - ends <= min(longest, 2 * (ends - begins)) + growth(slots)


# ── refusals by chance ───────────────────────────────────────────────────────────────────────


def seconds_where(refused: float, seed: int, store: Path, told: float | None = None) -> float:
    """Of 1,000 items, 64 at once: answers take ten times as long as refusals, as they do."""
    chance = Random(seed)

    async def script(ask: Ask, n: int) -> Reply | Exception:
        no = chance.random() < refused
        await asyncio.sleep(0.05 if no else 0.5)
        return RateLimited("429", retry_after=told) if no else OK

    how = {"concurrency": 64, "reduce": None}
    member = Scripted(script, like("a", 64))
    receipt = play(Scene(store, (member,), words(1000), how=how, settings={"seed": seed}))
    all_passed(receipt, 1000)
    return receipt.seconds


@pytest.mark.parametrize(
    "seed",
    [*(3, 5, 8, 14), *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(100, 150))],
)
def test_one_call_in_ten_refused_by_chance_makes_a_run_at_most_half_as_long_again(
    memory_path: Path, seed: int
) -> None:
    """For a client that lets each refused call wait by itself it is 1.02 to 1.1 times."""
    quick = 8.0  # 1,000 calls of 0.5 s, 64 at once
    assert seconds_where(0.1, seed, memory_path) <= 1.5 * quick


# ── an account that runs dry ─────────────────────────────────────────────────────────────────


@before_and_sweep
def test_a_pool_that_runs_dry_and_is_filled_again(memory_path: Path, seed: int) -> None:
    """Two members share an account: so many calls, then nothing until the hour turns. A third one,
    of another account, is there in every other storm."""
    chance, books = Random(seed), Books()
    slots, quota, period = chance.randint(2, 8), chance.randint(30, 80), 600.0
    account = Account(quota, period)
    weathers = [
        Weather(books, like("a", slots, "account"), chance, account),
        Weather(books, like("b", slots, "account"), chance, account),
    ]
    if seed % 2:
        weathers.append(Weather(books, like("c", slots), chance, lambda at: None))
    items = 3 * quota
    all_passed(carried_out(memory_path, seed, weathers, items, 2 * slots), items)
    ours = books.of("a", "b")
    dry = [one for one in ours if one.error is not None]
    assert dry != [] or seed % 2
    for one in dry:
        reset = period * (one.ended // period + 1)
        meanwhile = [other for other in ours if one.ended < other.came < reset]
        assert meanwhile == []
        probe, *rest = [other for other in ours if other.came >= reset] or [None]
        if probe is not None:
            assert probe.came - reset < 1e-3
            assert all(other.came >= probe.ended for other in rest)
    if not seed % 2:
        first = period * (dry[0].ended // period + 1)
        assert books.full_again(min(2 * slots, quota - 1), first) - first <= growth(2 * slots)


class Account:
    """So many answers in each period; then `quota gone`, with the time until the next."""

    def __init__(self, quota: int, period: float) -> None:
        self._quota, self._period = quota, period
        self._given: dict[int, int] = {}

    def __call__(self, at: float) -> MemberError | None:
        turn = int(at // self._period)
        if self._given.get(turn, 0) >= self._quota:
            left = (turn + 1) * self._period - at
            return Terminal("429: quota gone", scope="pool", reset_after=left)
        self._given[turn] = self._given.get(turn, 0) + 1
        return None


# ── a member that is down ────────────────────────────────────────────────────────────────────


@before_and_sweep
def test_a_member_that_is_down_for_ten_minutes(memory_path: Path, seed: int) -> None:
    """Refused connections, 5xx, or silence until the time is over. In every other storm another
    member is there, and well. Whoever is down is looked at now and then by one call at a time."""
    chance, books = Random(seed), Books()
    slots, dies = chance.randint(2, 8), chance.uniform(20.0, 40.0)
    lives = dies + 600.0
    error = chance.choice((Transient("refused"), Transient("503"), TimedOut("no answer")))

    def answers(at: float) -> MemberError | None:
        return error if dies <= at < lives else None

    weathers = [Weather(books, like("a", slots), chance, answers, 4.0)]
    if seed % 2:
        weathers.append(Weather(books, like("b", slots), chance, lambda at: None, 4.0))
    items = slots * (200 if seed % 2 else 40)
    receipt = carried_out(memory_path, seed, weathers, items, slots * len(weathers))
    all_passed(receipt, items)
    failed = sorted((one for one in books.of("a") if one.error), key=lambda one: one.ended)
    down = failed[DOWN - 1].ended
    looks = [one for one in books.of("a") if down < one.came < lives]
    assert len(looks) <= 7 + 600.0 / SLOWEST_BACKOFF
    assert all(one.came >= before.ended + 1.0 for before, one in pairwise(looks))
    assert len(failed) <= 2 * slots + DOWN + len(looks)
    back = books.full_again(slots, lives, "a")
    assert back - lives <= SLOWEST_BACKOFF + 26.0 + 4.0 * growth(slots)


def test_a_member_that_stays_away_pauses_the_run(memory_path: Path) -> None:
    """After a quarter of an hour nobody waits any longer. Nothing is lost: a resumed run goes on."""
    books = Books()
    gone = Transient("a: refused")
    weather = Weather(books, like("a", 4), Random(1), lambda at: gone if at > 10.0 else None)
    scene = Scene(memory_path, (weather.member,), words(100), how={"concurrency": 4})
    receipt = play(scene)
    assert receipt.status == "paused"
    assert receipt.reason == "a: refused (nothing else for 15 minutes)"
    assert 900.0 <= receipt.seconds <= 1000.0
    assert sum(outcomes(receipt).values()) == 100
    assert outcomes(receipt).get("failed", 0) <= 1
    well = Weather(books, like("a", 4), Random(1), lambda at: None)
    again = play(replace(scene, members=(well.member,)), resume=True)
    assert outcomes(again) == {"passed": 100}


def test_a_member_that_never_answered_is_not_waited_for(memory_path: Path) -> None:
    """What is wrong there does not pass by waiting: the items fail soon, and say why."""
    member = Scripted(lambda ask, n: Transient("a: refused"), like("a", 4))
    receipt = play(Scene(memory_path, (member,), words(20), how={"concurrency": 4}))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"failed": 20})
    assert receipt.seconds < 60.0


def test_one_ask_that_always_fails_does_not_count_as_a_member_that_is_down(
    memory_path: Path,
) -> None:
    """The last one of them, when no other is under way any more: it fails after its tries."""
    bad = Transient("a: 500")
    member = Scripted(
        lambda ask, n: bad if "word 9" in ask.messages[0].content else OK, like("a", 2)
    )
    how = {"concurrency": 2, "attempts": 8}
    receipt = play(Scene(memory_path, (member,), words(10), how=how))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 9, "failed": 1})
    assert len(member.asked) == 9 + 8


# ── an open breaker ──────────────────────────────────────────────────────────────────────────


def test_what_was_claimed_while_the_breaker_opened_is_not_sent(memory_path: Path) -> None:
    """Two calls of one account. The first is refused for good in the very commit that claims for
    the second, so the second is called off, and answered by somebody else."""
    books = Books()

    def refused(ask: Ask, n: int) -> Reply | Exception:
        books.seen.append(Seen("a", now()))
        return Terminal("402: no credit", scope="pool")

    first = Scripted(refused, like("a", 4))
    second = Scripted(lambda ask, n: OK, like("b", 4))
    how = {"members": ["a", "b"], "concurrency": 6}
    receipt = play(Scene(memory_path, (first, second), words(12), how=how))
    assert outcomes(receipt) == {"passed": 12}
    assert (len(first.asked), len(second.asked)) == (1, 12)
