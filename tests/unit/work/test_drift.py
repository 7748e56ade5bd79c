"""The test for drift: seldom wrong however often it is looked at, and it finds what is there."""

from __future__ import annotations

from random import Random

import pytest

from fanfold.work.drift import RISK, DriftTest, in_sample


def found_after(share: float, target: float, seed: int, most: int = 2000) -> int | None:
    """After how many checks of answers that are right in this share it says so; None: never."""
    chance, test = Random(seed), DriftTest(target)
    for many in range(1, most + 1):
        test.add(chance.random() < share)
        if test.drifted:
            return many
    return None


@pytest.mark.parametrize("target", [0.6, 0.9, 0.98])
@pytest.mark.parametrize("times", [80, pytest.param(200, marks=pytest.mark.sweep)])
def test_answers_that_reach_the_target_are_seldom_accused_however_long_they_are_watched(
    target: float, times: int
) -> None:
    accused = [found_after(target, target, seed, 400) for seed in range(times)]
    assert sum(one is not None for one in accused) <= 2 * times * RISK


@pytest.mark.parametrize(("target", "share", "most"), [(0.95, 0.85, 400), (0.8, 0.6, 300)])
def test_what_is_clearly_worse_is_found(target: float, share: float, most: int) -> None:
    found = [found_after(share, target, seed) for seed in range(50)]
    assert all(one is not None and one < most for one in found)


def test_of_answers_that_should_all_be_right_one_that_is_not_is_enough() -> None:
    test = DriftTest(1.0)
    for right in (True, True, False):
        assert not test.drifted
        test.add(right)
    assert test.drifted
    assert (test.right, test.checked) == (2, 3)


def test_the_sample_has_its_share_and_grows_with_it() -> None:
    ids = [f"i{n}" for n in range(5000)]
    small = {id for id in ids if in_sample(id, 0.02)}
    large = {id for id in ids if in_sample(id, 0.1)}
    assert small < large
    assert (60 < len(small) < 140, 420 < len(large) < 580) == (True, True)
    assert all(in_sample(id, 1.0) for id in ids)
