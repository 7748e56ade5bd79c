"""Graphs of tasks: what is refused, in which order they may run, and how good the order is."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.work.dag import Schedule, check, layers, ordered, remaining


class Job(NamedTuple):
    id: str
    depends_on: tuple[str, ...] = ()
    weight: float = 1.0


def jobs(text: str) -> list[Job]:
    """`a b<a c<a,b` as three jobs."""
    split = [word.partition("<") for word in text.split()]
    return [Job(id, tuple(parents.split(",")) if parents else ()) for id, _, parents in split]


def weighted(text: str, **weights: float) -> list[Job]:
    return [job._replace(weight=weights.get(job.id, 1.0)) for job in jobs(text)]


# ── what is refused ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b a", "duplicate task id `a`, at 0 and 2; make ids unique"),
        ("fetch parse<fetsh", "task `parse` depends on `fetsh`, which is not there: did you mean `fetch`?"),
        ("a b<zzzz", "task `b` depends on `zzzz`, which is not there: no task has an id like it"),
        ("a b<b", "task `b` depends on itself; CYCLE:b"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        check(jobs(text))
    assert str(caught.value) == said


def test_a_name_in_a_refusal_is_on_one_line_and_not_too_long() -> None:
    with pytest.raises(BadInput) as caught:
        check([Job("a", ("b\r\n\n" + "c" * 500,))])
    said = str(caught.value)
    assert said.startswith(r"task `a` depends on `b\r\n\nccc") and "\n" not in said
    assert len(said) < 200


@pytest.mark.parametrize(
    ("text", "cycle"),
    [
        ("a<b b<a", "a,b"),
        ("a<c b<a c<b", "a,b,c"),
        ("a<b b<c c<a", "a,c,b"),
        ("x a<x,c b<a c<b y<c", "a,b,c"),
        ("y<a z<y a<b b<a", "a,b"),
        ("p q<p r<s,q s<t t<r u<u2 u2<u", "r,t,s"),
    ],
)
def test_a_cycle_is_told_in_the_order_it_would_run_and_nothing_else_is_in_it(
    text: str, cycle: str
) -> None:
    """From its first planned task on; tasks before and behind it are not part of it."""
    with pytest.raises(BadInput) as caught:
        check(jobs(text))
    assert str(caught.value) == (
        "these tasks wait for one another, so none of them can start; take one of them out of a"
        f" `depends_on`: CYCLE:{cycle}"
    )


def test_what_is_right_passes() -> None:
    check([])
    check(jobs("a"))
    check(jobs("d<b,c c<a b<a a"))
    check(jobs("a b<a,a"))


@given(st.data())
def test_a_told_cycle_is_one(data: st.DataObject) -> None:
    """Any graph of up to eight tasks: either it can be ordered whole, or the ids told are a cycle."""
    many = data.draw(st.integers(1, 8))
    parents = st.lists(st.integers(0, many - 1), max_size=3, unique=True)
    found = [Job(str(n), tuple(map(str, data.draw(parents)))) for n in range(many)]
    try:
        check(found)
    except BadInput as error:
        cycle = str(error).partition("CYCLE:")[2].split(",")
        waits_for = {job.id: job.depends_on for job in found}
        assert len(set(cycle)) == len(cycle)
        assert all(
            before in waits_for[id] for before, id in zip([cycle[-1], *cycle], cycle, strict=False)
        )
        assert len(ordered(found)) < many
    else:
        places = {job.id: place for place, job in enumerate(ordered(found))}
        assert all(places[p] < places[job.id] for job in found for p in job.depends_on)
        assert len(places) == many


# ── paths and layers ─────────────────────────────────────────────────────────────────────────


def test_the_longest_path_to_an_end_counts_the_task_itself() -> None:
    found = weighted("a b<a c<a d<b,c e", a=1, b=10, c=2, d=4, e=3)
    assert remaining(found) == {"a": 15, "b": 14, "c": 6, "d": 4, "e": 3}


def test_a_layer_is_the_longest_way_from_a_start() -> None:
    assert layers(jobs("d<b,c c<a b<c a e")) == {"a": 0, "c": 1, "b": 2, "d": 3, "e": 0}
    assert layers([]) == {} == remaining([])


def test_a_chain_of_many_thousands_is_no_trouble() -> None:
    many = 6_000
    chain = [Job(str(n), (str(n - 1),) if n else ()) for n in range(many)][::-1]
    check(chain)
    assert remaining(chain)["0"] == many
    assert layers(chain)[str(many - 1)] == many - 1
    assert Schedule(chain).ready() == ["0"]
    with pytest.raises(BadInput, match=f",{many - 2},{many - 1}$"):
        check([Job("0", (str(many - 1),)), *chain[:-1][::-1]])


# ── the schedule ─────────────────────────────────────────────────────────────────────────────


def test_the_longest_remaining_path_goes_first_and_ties_go_by_plan() -> None:
    schedule = Schedule(weighted("y short z long<z", long=5))
    assert schedule.ready() == ["z", "y", "short"]
    assert schedule.ready(2) == ["z", "y"]
    assert repr(schedule) == "Schedule(ready=3, under_way=0, waiting=1, ended=0)"


def test_a_task_is_free_when_its_last_parent_has_ended() -> None:
    schedule = Schedule(weighted("a b c<a,b,a d<a", c=9))
    schedule.start("a")
    schedule.start("b")
    assert schedule.ready() == []
    assert schedule.end("a") == ["d"]
    assert schedule.end("b") == ["c"]
    assert schedule.ready() == ["c", "d"]
    assert repr(schedule) == "Schedule(ready=2, under_way=0, waiting=0, ended=2)"


def test_only_what_is_ready_starts_and_only_what_started_ends() -> None:
    schedule = Schedule(jobs("a b<a"))
    with pytest.raises(ValueError, match="b is not ready to start"):
        schedule.start("b")
    with pytest.raises(ValueError, match="a was not under way"):
        schedule.end("a")
    schedule.start("a")
    with pytest.raises(ValueError, match="a is not ready to start"):
        schedule.start("a")


class Played(NamedTuple):
    began: dict[str, float]
    ended: dict[str, float]


def carried_out(found: list[Job], slots: int) -> Played:
    """The schedule as an owner with so many slots carries it out."""
    schedule, lasts = Schedule(found), {job.id: job.weight for job in found}
    began: dict[str, float] = {}
    ended: dict[str, float] = {}
    busy: list[tuple[float, str]] = []
    now = 0.0
    while True:
        for id in schedule.ready(slots - len(busy)):
            schedule.start(id)
            began[id] = now
            heapq.heappush(busy, (now + lasts[id], id))
        if not busy:
            return Played(began, ended)
        now = busy[0][0]
        while busy and busy[0][0] == now:
            id = heapq.heappop(busy)[1]
            ended[id] = now
            schedule.end(id)


@st.composite
def acyclic(draw: st.DrawFn) -> list[Job]:
    """Up to 14 jobs, each behind any of those before it, planned in any order."""
    many = draw(st.integers(0, 14))
    found = []
    for n in range(many):
        parents = draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set()
        lasts = float(draw(st.integers(0, 9)))
        found.append(Job(f"t{n}", tuple(f"t{p}" for p in sorted(parents)), lasts))
    return draw(st.permutations(found))


@given(acyclic(), st.integers(1, 5))
def test_a_schedule_is_whole_in_order_within_the_slots_and_never_idle(
    found: list[Job], slots: int
) -> None:
    check(found)
    played = carried_out(found, slots)
    assert set(played.ended) == {job.id for job in found}
    free_at = {job.id: max((played.ended[p] for p in job.depends_on), default=0.0) for job in found}
    for job in found:
        assert played.began[job.id] >= free_at[job.id]
    lasting = [job for job in found if job.weight]
    for now in played.began.values():
        busy = sum(played.began[job.id] <= now < played.ended[job.id] for job in lasting)
        waiting = [id for id, free in free_at.items() if free <= now < played.began[id]]
        assert busy <= slots
        assert busy == slots or not waiting
    work, path = sum(job.weight for job in found), max(remaining(found).values(), default=0.0)
    assert max(played.ended.values(), default=0.0) <= path + work / slots
