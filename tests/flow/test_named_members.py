"""Whoever is named anywhere is looked for before anything is asked: in Python, and in plans with file
and line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.patterns.conductor import over_all
from fanfold.patterns.ensemble import voters
from fanfold.patterns.fold import total
from fanfold.patterns.graph import node
from fanfold.patterns.nested import inside
from fanfold.patterns.vote_rules import judged
from fanfold.plans.load import check_plan, load_plan
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Reply
from fanfold.work.pieces import Fits

ITEMS = [{"id": "a", "text": "one"}]
JUDGE = ff.judge("Good?", member="nobdy")
NESTED = ff.any_of(ff.require("a"), ff.all_of(ff.require("b"), ff.any_of(ff.require("c"), JUDGE)))
BY_NEED = ff.all_of(ff.require("b"), ff.judge("Good?", needs=["nobdy"]))

CALLS: dict[str, Callable[[Run, Any], Any]] = {
    "map": lambda run, gate: ff.map_reduce(run, ITEMS, prompt="x", gate=gate),
    "asked reduce": lambda run, gate: ff.map_reduce(
        run, ITEMS, prompt="x", reduce=ff.asked("Join.", gate=gate)
    ),
    "a later stage": lambda run, gate: ff.pipeline(
        run, ITEMS, ff.stage("x"), ff.stage("y", gate=gate)
    ),
    "scatter": lambda run, gate: ff.scatter_gather(run, ITEMS, prompt="x", gate=gate),
    "synthesis": lambda run, gate: ff.scatter_gather(
        run, ITEMS, prompt="x", synthesise=ff.asked("Join.", gate=gate)
    ),
    "voters": lambda run, gate: ff.ensemble(run, ITEMS, prompt="x", samples=3, gate=gate),
    "the judge of a vote": lambda run, gate: ff.ensemble(
        run, ITEMS, prompt="x", samples=3, decide=judged(gate=gate)
    ),
    "the judge of a vote in a stage": lambda run, gate: ff.pipeline(
        run, ITEMS, ff.stage("x", by=voters(["m"], decide=judged(gate=gate)))
    ),
    "conduct": lambda run, gate: ff.conduct(
        run, ITEMS, prompt="x", gate=over_all(lambda parts: {}, each=gate), say=lambda said: None
    ),
    "divide": lambda run, gate: ff.divide_and_conquer(
        run, ITEMS, prompt="x", combine=ff.concat(), fits=Fits(items=1), gate=gate
    ),
    "combine": lambda run, gate: ff.divide_and_conquer(
        run, ITEMS, prompt="x", combine=ff.asked("Join.", gate=gate), fits=Fits(items=1)
    ),
    "the second node of a graph": lambda run, gate: ff.graph(
        run, [node("a", "x"), node("b", "y", gate=gate)]
    ),
    "inside a stage": lambda run, gate: ff.pipeline(
        run, ITEMS, ff.stage(by=inside(lambda data: [1], "x", reduce=total(), gate=gate))
    ),
    "the gate of a judge's own vote": lambda run, gate: ff.map_reduce(
        run, ITEMS, prompt="x", reduce=ff.asked("Join.", by=voters(["m"], decide=judged(gate=gate)))
    ),
}  # fmt: skip


@pytest.mark.parametrize("gate", [JUDGE, NESTED, BY_NEED], ids=["judge", "nested", "by need"])
@pytest.mark.parametrize("where", CALLS)
def test_a_judge_that_is_not_there_is_found_before_anyone_is_asked(
    memory_path: Path, where: str, gate: Any
) -> None:
    member = Scripted(lambda ask, n: Reply(text="yes"), traits(id="m", good_at=("talk",)))

    async def script() -> None:
        async with ff.open_run("r", members=[member], store=memory_path) as run:
            await CALLS[where](run, gate)

    with pytest.raises(BadInput, match="nobdy"):
        asyncio.run(script())
    assert member.asked == []


INPUT = "input: {list: [a, b]}\n"
GATE = """
        - all_of:
            - require: [text]
            - any_of:
                - require: [other]
                - judge:
                    prompt: Good?
                    member: nobdy
"""
STEPS = {
    "map": f"map:\n      prompt: x\n      gate:{GATE}",
    "a single check": "map:\n      prompt: x\n      gate: {all_of: [{judge: {prompt: q, member: nobdy}}]}",
    "reduce": f"map: {{prompt: x}}\n  - reduce:\n      kind: ask\n      prompt: x\n      gate:{GATE}",
    "ensemble": f"ensemble:\n      prompt: x\n      samples: 3\n      gate:{GATE}",
    "the judge of a vote": (
        "ensemble:\n      prompt: x\n      samples: 3\n      judge:\n        member: nobdy"
    ),
    "scatter whose entries have members of their own": (
        f"scatter:\n      prompt: x\n      over: [{{id: a, member: m}}]\n      gate:{GATE}"
    ),
    "escalate of such a scatter": (
        "scatter:\n      prompt: x\n      over: [{id: a, member: m}]\n      escalate: [nobdy]"
    ),
    "graph": f"graph:\n      tasks:\n      - id: a\n        prompt: x\n        gate:{GATE}",
    "divide": f"divide:\n      prompt: x\n      combine: concat\n      fits: {{items: 1}}\n      gate:{GATE}",
    "conduct": f"conduct:\n      prompt: x\n      gate:{GATE}",
    "pipeline": "pipeline:\n      stages:\n      - map:\n          prompt: x\n          gate:"
        + indent(GATE, "    "),
    "fallback": "map:\n      prompt: x\n      member: m\n      fallback: [nobdy]",
}  # fmt: skip


@pytest.mark.parametrize("where", STEPS)
def test_a_plan_says_in_which_line_a_member_is_named_that_is_not_there(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "roster.yaml").write_text(
        "members: [{id: m, kind: openai, model: x, base_url: 'http://127.0.0.1:1', key: none}]\n"
    )
    plan = tmp_path / "plan.yaml"
    own_items = STEPS[where].startswith(("scatter", "graph"))
    plan.write_text(("" if own_items else INPUT) + f"steps:\n  - {STEPS[where]}\n")
    lines = plan.read_text().splitlines()
    with pytest.raises(BadInput) as refused:
        check_plan(load_plan(plan), load_roster(tmp_path / "roster.yaml"))
    wrong = next(n for n, line in enumerate(lines, 1) if "nobdy" in line)
    assert (refused.value.file, refused.value.line) == (str(plan), wrong)
    assert "`nobdy`" in refused.value.what
