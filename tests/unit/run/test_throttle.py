"""How many at once: halved when too many are refused, not by refusals that come by chance."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fanfold.run.throttle import FEW, SLOWEST_BACKOFF, Throttle, backoff

SLOTS = 64


class Line:
    """An account and its throttle: calls go out in waves, and `takes(order, many)` says which of
    them are accepted. Refusals arrive before answers, as they do."""

    def __init__(self, takes: Callable[[int, int], bool], slots: int = SLOTS) -> None:
        self.throttle = Throttle()
        self.throttle.ceiling = slots
        self._takes, self._slots, self._now = takes, slots, 0.0
        self.sent = self.refused = 0

    def wave(self, told: float | None = None) -> int:
        """How many went out. What is held waits first."""
        throttle = self.throttle
        self._now = max(self._now + 1.0, throttle.blocked_until)
        many = self._slots if throttle.cap is None else int(throttle.cap)
        orders = []
        for _ in range(many):
            throttle.sent += 1
            orders.append(throttle.sent)
        good = [order for n, order in enumerate(orders) if self._takes(order, n)]
        for order in sorted(set(orders) - set(good)):
            throttle.refused(order, self._now, many, told, 0.5)
        for order in good:
            throttle.good(order, many)
        self.sent, self.refused = self.sent + many, self.refused + many - len(good)
        return many


def by_chance(share: float, seed: int) -> Callable[[int, int], bool]:
    chance = Random(seed)
    return lambda order, n: chance.random() >= share


def test_refusals_by_chance_do_not_slow_down_the_others() -> None:
    """One call in ten, for twenty seeds: nothing is held, and nearly all slots are used."""
    for seed in range(20):
        line = Line(by_chance(0.1, seed))
        waves = [line.wave() for _ in range(40)]
        assert sum(waves) >= 0.9 * 40 * SLOTS
        assert line.throttle.blocked_until == 0.0


def test_a_hold_for_a_refusal_ends_when_calls_sent_after_it_are_answered() -> None:
    """The member said to come back in a minute; what it was sent meanwhile, it answers."""
    throttle = Throttle()
    throttle.ceiling = throttle.sent = SLOTS
    throttle.refused(8, 0.0, SLOTS, 60.0, 0.5)
    assert throttle.blocked_until >= 60.0
    for order in range(1, 8):
        throttle.good(order, SLOTS)
    assert throttle.blocked_until >= 60.0  # sent before it: that says nothing
    for order in range(9, 9 + FEW):
        throttle.good(order, SLOTS)
    assert (throttle.blocked_until, throttle.cap) == (0.0, None)


def test_a_limit_that_answers_one_of_two_calls_is_not_taken_for_chance() -> None:
    """They are sent at once, and the later one is there first: it is answered, the other refused."""
    throttle, now = Throttle(), 0.0
    throttle.ceiling = SLOTS
    for _ in range(50):
        throttle.sent += 2
        throttle.refused(throttle.sent - 1, now, 2, 2.0, 0.5)
        assert throttle.blocked_until >= now + 2.0
        throttle.good(throttle.sent, 1)
        assert throttle.blocked_until >= now + 2.0
        now = throttle.blocked_until


def test_refusals_in_a_row_by_chance_cost_one_slow_round() -> None:
    """The last seven of a wave, once; else one in ten, however few are sent: the cut is taken back."""
    line = Line(lambda order, n: order % 10 != 0 and not 250 <= order <= 256)
    waves = [line.wave() for _ in range(12)]
    assert min(waves) <= SLOTS // 2 + 1
    assert waves[-6:] == [SLOTS] * 6


def test_a_cut_that_changes_nothing_is_taken_back() -> None:
    """Three in ten are refused, however few are sent: half the speed for one round, then all."""
    line = Line(lambda order, n: order % 10 not in (0, 3, 6))
    waves = [line.wave() for _ in range(12)]
    assert (
        min(waves) == SLOTS // 2 + 1
    )  # cut in mid-wave; it grew by one with the answers of the rest
    assert waves[-8:] == [SLOTS] * 8


def test_an_account_that_takes_so_many_at_once_gets_no_more_for_long() -> None:
    """It takes 20 of what comes in a wave. The calls settle around that, and few are refused."""
    line = Line(lambda order, n: n < 20)
    waves = [line.wave() for _ in range(200)]
    assert max(waves[20:]) <= 26
    assert sum(waves[20:]) / 180 >= 14
    assert line.refused <= 0.12 * line.sent


def test_refusals_in_a_row_hold_all_calls_longer_and_longer() -> None:
    throttle, waits = Throttle(), []
    throttle.ceiling = 1
    for n in range(20):
        throttle.sent += 1
        before = throttle.blocked_until
        throttle.refused(throttle.sent, n * 1000.0, 1, None, 1.0)
        if throttle.blocked_until > before:
            waits.append(throttle.blocked_until - n * 1000.0)
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == SLOWEST_BACKOFF


def test_a_stated_wait_holds_all_at_the_first_refusal() -> None:
    """And halves, once for all that were on their way."""
    line = Line(lambda order, n: False, slots=32)
    line.wave(told=2.0)
    assert line.throttle.cap == 16.0
    assert 3.0 <= line.throttle.blocked_until <= 3.25


def test_after_it_the_calls_grow_back_by_one_in_each_round() -> None:
    line = Line(lambda order, n: order > 32, slots=32)
    line.wave(told=2.0)
    waves = [line.wave() for _ in range(20)]
    assert waves[:4] == [16, 16, 17, 18]
    assert waves[-1] == 32


def test_never_fewer_than_one() -> None:
    line = Line(lambda order, n: False, slots=4)
    for _ in range(10):
        line.wave()
    assert line.throttle.cap == 1.0


def test_a_refused_call_waits_by_itself_twice_as_long_each_time() -> None:
    assert [backoff(n, None, 1.0) for n in (1, 2, 3)] == [0.05, 0.1, 0.2]
    assert backoff(50, None, 1.0) <= SLOWEST_BACKOFF
    assert backoff(1, None, 0.0) == 0.025
    assert backoff(3, 7.0, 0.0) == 7.0
