"""Services that lie: what they say of themselves is believed only as far as it can be true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.price import cost, dollars, worst
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.task import Budget
from tests.flow.simulation import PRICE, Provider, Said, Scene, outcomes, play, words

ANSWER = "An answer of some length, as models give them. " * 30
TRUE = Usage(30, 390)
BUDGET = Budget(usd=0.02)


# ── usage ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "told",
    [Usage(30, -99_000), Usage(-10, 390), Usage(0, 0), Usage(30, 2), Usage(30, 390, -9), Usage(30, 2**60)],
)  # fmt: skip
def test_a_service_that_reports_too_little_is_not_overspent(memory_path: Path, told: Usage) -> None:
    """Each such reply counts with its worst case, so the bill stays within the budget."""
    provider = Provider(lambda ask, n: Said(Reply(ANSWER, usage=told), TRUE))
    receipt = play(Scene(memory_path, (provider,), words(40), BUDGET, how={"concurrency": 8}))
    assert dollars(provider.bill) <= receipt.cost_usd <= 0.02
    assert receipt.unusable_usage == receipt.passed == len(provider.sent) > 0
    assert (receipt.status, receipt.passed + receipt.unfunded) == ("paused", 40)
    assert receipt.tokens == Usage()


def test_honest_usage_is_counted_as_before(memory_path: Path) -> None:
    provider = Provider(lambda ask, n: Said(Reply(ANSWER, usage=TRUE), TRUE))
    receipt = play(Scene(memory_path, (provider,), words(5)))
    assert receipt.cost_usd == dollars(provider.bill) == dollars(5 * cost(PRICE, 30, 390))
    assert (receipt.unusable_usage, receipt.tokens) == (0, Usage(150, 1950))


@pytest.mark.parametrize("told", [-5.0, float("nan"), float("inf"), "free"])
def test_a_cost_that_cannot_be_is_the_worst_case(memory_path: Path, told: Any) -> None:
    def says(ask: Ask, n: int) -> Said:
        return Said(Reply("fine", usage=Usage(10, 10), cost_usd=told))

    receipt = play(Scene(memory_path, (Provider(says),), words(1)))
    assert (outcomes(receipt), receipt.unusable_usage) == ({"passed": 1}, 1)
    assert receipt.cost_usd == dollars(worst(PRICE, 1024 + len("Say word 0"), 400))
