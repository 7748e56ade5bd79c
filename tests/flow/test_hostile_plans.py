# ruff: noqa: E501
"""Plans that were found to slip past a promise: each stays caught."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput, FanfoldError
from fanfold.patterns.ensemble import voters
from fanfold.plans.prepare import Options, prepare
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply
from fanfold.work.outcome import Receipt
from tests.flow.simulation import Scene, play, words
from tests.flow.small_plans import executed

ROSTER = """\
members:
  - {id: up, kind: function, target: "mine:up"}
  - {id: some, kind: function, target: "mine:some"}
  - {id: record, kind: function, target: "mine:record"}
  - {id: boom, kind: function, target: "mine:boom"}
  - {id: paid, kind: command, cmd: [cat], price: {call: 0.01}}
  - {id: x1, kind: command, cmd: [python3, -c, "import os; print(os.urandom(4).hex())"], price: {call: 0.01}}
  - {id: x2, kind: command, cmd: [python3, -c, "import os; print(os.urandom(4).hex())"], price: {call: 0.01}}
"""
CODE = """\
def up(data): return str(data)
def some(data): return [f"text {n}" for n in range(20)]
def record(data): return {"x": 1}
def boom(data): raise ValueError("no")
"""


def ran(folder: Path, plan: str, **options: Any) -> Receipt:
    (folder / "roster.yaml").write_text(ROSTER)
    (folder / "mine.py").write_text(CODE)
    (folder / "p.yaml").write_text(textwrap.dedent(plan))
    job = prepare(str(folder / "p.yaml"), Options(store=str(folder / "store"), **options))
    return executed(job)


@pytest.mark.parametrize(
    "after",
    [
        "- map: {name: e, over: steps.l, member: up}\n- map: {name: e2, prompt: 'z {{ item.text }}', member: paid}",
        "- map: {name: e, over: steps.l, member: up}\n- reduce: {kind: ask, prompt: r, member: paid, fan_in: 2}",
        "- map: {name: e, over: steps.l, member: up}\n- pipeline: {stages: [{map: {prompt: x, member: paid}}]}",
        "- map: {name: e, over: steps.l, prompt: 'q {{ item.text }}', member: paid}",
    ],
)  # fmt: skip
def test_the_cap_holds_for_all_that_comes_of_a_produced_list(tmp_path: Path, after: str) -> None:
    steps = textwrap.indent(f"- ask: {{name: l, prompt: q, member: some}}\n{after}\n", "  ")
    receipt = ran(tmp_path, f"govern: {{cap: 5}}\nsteps:\n{steps}", yes=True)
    assert receipt.status == "paused" and "above the cap of 5" in (receipt.reason or "")
    assert receipt.cost_usd == 0.0


@pytest.mark.parametrize(
    ("input", "step"),
    [
        ("{list: [{id: a, notes: [1,2,3,4,5,6,7,8,9]}]}",
         "map_reduce: {over: item.notes, map: {member: up}, reduce: {kind: ask, prompt: r, member: paid, fan_in: 2}}"),
        ("{count: 30}",
         "divide: {member: up, fits: {items: 2}, combine: {prompt: c, member: paid, fan_in: 2}}"),
    ],
)  # fmt: skip
def test_the_cap_holds_for_reduces_inside_a_stage_and_for_combines(
    tmp_path: Path, input: str, step: str
) -> None:
    receipt = ran(tmp_path, f"govern: {{cap: 5}}\ninput: {input}\nsteps:\n  - {step}\n", yes=True)
    assert receipt.status == "paused" and "above the cap of 5" in (receipt.reason or "")


def test_one_reply_is_one_vote_also_when_voters_are_the_same_program(tmp_path: Path) -> None:
    receipt = ran(tmp_path, """\
        input: {list: [a, b]}
        steps:
          - ensemble: {prompt: "q {{ item.text }}", members: [x1, x2], decide: quorum, quorum: 2}
        """)  # fmt: skip
    assert (receipt.calls, receipt.kicked, receipt.cost_usd) == (4, 2, 0.04)


def test_what_the_parts_must_be_is_not_asked_of_what_is_made_of_them(tmp_path: Path) -> None:
    receipt = ran(tmp_path, """\
        input: {list: [{id: a, notes: [n1, n2]}]}
        steps:
          - map_reduce:
              over: item.notes
              map: {member: record, schema: {type: object, required: [x]}, gate: {require: x}}
              reduce: count
        """)  # fmt: skip
    assert (receipt.status, receipt.passed) == ("complete", 3)


@pytest.mark.parametrize(
    "after", ["reduce: collect", "map: {name: f, prompt: 'INVENTED', member: paid}"]
)
@pytest.mark.parametrize("before", ["", "- map: {name: m0, member: up}"])
def test_without_its_list_a_step_and_those_after_it_do_nothing(
    tmp_path: Path, after: str, before: str
) -> None:
    given = "input: {count: 2}\n" if before else ""
    receipt = ran(
        tmp_path,
        f"{given}steps:\n  {before or '- ask: {name: x, prompt: x, member: up}'}\n"
        "  - ask: {name: q, prompt: x, member: boom, on_failure: partial}\n"
        f"  - map: {{name: e, over: steps.q, member: up}}\n  - {after}\n  - write: out.txt\n",
    )
    assert (receipt.status, receipt.planned, receipt.cost_usd) == ("flagged", 2 if before else 0, 0)
    assert receipt.result is None and not (tmp_path / "out.txt").exists()


def test_the_first_so_many_of_those_who_came_through_a_filter(tmp_path: Path) -> None:
    receipt = ran(tmp_path, """\
        input: {list: [{id: a, text: x}, {id: b, text: y}]}
        steps:
          - map: {prompt: "q {{ item.id }}", member: paid, keep: "item.id == 'a'"}
          - scatter: {member: up, gather: {first: 2}}
        """)  # fmt: skip
    assert (receipt.status, receipt.passed, receipt.skipped) == ("complete", 1, 1)


def test_bad_input_that_shows_after_money_moved_is_not_called_refused(tmp_path: Path) -> None:
    with pytest.raises(FanfoldError) as error:
        ran(tmp_path, """\
            input: {list: [{id: a, text: x}]}
            steps:
              - map: {prompt: "q {{ item.id }}", member: paid}
              - divide: {prompt: "{{ item }}", member: paid, combine: merge}
            """)  # fmt: skip
    assert not isinstance(error.value, BadInput) and "was killed" in str(error.value)


def _says(ask: Ask, n: int) -> Reply:
    return Reply("fine")


def test_a_second_budget_under_one_step_name_is_refused(tmp_path: Path) -> None:
    async def pattern(run: Run) -> None:
        await ff.map_reduce(run, words(2), prompt="A {{ item.text }}")
        with pytest.raises(BadInput, match="two steps are named `map`, with different budgets"):
            await ff.map_reduce(
                run, words(9), prompt="B {{ item.text }}", budget=ff.Budget(calls=5)
            )

    assert play(Scene(tmp_path, (Scripted(_says),), pattern=pattern)).calls == 2


def test_voters_that_are_not_there_are_missed_before_anything_is_asked(tmp_path: Path) -> None:
    member = Scripted(_says, traits("a"))

    async def pattern(run: Run) -> None:
        first = ff.stage("1 {{ item.text }}", step="s1", member="a")
        second = ff.stage("V", step="s2", by=voters(["nope", "nada"]))
        with pytest.raises(BadInput, match="there is no member `nope`"):
            await ff.pipeline(run, words(3), first, second)

    play(Scene(tmp_path, (member,), pattern=pattern))
    assert member.asked == []
