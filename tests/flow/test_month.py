"""A member's budget of the month holds over all runs of a store, in whichever processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fanfold.errors import BadInput
from fanfold.journal import opening
from fanfold.journal.contract import Store
from fanfold.journal.decide import month_bounds, month_of
from fanfold.journal.facts import StartAttempt
from fanfold.journal.limits import MonthlyLimit
from fanfold.journal.opening import open_store
from fanfold.observe.closing import resume_command
from fanfold.patterns.fold import collect
from fanfold.patterns.map_reduce import map_reduce
from fanfold.price import Price, dollars
from fanfold.run.run import Run
from fanfold.testing.clock import EPOCH, VirtualClock, run_virtual
from fanfold.testing.member import traits
from fanfold.testing.running import threaded_server
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Traits
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget
from tests.examples import seeds
from tests.flow.children import child, finished
from tests.flow.crash_child import Job
from tests.flow.simulation import (
    PRICE,
    Camera,
    Provider,
    Said,
    Scene,
    carry_out,
    outcomes,
    play,
    words,
)
from tests.flow.test_never_overspend import Says, answers, items, mishaps, needed

WIDE = {"concurrency": 16}
JULY = month_bounds(month_of(EPOCH))[1] - EPOCH

SHORT = "out of budget: provider: the next call does not fit its budget of the month: "


def monthly(usd: float, id: str = "provider", **changes: object) -> Traits:
    return traits(id, price=PRICE, max_tokens=400, budget_usd_month=usd, **changes)


def scene(store: Path, seed: int, says: Says, usd: float) -> tuple[Scene, Provider]:
    provider = Provider(says, monthly(usd))
    return Scene(store, (provider,), items(seed), name=f"run {seed}", how=WIDE), provider


def steady(ask: Ask, n: int) -> Said:
    """Every call takes a second and costs $0.001 of at most about $0.003."""
    return Said(Reply("fine", usage=Usage(500, 100)), Usage(500, 100), 1.0)


def used(store: Path, member: str = "provider", at: float = EPOCH) -> int:
    archive = opening.look(store)
    try:
        found = archive.read.month_uses(month_of(at))[member]
        assert found == archive.read.month_use(member, month_of(at))
        return found.whole
    finally:
        archive.close()


def test_two_runs_one_after_the_other_have_one_budget(memory_path: Path) -> None:
    """The second has what the first left, and then pauses, saying why; it names no new total of the
    run, which would not help."""
    first, one = scene(memory_path, 1, steady, 0.1)
    receipt = play(first)
    assert (outcomes(receipt), one.bill) == ({"passed": 60}, 60_000_000)
    second, two = scene(memory_path, 2, steady, 0.1)
    receipt = play(second)
    assert one.bill + two.bill == used(memory_path) <= 100_000_000
    assert receipt.status == "paused"
    assert (receipt.reason or "").startswith(SHORT + "$0.10 (")
    assert outcomes(receipt) == {"passed": len(two.sent), "unfunded": 60 - len(two.sent)}
    assert resume_command(receipt) == f"fanfold resume {receipt.run}"


def test_used_up_before_it_starts_a_run_that_names_nobody_pauses(memory_path: Path) -> None:
    """It is the money that is lacking, not a member: nothing is refused, and it can go on later."""
    first, _ = scene(memory_path, 1, steady, 0.1)
    play(first)
    second, provider = scene(memory_path, 2, steady, 0.05)
    receipt = play(second)
    assert (receipt.status, outcomes(receipt)) == ("paused", {"unfunded": 60})
    assert (receipt.reason or "").startswith(SHORT + "$0.05 (")
    assert provider.sent == []


def test_used_up_is_passed_over_while_another_member_fits(memory_path: Path) -> None:
    first, _ = scene(memory_path, 1, steady, 0.1)
    play(first)
    empty = Provider(steady, monthly(0.05))
    dearer = Provider(steady, traits("dearer", price=Price(input=2.0, output=10.0)))
    receipt = play(Scene(memory_path, (empty, dearer), words(60), how=WIDE))
    assert (outcomes(receipt), empty.sent, len(dearer.sent)) == ({"passed": 60}, [], 60)


@pytest.mark.parametrize("says", [answers, mishaps])
@pytest.mark.parametrize("block", seeds(range(4), quick=1))
def test_whatever_happens_the_bill_stays_within_it(
    memory_path: Path, block: int, says: Callable[[int], Says]
) -> None:
    """Three runs each, of random usage; every item has an outcome, and most of the money is used."""
    for seed in range(block * 8, block * 8 + 8):
        store = memory_path / str(seed)
        usd = dollars(round(needed(seed) * (0.3 + (seed % 8) / 4)))
        bill = 0
        for turn in range(3):
            run, provider = scene(store, seed + 1000 * turn, says(seed), usd)
            receipt = play(run)
            bill += provider.bill
            assert sum(outcomes(receipt).values()) == receipt.planned == 60
        assert bill <= used(store) <= round(usd * 1e9), seed
        assert receipt.status == "paused", seed
        assert used(store) > round(usd * 1e9) * 0.8, seed


@pytest.mark.parametrize("seed", seeds(range(20), quick=5))
def test_killed_and_resumed_both_bills_are_within_it(memory_path: Path, seed: int) -> None:
    usd = dollars(round(needed(seed) * (0.3 + seed / 20)))
    first, before = scene(memory_path / "store", seed, mishaps(seed), usd)
    camera = Camera(first.store, memory_path / "images", lambda: before.bill)
    play(first, after_commit=camera)
    image = Random(seed).choice(list(camera.seen))
    second, after = scene(image, seed, mishaps(seed), usd)
    receipt = play(second, resume=True)
    assert camera.seen[image] + after.bill <= used(image) <= round(usd * 1e9)
    assert sum(outcomes(receipt).values()) == 60


def test_another_member_takes_over(memory_path: Path) -> None:
    small, other = Provider(steady, monthly(0.02, "small")), Provider(steady, monthly(9, "other"))
    receipt = play(Scene(memory_path, (small, other), words(60), how=WIDE))
    assert outcomes(receipt) == {"passed": 60}
    assert small.bill <= 20_000_000
    assert (len(small.sent) > 0, len(small.sent) + len(other.sent)) == (True, 60)


def test_shards_wait_for_money_as_a_whole(memory_path: Path) -> None:
    def says(ask: Ask, n: int) -> Said:
        told = ask.conversation()[-1].content
        data = {"answers": [{"id": f"word {i}", "answer": "fine"}
                            for i in range(40) if f'"word {i}"' in told]}  # fmt: skip
        return Said(Reply(data=data, usage=Usage(500, 100)), Usage(500, 100), 1.0)

    provider = Provider(says, monthly(0.009))
    records = [{"id": text, "text": text} for text in words(40)]
    receipt = play(Scene(memory_path, (provider,), records, how={**WIDE, "shard": 10}))
    assert (outcomes(receipt), len(provider.sent)) == ({"passed": 40}, 4)


def later(
    store: Path, act: Callable[[Store, VirtualClock], Awaitable[None]], at: float = 0.0
) -> None:
    """On a virtual clock, so many seconds after its epoch."""

    async def main(clock: VirtualClock) -> None:
        await clock.sleep(at)
        journal = open_store(store, thread=False)
        try:
            await act(journal, clock)
        finally:
            journal.close()

    run_virtual(main)


def test_next_month_there_is_money_again(memory_path: Path) -> None:
    first, provider = scene(memory_path, 1, steady, 0.03)
    assert play(first).status == "paused"
    spent = provider.bill

    async def act(journal: Store, clock: VirtualClock) -> None:
        receipt = await carry_out(journal, first, clock, resume=True)
        assert (receipt.reason or "").startswith(SHORT + "$0.03 (")
        assert provider.bill == spent
        await clock.sleep(2.0)
        receipt = await carry_out(journal, first, clock, resume=True)
        assert (receipt.status, provider.bill > spent) == ("paused", True)

    later(memory_path, act, JULY - 1.0)
    assert spent == used(memory_path)
    assert provider.bill - spent == used(memory_path, at=EPOCH + JULY + 1.0) <= 30_000_000


def test_a_run_that_lives_to_see_the_next_month_uses_the_member_again(memory_path: Path) -> None:
    small = Provider(steady, monthly(0.004, "small"))
    seen: list[int] = []

    def says(ask: Ask, n: int) -> Said:
        seen.append(len(small.sent))
        return steady(ask, n)

    other = Provider(says, monthly(9, "other"))
    run = Scene(memory_path, (small, other), words(200), how={"concurrency": 2})

    async def act(journal: Store, clock: VirtualClock) -> None:
        receipt = await carry_out(journal, run, clock)
        assert outcomes(receipt) == {"passed": 200}

    later(memory_path, act, JULY - 50.0)
    assert (used(memory_path, "small"), used(memory_path, "small", EPOCH + JULY)) == (
        seen[40] * 1_000_000, (len(small.sent) - seen[40]) * 1_000_000,
    )  # fmt: skip
    assert 0 < seen[40] < len(small.sent)


def test_what_a_dead_process_holds_is_not_waited_for(memory_path: Path) -> None:
    """It died with all of the budget reserved, after our run was opened. That counts as spent."""
    provider = Provider(steady, monthly(0.01))

    async def after_that(run: Run) -> None:
        other = open_store(memory_path, thread=False)
        claim = await other.write(
            StartAttempt(run=run.record.no, step=0, session="dead", member="provider", answerer="a",
                  keys=(b"k",), ids=("k",), accept=("a",), reserved=10_000_000, reserved_tokens=0,
                  at=EPOCH, monthly=MonthlyLimit(month_of(EPOCH), 10_000_000))
        )  # fmt: skip
        assert claim.attempt == 1
        other.close()
        how = {"prompt": "Say {{ item.text }}", "reduce": collect(), "member": "provider"}
        await map_reduce(run, words(5), **how)

    receipt = play(Scene(memory_path, (provider,), pattern=after_that))
    assert (receipt.reason or "").startswith(SHORT + "$0.01 (")
    assert (outcomes(receipt), provider.sent) == ({"unfunded": 5}, [])
    assert receipt.seconds < 1.0


def test_a_member_without_a_price_cannot_have_one(memory_path: Path) -> None:
    unknown = Provider(steady, traits("unknown", price=None, budget_usd_month=5.0))
    with pytest.raises(BadInput, match="member unknown has no known price"):
        play(Scene(memory_path, (unknown,), words(3), how={"member": "unknown"}))
    assert unknown.sent == []


def test_the_budget_of_the_run_holds_all_the_same(memory_path: Path) -> None:
    first, provider = scene(memory_path, 1, steady, 5.0)
    receipt = play(replace(first, budget=Budget(usd=0.01)))
    assert provider.bill <= 10_000_000
    assert (receipt.reason or "").startswith("out of budget: dollars of the run: ")


def test_three_processes_at_once_never_pass_it(tmp_path: Path) -> None:
    """Real ones, over HTTP, on different items: together the server bills no more than the budget,
    and no further call would have fitted into what is left."""
    usd, script = 0.01, "tests.flow.crash_child:answered"
    with threaded_server(
        tmp_path / "books.jsonl", script=script, price=PRICE, latency_ms=4.0
    ) as server:
        jobs = [
            Job(store=str(tmp_path / "store"), url=server.url, name=f"job {n}", usd_month=usd,
                items=[f"{n}/{i} {'long ' * 60}" for i in range(150)], concurrency=8)
            for n in range(3)
        ]  # fmt: skip
        told = [finished(process) for process in [child(job) for job in jobs]]
        bill = server.books().bill
    receipts: list[Receipt] = [one.receipt for one in told if one is not None]
    spent = sum(receipt.cost_usd for receipt in receipts)
    assert (len(receipts), round(spent * 1e9)) == (3, bill)
    assert usd - 0.003 < spent <= usd
    reason = "out of budget: http: the next call does not fit its budget of the month: $0.01"
    assert {receipt.status for receipt in receipts} == {"paused"}
    assert all((receipt.reason or "").startswith(f"{reason} (") for receipt in receipts)


def test_a_call_that_is_too_large_for_it_does_not_keep_smaller_ones_from_going(
    memory_path: Path,
) -> None:
    provider = Provider(steady, monthly(0.01))
    texts = ["small 1", "large " * 9000, "small 2", "small 3"]
    receipt = play(Scene(memory_path, (provider,), texts, how={"concurrency": 1}))
    assert outcomes(receipt) == {"passed": 3, "unfunded": 1}
    assert (receipt.reason or "").startswith(SHORT + "$0.01 (")
