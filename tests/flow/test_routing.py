"""The router at work: who gets the tasks, who takes over, what is waited for, and what a cascade
saves. Calls are counted in the books of those who answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, MemberError, RateLimited, Terminal, Transient
from fanfold.journal import opening
from fanfold.journal.answers import AttemptRecord
from fanfold.observe.account import account
from fanfold.observe.report import report
from fanfold.observe.status import summarize
from fanfold.patterns.ensemble import ensemble
from fanfold.price import Price, cost, dollars
from fanfold.run.run import Run
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberLimits
from fanfold.work.outcome import PASS, Saving, Verdict, fail
from fanfold.work.task import Budget
from tests.flow.simulation import Camera, Meanwhile, Provider, Said, Scene, outcomes, play, words

USED = Usage(100, 20)
CHEAP, DEAR = Price(input=1.0, output=5.0), Price(input=15.0, output=75.0)
Says = Callable[[Ask, int], Said]


def good(ask: Ask, n: int) -> Said:
    return Said(Reply("fine", usage=USED), USED, 1.0)


def failing(error: MemberError, when: Callable[[int], bool] = lambda n: True) -> Says:
    return lambda ask, n: Said(error, seconds=1.0) if when(n) else good(ask, n)


def provider(id: str, says: Says = good, price: Price | None = CHEAP, **changes: Any) -> Provider:
    return Provider(says, traits(id, price=price, max_tokens=100, **changes))


def sent(*members: Provider) -> list[int]:
    return [len(one.sent) for one in members]


def attempts(store: Path) -> list[AttemptRecord]:
    archive = opening.look(store)
    try:
        return archive.read.attempts(1)
    finally:
        archive.close()


def whys(store: Path) -> dict[tuple[str, str], int]:
    """How often each member was asked for each reason."""
    found: dict[tuple[str, str], int] = {}
    for one in attempts(store):
        found[one.member, one.why] = found.get((one.member, one.why), 0) + 1
    return found


def told(store: Path) -> list[str]:
    """What the report says of escalation."""
    archive = opening.look(store)
    try:
        record = archive.read.find("scene")
        assert record is not None
        standing = summarize(archive.read, record, archive.sessions.alive, 0.0)
        page = report(account(archive, standing))
    finally:
        archive.close()
    lines = page.partition("## Escalation")[2].partition("##")[0].strip().splitlines()
    return ["## Escalation", "", *lines] if lines else []


# ── classes ──────────────────────────────────────────────────────────────────────────────────


ONE_AT_ONCE, TWO_AT_ONCE = MemberLimits(concurrency=1), MemberLimits(concurrency=2)


def test_when_the_best_are_full_the_next_best_take_the_rest(memory_path: Path) -> None:
    """Three members of two slots each, of three prices: six at once."""
    prices = (CHEAP, Price(input=2.0, output=5.0), DEAR)
    three = [
        provider(f"m{n}", price=price, limits=TWO_AT_ONCE, good_at=("law",))
        for n, price in enumerate(prices)
    ]
    receipt = play(Scene(memory_path, tuple(three), words(24), how={"needs": ["law"]}))
    assert (outcomes(receipt), receipt.seconds) == ({"passed": 24}, 4.0)
    assert sent(*three) == [8, 8, 8]
    assert whys(memory_path)["m2", "next best that is good at law; m0 and m1 cannot be used now"]


def test_but_not_before(memory_path: Path) -> None:
    """Who has a free slot is asked first, and one that is tried out for the first time is not full."""
    cheap = provider("cheap", limits=MemberLimits(concurrency=4), remote=True)
    dear = provider("dear", price=DEAR)
    play(Scene(memory_path, (dear, cheap), words(12), how={"concurrency": 4}))
    assert sent(cheap, dear) == [12, 0]


def test_spread_best_waits_for_the_cheapest_also_when_it_is_busy(memory_path: Path) -> None:
    cheap = provider("cheap", limits=TWO_AT_ONCE)
    dear = provider("dear", price=DEAR)
    receipt = play(Scene(memory_path, (dear, cheap), words(20), how={"spread": "best"}))
    assert (sent(cheap, dear), outcomes(receipt)) == ([20, 0], {"passed": 20})
    assert receipt.seconds == 10.0
    assert whys(memory_path) == {("cheap", "cheapest"): 20}


def test_spread_goes_with_members_that_are_not_named(memory_path: Path) -> None:
    scene = Scene(memory_path, (provider("a"),), words(1), how={"member": "a", "spread": "best"})
    with pytest.raises(BadInput, match="`spread` goes with `needs`: those that `member` names"):
        play(scene)
    with pytest.raises(BadInput, match="unknown spread `wide`: known: best, overflow"):
        play(replace(scene, how={"spread": "wide"}))


def test_those_that_are_alike_share_the_work(memory_path: Path) -> None:
    a, b, dear = provider("a"), provider("b"), provider("dear", price=DEAR)
    play(Scene(memory_path, (a, dear, b), words(20)))
    assert (sorted(sent(a, b)), sent(dear)) == ([10, 10], [0])
    assert whys(memory_path) == {
        ("a", "one of the 2 best"): 10,
        ("b", "one of the 2 best"): 10,
    }


def test_named_members_share_the_work_whatever_they_cost(memory_path: Path) -> None:
    cheap, dear = provider("cheap"), provider("dear", price=DEAR)
    play(Scene(memory_path, (cheap, dear), words(20), how={"members": ["cheap", "dear"]}))
    assert sent(cheap, dear) == [10, 10]
    assert whys(memory_path) == {("cheap", "named"): 10, ("dear", "named"): 10}


def test_the_cheapest_of_those_that_fit_is_asked_whatever_else_it_is_good_at(
    memory_path: Path,
) -> None:
    narrow = provider("narrow", price=DEAR, good_at=("law",))
    wide = provider("wide", good_at=("law", "sums", "prose"))
    other = provider("other", price=Price(), good_at=("sums",))
    play(Scene(memory_path, (narrow, wide, other), words(6), how={"needs": ["law"]}))
    assert sent(narrow, wide, other) == [0, 6, 0]
    assert whys(memory_path) == {("wide", "best that is good at law"): 6}


def test_use_takes_the_best(memory_path: Path) -> None:
    """The third one could go on, but it is not among the two."""
    dead = failing(Terminal("no such model", scope="member"))
    a, b = provider("a", dead), provider("b", dead, price=Price(input=2.0, output=5.0))
    dear = provider("dear", price=DEAR)
    receipt = play(Scene(memory_path, (dear, b, a), words(3), how={"use": 2}))
    assert (receipt.status, sent(dear)) == ("paused", [0])
    assert receipt.reason == "a: no such model; b: no such model"


# ── who takes over ───────────────────────────────────────────────────────────────────────────


def test_when_its_key_dies_the_next_class_takes_over(memory_path: Path) -> None:
    """Nothing is lost, nothing is paid twice, and nothing is sent to the dead key any more."""
    dies = failing(Terminal("bad key", scope="pool"), lambda n: n >= 10)
    cheap, dear = provider("cheap", dies), provider("dear", price=DEAR)
    dearest = provider("dearest", price=Price(input=20.0, output=75.0))
    receipt = play(Scene(memory_path, (dear, dearest, cheap), words(40), how={"concurrency": 4}))
    assert outcomes(receipt) == {"passed": 40}
    refused = sent(cheap)[0] - 10
    assert 1 <= refused <= 4  # those that were under way
    assert sent(dear, dearest) == [30, 0]
    assert dear.sent_again == {}
    assert receipt.cost_usd == dollars(cheap.bill + dear.bill)
    assert whys(memory_path) == {
        ("cheap", "cheapest"): 10 + refused,
        ("dear", "next best; after cheap failed"): refused,
        ("dear", "next best; cheap cannot be used now"): 30 - refused,
    }


def test_killed_at_any_moment_while_another_takes_over(memory_path: Path) -> None:
    """Resumed from every commit: what was answered is not asked again, by anybody."""

    answered: set[str] = set()

    def noted(says: Says) -> Says:
        def note(ask: Ask, n: int) -> Said:
            said = says(ask, n)
            if isinstance(said.given, Reply):
                answered.add(ask.messages[0].content)
            return said

        return note

    def members() -> tuple[Provider, Provider]:
        dies = failing(Terminal("bad key", scope="pool"), lambda n: n >= 3)
        return provider("cheap", noted(dies)), provider("dear", noted(good), price=DEAR)

    scene = Scene(memory_path / "store", members(), words(8), how={"concurrency": 2})
    camera = Camera(scene.store, memory_path / "images", lambda: frozenset(answered))
    play(scene, after_commit=camera)
    assert len(camera.seen) > 10
    for image, before in camera.seen.items():
        again = members()
        receipt = play(replace(scene, store=image, members=again), resume=True)
        assert outcomes(receipt) == {"passed": 8}
        repeated = {prompt for one in again for prompt in one.sent} & before
        assert len(repeated) <= receipt.maybe_paid_twice


def test_a_task_that_failed_goes_to_a_worse_class_and_the_others_do_not(memory_path: Path) -> None:
    cheap = provider("cheap", failing(Transient("500"), lambda n: n == 0))
    dear = provider("dear", price=DEAR)
    receipt = play(Scene(memory_path, (cheap, dear), words(10), how={"concurrency": 1}))
    assert (sent(cheap, dear), outcomes(receipt)) == ([10, 1], {"passed": 10})
    assert whys(memory_path)["dear", "next best; after cheap failed"] == 1


def test_a_member_that_says_wait_is_waited_for(memory_path: Path) -> None:
    """A refusal for now is no failure: the work does not spill over to what costs more."""
    cheap = provider("cheap", failing(RateLimited("429", retry_after=30.0), lambda n: n < 4))
    dear = provider("dear", price=DEAR)
    how = {"concurrency": 4, "spread": "best"}
    receipt = play(Scene(memory_path, (cheap, dear), words(8), how=how))
    assert (outcomes(receipt), sent(dear)) == ({"passed": 8}, [0])
    assert receipt.seconds > 30.0


def test_unless_others_may_take_what_it_cannot_take_now(memory_path: Path) -> None:
    cheap = provider("cheap", failing(RateLimited("429", retry_after=30.0), lambda n: n < 4))
    dear = provider("dear", price=DEAR)
    receipt = play(Scene(memory_path, (cheap, dear), words(8), how={"concurrency": 4}))
    assert (outcomes(receipt), sent(dear)) == ({"passed": 8}, [8])
    assert receipt.seconds < 30.0


def test_but_not_for_ever(memory_path: Path) -> None:
    """After `max_wait` of nothing but refusals it is closed, and others go on."""
    cheap = provider("cheap", failing(RateLimited("429", retry_after=60.0)))
    dear = provider("dear", price=DEAR)
    how = {"concurrency": 1, "spread": "best"}
    receipt = play(Scene(memory_path, (cheap, dear), words(3), how=how))
    assert (outcomes(receipt), sent(dear)) == ({"passed": 3}, [3])
    assert 500 < receipt.seconds <= 600


def test_a_quota_that_comes_back_is_used_again(memory_path: Path) -> None:
    """While the breaker is open others go on; at the reset time the cheap one is asked again."""
    gone = Terminal("quota gone", scope="pool", reset_after=4.5)
    cheap = provider("cheap", failing(gone, lambda n: n == 2))
    dear = provider("dear", price=DEAR)
    receipt = play(Scene(memory_path, (cheap, dear), words(20), how={"concurrency": 1}))
    assert outcomes(receipt) == {"passed": 20}
    assert sent(cheap, dear) == [16, 5]  # one refused; five seconds, one call each


# ── fallback ─────────────────────────────────────────────────────────────────────────────────


def test_a_fallback_is_asked_only_when_all_before_it_cannot_be(memory_path: Path) -> None:
    dead = failing(Terminal("gone", scope="pool"))
    a = provider("a", price=DEAR, limits=MemberLimits(concurrency=1))
    b, c = provider("b", dead), provider("c")
    how = {"members": ["a"], "fallback": ["b", "c"]}
    receipt = play(Scene(memory_path, (c, b, a), words(5), how=how))
    assert (outcomes(receipt), sent(a, b, c)) == ({"passed": 5}, [5, 0, 0])


def test_fallbacks_go_in_their_order(memory_path: Path) -> None:
    dead = failing(Terminal("gone", scope="pool"))
    a, b, c = provider("a", dead, price=DEAR), provider("b", dead), provider("c")
    how = {"member": "a", "fallback": ["b", "c"]}
    receipt = play(Scene(memory_path, (c, b, a), words(1), how=how))
    assert (outcomes(receipt), sent(a, b, c)) == ({"passed": 1}, [1, 1, 1])
    assert whys(memory_path) == {
        ("a", "named"): 1,
        ("b", "fallback; after a failed"): 1,
        ("c", "fallback; after a and b failed"): 1,
    }


def test_an_unknown_fallback_is_refused_before_anything_starts(memory_path: Path) -> None:
    a = provider("alpha")
    with pytest.raises(BadInput, match=r"there is no member `alpho`: did you mean `alpha`\?"):
        play(Scene(memory_path, (a,), words(2), how={"member": "alpha", "fallback": ["alpho"]}))
    assert sent(a) == [0]


# ── who may ──────────────────────────────────────────────────────────────────────────────────


def test_an_ask_that_is_too_long_for_one_goes_to_another(memory_path: Path) -> None:
    """By its estimated tokens; the short ones stay with the cheap one, and do not wait in line."""
    small = provider("small", context=200)
    large = provider("large", price=DEAR, context=10_000)
    items = ["short", "x" * 1000, "brief", "y" * 1000]
    receipt = play(Scene(memory_path, (small, large), items, how={"concurrency": 4}))
    assert outcomes(receipt) == {"passed": 4}
    assert (sorted(small.sent), sorted(large.sent)) == (
        ["Say brief", "Say short"],
        [f"Say {'x' * 1000}", f"Say {'y' * 1000}"],
    )


def test_who_has_no_known_price_is_passed_over_under_a_dollar_budget(memory_path: Path) -> None:
    unknown, known = provider("unknown", price=None), provider("known", price=DEAR)
    scene = Scene(memory_path, (unknown, known), words(3), Budget(usd=1.0))
    assert outcomes(play(scene)) == {"passed": 3}
    assert sent(unknown, known) == [0, 3]


def test_also_when_the_budget_is_that_of_a_step(memory_path: Path) -> None:
    unknown, known = provider("unknown", price=None), provider("known", price=DEAR)
    how = {"budget": Budget(usd=1.0)}
    assert outcomes(play(Scene(memory_path, (unknown, known), words(3), how=how))) == {"passed": 3}
    assert sent(unknown, known) == [0, 3]


def test_what_was_paid_is_not_paid_again_by_others(memory_path: Path) -> None:
    """The first run's member may not be asked in the second; its replies serve all the same."""
    first = provider("unknown", price=None)
    play(Scene(memory_path, (first,), words(3)))
    unknown, known = provider("unknown", price=None), provider("known", price=DEAR)
    receipt = play(Scene(memory_path, (unknown, known), words(3), Budget(usd=1.0), name="second"))
    assert (sent(unknown, known), receipt.reused) == ([0, 0], 3)


def test_nobody_fits_is_told_before_anything_starts(memory_path: Path) -> None:
    a = provider("a", good_at=("legal",))
    with pytest.raises(BadInput) as caught:
        play(Scene(memory_path, (a,), words(2), how={"needs": ["legal", "extraction"]}))
    assert str(caught.value) == "no member is good at legal and extraction; nearest: a (legal)"
    assert sent(a) == [0]


def test_the_past_at_such_a_step_decides_between_those_alike(memory_path: Path) -> None:
    """One at a time, both free: the one that answered better last time gets it."""
    flaky = failing(Transient("500"), lambda n: n % 2 == 0)
    play(Scene(memory_path, (provider("a", flaky), provider("b")), words(12), how={
        "concurrency": 1, "members": ["a", "b"]}))  # fmt: skip
    a, b = provider("a"), provider("b")
    items = [f"other {i}" for i in range(6)]
    play(Scene(memory_path, (a, b), items, name="second", how={"concurrency": 1}))
    assert sent(a, b) == [0, 6]


# ── cascades ─────────────────────────────────────────────────────────────────────────────────


def no_bad(task: Any, reply: Reply, ask: Any) -> Verdict:
    return fail("it is bad") if reply.text == "bad" else PASS


def test_a_cascade_tells_what_it_saved(memory_path: Path) -> None:
    """Eight of ten are settled by the cheap one; what the better one would have taken for them is
    its price for what the cheap replies took."""

    def says(ask: Ask, n: int) -> Said:
        hard = ask.messages[0].content in ("Say word 3", "Say word 7")
        return Said(Reply("bad" if hard else "fine", usage=USED), USED)

    cheap, better = provider("cheap", says), provider("better", price=DEAR)
    how = {"member": "cheap", "escalate": ["better"], "revise": 0, "gate": no_bad}
    receipt = play(Scene(memory_path, (cheap, better), words(10), how=how))
    assert (outcomes(receipt), sent(cheap, better)) == ({"passed": 10}, [10, 2])
    instead = dollars(8 * cost(DEAR, USED.input, USED.output))
    assert receipt.cascades == (Saving("map", "better", 8, dollars(cheap.bill), instead),)
    assert whys(memory_path) == {("cheap", "named"): 10, ("better", "escalated"): 2}
    assert told(memory_path) == [
        "## Escalation",
        "",
        "- map: 8 items settled without better for $0.0020;"
        " better would have taken about $0.0240 for them",
    ]
    again = play(Scene(memory_path, (cheap, better), words(10), name="again", how=how))
    assert (again.calls, again.cascades) == (0, ())  # replies on record save nothing anew


def test_without_escalation_nothing_is_said_of_savings(memory_path: Path) -> None:
    receipt = play(Scene(memory_path, (provider("cheap"),), words(2)))
    assert receipt.cascades == ()


def voter(id: str, answers: dict[str, str], price: Price = CHEAP) -> Provider:
    def says(ask: Ask, n: int) -> Said:
        return Said(Reply(answers[ask.messages[0].content], usage=USED), USED)

    return provider(id, says, price)


def question(members: tuple[Provider, ...], store: Path, **how: Any) -> tuple[Any, Scene]:
    found: list[Any] = []

    async def pattern(run: Run) -> None:
        asked = {"prompt": "{{ item.text }}", "members": ["a", "b", "c"], **how}
        found.append((await ensemble(run, ["x", "y"], **asked)).value)

    return found, Scene(store, members, pattern=pattern)


def test_a_vote_without_a_decision_escalates(memory_path: Path) -> None:
    """All agree on x; on y nobody does, so a better member answers it."""
    a, b, c = (voter(id, {"x": "1", "y": own}) for id, own in (("a", "4"), ("b", "5"), ("c", "6")))
    better = voter("better", {"y": "5"}, DEAR)
    how = {"decide": "quorum", "quorum": 2, "escalate": ["better"]}
    found, scene = question((a, b, c, better), memory_path, **how)
    receipt = play(scene)
    assert outcomes(receipt) == {"passed": 2}
    assert [(one["state"], one["answer"]) for one in found[0]] == [("passed", "1"), ("passed", "5")]
    assert [one["member"] for one in found[0][1]["dissent"]] == ["a", "c"]
    assert (better.sent, sent(a, b, c)) == (["y"], [2, 2, 2])
    instead = dollars(cost(DEAR, USED.input, USED.output))
    spent = dollars(a.bill + b.bill + c.bill)
    assert receipt.cascades == (Saving("ensemble", "better", 1, spent, instead),)


@pytest.mark.parametrize(("confidence", "asked"), [(0.6, []), (0.9, ["y"])])
def test_so_does_one_whose_leader_is_not_sure_enough(
    memory_path: Path, confidence: float, asked: list[str]
) -> None:
    a, b, c = (voter(id, {"x": "1", "y": own}) for id, own in (("a", "4"), ("b", "4"), ("c", "6")))
    better = voter("better", {"y": "6"}, DEAR)
    how = {"confidence": confidence, "quorum": 3, "escalate": ["better"]}
    found, scene = question((a, b, c, better), memory_path, **how)
    assert outcomes(play(scene)) == {"passed": 2}
    assert better.sent == asked
    assert found[0][1]["answer"] == ("6" if asked else "4")


def test_each_is_asked_in_turn_and_who_does_not_pass_is_named(memory_path: Path) -> None:
    a, b, c = (voter(id, {"x": id, "y": id}) for id in "abc")
    first = voter("first", {"x": "bad", "y": "bad"}, DEAR)
    last = voter("last", {"x": "good", "y": "bad"}, DEAR)
    how = {"decide": "quorum", "escalate": ["first", "last"], "revise": 0, "gate": no_bad}
    found, scene = question((a, b, c, first, last), memory_path, **how)
    assert outcomes(play(scene)) == {"passed": 1, "kicked": 1}
    assert found[0][1]["reasons"] == [
        "no quorum: at most 1 of 3 agree, 2 are needed",
        "first: it is bad",
        "last: it is bad",
    ]


def test_a_resumed_vote_does_not_ask_the_better_one_again(memory_path: Path) -> None:
    a, b, c = (voter(id, {"x": "1", "y": id}) for id in "abc")
    better = voter("better", {"y": "5"}, DEAR)
    how = {"decide": "quorum", "escalate": ["better"]}
    _, scene = question((a, b, c, better), memory_path, **how)
    play(scene)
    _, again = question((a, b, c, better), memory_path, **how)
    receipt = play(replace(again, name="again"))
    assert (outcomes(receipt), receipt.calls) == ({"passed": 2}, 0)
    assert sent(a, b, c, better) == [2, 2, 2, 1]


# ── members that change while a run goes on ──────────────────────────────────────────────────


def later(seconds: float, *members: Any) -> Meanwhile:
    """Registers these in the running run."""

    async def change(run: Run, work: Any) -> None:
        await run.clock.sleep(seconds)
        run.register(*members)

    return change


def test_a_member_that_is_registered_takes_work_at_once(memory_path: Path) -> None:
    """Also of those that wait already."""
    slow, new = provider("a", limits=ONE_AT_ONCE), provider("b", limits=MemberLimits(concurrency=8))
    receipt = play(Scene(memory_path, (slow,), words(10)), meanwhile=later(2.5, new))
    assert (outcomes(receipt), receipt.seconds) == ({"passed": 10}, 3.5)
    assert sent(slow, new) == [3, 7]


def test_more_slots_and_fewer_count_at_once(memory_path: Path) -> None:
    for slots, seconds in ((5, 3.0), (1, 6.0)):
        one = provider("a", limits=TWO_AT_ONCE)
        more = provider("a", limits=MemberLimits(concurrency=slots))
        scene = Scene(memory_path / str(slots), (one,), words(8), how={"members": ["a"]})
        receipt = play(scene, meanwhile=later(1.5, more))
        assert (outcomes(receipt), sent(one), sent(more)) == ({"passed": 8}, [8], [0])
        assert receipt.seconds == seconds


def test_who_is_switched_off_gets_no_more_and_those_who_wait_go_to_others(
    memory_path: Path,
) -> None:
    a, b = provider("a", limits=ONE_AT_ONCE), provider("b", price=DEAR, limits=ONE_AT_ONCE)
    off = provider("a", enabled=False)
    scene = Scene(memory_path, (a, b), words(6), how={"spread": "best"})
    receipt = play(scene, meanwhile=later(1.5, off))
    assert (outcomes(receipt), sent(a, b)) == ({"passed": 6}, [2, 4])


def test_when_nobody_is_left_the_run_pauses_and_says_who_was_switched_off(
    memory_path: Path,
) -> None:
    a = provider("a", limits=ONE_AT_ONCE)
    scene = Scene(memory_path, (a,), words(4), how={"members": ["a"]})
    receipt = play(scene, meanwhile=later(1.5, provider("a", enabled=False)))
    assert (receipt.status, receipt.reason) == ("paused", "a: switched off (enabled: false)")
    assert outcomes(receipt) == {"passed": 2, "cancelled": 2}
    assert outcomes(play(scene, resume=True)) == {"passed": 4}
    assert a.sent_again == {}


def test_who_is_switched_on_again_is_asked_again(memory_path: Path) -> None:
    a, b = provider("a", limits=ONE_AT_ONCE), provider("b", price=DEAR, limits=ONE_AT_ONCE)

    async def off_and_on(run: Run, work: Any) -> None:
        for seconds, enabled in ((1.5, False), (1.8, True)):
            await run.clock.sleep(seconds)
            run.register(provider("a", enabled=enabled, limits=ONE_AT_ONCE))

    receipt = play(
        Scene(memory_path, (a, b), words(8), how={"spread": "best"}), meanwhile=off_and_on
    )
    assert (outcomes(receipt), sent(a, b)) == ({"passed": 8}, [6, 2])


def test_what_is_registered_must_be_a_member(memory_path: Path) -> None:
    async def change(run: Run) -> None:
        run.register("gpt")  # type: ignore[arg-type]

    with pytest.raises(BadInput, match="`members` must be members, not the text 'gpt'"):
        play(Scene(memory_path, (provider("a"),), pattern=change))
