"""A plan with each kind of step that pauses for lack of money, of the run or of the step: the command that
is printed then continues it to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fanfold.plans.steps.table import KINDS
from fanfold.testing.running import RunningServer
from tests.faces.cli import Ended, fanfold
from tests.faces.project import MEMBER

CODE = """
def say(item):
    return item.get("text") or "said"

def rows(item):
    return [{"id": "a", "text": "x"}, {"id": "b", "text": "y", "depends_on": "a"}]

def same(item):
    return {"same": True}

def order(item):
    return {"order": [one["label"] for one in item["choices"]]}

def other(item):
    return "other"

def all_fine(results):
    return True

def look(word: str) -> str:
    return word
"""
MEMBERS = ("say", "rows", "same", "order", "other")

# Each below its name. BUDGET is that of the step, in the second test; a step without it asks nobody.
_STEPS = """
=== list_files
  - list_files: {path: ".", pattern: "*.txt"}
  - map: {member: say}
=== map
  - map: {member: say, BUDGET}
=== map with tools
  - map: {member: model, prompt: x, tools: ["code:look", {command: [echo, hi], name: hello}], BUDGET}
=== command
  - command: {cmd: [echo, hi], BUDGET}
=== ensemble
  - ensemble: {members: [say, other, same], decide: plurality, BUDGET}
=== ensemble of one question
  - ensemble: {name: q, prompt: x, members: [say, say2], judge: {member: say2, picks: false}, BUDGET}
=== judge
  - ensemble: {members: [say, other], judge: {member: same, picks: false, BUDGET}}
=== escalate
  - ensemble: {members: [say, other], escalate: [say2], BUDGET}
=== map_reduce
  - map_reduce: {over: item.list, map: {member: say, BUDGET}, reduce: collect}
=== reduce of a map_reduce
  - map_reduce: {over: item.list, map: {member: say}, reduce: {kind: ask, member: say, BUDGET}}
=== votes of a map_reduce
  - map_reduce:
      over: item.list
      map: {member: say}
      reduce: {kind: ensemble, prompt: x, members: [say, say2], BUDGET}
=== pipeline
  - pipeline: {stages: [{map: {member: say}}, {ensemble: {name: v, members: [say, say2], BUDGET}}]}
=== stream
  - pipeline:
      stages:
        - map: {prompt: x, member: model}
        - map: {name: parts, member: model, prompt: "on {{ item.text }}", stream: lines, BUDGET}
=== divide
  - divide: {member: say, fits: {items: 1}, combine: concat, BUDGET}
=== combine
  - divide: {member: say, fits: {items: 1}, combine: {member: say, kind: ask, fan_in: 2, BUDGET}}
=== scatter
  - scatter: {member: say, over: [{id: a}, {id: b, member: say2}, {id: c, prompt: own}], BUDGET}
=== synthesise
  - scatter: {member: say, over: [{id: a}], synthesise: {member: model, prompt: x, BUDGET}}
=== graph
  - graph: {member: say, tasks: [{id: a}, {id: b, depends_on: a}, {id: c, depends_on: b}], BUDGET}
=== listed graph
  - graph: {over: steps.rows, member: say, prompt: x, BUDGET}
=== conduct
  - conduct: {member: say, BUDGET}
=== ask
  - ask: {prompt: x, member: model, BUDGET}
=== reduce
  - reduce: {kind: ask, member: say, fan_in: 2, BUDGET}
=== votes of a reduce
  - reduce: {kind: ensemble, prompt: x, members: [say, say2], BUDGET}
=== group
  - group: {by: kind, reduce: {kind: ask, prompt: x, member: model, BUDGET}}
=== resolve
  - resolve: {member: same, block: {on: text}, BUDGET}
=== canonical
  - resolve: {member: same, block: {on: text}, canonical: {prompt: x, member: model, BUDGET}}
=== join
  - join: {right: {jsonl: right.jsonl}, member: same, block: {on: text}, BUDGET}
=== rank
  - rank: {member: order, rounds: 2, BUDGET}
=== sample
  - sample: {items: 2}
=== write
  - write: out.jsonl
=== repeat
  - repeat: {steps: [{map: {member: say, BUDGET}}], until: round == 2, at_most: 3}
=== votes in a repeat
  - repeat:
      steps: [{ensemble: {prompt: x, members: [say, say2], BUDGET}}]
      until: round == 2
      at_most: 3
"""
STEPS = {name: text for name, _, text in (
    one.partition("\n") for one in _STEPS.split("=== ")[1:])}  # fmt: skip
PAID = [name for name, text in STEPS.items() if "BUDGET" in text]
ROWS = [
    {"id": f"i{n}", "text": f"Acme works {n}", "kind": "a", "list": [{"text": "x"}, {"text": "y"}]}
    for n in range(3)
]


def project(folder: Path, server: RunningServer, name: str, budget: str) -> None:
    """Before the step comes a map, on which each plan can pause."""
    rows = "".join(json.dumps(row) + "\n" for row in ROWS)
    for file in ("items.jsonl", "right.jsonl", "notes.txt", "more.txt"):
        (folder / file).write_text(rows)
    (folder / "code.py").write_text(CODE)
    listed = [f"  - {{id: {one}, kind: function, target: 'code:{one}'}}\n" for one in MEMBERS]
    listed.append("  - {id: say2, kind: function, target: 'code:say', version: two}\n")
    listed.append(MEMBER.format(url=server.url).replace("id: m\n", "id: model\n"))
    (folder / "roster.yaml").write_text(f"members:\n{''.join(listed)}")
    first = "" if name == "list_files" else "  - map: {name: first, member: say}\n"
    if "steps.rows" in STEPS[name]:
        first = "  - ask: {name: rows, prompt: x, member: rows}\n"
    elif "input" not in STEPS[name] and name != "list_files":
        first = f"input: {{jsonl: items.jsonl}}\nsteps:\n{first}"
    head = first if first.startswith("input") else f"steps:\n{first}"
    (folder / "plan.yaml").write_text(f"name: kinds\n{head}{STEPS[name]}".replace("BUDGET", budget))


def continued(folder: Path, paused: Ended) -> tuple[list[str], Ended]:
    """What is said to be typed, typed with a total."""
    assert paused.code == 4, paused
    words = [word.replace("TOTAL", "500") for word in paused.resume]
    return words, fanfold(folder, *words, "--quiet")


def test_all_kinds_are_tried() -> None:
    tried = {text.split(":")[0].strip(" -\n") for text in STEPS.values()}
    assert tried == {*KINDS, "repeat"}


@pytest.mark.parametrize("name", STEPS)
def test_a_run_of_a_plan_that_was_named_from_its_folder_goes_on(
    tmp_path: Path, quick_server: RunningServer, name: str
) -> None:
    project(tmp_path, quick_server, name, "attempts: 1")
    paused = fanfold(tmp_path, "run", "plan.yaml", "--budget", "calls=1", "--quiet")
    _, ended = continued(tmp_path, paused)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("name", PAID)
def test_the_budget_that_is_used_up_is_named_as_it_can_be_given_anew(
    tmp_path: Path, quick_server: RunningServer, name: str
) -> None:
    """Nothing of it bears a single call of the model, and only one of a function."""
    unit, most = ("usd", 0.001) if "model" in STEPS[name] else ("calls", 1)
    project(tmp_path, quick_server, name, f"budget: {{{unit}: {most}}}")
    paused = fanfold(tmp_path, "run", "plan.yaml", "--quiet")
    words, ended = continued(tmp_path, paused)
    assert words[-1].endswith(f".{unit}=500")
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("name", ["graph", "ensemble", "votes in a repeat", "repeat"])
def test_an_order_gives_it_anew_by_the_same_name(
    tmp_path: Path, quick_server: RunningServer, name: str
) -> None:
    """It holds for the votes, and for every round."""
    project(tmp_path, quick_server, name, "budget: {calls: 1}")
    words = fanfold(tmp_path, "run", "plan.yaml", "--quiet").resume
    step = words[-1].removesuffix(".calls=TOTAL")
    assert fanfold(tmp_path, "set", "kinds", f"{step}.budget=calls=500").code == 0
    assert fanfold(tmp_path, "resume", "kinds", "--quiet").code == 0


def test_less_than_its_votes_took_is_refused(tmp_path: Path, quick_server: RunningServer) -> None:
    """And so is what is no name of a budget: the tasks of a graph share one."""
    project(tmp_path, quick_server, "pipeline", "attempts: 1")
    plan = (tmp_path / "plan.yaml").read_text()
    (tmp_path / "plan.yaml").write_text(
        plan.replace("[say, say2]", '[model, say2], prompt: "{{ item.id }}"')
    )
    assert fanfold(tmp_path, "run", "plan.yaml", "--budget", "v.usd=1.16", "--quiet").code == 4
    ended = fanfold(tmp_path, "resume", "kinds", "--budget", "v.usd=0.001", "--quiet")
    assert (ended.code, "--budget v.usd=0.001 is below what is spent" in ended.err) == (2, True)
    project(tmp_path, quick_server, "graph", "attempts: 1")
    ended = fanfold(tmp_path, "run", "plan.yaml", "--budget", "graph.c.calls=3")
    assert ended.err == (
        "fanfold: --budget: no step `graph.c` in plan.yaml: did you mean `graph`?\n"
    )
