"""A second request never takes what is needed for asks that were not made yet: with a budget of exactly
the calls that a run takes, it ends as it would without hedges; with one more call, one is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from random import Random
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import RateLimited
from fanfold.patterns.ensemble import voters
from fanfold.patterns.nested import inside
from fanfold.price import Price, dollars
from fanfold.run.run import Run
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import Receipt
from fanfold.work.pieces import Fits
from fanfold.work.task import Budget, Hedge
from tests.flow.simulation import Provider, Said, Scene, play

ITEMS = [{"id": id, "text": f"word {id}"} for id in "abcd"]
TEXT = "\n\n".join(f"paragraph {n} of it" for n in range(6))
USED = Usage(9, 3)
MOST = 25
Work = Callable[[Run, Hedge | None], Awaitable[Any]]


def stages(hedge: Hedge | None) -> list[Any]:
    return [
        ff.stage("{{ item.id }}", step="a", hedge=hedge, concurrency=2),
        ff.stage("{{ item.id }} {{ steps.a }}", step="b", hedge=hedge),
        ff.stage("{{ steps.b }} of {{ item.id }}", step="c", by=voters(samples=3), hedge=hedge),
    ]


def short(piece: Any) -> bool:
    return len(piece.items[0].view()["text"]) < 25


WORK: dict[str, Work] = {
    "a tree": lambda run, hedge: ff.map_reduce(
        run, ITEMS, prompt="{{ item.text }}", hedge=hedge, concurrency=2,
        reduce=ff.asked("Join.", fan_in=2),
    ),
    "a judge": lambda run, hedge: ff.map_reduce(
        run, ITEMS, prompt="{{ item.text }}", hedge=hedge, concurrency=2,
        gate=ff.judge("Good? {{ reply }}"),
    ),
    "voters": lambda run, hedge: ff.ensemble(
        run, ITEMS, prompt="{{ item.text }}", hedge=hedge, concurrency=2, samples=5
    ),
    "stages": lambda run, hedge: ff.pipeline(
        run, ITEMS, *stages(hedge), reduce=ff.asked("Join.", fan_in=2)
    ),
    "stages in batch": lambda run, hedge: ff.pipeline(run, ITEMS, *stages(hedge), mode="batch"),
    "a synthesis": lambda run, hedge: ff.scatter_gather(
        run, ITEMS, prompt="{{ item.text }}", hedge=hedge, concurrency=2,
        synthesise=ff.asked("Join.", fan_in=2),
    ),
    "conduct": lambda run, hedge: ff.conduct(
        run, ITEMS, prompt="{{ item.text }}", hedge=hedge, at_once=2, say=lambda said: None,
        synthesise=ff.asked("Join.", fan_in=2),
    ),
    "pieces": lambda run, hedge: ff.divide_and_conquer(
        run, TEXT, prompt="{{ item.text }}", split="paragraphs", fits=Fits(test=short),
        hedge=hedge, concurrency=2, combine=ff.asked("Join.", fan_in=2),
    ),
    "a graph": lambda run, hedge: ff.graph(
        run, [{"id": id, "prompt": id, "depends_on": [*at]} for id, at in ("a ", "ba", "cb", "da")
              for at in [at.strip()]], hedge=hedge,
    ),
    "rounds": lambda run, hedge: ff.rank(
        run, ITEMS, prompt="Better? {{ item.choices }}", hedge=hedge, concurrency=2, rounds=3
    ),
    "pairs": lambda run, hedge: ff.resolve(run, ITEMS, hedge=hedge, concurrency=2),
    "inside a stage": lambda run, hedge: ff.pipeline(
        run, ITEMS[:1], ff.stage(by=inside(
            lambda data: [1, 2, 3, 4], "{{ item.value }}", reduce=ff.asked("Join.", fan_in=2),
            hedge=hedge, concurrency=2,
        )),
    ),
}  # fmt: skip


def answer(ask: Ask, n: int) -> Reply:
    asked = ask.messages[-1].content
    if "Good?" in asked:
        return Reply(data={"pass": True}, usage=USED)
    if "same" in asked:
        return Reply(data={"same": True}, usage=USED)
    return Reply("A", usage=USED)


def carried(
    store: Path, work: Work, *, slow: Collection[int] = (), calls: int | None = None
) -> tuple[Receipt, int]:
    """`slow`: which of the requests are. With how many requests were sent."""
    member = Provider(
        lambda ask, n: Said(answer(ask, n), USED, 20.0 if n in slow else 1.0), traits("m")
    )
    hedge = None if calls is None else Hedge(1.0, 5.0)
    budget = Budget(calls=calls)
    receipt = play(
        Scene(store, (member,), budget=budget, pattern=lambda run: work(run, hedge))
    )  # fmt: skip
    return receipt, len(member.sent)


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_a_second_request_leaves_enough_for_all_that_follows(memory_path: Path, work: Work) -> None:
    plain, needed = carried(memory_path / "plain", work)
    assert plain.status == "complete"
    for seed in range(6):
        slow = Random(seed).sample(range(needed), needed // 2) if seed else range(MOST)
        receipt, sent = carried(memory_path / f"{seed}", work, slow=slow, calls=needed)
        assert (receipt.status, receipt.hedged, sent) == ("complete", 0, needed), slow


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_what_is_left_over_is_for_second_requests(memory_path: Path, work: Work) -> None:
    """Nothing is kept back for asks that were made, or that will not be."""
    kept_back: list[int] = []

    async def noted(run: Run, hedge: Hedge | None) -> None:
        await work(run, hedge)
        kept_back.append(run.needs.total)

    _, needed = carried(memory_path / "plain", noted)
    receipt, sent = carried(memory_path / "more", noted, slow=[0], calls=needed + 2)
    assert (receipt.status, receipt.hedged, sent) == ("complete", 1, needed + 1)
    assert kept_back == [0, 0]


def test_items_that_leave_early_are_not_waited_for(memory_path: Path) -> None:
    """Of four items one goes on; what the others would have taken is for second requests."""

    async def work(run: Run, hedge: Hedge | None) -> None:
        await ff.pipeline(
            run, ITEMS,
            ff.stage("{{ item.id }}", step="a", concurrency=1,
                     gate=ff.predicate(lambda data: True), keep=lambda said: said == "A"),
            ff.stage("{{ item.id }} {{ steps.a }}", step="b", hedge=hedge),
        )  # fmt: skip

    says = iter(["B", "B", "B", "A", "A", "A"])
    member = Provider(
        lambda ask, n: Said(Reply(next(says), usage=USED), USED, 20.0 if n == 4 else 1.0),
        traits("m"),
    )
    scene = Scene(
        memory_path, (member,), budget=Budget(calls=6), pattern=lambda run: work(run, Hedge(1.0, 5.0))
    )  # fmt: skip
    receipt = play(scene)
    assert (receipt.status, receipt.passed, receipt.skipped) == ("complete", 1, 3)
    assert (receipt.hedged, len(member.sent)) == (1, 6)


def spent_of_month(
    store: Path, *, slow: Collection[int] = (), calls: int | None = None
) -> tuple[Receipt, int]:
    """As `carried`, with a budget of the month for so many calls instead of one of the run."""
    like = traits(
        "m", price=Price(call=0.01), budget_usd_month=None if calls is None else calls * 0.01
    )
    member = Provider(lambda ask, n: Said(answer(ask, n), USED, 20.0 if n in slow else 1.0), like)
    hedge = None if calls is None else Hedge(1.0, 5.0)
    receipt = play(
        Scene(store, (member,), pattern=lambda run: WORK["stages"](run, hedge))
    )  # fmt: skip
    return receipt, len(member.sent)


def test_a_second_request_leaves_enough_of_the_month(memory_path: Path) -> None:
    """Which is the member's, and known to the run: the last of its asks must not find it used up."""
    plain, needed = spent_of_month(memory_path / "plain")
    assert plain.status == "complete"
    receipt, sent = spent_of_month(memory_path / "exact", slow=range(MOST), calls=needed)
    assert (receipt.status, receipt.hedged, sent) == ("complete", 0, needed)
    receipt, sent = spent_of_month(memory_path / "more", slow=[0], calls=needed + 2)
    assert (receipt.status, receipt.hedged, sent) == ("complete", 1, needed + 1)


def test_what_a_refused_call_gives_back_is_kept_for_that_call(memory_path: Path) -> None:
    """The first ask waits for a second request when the third one is refused (429)."""

    def says(ask: Ask, n: int) -> Said:
        if n == 2:
            return Said(RateLimited("m: rate limited (429)"), seconds=4.0)
        return Said(answer(ask, n), USED, 60.0 if n == 0 else 4.0)

    def mapped(calls: int) -> tuple[Receipt, int]:
        member, how = Provider(says, traits("m")), {"hedge": Hedge(1.0, 5.0), "concurrency": 2}
        scene = Scene(memory_path / f"{calls}", (member,), ITEMS[:3], Budget(calls=calls), how=how)
        return play(scene), len(member.sent)

    receipt, sent = mapped(3)
    assert (receipt.status, receipt.hedged, sent) == ("complete", 0, 4)
    receipt, sent = mapped(4)
    assert (receipt.status, receipt.hedged, sent) == ("complete", 1, 5)


def longer_later(store: Path, month: float | None, slow: int = -1) -> tuple[Receipt, Provider]:
    """Two stages; the asks of the second one are longer, and cost five times as much."""

    def says(ask: Ask, n: int) -> Said:
        used = Usage(len(ask.messages[0].content) + 1024, 10)
        return Said(Reply("A", usage=used), used, 20.0 if n == slow else 1.0)

    price = Price(input=1.0, output=1.0)
    member = Provider(says, traits("m", price=price, max_tokens=10, budget_usd_month=month))
    hedge = None if month is None else Hedge(1.0, 5.0)

    async def work(run: Run) -> None:
        await ff.pipeline(
            run, ITEMS,
            ff.stage("{{ item.id }}", step="a", hedge=hedge, concurrency=2),
            ff.stage("long " * 800 + "{{ item.id }}", step="b", concurrency=2),
        )  # fmt: skip

    return play(Scene(store, (member,), pattern=work)), member


@pytest.mark.parametrize("slow", range(4))
def test_a_second_request_leaves_enough_of_the_month_for_longer_asks(
    memory_path: Path, slow: int
) -> None:
    """One for a tenth of a cent, where the last ask of the month costs half a cent."""
    plain, member = longer_later(memory_path / "plain", None)
    needed, sent = dollars(member.bill), len(member.sent)
    assert plain.status == "complete"
    receipt, member = longer_later(memory_path / "exact", needed + 0.0005, slow)
    assert (receipt.status, receipt.hedged, len(member.sent)) == ("complete", 0, sent)
    receipt, member = longer_later(memory_path / "more", needed + 0.0012, slow)
    assert (receipt.status, receipt.hedged, len(member.sent)) == ("complete", 1, sent + 1)


def test_a_second_map_of_a_script_is_left_enough_once_it_is_known(memory_path: Path) -> None:
    """Both are under way at once: neither hedge takes what the other map still needs."""

    async def work(run: Run, hedge: Hedge | None) -> None:
        await asyncio.gather(
            ff.map_reduce(run, ITEMS, prompt="{{ item.text }}", step="one", hedge=hedge),
            ff.map_reduce(run, ITEMS, prompt="Or {{ item.text }}", step="two", hedge=hedge,
                          concurrency=1),
        )  # fmt: skip

    plain, needed = carried(memory_path / "plain", work)
    assert (plain.status, needed) == ("complete", 2 * len(ITEMS))
    receipt, sent = carried(memory_path / "exact", work, slow=range(MOST), calls=needed)
    assert (receipt.status, receipt.hedged, sent) == ("complete", 0, needed)


def of_two_prices(store: Path, work: Work, usd: float | None = None) -> tuple[Receipt, int]:
    """Who judges or comes later costs ten times as much. The first request is slow."""
    cheap, dear = (
        Provider(
            lambda ask, n: Said(answer(ask, n), USED, 20.0 if n == 0 else 1.0),
            traits(id, price=Price(call=call)),
        )
        for id, call in (("cheap", 0.01), ("dear", 0.1))
    )
    hedge = None if usd is None else Hedge(1.0, 5.0)
    scene = Scene(
        store, (cheap, dear), budget=Budget.of(usd=usd), pattern=lambda run: work(run, hedge)
    )
    return play(scene), len(cheap.sent)


DEARER: dict[str, Work] = {
    "a judge": lambda run, hedge: ff.map_reduce(
        run, ITEMS[:2], prompt="{{ item.text }}", members=["cheap"], hedge=hedge,
        gate=ff.judge("Good? {{ reply }}", members=["dear"]),
    ),
    "a stage": lambda run, hedge: ff.pipeline(
        run, ITEMS[:2],
        ff.stage("{{ item.id }}", step="a", members=["cheap"], hedge=hedge),
        ff.stage("{{ item.id }} {{ steps.a }}", step="b", members=["dear"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("work", DEARER.values(), ids=DEARER)
def test_what_follows_may_cost_more_than_the_second_request(memory_path: Path, work: Work) -> None:
    """$0.22 are needed: a second request for a cent would leave no ten for the last of the dear calls."""
    receipt, sent = of_two_prices(memory_path / "exact", work, 0.22)
    assert (receipt.status, receipt.hedged, sent) == ("complete", 0, 2)
    receipt, sent = of_two_prices(memory_path / "more", work, 0.23)
    assert (receipt.status, receipt.hedged, sent) == ("complete", 1, 3)
