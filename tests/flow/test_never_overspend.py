"""Promise 1. The provider's bill never passes the budget, whatever happens on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fanfold.errors import BadInput, InvalidReply, TimedOut, Transient
from fanfold.members.openai import OpenAI
from fanfold.members.replay import Replay
from fanfold.price import Price, cost, dollars
from fanfold.testing.member import Scripted, traits
from fanfold.testing.script import random_usage
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget
from tests.examples import seeds
from tests.flow.simulation import (
    PRICE,
    Camera,
    Provider,
    Said,
    Scene,
    in_its_store,
    outcomes,
    play,
    words,
)

ITEMS = 60
MOST = 400
WIDE = {"concurrency": 64}
PLENTY = Budget(usd=1000.0, tokens=10**9, calls=10**6)
Says = Callable[[Ask, int], Said]


def items(seed: int) -> list[str]:
    return [f"{seed}/{n}" for n in range(ITEMS)]


def drawn(ask: Ask) -> Usage:
    """Usage at random, up to what such a request may use; the same for the same ask."""
    chance = Random(str(ask.conversation()))
    return Usage(chance.randint(1, 1024), chance.randint(1, MOST))


def answers(seed: int) -> Says:
    """Always an answer, sooner or later."""
    chance = Random(seed)

    def says(ask: Ask, n: int) -> Said:
        usage = drawn(ask)
        return Said(Reply("fine", usage=usage), usage, chance.choice((1.0, 2.0, 3.0, 5.0)))

    return says


def mishaps(seed: int) -> Says:
    """Answers, but also calls that fail, that get lost, that are unreadable, that tell no usage;
    whatever may have been produced is billed.
    """
    chance = Random(seed)

    def says(ask: Ask, n: int) -> Said:
        usage, seconds = drawn(ask), chance.choice((1.0, 2.0, 3.0, 5.0))
        match chance.choice(("fine", "fine", "untold", "failed", "lost", "unreadable")):
            case "fine":
                return Said(Reply("fine", usage=usage), usage, seconds)
            case "untold":
                return Said(Reply("fine"), usage, seconds)
            case "failed":
                return Said(Transient("503"), Usage(), seconds)
            case "lost":
                return Said(TimedOut("no answer"), usage, seconds)
            case _:
                return Said(InvalidReply("not JSON"), usage, seconds)

    return says


def needed(seed: int) -> int:
    """What the input costs when all goes well, in nano-dollars."""
    usages = [drawn(Ask((Message("user", f"Say {text}"),))) for text in items(seed)]
    return sum(cost(PRICE, usage.input, usage.output) for usage in usages)


def scene(store: Path, seed: int, says: Says, budget: Budget) -> tuple[Scene, Provider]:
    provider = Provider(says)
    return Scene(store, (provider,), items(seed), budget, name=f"run {seed}", how=WIDE), provider


def of_needed(seed: int, share: float) -> Budget:
    return Budget(usd=dollars(round(needed(seed) * share)))


def adds_up(receipt: Receipt, planned: int = ITEMS) -> bool:
    return receipt.planned == planned == sum(outcomes(receipt).values())


# ── many runs ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("block", seeds(range(25), quick=1))
def test_at_64_at_once_the_bill_stays_within_the_budget(memory_path: Path, block: int) -> None:
    """20 runs, usage at random, in each block all budgets from a tenth of what is needed upward.
    Each is then resumed with enough money, and finishes without repeating a call."""
    for seed in range(block * 20, block * 20 + 20):
        budget = of_needed(seed, 0.1 + (seed % 20) / 16)
        first, provider = scene(memory_path, seed, answers(seed), budget)
        receipt = play(first)
        assert adds_up(receipt), seed
        assert provider.bill <= round(budget.usd * 1e9), seed
        assert receipt.cost_usd == dollars(provider.bill), seed
        assert receipt.status == ("paused" if receipt.unfunded else "complete"), seed
        if receipt.unfunded:
            assert (receipt.passed + receipt.unfunded, receipt.overrun_usd) == (ITEMS, 0.0), seed
            again = play(replace(first, budget=PLENTY), resume=True)
            assert (again.status, again.passed) == ("complete", ITEMS), seed
        assert sorted(provider.sent) == sorted(f"Say {text}" for text in items(seed)), seed


def test_most_of_those_budgets_are_too_small_and_most_of_the_money_is_used(
    memory_path: Path,
) -> None:
    """The test above would also hold for a run that spends nothing at all."""
    used = []
    for seed in range(1000, 1010):
        budget = of_needed(seed, 0.5)
        first, provider = scene(memory_path, seed, answers(seed), budget)
        assert play(first).status == "paused"
        used.append(provider.bill / (budget.usd * 1e9))
    assert min(used) > 0.85


@pytest.mark.parametrize("block", seeds(range(4), quick=1))
def test_lost_and_unreadable_calls_are_within_the_budget_too(memory_path: Path, block: int) -> None:
    for seed in range(2000 + block * 25, 2025 + block * 25):
        budget = of_needed(seed, 0.1 + (seed % 25) / 10)
        first, provider = scene(memory_path, seed, mishaps(seed), budget)
        receipt = play(first)
        assert adds_up(receipt), seed
        assert provider.bill <= receipt.cost_usd * 1e9 + 0.5, seed
        assert receipt.cost_usd <= budget.usd, seed


# ── killed in the middle ─────────────────────────────────────────────────────────────────────


def killed_and_resumed(
    base: Path, seed: int, says: Says, budget: Budget
) -> tuple[Receipt, Provider, Provider]:
    """The receipt of the second half, and the books of both: of the first as they were when it
    was killed, at a random commit."""
    first, before = scene(base / "store", seed, says, budget)
    camera = Camera(
        first.store, base / "images", lambda: (before.bill, before.tokens, before.sent[:])
    )
    play(first, after_commit=camera)
    image = Random(seed).choice(list(camera.seen))
    before.bill, before.tokens, before.sent = camera.seen[image]
    second, after = scene(image, seed, says, budget)
    return play(second, resume=True), before, after


@pytest.mark.parametrize("seed", seeds(range(3000, 3060), quick=12))
def test_killed_and_resumed_the_two_bills_together_stay_within_the_budget(
    memory_path: Path, seed: int
) -> None:
    budget = of_needed(seed, 0.1 + (seed % 20) / 20)
    says = mishaps(seed) if seed % 2 else answers(seed)
    receipt, before, after = killed_and_resumed(memory_path, seed, says, budget)
    assert adds_up(receipt)
    assert before.bill + after.bill <= round(receipt.cost_usd * 1e9)
    assert receipt.cost_usd <= budget.usd


@pytest.mark.parametrize("seed", seeds(range(3100, 3120), quick=5))
def test_killed_and_resumed_the_tokens_of_both_stay_within_the_budget(
    memory_path: Path, seed: int
) -> None:
    budget = Budget(tokens=4000 + (seed % 20) * 2000)
    receipt, before, after = killed_and_resumed(memory_path, seed, mishaps(seed), budget)
    assert adds_up(receipt)
    assert before.tokens + after.tokens <= budget.tokens


@pytest.mark.parametrize("given", [Reply("fine"), InvalidReply("not JSON")])
def test_the_worst_case_stands_after_a_resume_where_no_usage_was_told(
    memory_path: Path, given: Reply | Exception
) -> None:
    """There were tokens for one such call; there are none for a second one when it is resumed."""
    provider = Provider(lambda ask, n: Said(given, Usage(1000, 400)))
    scene = Scene(
        memory_path,
        (provider,),
        words(5),
        Budget(tokens=2000),
        how={"concurrency": 1, "attempts": 1},
    )
    play(scene)
    assert len(provider.sent) == 1
    play(scene, resume=True)
    assert (len(provider.sent), provider.tokens) == (1, 1400)


def test_killed_and_resumed_active_seconds_of_both_count(memory_path: Path) -> None:
    """200 calls of 1 s, four at once, are 50 s. Killed after about 20 of 30 allowed seconds, the
    second half has about 10 left, not 30 again."""

    def says(ask: Ask, n: int) -> Said:
        return Said(Reply("fine", usage=Usage(1, 1)), Usage(1, 1), 1.0)

    provider = Provider(says)
    first = Scene(
        memory_path / "store", (provider,), words(200), Budget(seconds=30.0), how={"concurrency": 4}
    )
    camera = Camera(first.store, memory_path / "images", lambda: len(provider.sent))
    play(first, after_commit=camera)
    image = next(image for image, sent in camera.seen.items() if sent >= 80)
    after = Provider(says)
    play(replace(first, store=image, members=(after,)), resume=True)
    assert len(after.sent) <= 48


# ── scopes and currencies ────────────────────────────────────────────────────────────────────


def test_a_step_has_a_budget_of_its_own_inside_that_of_the_run(memory_path: Path) -> None:
    for seed in range(4000, 4008):
        first, provider = scene(memory_path, seed, answers(seed), of_needed(seed, 0.9))
        small = of_needed(seed, 0.3)
        receipt = play(replace(first, how={**WIDE, "budget": small}))
        assert provider.bill <= small.usd * 1e9
        assert receipt.status == "paused"
        assert (receipt.reason or "").startswith("out of budget: dollars of the step map: ")
        assert adds_up(receipt) and receipt.unfunded > 0


def test_a_generous_step_is_still_inside_the_budget_of_the_run(memory_path: Path) -> None:
    first, provider = scene(memory_path, 1, answers(1), of_needed(1, 0.4))
    receipt = play(replace(first, how={**WIDE, "budget": of_needed(1, 3.0)}))
    assert provider.bill <= needed(1) * 0.4 + 1
    assert receipt.status == "paused"
    assert (receipt.reason or "").startswith("out of budget: dollars of the run: ")


def test_calls_are_counted_and_never_more_than_allowed(memory_path: Path) -> None:
    first, provider = scene(memory_path, 1, answers(1), Budget(calls=17))
    receipt = play(first)
    assert outcomes(receipt) == {"passed": 17, "unfunded": ITEMS - 17}
    assert len(provider.sent) == receipt.calls == 17
    again = play(replace(first, budget=Budget(calls=40)), resume=True)
    assert (outcomes(again), len(provider.sent)) == ({"passed": 40, "unfunded": 20}, 40)


def test_tokens_stay_within_the_budget(memory_path: Path) -> None:
    for seed in range(4100, 4110):
        most = 3000 * (seed % 10)
        first, provider = scene(memory_path, seed, mishaps(seed), Budget.of(tokens=most))
        assert adds_up(play(first))
        assert provider.tokens <= most


def test_a_member_without_a_price_cannot_run_under_a_step_budget_in_dollars(
    memory_path: Path,
) -> None:
    free = Scripted(lambda ask, n: Reply("fine"), traits(price=None))
    dear = Scene(memory_path, (free,), words(3), how={"budget": Budget(usd=1.0)})
    with pytest.raises(BadInput, match="no known price"):
        play(dear)
    assert free.asked == []


def test_a_member_that_is_too_dear_leaves_the_task_to_one_that_is_not(memory_path: Path) -> None:
    dear = Scripted(lambda ask, n: Reply("fine"), traits("dear", max_tokens=10_000_000))
    cheap = Scripted(lambda ask, n: Reply("fine", usage=Usage(1, 1)), traits("cheap"))
    receipt = play(Scene(memory_path, (dear, cheap), words(8), Budget(usd=1.0)))
    assert outcomes(receipt) == {"passed": 8}
    assert (len(dear.asked), len(cheap.asked)) == (0, 8)


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", seeds(range(20), quick=5))
def test_over_http_the_server_bills_no_more_than_the_budget(memory_path: Path, seed: int) -> None:
    """And the resumed run finishes without asking for anything twice."""
    asyncio.run(_over_http(memory_path, seed))


async def _over_http(store: Path, seed: int) -> None:
    async with ModelServer(random_usage(seed), prices=PRICE, latency=0.005) as server:
        like = traits(
            "http", kind="openai", answerer="openai:m", model="m", price=PRICE, max_tokens=MOST
        )
        whole = Scene(store, (OpenAI(like, server.url, lambda: "key"),), items(seed), how=WIDE)
        budget = of_needed(seed, 0.1 + seed / 15)
        receipt = await in_its_store(replace(whole, budget=budget))
        assert adds_up(receipt)
        assert server.books.bill <= round(budget.usd * 1e9)
        assert round(receipt.cost_usd * 1e9) == server.books.bill
        if receipt.status == "paused":
            receipt = await in_its_store(replace(whole, budget=PLENTY), resume=True)
        assert (receipt.status, receipt.passed) == ("complete", ITEMS)
        assert (len(server.books), server.books.paid_twice()) == (ITEMS, {})


def test_recorded_replies_with_a_price_stay_within_the_budget(tmp_path: Path) -> None:
    """What they will take is on record, so it is reserved before it is asked for."""
    rows = [
        {"id": str(n), "reply": "fine", "usage": {"input": 1000, "output": 1000}} for n in range(40)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "said.jsonl").write_text(lines)
    like = traits("replay", kind="replay", price=Price(input=1.0, output=1.0))
    scene = Scene(
        tmp_path / "store", (Replay(like, tmp_path / "said.jsonl"),), words(40),
        Budget(usd=0.0201), how={"concurrency": 16},
    )  # fmt: skip
    receipt = play(scene)
    assert (receipt.passed, receipt.unfunded, receipt.cost_usd) == (10, 30, 0.02)
