"""Which portion of all limits a process may have, and which positions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fanfold.journal.shares import (
    ALL,
    LEAST,
    MOST,
    NO_PORTION,
    WHOLE,
    Portion,
    Sharer,
    range_size,
    wanted_portion,
)


def sharer(session: str, low: int = 0, high: int = 0, wants: bool = True) -> Sharer:
    return Sharer(session, low, high, wants, False, b"", b"")


def settled(sharers: list[Sharer], seats: int = WHOLE) -> list[Sharer]:
    """After each has taken what it wants, again and again."""
    for _ in range(2 * len(sharers) + 1):
        for n, one in enumerate(sharers):
            low, high = wanted_portion(sharers, one.session, seats)
            sharers[n] = sharer(one.session, low, high, one.wants)
            taken = sorted((one.low, one.high) for one in sharers if one.low < one.high)
            ends = [high for _, high in taken]
            assert all(end <= low for end, (low, _) in zip(ends, taken[1:], strict=False))
    return sharers


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 99)), min_size=1, max_size=8),
    st.integers(1, 9),
    st.integers(1, 200),
)
def test_portions_never_overlap_and_soon_make_up_the_whole(
    who: list[tuple[bool, int]], seats: int, limit: int
) -> None:
    """Whatever they had before. Slots of a limit add up to no more than the limit, and to all of it."""
    edges = sorted(at * WHOLE // 100 for _, at in who)
    parts = [*zip(edges, [*edges[1:], WHOLE], strict=True)]
    sharers = [
        sharer(f"s{n}", low, high, wants)
        for n, ((wants, _), (low, high)) in enumerate(zip(who, parts, strict=True))
    ]
    eager = min(seats, sum(wants for wants, _ in who))
    portions = [Portion(one.low, one.high) for one in settled(sharers, seats)]
    assert sum(one.fraction for one in portions) == (1.0 if eager else 0.0)
    if eager and limit >= eager:
        assert sum(one.of(limit) for one in portions) == limit


def test_one_alone_has_all_and_one_that_joins_gets_what_the_first_gives_up() -> None:
    first, second = sharer("a", *ALL), sharer("b")
    assert wanted_portion([first], "a", 4) == ALL
    assert wanted_portion([first, second], "b", 4) == NO_PORTION
    half = wanted_portion([first, second], "a", 4)
    assert half == Portion(0, WHOLE // 2)
    assert wanted_portion([sharer("a", *half), second], "b", 4) == Portion(WHOLE // 2, WHOLE)


def test_more_than_there_are_slots_stand_by() -> None:
    sharers = settled([sharer(name) for name in "abc"], seats=2)
    assert [one.high - one.low for one in sharers] == [WHOLE // 2, WHOLE // 2, 0]


@given(st.integers(1, 10**7), st.integers(1, 64), st.integers(1, 100))
def test_ranges_become_smaller_and_are_of_whole_units(left: int, sharers: int, unit: int) -> None:
    size = range_size(left, sharers, unit)
    assert 0 < size <= left
    assert size == left or (size % unit == 0 and size >= LEAST)
    assert size < MOST + unit
