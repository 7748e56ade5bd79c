"""Votes over real HTTP, killed at seeded moments and resumed: nothing that was answered is asked
again, and each question ends as its votes say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fanfold.testing.script import Asked, Says
from tests.examples import seeds
from tests.flow.killed_plans import carried_through

VOTERS = ("a", "b", "c")
ROSTER = "members:\n" + "".join(
    f"  - {{{{id: {id}, kind: openai, model: {id}, base_url: '{{url}}/v1', max_tokens: 300,"
    " price: {{input: 1, output: 1}}}}\n"
    for id in (*VOTERS, "judge")
)
PLAN = """\
name: killed
input: {count: 9}
steps:
  - ensemble: {prompt: "Question <{{ item.n }}>", members: [a, b, c], concurrency: 2%s}
  - write: votes.json
"""


def answer(n: int, voter: str) -> str:
    """Of three questions all agree on one, two of three on the next, and nobody on the third."""
    return ("yes", "yes" if voter != "c" else "no", f"{voter} says no")[n % 3]


def says(asked: Asked) -> Says:
    found = re.search(r"Question <(\d+)>", asked.prompt)
    assert found is not None
    n = int(found[1])
    if asked.model != "judge":
        return Says(text=answer(n, asked.model))
    letters = dict(re.findall(r"### Answer (\w)\n([^\n]+)", asked.prompt))
    choice = next(letter for letter, said in letters.items() if said == "b says no")
    return Says(data={"reasons": f"b is right about {n}.", "choice": choice})


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_where_nobody_has_a_majority_the_question_is_kicked(tmp_path: Path, seed: int) -> None:
    ended = carried_through(tmp_path, PLAN % "", says, seed, roster=ROSTER)
    ended.check()
    receipt = ended.receipt
    assert (receipt.planned, receipt.passed, receipt.kicked) == (9, 6, 3)
    assert len(ended.asked) == 9 * 3
    reasons = {one.reason: one.items for one in receipt.reasons}
    assert reasons == {"no majority: 1 a says no, 1 b says no, 1 c says no": 3}


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_or_a_judge_decides_and_its_reasons_are_on_record(tmp_path: Path, seed: int) -> None:
    plan = PLAN % ", decide: majority, judge: {member: judge}"
    ended = carried_through(tmp_path, plan, says, seed, roster=ROSTER)
    ended.check()
    assert (ended.receipt.passed, len(ended.asked)) == (9, 9 * 3 + 3)
    votes = ended.receipt.result
    assert [one.get("judge") for one in votes] == [
        f"b is right about {n}." if n % 3 == 2 else None for n in range(9)
    ]
    assert [one["answer"] for one in votes][:3] == ["yes", "yes", "b says no"]
