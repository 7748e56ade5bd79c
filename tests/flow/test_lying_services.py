"""Services that lie: what they say of themselves is with_plausible_usage only as far as it can be true."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fanfold.clock import RealClock
from fanfold.errors import Transient
from fanfold.journal.opening import open_store
from fanfold.members.openai import OpenAI
from fanfold.members.printed import paid
from fanfold.price import Price, cost, dollars, worst
from fanfold.run.cost import plausible
from fanfold.testing.member import Scripted, traits
from fanfold.testing.script import Says
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Ask, Call, Message, Reply, Round, Tools, Usage
from fanfold.work.member import Request
from fanfold.work.outcome import PASS, Receipt
from fanfold.work.task import Budget
from tests.flow.simulation import (
    PRICE,
    Provider,
    Said,
    Scene,
    carry_out,
    outcomes,
    play,
    words,
)

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


@pytest.mark.parametrize(("price", "at_most"), [(Price(call=0.01), False), (PRICE, True)])
def test_only_where_tokens_count_is_the_cost_without_usage_a_bound(
    memory_path: Path, price: Price, at_most: bool
) -> None:
    member = traits("provider", price=price, max_tokens=400)
    provider = Provider(lambda ask, n: Said(Reply("fine"), TRUE), like=member)
    receipt = play(Scene(memory_path, (provider,), words(3)))
    assert receipt.cost_at_most == at_most
    assert receipt.cost_usd >= dollars(provider.bill)
    assert at_most or receipt.cost_usd == 0.03


# ── errors after the reply was produced ──────────────────────────────────────────────────────


def behind_a_gateway(store: Path, says: Says, **how: Any) -> tuple[Receipt, ModelServer]:
    """A map of 20 items over HTTP under a small budget; each request gets this answer."""

    async def main() -> tuple[Receipt, ModelServer]:
        async with ModelServer(lambda asked: says, prices=PRICE) as server:
            like = traits("m", kind="openai", model="x", price=PRICE, max_tokens=400)
            member = OpenAI(like, server.url, lambda: None)
            scene = Scene(store, (member,), words(20), BUDGET, how={"attempts": 1, **how})
            journal = open_store(store)
            try:
                return await carry_out(journal, scene, RealClock()), server
            finally:
                journal.close()

    return asyncio.run(main())


BILLED = {"text": ANSWER, "usage": TRUE, "billed": True}


@pytest.mark.parametrize("status", [502, 504, 524])
def test_an_error_of_a_gateway_counts_as_spent(memory_path: Path, status: int) -> None:
    """The model answered behind it, and was paid for."""
    receipt, server = behind_a_gateway(memory_path, Says(status=status, **BILLED))
    assert 0 < dollars(server.books.bill) <= receipt.cost_usd <= 0.02
    assert receipt.passed == 0


def test_a_page_instead_of_an_error_counts_as_spent(memory_path: Path) -> None:
    receipt, server = behind_a_gateway(memory_path, Says(status=500, broken=True, **BILLED))
    assert 0 < dollars(server.books.bill) <= receipt.cost_usd <= 0.02


def test_the_providers_own_error_costs_nothing(memory_path: Path) -> None:
    receipt, _ = behind_a_gateway(memory_path, Says(status=503))
    assert (receipt.cost_usd, outcomes(receipt)) == (0.0, {"failed": 20})


def test_what_a_gateway_lost_is_held_where_the_step_says_so(memory_path: Path) -> None:
    """Nothing is asked twice before the operator says so."""
    says = Says(status=504, **BILLED)
    receipt, server = behind_a_gateway(memory_path, says, attempts=4, in_doubt="hold")
    prompts = [entry.prompt for entry in server.books.asked]
    assert len(prompts) == len(set(prompts)) == receipt.in_doubt > 0
    assert receipt.maybe_paid_twice == 0


# ── replies that were cut off ────────────────────────────────────────────────────────────────


def test_a_reply_without_a_known_end_never_passes_whatever_the_gate(memory_path: Path) -> None:
    """Nor does one that was recorded earlier, when it is used again."""

    def says(ask: Ask, n: int) -> Said:
        return Said(Reply("half a sent", finish="other", reason="abort", usage=Usage(9, 9)))

    provider = Provider(says)
    how = {"gate": lambda task, reply, ask: PASS, "revise": 0}
    scene = Scene(memory_path, (provider,), words(3), how=how)
    assert outcomes(play(scene)) == {"kicked": 3}
    again = play(replace(scene, name="later"))
    assert (outcomes(again), again.calls, again.reused) == ({"kicked": 3}, 0, 3)


# ── more than was reserved ───────────────────────────────────────────────────────────────────


def test_a_server_that_ignores_max_tokens_is_asked_no_more(memory_path: Path) -> None:
    """The first such reply closes it. What it cost is told as it is, above the budget or not."""
    much = Usage(30, 50_000)
    provider = Provider(lambda ask, n: Said(Reply(ANSWER, usage=much), much))
    scene = Scene(memory_path, (provider,), words(20), BUDGET, how={"concurrency": 1})
    receipt = play(scene)
    assert (receipt.status, len(provider.sent), receipt.passed) == ("paused", 1, 1)
    assert receipt.reason == (
        "provider: it does not keep max_tokens (50,000 tokens for 400), so nothing bounds what it"
        " costs; nothing more is sent to it"
    )
    assert receipt.cost_usd == dollars(provider.bill) > 0.2
    assert receipt.overrun_usd == pytest.approx(receipt.cost_usd - 0.02)


def test_others_go_on_when_one_ignores_max_tokens(memory_path: Path) -> None:
    few, much = Usage(30, 390), Usage(30, 500)
    like = traits("wild", price=PRICE, max_tokens=400)
    wild = Provider(lambda ask, n: Said(Reply(ANSWER, usage=much), much), like)
    tame = Provider(lambda ask, n: Said(Reply(ANSWER, usage=few), few))
    how = {"concurrency": 1, "members": ["wild", "provider"]}
    receipt = play(Scene(memory_path, (wild, tame), words(10), how=how))
    assert (receipt.status, len(wild.sent), len(tame.sent)) == ("complete", 1, 9)


def test_what_takes_more_than_its_price_stops_the_run_at_its_first_reply(
    memory_path: Path,
) -> None:
    """A command that states a cent a call, and reports a quarter of a dollar."""
    like = traits("cmd", kind="command", price=Price(call=0.01))
    member = Scripted(lambda ask, n: Reply("fine", cost_usd=0.24), like)
    how = {"concurrency": 1}
    receipt = play(Scene(memory_path, (member,), words(5), Budget(usd=0.05), how=how))
    assert (receipt.status, receipt.cost_usd, len(member.asked)) == ("paused", 0.24, 1)
    assert receipt.reason == (
        "cmd: a call took $0.240000, but at most $0.010000 by its price; correct `price` in the"
        " roster"
    )


def test_what_fails_and_takes_more_than_its_price_is_asked_no_more(memory_path: Path) -> None:
    """The same command, where it reports that and gives no reply."""
    like = traits("cmd", kind="command", price=Price(call=0.05))

    def fails(ask: Ask, n: int) -> Reply:
        raise paid(Transient("cmd: exit code 1"), None, 0.24)

    member = Scripted(fails, like)
    how = {"concurrency": 1, "attempts": 2}
    receipt = play(Scene(memory_path, (member,), words(4), Budget(usd=1), how=how))
    assert (receipt.status, receipt.cost_usd, len(member.asked)) == ("paused", 0.24, 1)
    assert not receipt.cost_at_most
    assert (receipt.reason or "").startswith("cmd: a call took $0.240000, but at most $0.050000")


def test_a_member_without_a_price_may_take_what_it_takes(memory_path: Path) -> None:
    like = traits("cmd", kind="command", price=None)
    member = Scripted(lambda ask, n: Reply("fine", cost_usd=0.24), like)
    assert outcomes(play(Scene(memory_path, (member,), words(3)))) == {"passed": 3}


def test_what_tools_gave_was_sent_too() -> None:
    """A prompt of two words, and ten thousand that its tools were asked for, are not ten tokens."""
    made = Round("", (Call("1", "search", {}),), (ANSWER * 40,))
    ask = Ask((Message("user", "Say it"),), tools=Tools((), "", (made,)))
    reply = Reply("fine", usage=Usage(10, 1))
    assert plausible(traits("m", kind="openai"), Request(ask), reply).unusable
    enough = Reply("fine", usage=Usage(13_000, 1))
    assert plausible(traits("m", kind="openai"), Request(ask), enough) is enough
