"""Asks in batches, on a virtual clock: half the price, by their deadline, nothing forgotten wherever the
process dies."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, InvalidReply, MemberError, Transient
from fanfold.gates.checks import predicate
from fanfold.journal import opening
from fanfold.journal.opening import open_store
from fanfold.observe.amounts import batches_text
from fanfold.price import dollars
from fanfold.run.run import Run
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply
from fanfold.work.member import MemberLimits
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget, Hedge
from tests.flow.batch_service import ONLINE, PRICE, USED, Batching, ServiceOnClock
from tests.flow.simulation import Camera, Meanwhile, Scene, carry_out, pause_at

HALF = ONLINE // 2
HOUR = 3600.0
SIX = {"batch": {"within": "6h"}}


class Later(VirtualClock):
    """That of a process which is started so many seconds later."""

    def __init__(self, by: float = 0.0) -> None:
        super().__init__()
        self.by = by

    def now(self) -> float:
        return super().now() + self.by


def played(
    scene: Scene,
    clock: VirtualClock,
    *,
    resume: bool = False,
    meanwhile: Meanwhile | None = None,
    camera: Camera | None = None,
) -> Receipt:
    async def main(_: VirtualClock) -> Receipt:
        journal = open_store(scene.store, thread=False, after_commit=camera)
        try:
            return await carry_out(journal, scene, clock, resume, meanwhile)
        finally:
            journal.close()

    return run_virtual(main)


def scene(tmp_path: Path, member: Scripted, many: int = 40, **changes: Any) -> Scene:
    how = changes.pop("how", SIX)
    items = [f"item {n}" for n in range(many)]
    return Scene(tmp_path / "store", (member,), items, how=how, **changes)


def in_an_hour(prompt: str) -> float | None:
    return HOUR


def late(prompt: str) -> float | None:
    """Three of ten never come."""
    return None if int(prompt.split()[2]) % 10 < 3 else HOUR


def paid_once(service: ServiceOnClock, member: Batching, many: int) -> tuple[int, int]:
    """How many were paid in batches, and online; none twice."""
    in_batches, online = Counter(service.answered()), Counter(member.asked)
    both = in_batches + online
    assert (len(both), max(both.values())) == (many, 1)
    return len(in_batches), len(online)


# ── price, slots, budget ─────────────────────────────────────────────────────────────────────


def test_all_asks_go_in_one_submission_at_half_the_price(tmp_path: Path) -> None:
    service = ServiceOnClock(VirtualClock(), in_an_hour)
    member = Batching(service)
    receipt = played(scene(tmp_path, member, 500), VirtualClock())
    assert (receipt.passed, receipt.cost_usd) == (500, dollars(500 * HALF))
    assert paid_once(service, member, 500) == (500, 0)
    assert [len(batch.lines) for batch in service.held.values()] == [500]
    assert service.looks < 100, "it is looked at once a minute at most"


def test_a_budget_for_a_part_submits_that_and_then_the_rest(tmp_path: Path) -> None:
    """What was reserved and not taken comes back with the first batch."""
    service = ServiceOnClock(VirtualClock(), in_an_hour)
    member = Batching(service)
    receipt = played(
        scene(tmp_path, member, 40, budget=Budget(usd=0.02), how={"batch": "12h"}), VirtualClock()
    )
    assert (receipt.passed, receipt.cost_usd) == (40, dollars(40 * HALF))
    assert len(service.held) > 1
    assert paid_once(service, member, 40) == (40, 0)


def test_lines_that_are_refused_are_errors_like_any_other(tmp_path: Path) -> None:
    service = ServiceOnClock(VirtualClock(), in_an_hour)
    service.refuse = lambda prompt: prompt == "Say item 7"
    member = Batching(service)
    receipt = played(scene(tmp_path, member), VirtualClock())
    assert (receipt.passed, receipt.failed) == (39, 1)
    assert receipt.cost_usd == dollars(39 * HALF)


@pytest.mark.parametrize("how", [{"batch": "auto"}, {"batch": {"within": "48h"}}])
def test_lines_that_expired_are_asked_online(tmp_path: Path, how: dict[str, Any]) -> None:
    """After a day the service gives up those that it did not come to; they took nothing."""
    clock = VirtualClock()
    service = ServiceOnClock(clock, late)
    service.expires = 24 * HOUR
    member = Batching(service)
    receipt = played(scene(tmp_path, member, how=how), clock)
    assert (receipt.passed, paid_once(service, member, 40)) == (40, (28, 12))
    assert receipt.cost_usd == dollars(28 * HALF + 12 * ONLINE)
    assert (service.cancelled, receipt.maybe_paid_twice) == ({}, 0)


def test_kick_backs_go_into_the_next_batch_or_online_at_once(tmp_path: Path) -> None:
    """`auto`: fewer than 32 are not worth another hour."""
    gate = predicate(lambda value: "item 3" not in value or "earlier" in value.lower(), "no 3")
    for how, batches in (({"batch": {"within": "6h"}}, 2), ({"batch": "auto"}, 1)):
        service = ServiceOnClock(VirtualClock(), in_an_hour)
        member = Batching(service)
        found = scene(tmp_path / str(batches), member, 35, how={**how, "gate": gate})
        receipt = played(found, VirtualClock())
        assert len(service.held) == batches
        assert receipt.kicked + receipt.passed == 35
        assert bool(member.asked) == (batches == 1)


def test_few_asks_are_not_worth_a_batch_where_that_is_left_to_us(tmp_path: Path) -> None:
    service = ServiceOnClock(VirtualClock(), in_an_hour)
    member = Batching(service)
    receipt = played(scene(tmp_path, member, 31, how={"batch": "auto"}), VirtualClock())
    assert (receipt.passed, service.held, len(member.asked)) == (31, {}, 31)
    assert receipt.cost_usd == dollars(31 * ONLINE)


# ── by their deadline ────────────────────────────────────────────────────────────────────────


def test_what_is_late_is_cancelled_and_asked_online_once(tmp_path: Path) -> None:
    service = ServiceOnClock(VirtualClock(), late)
    member = Batching(service)

    async def main(clock: VirtualClock) -> tuple[Receipt, float]:
        journal = open_store(tmp_path / "store", thread=False)
        try:
            receipt = await carry_out(
                journal, scene(tmp_path, member, 200, how={"batch": "4h"}), clock
            )
            return receipt, clock.monotonic()
        finally:
            journal.close()

    receipt, took = run_virtual(main)
    assert (receipt.passed, receipt.cost_usd) == (200, dollars(140 * HALF + 60 * ONLINE))
    assert paid_once(service, member, 200) == (140, 60)
    assert len(service.cancelled) == 1
    assert 3.5 * HOUR < took < 4 * HOUR


def test_a_deadline_holds_over_a_pause(tmp_path: Path) -> None:
    """Resumed after it: what has come is collected, the rest is asked online."""
    clock = Later()
    service = ServiceOnClock(clock, late)
    member = Batching(service)
    found = scene(tmp_path, member, how={"batch": "4h"})
    paused = played(found, clock, meanwhile=pause_at(100.0))
    assert (paused.status, paused.passed, paused.in_doubt) == ("paused", 0, 0)
    assert "40 in batches, and a resume collects what comes" in (paused.reason or "")
    clock.by = 9 * HOUR
    receipt = played(found, clock, resume=True)
    assert (receipt.status, receipt.passed) == ("complete", 40)
    assert paid_once(service, member, 40) == (28, 12)
    assert receipt.maybe_paid_twice == 0


def test_a_cancellation_that_is_not_taken_is_tried_again(tmp_path: Path) -> None:
    service = ServiceOnClock(VirtualClock(), late)
    service.busy = 3
    member = Batching(service)
    receipt = played(scene(tmp_path, member, how={"batch": "4h"}), VirtualClock())
    assert (receipt.passed, paid_once(service, member, 40)) == (40, (28, 12))


def test_a_service_that_refuses_looks_is_not_hammered(tmp_path: Path) -> None:
    """It says that one may come back at once, for as long as anybody does."""
    service = ServiceOnClock(VirtualClock(), in_an_hour)
    service.deaf = 1000
    receipt = played(scene(tmp_path, Batching(service)), VirtualClock())
    assert (receipt.status, receipt.passed) == ("paused", 0)
    assert service.looks < 100


# ── nothing is forgotten ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("error", [Transient("lost", lost=True), InvalidReply("unreadable")])
def test_an_answer_that_is_lost_does_not_lose_the_batch(
    tmp_path: Path, named: bool, error: MemberError
) -> None:
    service = ServiceOnClock(VirtualClock(), in_an_hour, named=named, lose=1)
    service.unheard = error
    member = Batching(service)
    receipt = played(scene(tmp_path, member), VirtualClock())
    assert (receipt.passed, len(service.held)) == (40, 1)
    assert paid_once(service, member, 40) == (40, 0)


def test_a_batch_that_nobody_knows_for_certain_is_not_cancelled_but_an_operator_may(
    tmp_path: Path,
) -> None:
    """Its service keeps no names, and its answer was lost: it may be somebody else's. Cancelled there by
    hand, what was done is collected, and the rest is asked online. Whoever looks is told."""
    clock = VirtualClock()
    service = ServiceOnClock(clock, late, named=False, lose=1)
    member = Batching(service)

    async def cancel(run: Run, work: object) -> None:
        await clock.sleep(5 * HOUR)
        assert service.cancelled == {}, "not by the deadline"
        view = opening.look(str(tmp_path / "store"))
        with closing(view):
            for found in (view.read.in_batches(1), run.statistics().batches):
                assert (found.lines, found.unconfirmed) == (40, 40)
                assert "40 in batches" in batches_text(found)
                assert "40 not confirmed by the service" in batches_text(found)
        await service.cancel("b0")

    receipt = played(scene(tmp_path, member, how={"batch": "4h"}), clock, meanwhile=cancel)
    assert (receipt.status, receipt.passed) == ("complete", 40)
    assert paid_once(service, member, 40) == (28, 12)


@pytest.mark.parametrize("named", [True, False])
def test_wherever_the_process_dies_each_ask_is_paid_once(tmp_path: Path, named: bool) -> None:
    """After each commit, with the service as it was then, and as it was at the next one: a batch may be
    accepted before anybody has written that down."""
    clock = Later()
    takes = late if named else in_an_hour  # one that is not known for certain is not cancelled
    service = ServiceOnClock(clock, takes, named=named)
    member = Batching(service)
    found = scene(tmp_path, member, 12, how={"batch": "4h"})
    camera = Camera(
        found.store,
        tmp_path / "images",
        lambda: (
            dict(service.held),
            dict(service.cancelled),
            list(member.asked),
            clock.monotonic(),
        ),
    )
    whole = played(found, clock, camera=camera)
    assert whole.passed == 12
    seen = list(camera.seen.items())
    assert len(seen) > 8
    tried = 0
    for (image, now), (_, after) in zip(seen, [*seen[1:], seen[-1]], strict=True):
        for n, (held, cancelled, asked, at) in enumerate((now, after)):
            again = Later(at + 1.0)
            service = ServiceOnClock(again, takes, named=named)
            service.held, service.cancelled = dict(held), dict(cancelled)
            member = Batching(service)
            place = image if n else image.with_name(f"{image.name}-now")
            if not n:
                copy(image, place)
            done = played(Scene(place, (member,), found.items, how=found.how), again, resume=True)
            assert (done.status, done.passed) == ("complete", 12)
            billed = Counter([*service.answered(), *asked, *member.asked])
            twice = sum(billed.values()) - 12
            assert (len(billed), twice <= done.maybe_paid_twice) == (12, True), image
            assert max(Counter(service.answered()).values()) == 1, "no line is paid twice"
            tried += 1
    assert tried == 2 * len(seen)


def copy(image: Path, place: Path) -> None:
    place.mkdir()
    for file in image.iterdir():
        (place / file.name).write_bytes(file.read_bytes())


def test_another_run_does_not_pay_for_what_is_in_a_batch(tmp_path: Path) -> None:
    clock = Later()
    service = ServiceOnClock(clock, in_an_hour)
    member = Batching(service)
    first = scene(tmp_path, member, name="first")
    played(first, clock, meanwhile=pause_at(100.0))
    other = played(scene(tmp_path, member, name="other"), clock)
    assert (other.status, other.in_doubt, other.passed) == ("paused", 40, 0)
    assert other.reasons[0].reason.endswith("resume that run to collect it")
    clock.by = 2 * HOUR
    assert played(first, clock, resume=True).passed == 40
    again = played(scene(tmp_path, member, name="other"), clock, resume=True)
    assert (again.passed, paid_once(service, member, 40)) == (40, (40, 0))


def test_a_left_batch_is_neither_under_way_nor_in_doubt(tmp_path: Path) -> None:
    clock = Later()
    member = Batching(ServiceOnClock(clock, in_an_hour))
    played(scene(tmp_path, member), clock, meanwhile=pause_at(100.0))
    view = opening.look(str(tmp_path / "store"))
    try:
        found = view.read.in_batches(1)
        assert (found.lines, found.back) == (40, 0)
        assert view.read.unsettled(1, "in_doubt").attempts == 0
        (record,) = view.read.submissions(1)
        assert (record.state, record.service, record.lines) == ("sent", "b0", 40)
    finally:
        view.close()


# ── what is refused ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"batch": "soon"}, "a time is such as 90s, 30m or 6h, not 'soon'"),
        ({"batch": {}}, "`batch` needs `within`, such as 6h, or `auto: true`"),
        ({"batch": {"within": 0}}, "a time is more than 0, not 0"),
        ({"batch": {"in": "6h"}}, "unknown field `in` in a batch"),
        ({"batch": "6h", "shard": 2}, "state `batch` or `shard`, not both"),
        ({"batch": "6h", "hedge": Hedge(0.1)}, "state `batch` or `hedge`, not both"),
        ({"batch": "6h", "tools": [print]}, "state `batch` or `tools`, not both"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, how: dict[str, Any], why: str) -> None:
    member = Batching(ServiceOnClock(VirtualClock(), in_an_hour))
    with pytest.raises(BadInput) as refused:
        played(scene(tmp_path, member, how=how), VirtualClock())
    assert why in str(refused.value)


def test_a_member_without_a_service_is_refused_before_anything_starts(tmp_path: Path) -> None:
    def answer(ask: Ask, n: int) -> Reply:
        return Reply("x", usage=USED)

    member = Scripted(answer, traits("plain", price=PRICE))
    with pytest.raises(
        BadInput, match="plain has none that is known; if it has one, state `batch_price`"
    ):
        played(scene(tmp_path, member), VirtualClock())
    assert member.asked == []


def test_waiting_takes_no_slot(tmp_path: Path) -> None:
    """Forty lines of a member that takes one call at a time."""
    clock = VirtualClock()
    service = ServiceOnClock(clock, in_an_hour)
    member = Batching(service, traits("m", batch=0.5, price=PRICE, limits=_one()))
    receipt = played(scene(tmp_path, member, 40), clock)
    assert (receipt.passed, member.most_in_flight) == (40, 0)


def _one() -> Any:
    return MemberLimits(concurrency=1)
