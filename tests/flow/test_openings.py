"""What all asks of a step begin with: system, context, examples, then the item; for every member."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.observe.preview import preview_text
from fanfold.plans.execute import Audience, execute
from fanfold.plans.inputs import open_input
from fanfold.plans.load import load_plan
from fanfold.plans.prepare import Options, prepare, prepare_resume
from fanfold.plans.preview.asks import Premises
from fanfold.plans.preview.estimate import estimate
from fanfold.run.loop import run_sync
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.work.outcome import Receipt
from tests.flow.killed_plans import carried_through
from tests.flow.small_plans import unwatched

PLAN = """\
name: killed
vars: {{language: French}}
input: {{count: 2}}
steps:
  - map:
      member: {member}
      system: "Answer in {{{{ vars.language }}}}."
      context_file: rules.md
      context: Only the first page counts.
      examples:
        - {{ask: What is 1?, reply: un}}
        - {{item: {{n: 2}}, reply: {{said: deux}}}}
      prompt: "What is {{{{ item.n }}}}?"
"""
ROSTER = """\
members:
  - {{id: o, kind: openai, model: one, base_url: "{url}/v1", price: {{input: 1, output: 1}}}}
  - {{id: a, kind: anthropic, model: one, base_url: "{url}", price: {{input: 1, output: 1}}}}
  - {{id: keeps, kind: openai, model: b, base_url: "{url}", price: {{input: 1, output: 1, cache_read: 0.1}}}}
  - {{id: cat, kind: command, cmd: [cat], price: {{call: 0}}, version: 1}}
"""
RULES = "Rules {{ as they are }}.\n"
SYSTEM = """\
Answer in French.

<document name="rules.md">
Rules {{ as they are }}.
</document>

<document>
Only the first page counts.
</document>"""
PAIRS = [
    ("user", "What is 1?"), ("assistant", "un"), ("user", "What is 2?"),
    ("assistant", '{"said":"deux"}'),
]  # fmt: skip
asked: list[Asked] = []


def note(one: Asked) -> Says:
    asked.append(one)
    return Says()


def written(folder: Path, plan: str, url: str = "http://127.0.0.1:9") -> Path:
    (folder / "p.yaml").write_text(plan)
    (folder / "rules.md").write_text(RULES)
    (folder / "roster.yaml").write_text(ROSTER.format(url=url))
    return folder / "p.yaml"


def carry(folder: Path, *, resume: bool = False, calls: int | None = None) -> Receipt:
    options = Options(store=str(folder / "store"), budget=ff.Budget(calls=calls))
    job = prepare_resume("killed", options) if resume else prepare(str(folder / "p.yaml"), options)
    return run_sync(execute(job, Audience(unwatched)))


@pytest.mark.parametrize("member", ["o", "a"])
def test_models_get_them_in_this_order(tmp_path: Path, member: str) -> None:
    asked.clear()
    with threaded_server(tmp_path / "books", script=f"{__name__}:note") as server:
        written(tmp_path, PLAN.format(member=member), server.url)
        assert carry(tmp_path).status == "complete"
    for one in asked:
        assert one.system == SYSTEM
        said = [(turn.role, turn.text) for turn in one.messages]
        assert (said[:-1], said[-1][0]) == (PAIRS, "user")
    assert sorted(one.prompt for one in asked) == ["What is 0?", "What is 1?"]


def test_a_command_gets_one_text(tmp_path: Path) -> None:
    written(tmp_path, PLAN.format(member="cat") + "  - reduce: collect\n")
    spoken = carry(tmp_path).result[0]["value"]
    parts = [("system", SYSTEM), *PAIRS, ("user", "What is 0?")]
    assert spoken == "\n\n".join(f"{role.upper()}:\n{text}" for role, text in parts)


def test_they_are_part_of_the_key_and_a_resumed_run_sends_those_it_began_with(
    tmp_path: Path,
) -> None:
    asked.clear()
    with threaded_server(tmp_path / "books", script=f"{__name__}:note") as server:
        written(tmp_path, PLAN.format(member="o"), server.url)
        assert carry(tmp_path, calls=1).status == "paused"
        (tmp_path / "rules.md").write_text("Other rules.\n")
        with pytest.raises(BadInput, match=r"changed"):
            carry(tmp_path, resume=True)
        (tmp_path / "rules.md").write_text(RULES)
        assert carry(tmp_path, resume=True, calls=2).status == "complete"
        assert (len(asked), asked[0].system, asked[1].system) == (2, SYSTEM, SYSTEM)
        (tmp_path / "rules.md").write_text("Other rules.\n")
        assert (carry(tmp_path).calls, "Other" in asked[-1].system) == (2, True)


def test_a_plan_that_is_killed_pays_for_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "rules.md").write_text(RULES)
    plan = PLAN.format(member="m").replace("count: 2", "count: 12")
    killed = carried_through(tmp_path, plan, lambda one: Says(), seed=5, requests=12)
    killed.check()
    assert killed.receipt.passed == 12


STEPS = [
    "ask: {prompt: x, %s}",
    "scatter: {over: [{id: a, prompt: y}], prompt: x, %s, synthesise: {prompt: z, %s}}",
    "graph: {%s, tasks: [{id: a, prompt: x}, {id: b, prompt: y, system: other}]}",
    "ensemble: {prompt: x, members: [o, a], decide: judge, judge: {prompt: z, member: o, %s}, %s}",
    "divide: {prompt: x, fits: {items: 1}, %s, combine: {prompt: y, %s}}",
    "reduce: {kind: ask, prompt: x, %s}",
    "rank: {prompt: x, %s}",
    "conduct: {prompt: x, %s}",
    "pipeline: {stages: [{map: {prompt: x, %s}}, {map: {prompt: y}}]}",
    "map_reduce: {over: item.n, map: {prompt: x, %s}, reduce: {kind: ask, prompt: x, %s}}",
]


@pytest.mark.parametrize("step", STEPS)
def test_every_step_that_asks_takes_them(tmp_path: Path, step: str) -> None:
    fields = "system: Be brief, context_file: rules.md, examples: [{ask: a, reply: b}], cache: off"
    plan = "name: p\ninput: {count: 2}\nsteps:\n"
    plan += "  - map: {prompt: x, member: o, name: first}\n"
    loaded = load_plan(written(tmp_path, f"{plan}  - {step.replace('%s', fields)}\n"))
    found = [one.opening for step in loaded.steps for _, one in step.asks()]
    assert any(one.examples and one.context and one.cache == "off" for one in found)


def test_a_task_of_a_graph_states_its_own_part_of_them(tmp_path: Path) -> None:
    step = "graph: {system: Be brief, context_file: rules.md, tasks: [{id: a, prompt: x, system: other}]}"
    (loaded,) = load_plan(written(tmp_path, f"steps:\n  - {step}\n")).steps
    ((_, task),) = loaded.asks()
    assert (task.opening.system, task.opening.context[0].name) == ("other", "rules.md")


BAD = [
    ("system: ' '", "`system` is empty"),
    ("system: '{{ item.n }}'", "`item` is not defined"),
    ("system: '{{ steps.map }}'", "the system reads `steps.map`, but it cannot see"),
    ("system: x\nsystem_file: rules.md", "state `system` or `system_file`, not both"),
    ("context_file: none.md", "`context_file` none.md: no such file"),
    ("context_file: [rules.md, none.md]", "`context_file[1]` none.md: no such file"),
    ("context_file: empty.md", "`context_file` empty.md: is empty"),
    ("context: 5", "`context` must be a text or a list, not the number 5"),
    ("examples: []", "`examples` is empty"),
    ("examples: [{ask: x}]", "needs the field `reply`"),
    (
        "examples: [{reply: x}]",
        "an example has a `reply` and either an `ask` (a text) or an `item`",
    ),
    (
        "examples: [{item: {m: 1}, reply: x}]",
        "example 1: its item has no `n`, which the prompt reads",
    ),
    ("examples: [{ask: x, reply: ''}]", "the `reply` of an example is empty"),
    ("examples: [{ask: x, answer: y}]", "unknown field `answer`"),
    ("examples_file: bad.jsonl", "bad.jsonl:2: "),
    ("cache: maybe", "unknown cache `maybe`"),
]


@pytest.mark.parametrize(("fields", "said"), BAD)
def test_mistakes_in_them_are_refused_before_anything_starts(
    tmp_path: Path, fields: str, said: str
) -> None:
    (tmp_path / "empty.md").write_text("\n")
    (tmp_path / "bad.jsonl").write_text('{"ask": "x", "reply": "y"}\n{"ask": "x"}\n')
    lines = "".join(f"      {line}\n" for line in fields.splitlines())
    plan = f"input: {{count: 1}}\nsteps:\n  - map:\n      prompt: '{{{{ item.n }}}}'\n{lines}"
    with pytest.raises(BadInput) as wrong:
        load_plan(written(tmp_path, plan))
    assert said in str(wrong.value)
    assert wrong.value.line is not None


def previewed(folder: Path, plan: str) -> str:
    loaded = load_plan(written(folder, plan))
    assert loaded.input is not None
    source = open_input(loaded.input, loaded.folder)
    roster = load_roster(folder / "roster.yaml")
    return preview_text(estimate(loaded, roster, source, None, Premises()))


def test_a_preview_says_how_much_of_a_prompt_is_shared(tmp_path: Path) -> None:
    plan = PLAN.format(member="cat").replace("Only the first page", "word " * 2000)
    assert "map: shared 2,5" in previewed(tmp_path, plan)
    assert "shared" not in previewed(tmp_path, plan + "      cache: off\n")


def test_what_a_template_begins_with_is_shared_too(tmp_path: Path) -> None:
    long = "Rules: " + "word " * 1000
    plan = f"input: {{count: 2}}\nsteps:\n  - map: {{member: cat, prompt: '{long} {{{{ item.n }}}}'}}\n"
    assert "map: shared 1,252 of 1,253 tokens of a prompt" in previewed(tmp_path, plan)


def test_what_all_asks_have_in_common_but_not_first_is_said(tmp_path: Path) -> None:
    """A prompt is not taken apart: its meaning may depend on the order."""
    map = "{{member: keeps, prompt: '{{{{ item.n }}}} {long}'{more}}}"
    plan = f"input: {{{{count: 2}}}}\nsteps:\n  - map: {map}\n"
    said = "the same for all items, but come after what is not"
    for long, more, expected in (
        ("word " * 1000, "", True), ("word " * 1000, ", cache: off", False), ("word", "", False),
    ):  # fmt: skip
        shown = previewed(tmp_path, plan.format(long=long, more=more))
        assert (said in shown) == expected, shown
    shown = previewed(tmp_path, plan.format(long="word " * 1000, more="").replace("keeps", "cat"))
    assert said not in shown, "nobody would keep it"


async def sent_by(tmp_path: Path, **how: Any) -> str:
    async with ff.open_run("s", store=tmp_path / "store", roster=tmp_path / "roster.yaml") as run:
        found = await ff.map_reduce(
            run, [{"id": "a", "n": 0}], prompt="What is {{ item.n }}?", member="cat",
            reduce=ff.collect(), **how,
        )  # fmt: skip
        return str(found.value[0]["value"])


def test_python_has_the_same(tmp_path: Path) -> None:
    written(tmp_path, PLAN.format(member="cat"))
    (tmp_path / "few.jsonl").write_text(
        '{"ask": "What is 1?", "reply": "un"}\n\n{"item": {"n": 2}, "reply": {"said": "deux"}}\n'
    )
    parts = [("system", SYSTEM), *PAIRS, ("user", "What is 0?")]
    expected = "\n\n".join(f"{role.upper()}:\n{text}" for role, text in parts)
    pairs = [("What is 1?", "un"), {"item": {"n": 2}, "reply": {"said": "deux"}}]
    for examples in (pairs, tmp_path / "few.jsonl"):
        context = [tmp_path / "rules.md", "Only the first page counts."]
        said = sent_by(tmp_path, system="Answer in French.", context=context, examples=examples)
        assert run_sync(said) == expected


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"system": 5}, "`system` must be a text or a Path, not the number 5"),
        ({"system": "{{ item }}"}, "`item` is not defined"),
        ({"context": 5}, "`context` must be a text, a Path or a list of them"),
        ({"context": [5]}, "`context` must hold texts or Paths, not the number 5"),
        ({"context": Path("none.md")}, "none.md"),
        ({"examples": "x"}, "`examples` must be a list or a Path"),
        ({"examples": [5]}, "an example must be a mapping with `ask` (or `item`) and `reply`"),
        ({"examples": [{"item": {}, "reply": "x"}]}, "there is no field `n`"),
        ({"cache": "on"}, "`cache` must be auto or off"),
        ({"contxt": "x"}, "did you mean `context`?"),
    ],
)
def test_python_refuses_the_same_mistakes(tmp_path: Path, how: dict[str, Any], said: str) -> None:
    written(tmp_path, PLAN.format(member="cat"))
    with pytest.raises(BadInput) as wrong:
        run_sync(sent_by(tmp_path, **how))
    assert said in str(wrong.value)
