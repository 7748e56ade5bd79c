"""One item without a field that a prompt reads, among good ones: it fails and says which field; the
others go on, the run ends with its account, and what depends on a lost step is lost too. A field that
the first item lacks is taken for misspelt, and refused before anything is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fanfold import (
    Folded,
    Run,
    all_of,
    conduct,
    ensemble,
    function,
    judge,
    map_reduce,
    open_run,
    pipeline,
    quotes,
    require,
    run_sync,
    scatter_gather,
    stage,
)
from fanfold.errors import BadInput
from fanfold.journal import opening
from fanfold.members.roster import load_roster
from fanfold.patterns.vote_rules import judged
from fanfold.plans.load import load_plan
from fanfold.plans.prepare import Options, prepare
from fanfold.plans.preview.asks import Premises
from fanfold.plans.preview.estimate import estimate, readable_input
from fanfold.work.outcome import STATES, Receipt
from tests.flow.small_plans import executed

ITEMS = '{"id": "a", "text": "x"}\n{"id": "b"}\n{"id": "c", "text": "y"}\n'
ROSTER = """\
members:
  - {id: f, kind: function, target: "fs:said"}
  - {id: g, kind: function, target: "fs:said"}
  - {id: good, kind: function, target: "fs:good"}
  - {id: l, kind: function, target: "fs:listed"}
"""
FUNCTIONS = """\
def said(data, ask):
    if len(ask.items) > 1:
        return {"answers": [{"id": item.id, "answer": "ok"} for item in ask.items]}
    return "ok"

def good(data, ask):
    return {"pass": True}

def listed(data):
    return [{"id": "a", "text": "x"}, {"id": "b"}, {"id": "c", "text": "y"}]
"""
INPUT = "input: {jsonl: i.jsonl}\nsteps:\n"
MADE = (
    "steps:\n  - ask: {name: made, prompt: list, member: l}\n"
    '  - map: {name: all, over: steps.made, prompt: "{{ item.id }}", member: f}\n'
)
READS = 'prompt: "Say {{ item.text }}", member: f'
TOGETHER = "{% if items|length > 1 %}{% for i in items %}{{ i.text }}{% endfor %}{% endif %}"
JOIN = 'combine: {prompt: "{{ parts }}", member: f}'
STEPS = {
    "map": f"  - map: {{{READS}}}\n  - reduce: collect\n",
    "shard": f"  - map: {{{READS}, shard: {{items: 2}}}}\n  - reduce: collect\n",
    "shown together": f'  - map: {{prompt: "{TOGETHER}", member: f, shard: {{items: 3}}}}\n'
    "  - reduce: collect\n",
    "asked reduce": f"  - map: {{{READS}}}\n"
    '  - reduce: {kind: ask, prompt: "{{ parts }}", member: f, fan_in: 2}\n',
    "pipeline": f"  - pipeline: {{stages: [{{map: {{{READS}}}}}]}}\n  - reduce: collect\n",
    "batch": '  - pipeline: {mode: batch, stages: [{map: {prompt: "{{ item.id }}", member: f}},'
    f" {{map: {{{READS}}}}}]}}\n",
    "ensemble": '  - ensemble: {prompt: "Say {{ item.text }}", members: [f, g]}\n',
    "divide": f"  - divide: {{{READS}, fits: {{items: 1}}, {JOIN}}}\n",
    "scatter": f"  - scatter: {{{READS}}}\n",
    "conduct": f"  - conduct: {{{READS}}}\n",
}


def write(folder: Path, plan: str) -> None:
    (folder / "i.jsonl").write_text(ITEMS)
    (folder / "roster.yaml").write_text(ROSTER)
    (folder / "fs.py").write_text(FUNCTIONS)
    (folder / "p.yaml").write_text(f"name: p\n{plan}")


def carried(folder: Path) -> Receipt:
    job = prepare(str(folder / "p.yaml"), Options(store=str(folder / "store")))
    return executed(job)


def ended(folder: Path) -> dict[str, tuple[str, str]]:
    archive = opening.look(folder / "store")
    try:
        run = archive.read.find("p")
        assert run is not None
        found = archive.read.endings(run.no, STATES)
        return {one.id: (one.state, " ".join(one.reasons)) for one in found}
    finally:
        archive.close()


@pytest.mark.parametrize(
    ("given", "steps"), [(one, steps) for one in (INPUT, MADE) for steps in STEPS]
)
def test_only_the_item_that_lacks_a_field_fails_and_says_which(
    memory_path: Path, given: str, steps: str
) -> None:
    """Whatever the step, and whether the items were given or an earlier step made them."""
    write(memory_path, given + STEPS[steps])
    receipt = carried(memory_path)
    assert (receipt.status, receipt.passed, receipt.failed) == ("flagged", 2, 1)
    found = ended(memory_path)
    assert {id: state for id, (state, _) in found.items()} == {
        "a": "passed", "b": "failed", "c": "passed",
    }  # fmt: skip
    assert "`text`" in found["b"][1]


def test_a_judge_that_cannot_be_asked_about_an_item_leaves_that_one_unjudged(
    memory_path: Path,
) -> None:
    gate = '[{judge: {prompt: "{{ item.text }} {{ reply }}", member: good}}]'
    write(
        memory_path, f'{INPUT}  - map: {{prompt: "{{{{ item.id }}}}", member: f, gate: {gate}}}\n'
    )
    assert (carried(memory_path).unjudged, ended(memory_path)["b"][0]) == (1, "unjudged")
    assert "`text`" in ended(memory_path)["b"][1]


@pytest.mark.parametrize("reads", ["item", "parts"])
def test_after_a_step_that_was_lost_what_works_on_its_items_is_lost_too(
    memory_path: Path, reads: str
) -> None:
    """It is told, and there is an account; nothing is made of the items of an earlier step."""
    steps = (
        '  - ask: {name: first, prompt: "{{ task.x }}", member: f}\n'
        + '  - map: {name: two, prompt: "{{ steps.first }} {{ item.id }}", member: f}\n'
        + "  - reduce: collect\n"
    )
    before = (
        '  - map: {name: zero, prompt: "{{ item.id }}", member: f}\n' if reads == "parts" else ""
    )
    write(memory_path, "task: hello\n" + INPUT + before + steps)
    receipt = carried(memory_path)
    assert (receipt.status, receipt.planned, receipt.result) == ("flagged", 3, None)
    assert "first" in (receipt.reason or "")


def test_the_preview_of_a_judge_passes_over_an_item_that_its_prompt_cannot_show(
    memory_path: Path,
) -> None:
    write(
        memory_path,
        f'{INPUT}  - ensemble: {{prompt: "{{{{ item.id }}}}", members: [f, g], decide: judge,'
        ' judge: {prompt: "{{ item.text }} {{ answers }}", member: good}}\n',
    )  # fmt: skip
    plan = load_plan(memory_path / "p.yaml")
    roster = load_roster(memory_path / "roster.yaml")
    found = estimate(plan, roster, readable_input(plan), None, Premises())
    assert found.total.calls == 6 + 2


BEFORE = 'map: {name: one, prompt: "{{ item.id }}", member: f}'
MISSPELT = 'map: {prompt: "{{ item.txt }}", member: f}'
BOTH = f"        - {BEFORE}\n        - {MISSPELT}\n"
UNTIL = "until: counts.one.failed == 0\n      at_most: 2"
LATER = {
    "a later step": (f"  - {BEFORE}\n  - {MISSPELT}\n", 5),
    "a later stage": (f"  - pipeline:\n      stages:\n{BOTH}", 7),
    "a later step of a repeat": (f"  - repeat:\n      {UNTIL}\n      steps:\n{BOTH}", 9),
}


@pytest.mark.parametrize("where", LATER)
def test_a_misspelt_field_is_refused_before_the_steps_before_it_are_paid(
    memory_path: Path, where: str
) -> None:
    steps, line = LATER[where]
    write(memory_path, INPUT + steps)
    with pytest.raises(
        BadInput, match=r"the prompt reads item\.txt, but items have: id, text"
    ) as bad:
        carried(memory_path)
    assert str(bad.value).startswith(f"{memory_path / 'p.yaml'}:{line}: ")
    assert opening.look(memory_path / "store").read.find("p") is None


JUDGE = "judge: {prompt: '{{ item.zz }} {{ reply }}', member: good}"
CHECKS = {
    "the prompt of a judge": ("judge", f"gate: {{{JUDGE}}}"),
    "one of several checks": ("judge", f"gate: [{{require: a}}, {{all_of: [{{{JUDGE}}}]}}]"),
    "what quotes are of": ("quotes", "gate: {quotes: {field: a, source: zz.own}}"),
    "a filter": ("keep", "keep: item.zz > 1"),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("asked", ["map: {member: f,", "ensemble: {members: [f, g],"])
def test_a_field_that_only_a_check_reads_is_refused_like_that_of_a_prompt(
    memory_path: Path, asked: str, check: str
) -> None:
    reader, stated = CHECKS[check]
    write(memory_path, f'{INPUT}  - {asked} prompt: "{{{{ item.id }}}}",\n     {stated}}}\n')
    with pytest.raises(BadInput, match=rf":5: `{reader}` reads item\.zz, but items have: id, text"):
        carried(memory_path)
    assert opening.look(memory_path / "store").read.find("p") is None


def test_what_the_judge_of_a_vote_reads_is_refused_too(memory_path: Path) -> None:
    vote = '  - ensemble: {prompt: "{{ item.id }}", members: [f, g], decide: judge,\n     '
    write(memory_path, f"{INPUT}{vote}{JUDGE.replace('reply', 'answers')}}}\n")
    with pytest.raises(BadInput, match=r":5: `judge` reads item\.zz, but items have: id, text"):
        carried(memory_path)


def test_a_check_may_do_without_a_field_or_read_the_reply_of_an_earlier_step(
    memory_path: Path,
) -> None:
    """One of several checks is enough: an item has the field of one of them."""
    gate = "{any_of: [{quotes: {field: a, source: zz}}, {regex: ok}]}"
    keep = "item.steps.one == 'ok' and item.zz | default(1) == 1"
    write(
        memory_path,
        f'{INPUT}  - {BEFORE}\n  - map: {{prompt: "{{{{ item.id }}}}", member: f, gate: {gate},'
        f' keep: "{keep}"}}\n',
    )
    assert carried(memory_path).passed == 3


def test_where_a_step_may_not_be_taken_its_fields_are_not_asked_for(memory_path: Path) -> None:
    write(memory_path, f"{INPUT}  - {BEFORE}\n  - {MISSPELT[:-1]}, when: counts.one.failed > 2}}\n")
    assert carried(memory_path).passed == 3


def said(item: dict[str, str]) -> str:
    return item["id"]


ASKED: dict[str, Callable[[Run, list[Any]], Awaitable[Folded]]] = {
    "map_reduce": lambda run, items: map_reduce(run, items, prompt="{{ item.txt }}"),
    "attach": lambda run, items: map_reduce(run, items, prompt="Read it", attach=["item.txt"]),
    "ensemble": lambda run, items: ensemble(run, items, prompt="{{ item.txt }}", samples=2),
    "pipeline": lambda run, items: pipeline(
        run, items, stage("{{ item.text }}"), stage("{{ item.txt }}")
    ),
    "conduct": lambda run, items: conduct(run, items, prompt="{{ item.txt }}"),
    "scatter": lambda run, items: scatter_gather(run, items, prompt="x", gate=quotes("a", "txt")),
    "a judge": lambda run, items: map_reduce(
        run, items, gate=all_of(require("a"), judge("{{ item.txt }}"))
    ),
    "quotes": lambda run, items: pipeline(
        run, items, stage("{{ item.text }}"), stage("x", gate=quotes("a", "txt"))
    ),
    "quotes of a vote": lambda run, items: ensemble(run, items, samples=2, gate=quotes("a", "txt")),
    "the judge of a vote": lambda run, items: ensemble(
        run, items, samples=2, decide=judged("{{ item.txt }}")
    ),
}


@pytest.mark.parametrize("pattern", ASKED)
def test_in_a_script_too(memory_path: Path, pattern: str) -> None:
    async def main(items: list[Any]) -> Receipt:
        async with open_run("s", members=[function(said)], store=memory_path / "s") as run:
            try:
                return (await ASKED[pattern](run, items)).receipt
            finally:
                assert not run.statistics().calls

    with pytest.raises(BadInput, match=r"reads item\.txt, but items have: id, text"):
        run_sync(main([{"id": "a", "text": "x"}]))
    assert run_sync(main([])).planned == 0
