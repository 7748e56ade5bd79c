# ruff: noqa: E501
"""The patterns as steps of a plan: read whole, and what is wrong is named with its line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.plans.asking import Asking
from fanfold.plans.load import check_plan, load_plan, with_commands
from fanfold.plans.plan import Plan
from fanfold.plans.steps.ask import Once
from fanfold.plans.steps.conduct import Conduct
from fanfold.plans.steps.divide import Divide
from fanfold.plans.steps.ensemble import Ensemble
from fanfold.plans.steps.graph import Graph
from fanfold.plans.steps.graph import GraphTask as Node
from fanfold.plans.steps.map import Map
from fanfold.plans.steps.map_reduce import MapReduce
from fanfold.plans.steps.pipeline import Pipeline
from fanfold.plans.steps.reduce import Reduce
from fanfold.plans.steps.scatter import Scatter
from fanfold.plans.steps.scatter import ScatterEntry as Entry
from fanfold.run.settings import Govern
from fanfold.work.task import Who

COUNT = "input: {count: 3}\n"

EVERYTHING = """\
govern: {max_tasks: 20, approve_over: 0.5, cap: 300}
input: {count: 3}
steps:
  - divide: {prompt: "Sum up {{ items }}", fits: {tokens: 3000}, split: items, combine: {prompt: Join}, max_depth: 4}
  - scatter: {prompt: "On {{ item.topic }}", over: [{id: 1, topic: auth, member: m}, {id: b, topic: x}], gather: {first: 1}, synthesise: {prompt: All, member: m}}
  - map: {name: each, over: steps.scatter, prompt: "{{ item.text }}"}
  - pipeline: {mode: batch, stages: [{map: {prompt: a}}, {command: {cmd: [cat]}}, {ensemble: {prompt: c, members: [m, n], decide: quorum, quorum: 2}}]}
  - map_reduce: {over: item.files, map: {prompt: x}, reduce: concat}
  - ensemble: {prompt: "{{ item.id }}?", members: [m, n], judge: {member: m, picks: false}}
  - reduce: {kind: ensemble, prompt: "{{ parts }}", members: [m, n], fan_in: 4}
  - graph: {member: m, tasks: [{id: a, prompt: one}, {id: b, prompt: "{{ parents.a }}", depends_on: a, partial: true, weight: 3}]}
  - ask: {prompt: "Of {{ steps.graph }}", member: n}
"""


def plan(folder: Path, text: str) -> Plan:
    (folder / "p.yaml").write_text(text)
    return load_plan(folder / "p.yaml")


def bare(step: object) -> object:
    """A record without its lines, so that a whole one can be written down in a test."""
    made = msgspec.to_builtins(step)

    def without(value: object) -> object:
        if isinstance(value, dict):
            return {k: without(v) for k, v in value.items() if k not in ("line", "lines", "split")}
        return [without(one) for one in value] if isinstance(value, list | tuple) else value

    return without(made)


def test_every_pattern_is_read_with_all_it_says(tmp_path: Path) -> None:
    found = plan(tmp_path, EVERYTHING)
    assert found.govern == Govern(max_tasks=20, approve_over=0.5, cap=300)
    expected = (
        Divide(
            prompt="Sum up {{ items }}", tokens=3000, max_depth=4,
            combine=Reduce(name="divide.combine", kind="ask", ask=Asking(prompt="Join"), fan_in=10),
        ),
        Scatter(
            prompt="On {{ item.topic }}", first=1,
            over=(Entry("1", {"id": 1, "topic": "auth"}, Who(("m",))), Entry("b", {"id": "b", "topic": "x"})),
            synthesise=Reduce(
                name="scatter.synthesise", kind="ask", fan_in=10,
                ask=Asking(prompt="All", who=Who(("m",))),
            ),
        ),
        Map(name="each", over="steps.scatter", prompt="{{ item.text }}"),
        Pipeline(mode="batch", stages=(
            Map(name="stage1", prompt="a"),
            Map(name="stage2", prompt="{{ steps['stage1'] }}", command={"cmd": ["cat"]}, who=Who(("stage2",))),
            Ensemble(name="stage3", prompt="c", who=Who(("m", "n")), decide="quorum", quorum=2),
        )),
        MapReduce(
            over="item.files", map=Map(name="map_reduce.map", prompt="x"),
            reduce=Reduce(name="map_reduce.reduce", kind="concat"),
        ),
        Ensemble(
            prompt="{{ item.id }}?", who=Who(("m", "n")), decide="judge", picks=False,
            judge=Asking(who=Who(("m",)), prompt=found.steps[5].judge.prompt),  # type: ignore[union-attr]
        ),
        Reduce(
            kind="ensemble", fan_in=4,
            vote=Ensemble(name="reduce", prompt="{{ parts }}", who=Who(("m", "n"))),
        ),
        Graph(tasks=(
            Node(id="a", prompt="one", who=Who(("m",))),
            Node(id="b", prompt="{{ parents.a }}", who=Who(("m",)), depends_on=("a",), partial=True, weight=3.0),
        )),
        Once(prompt="Of {{ steps.graph }}", who=Who(("n",))),
    )  # fmt: skip
    assert [bare(step) for step in found.steps] == [bare(step) for step in expected]


def test_a_plan_of_every_pattern_survives_being_stored(tmp_path: Path) -> None:
    found = plan(tmp_path, EVERYTHING)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Plan) == found


def test_the_caps_of_the_conductor_are_those_of_its_seed(tmp_path: Path) -> None:
    found = plan(tmp_path, f"{COUNT}steps:\n  - conduct: {{prompt: x}}\n").steps[0]
    assert isinstance(found, Conduct)
    assert (found.concurrency, found.most, found.revise) == (7, 40, 1)


WRONG = [
    ("- divde: {}", "4: unknown step `divde`: did you mean `divide`?"),
    ("- divide: {prompt: x}", "4: a divide needs the field `combine`"),
    ("- divide: {prompt: x, combine: merge, fits: {words: 3}}",
     "4: unknown field `words` in fits: known: items, tokens"),
    ("- divide: {prompt: x, combine: merge, split: words}",
     "4: `split` is items, paragraphs or module:function, not 'words'"),
    ("- divide: {prompt: x, combine: marge}", "4: unknown kind `marge`: did you mean `merge`?"),
    ("- divide: {prompt: x, combine: merge, max_depth: 0}", "4: `max_depth` must be 1 or more, not 0"),
    ("- scatter: {prompt: x, over: []}", "4: `over` is empty; list those whom the question is for"),
    ("- scatter: {prompt: x, over: [{topic: a}]}", "4: an entry of `over` needs the field `id`"),
    ("- scatter: {prompt: x, gather: some}", "4: `gather` must be all, {first: 3} or {within: 30}, not the text 'some'"),
    ("- scatter: {prompt: x, gather: {within: -1}}", "4: `within` must be more than 0, not -1"),
    ("- scatter: {prompt: x, gather: {first: 0}}", "4: `first` must be 1 or more, not 0"),
    ("- scatter: {prompt: x, over: [{id: a}, {id: a}]}",
     "4: duplicate id 'a' in `over`; make ids unique"),
    ("- scatter: {prompt: x, over: [{id: a}], gather: {first: 2}}",
     "4: `first` is 2, but there are only 1 entries"),
    ("- ensemble: {prompt: x, members: [a, b], decide: plurality, judge: {member: c}}",
     "4: `judge` goes with `decide: judge`, or with majority or quorum, to decide what these do not"),
    ("- ensemble: {prompt: x, members: [a], fallback: b}",
     "4: a voter has no `fallback`; `escalate` is for questions"),
    ("- pipeline: {stages: []}", "4: a pipeline has 1 to 20 stages"),
    ("- pipeline: {stages: [{reduce: concat}]}",
     "4: `reduce` cannot be a stage: did you mean `map_reduce`?"),
    ("- pipeline: {mode: fast, stages: [{map: {prompt: x}}]}",
     "4: unknown mode `fast`: known: batch, streaming"),
    ("- pipeline: {stages: [{map: {prompt: x, name: a}}, {map: {prompt: x, name: a}}]}",
     "4: a second step `a`; give it a `name` of its own"),
    ("- ensemble: {prompt: x, members: [a], decide: coin}",
     "4: unknown decide `coin`: known: judge, majority, plurality, quorum, weighted; or give module:function"),
    ("- ensemble: {prompt: x, members: [a], decide: judge}",
     "4: `decide: judge` needs a `judge: {member: …}`"),
    ("- ensemble: {prompt: x, members: [a], decide: weighted}",
     "4: `decide: weighted` needs `weights: {member: 1.5, …}`"),
    ("- ensemble: {prompt: x, members: [a], confidence: 0}", "4: `confidence` must be more than 0, not 0"),
    ("- graph: {tasks: [{id: a, prompt: x, depends_on: [b]}, {id: b, prompt: x, depends_on: [a]}]}",
     "4: these tasks wait for one another, so none of them can start; take one of them out of a "
     "`depends_on`: CYCLE:a,b"),
    ("- graph: {tasks: [{id: a, prompt: x, depends_on: [z]}]}",
     "4: task `a` depends on `z`, which is not there: no task has an id like it"),
    ("- graph: {tasks: [{id: a, prompt: x}, {id: a, prompt: y}]}",
     "4: duplicate task id `a`, at 0 and 1; make ids unique"),
    ("- graph: {tasks: [{id: a, prompt: x}, {id: b, prompt: '{{ parents.a }}'}]}",
     "4: the prompt of `b` reads parents.a: add it to `depends_on`"),
    ("- graph: {tasks: [{id: a, prompt: x}, {id: b, prompt: '{{ parents.a }}', verbatim: parents}]}",
     "4: the prompt of `b` reads parents.a: add it to `depends_on`"),
    ("- graph: {tasks: [{id: a, prompt: x, partial: some}]}",
     "4: `partial` must be true, false or always, not the text 'some'"),
    ("- command: {prompt: x}", "4: a command needs the field `cmd`"),
    ("- command: {cmd: cat}", "4: `cmd` must be a list, not the text 'cat'"),
    ("- ask: {member: m}", "4: an ask needs a `prompt`"),
    ("- map_reduce: {over: files, map: {prompt: x}, reduce: concat}",
     "4: `over` is a field such as item.files or steps.NAME"),
    ("- map: {prompt: x, over: steps.none}",
     "4: `over` names `steps.none`, but no earlier step has that name; known: first"),
    ("- map: {prompt: x, over: everything}",
     "4: `over` is items, files or steps.NAME of an earlier step, not 'everything'"),
    ("- ask: {prompt: '{{ steps.first }}', member: m}",
     "4: the prompt reads `steps.first`, but it cannot see an earlier step of that name; there is none"),
    *((f"- map: {{name: c, over: steps.first, prompt: x}}\n  - {step}",
       f"5: {what}ts replies ended where `c` began with other items; known: c") for step, what in (
        ("map: {prompt: y, over: steps.first}", "`over` names `steps.first`, but i"),
        ("map: {prompt: '{{ steps.first }}'}", "the prompt reads `steps.first`, but i"),
        ("group: {by: steps.first.n, reduce: concat}", "`steps.first.n`: i"),
    )),
    ("- divide: {prompt: x, combine: merge}\n  - map: {prompt: y}",
     "5: `divide` already reduced the items; to work on its result, state `over: steps.divide`"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "message"), WRONG)
def test_what_is_wrong_is_said_before_anything_starts(
    tmp_path: Path, step: str, message: str
) -> None:
    with pytest.raises(BadInput) as error:
        plan(tmp_path, f"{COUNT}steps:\n  - map: {{name: first, prompt: x}}\n  {step}\n")
    assert str(error.value).removeprefix(f"{tmp_path}/") == f"p.yaml:{message}"


ROSTER = (
    "members:\n  - {id: m, kind: function, target: 'a:b'}\n  - {id: n, kind: command, cmd: [cat]}\n"
)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("- ensemble: {members: [m], quorum: 2}",
         "3: `quorum` is 2 voters, but there are only 1 of them"),
        ("- ensemble: {members: [m], decide: weighted, weights: {n: 2}}",
         "3: `weights` names `n`, which is no voter: known: m"),
        ("- ensemble: {member: m, judge: {member: x}}",
         "3: there is no member `x` in the roster: known: m, n"),
        ("- map: {member: m, gate: {judge: {prompt: ok?, member: x}}}",
         "3: there is no member `x` in the roster: known: m, n"),
        ("- scatter: {member: m, over: [{id: a, member: x}]}",
         "2: there is no member `x` in the roster: known: m, n"),
        ("- graph: {tasks: [{id: a, member: n}]}",
         "2: `graph.a` has no `prompt`, but member `n` (kind command) needs one"),
        ("- divide: {member: m, combine: {member: n, prompt: y}, fits: {items: 1}, escalate: x}",
         "3: there is no member `x` in the roster: known: m, n"),
        ("- command: {cmd: [cat], name: n}",
         "3: a member of the roster is called `n` too; give the step another name"),
    ],
)  # fmt: skip
def test_a_pattern_that_does_not_fit_its_roster(tmp_path: Path, step: str, message: str) -> None:
    (tmp_path / "r.yaml").write_text(ROSTER)
    given = "" if message.startswith("2") else COUNT
    found = plan(tmp_path, f"{given}steps:\n  {step}\n")
    with pytest.raises(BadInput) as error:
        check_plan(found, with_commands(found, load_roster(tmp_path / "r.yaml")))
    assert str(error.value).removeprefix(f"{tmp_path}/") == f"p.yaml:{message}"
