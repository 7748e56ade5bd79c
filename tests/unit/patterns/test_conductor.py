"""The conductor's parts: its caps, the gate over all, and what becomes of one result."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.gates.checks import require
from fanfold.gates.default import default
from fanfold.members.function import function
from fanfold.observe.script import open_run
from fanfold.patterns.conductor import ConductedResult, check_size, conduct, over_all
from fanfold.work.ask import Ask, Message, Reply
from fanfold.work.outcome import Outcome, Verdict, fail, unjudged
from fanfold.work.task import Place, Task, Terms, Who

TERMS = Terms("conduct", default(), who=Who(("worker",)), revise=1, escalate=("better", "best"))
ASKING = Terms("conduct", default(), who=Who(("worker",)), revise=0, on_failure="skip")
ASK = Ask((Message("user", "Look."),))


def result(terms: Terms = TERMS) -> ConductedResult:
    return ConductedResult(Task("a", ASK, terms, Place(0, 4)), ASKING)


def judged(one: ConductedResult, reply: Reply, verdict: Verdict) -> ConductedResult:
    one.reply, one.own, one.verdict = Outcome("a", "passed", reply), verdict, verdict
    return one


def test_it_is_asked_without_a_place_and_without_the_stated_gate() -> None:
    assert result().ask == Task("a", ASK, ASKING, None)


def test_what_fails_is_revised_then_goes_to_better_members_then_stays_kicked() -> None:
    one, reply, verdict = result(), Reply("thin"), fail("no evidence")
    asked = []
    while judged(one, reply, verdict).can_go_back:
        one.kick_back()
        asked.append((one.ask.ask, one.ask.terms.who.members))
    assert asked == [
        (ASK.revised(reply, ("no evidence",)), ("worker",)),
        (ASK, ("better",)),
        (ASK, ("best",)),
    ]


@pytest.mark.parametrize("verdict", [Verdict("pass"), unjudged("cannot tell")])
def test_what_passed_or_could_not_be_judged_does_not_go_back(verdict: Verdict) -> None:
    one = judged(result(), Reply("fine"), verdict)
    assert (one.can_go_back, one.has_passed) == (False, verdict.passed)


@given(st.integers(1, 100), st.integers(1, 100))
def test_a_batch_is_at_most_as_large_as_it_was_meant_to_be(specs: int, most: int) -> None:
    if specs <= most:
        check_size(specs, most)
    else:
        with pytest.raises(BadInput, match=f"there are more than {most} specs; raise `most`"):
            check_size(specs, most)


@pytest.mark.parametrize("most", [0, -1, True, 2.5, "40", None])
def test_most_is_a_whole_number_from_one_on(most: Any) -> None:
    with pytest.raises(BadInput, match="`most` must be"):
        check_size(1, most)


def test_a_gate_over_all_passes_nothing_outside_the_conductor() -> None:
    gate = over_all(lambda parts: {}, each=require("id"))
    verdict = gate(Task("a", ASK, TERMS), Reply(data={"id": 1}), no_power)
    assert verdict == unjudged("a gate over all results needs the conductor")


async def no_power(task: Task) -> Outcome:
    raise AssertionError("nobody is to be asked")


def test_a_gate_over_all_needs_a_function() -> None:
    with pytest.raises(BadInput, match="`over_all` needs a function of the results, not 'unique'"):
        over_all("unique")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("specs", "how", "wrong"),
    [
        ("auth", {}, "`specs` must be a list, not str"),
        ({"id": 1}, {}, "`specs` must be a list, not dict"),
        (None, {}, "`specs` must be a list, not NoneType"),
        ([1, 2, 3], {"most": 2}, "there are more than 2 specs; raise `most`"),
        ([1], {"at_once": 0}, "`at_once` must be"),
        ([1], {"concurrency": 3}, "say `at_once`, not `concurrency`"),
    ],
)
def test_bad_input_is_refused_before_anything_is_planned(
    tmp_path: Path, specs: Any, how: dict[str, Any], wrong: str
) -> None:
    async def refused() -> str:
        members = [function(str, id="f")]
        async with open_run("r", store=tmp_path / "s", members=members) as run:
            with pytest.raises(BadInput) as caught:
                await conduct(run, specs, **how)
            assert run.statistics().planned == 0
        return str(caught.value)

    assert wrong in asyncio.run(refused())
