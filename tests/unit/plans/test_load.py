"""Plan files become records that hold all a run needs and can be stored."""

from __future__ import annotations

import textwrap
from pathlib import Path

import msgspec
import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import Roster, load_roster
from fanfold.plans.asking import Asking
from fanfold.plans.header import Input
from fanfold.plans.inputs import open_input
from fanfold.plans.load import check_plan, load_plan
from fanfold.plans.plan import Plan
from fanfold.plans.steps.map import Map
from fanfold.plans.steps.reduce import Reduce
from fanfold.plans.steps.write import Write
from fanfold.work.ask import Params, Schema
from fanfold.work.options import parse_budget, parse_budgets
from fanfold.work.shard import ShardSize
from fanfold.work.task import Budget, Who
from fanfold.work.template import Template

WHOLE = """\
name: contract-review
roster: roster.yaml
budget: {usd: 5.00, tokens: 2000000, calls: 900, seconds: 3600}
input: {jsonl: contracts.jsonl, id: id, limit: 100}
steps:
  - map:
      prompt: |
        Flag the risk clauses in this contract.
        {{ item.text }}
      schema: {type: object}
      member: haiku
      use: 4
      shard: {items: 50}
      concurrency: 9
      budget: {usd: 2.00}
      keep: reply.relevant
      gate:
        - require: [clause, severity, evidence]
        - quotes: evidence
      revise: 2
      escalate: [opus]
      on_failure: hold
      in_doubt: retry
      temperature: 0
      max_tokens: 100
      stop: END
  - reduce: {kind: sort, by: severity, order: descending}
  - write: report.md
"""

SEED = """\
task: "produce a one-paragraph summary of each file in src/"
steps:
  - list_files: { path: "src/", pattern: "**/*.ts" }
  - map:
      over: files
      agent: file-summariser
      concurrency: 8
  - reduce:
      kind: concat
      sep: "\\n\\n"
  - write: "docs/file-summaries.md"
"""


def plan(folder: Path, text: str, name: str = "plan.yaml") -> Plan:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return load_plan(path)


def mapped(folder: Path, fields: str) -> Map:
    found = plan(folder, f"input: {{count: 1}}\nsteps:\n  - map: {{{fields}}}\n").steps[0]
    assert isinstance(found, Map)
    return found


def test_every_field_of_a_plan_is_taken_up(tmp_path: Path) -> None:
    file = str(tmp_path / "plan.yaml")
    found = plan(tmp_path, WHOLE)
    step, reduce, _ = found.steps
    assert isinstance(step, Map)
    assert isinstance(reduce, Reduce)
    assert found == Plan(
        name="contract-review",
        file=file,
        folder=str(tmp_path),
        roster="roster.yaml",
        budget=Budget(usd=5.0, tokens=2_000_000, calls=900, seconds=3600.0),
        input=Input("jsonl", "contracts.jsonl", id="id", limit=100, file=file, line=4),
        steps=(
            Map(
                prompt="Flag the risk clauses in this contract.\n{{ item.text }}\n",
                schema=Schema.of({"type": "object"}),
                who=Who(members=("haiku",), use=4),
                shard=ShardSize(items=50),
                concurrency=9,
                budget=Budget(usd=2.0),
                keep="reply.relevant",
                gate=({"require": ["clause", "severity", "evidence"]}, {"quotes": "evidence"}),
                revise=2,
                escalate=("opus",),
                on_failure="hold",
                in_doubt="retry",
                params=Params(temperature=0.0, max_tokens=100, stop=("END",)),
                lines=step.lines,
                line=6,
            ),
            Reduce(
                kind="sort", options={"by": "severity", "order": "descending"},
                lines=reduce.lines, line=27,
            ),
            Write(path="report.md", line=28),
        ),
    )  # fmt: skip
    assert (step.lines["member"], step.lines["escalate"], reduce.lines) == (
        11, 21, {"kind": 27, "by": 27, "order": 27},
    )  # fmt: skip


@pytest.mark.parametrize("text", [WHOLE, SEED])
def test_a_plan_survives_being_stored(tmp_path: Path, text: str) -> None:
    found = plan(tmp_path, text)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Plan) == found


def test_what_is_not_stated_has_its_default(tmp_path: Path) -> None:
    found = plan(tmp_path, "input: {count: 2}\nsteps: [map: {member: m}, reduce: collect]", "p.yml")
    file = str(tmp_path / "p.yml")
    assert found == Plan(
        name="p",
        file=file,
        folder=str(tmp_path),
        input=Input("count", 2, file=file, line=1),
        steps=(
            Map(who=Who(members=("m",)), lines={"member": 2}, line=2),
            Reduce(kind="collect", lines={"kind": 2}, line=2),
        ),
    )


def test_a_fan_in_may_be_larger_than_any_input(tmp_path: Path) -> None:
    """So it says: all at once, when they have landed."""
    found = plan(
        tmp_path,
        "input: {count: 2}\nsteps: [map: {member: m}, reduce: {kind: collect, fan_in: 10000000}]",
    )
    reduce = found.steps[1]
    assert isinstance(reduce, Reduce) and reduce.fan_in == 10_000_000


def test_the_short_form_of_the_map_reduce_pattern_runs_as_it_stands(tmp_path: Path) -> None:
    found = plan(tmp_path, SEED)
    file = str(tmp_path / "plan.yaml")
    task = "produce a one-paragraph summary of each file in src/"
    assert found.input == Input("files", "src/**/*.ts", file=file, line=3)
    assert found.steps == (
        Map(
            prompt=f"{task}\n\nFile: {{{{ item.path }}}}\n\n{{{{ item.text }}}}",
            who=Who(members=("file-summariser",)),
            lines={"over": 5, "agent": 6, "concurrency": 7},
            line=4,
        ),
        Reduce(
            kind="concat",
            options={"title": "## {id}", "sep": "\n\n"},
            lines={"kind": 9, "sep": 10},
            line=8,
        ),
        Write(path="docs/file-summaries.md", line=11),
    )
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "deep" / "a.ts").write_text("code")
    ((_, item),) = open_input(found.input, tmp_path).walk()
    assert (item.id, item.data["text"]) == ("src/deep/a.ts", "code")


def test_a_task_is_words_not_a_template(tmp_path: Path) -> None:
    text = SEED.replace("produce a", "fill in {{ name }} and {% x %}, a")
    step = plan(tmp_path, text).steps[0]
    assert isinstance(step, Map)
    rendered = Template(step.prompt or "", name="p", known=("item",)).render(
        item={"text": "T", "path": "a.ts"}
    )
    assert rendered == (
        "fill in {{ name }} and {% x %}, a one-paragraph summary of each file in src/\n\n"
        "File: a.ts\n\nT"
    )


def test_prompts_and_schemas_in_files_are_taken_in(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("Say {{ item.id }}\n")
    (tmp_path / "s.json").write_text('{"type": "array"}')
    step = mapped(tmp_path, "prompt_file: p.md, schema_file: s.json, needs: legal")
    assert (step.prompt, step.schema, step.who) == (
        "Say {{ item.id }}\n", Schema.of({"type": "array"}), Who(needs=("legal",)),
    )  # fmt: skip


def test_an_asked_reduce_is_read_with_all_it_says(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        """\
        input: {lines: a.txt}
        steps:
          - map: {prompt: "{{ item.text }}", name: read}
          - reduce:
              kind: ask
              name: together
              prompt: "Join {{ parts }}"
              member: opus
              gate: {require: summary}
        """,
    )
    assert found.steps[1] == Reduce(
        name="together",
        kind="ask",
        ask=Asking(
            prompt="Join {{ parts }}", who=Who(members=("opus",)), gate=({"require": "summary"},),
            lines={"kind": 5, "name": 6, "prompt": 7, "member": 8, "gate": 9}, line=4,
        ),
        fan_in=10,
        lines={"kind": 5, "name": 6, "prompt": 7, "member": 8, "gate": 9},
        line=4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "budget"),
    [
        ("5", Budget(usd=5.0)),
        ("0.5", Budget(usd=0.5)),
        ("usd=5,calls=900", Budget(usd=5.0, calls=900)),
        ("tokens=2e6, seconds=1.5", Budget(tokens=2_000_000, seconds=1.5)),
    ],
)
def test_a_budget_can_be_typed(said: str, budget: Budget) -> None:
    assert parse_budget(said) == budget


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("0", "--budget: `usd` must be more than 0, not 0"),
        ("-1", "--budget: `usd` must be more than 0, not -1"),
        ("nan", "--budget: `usd` must be a finite number, not the number nan"),
        ("inf", "--budget: `usd` must be a finite number, not the number inf"),
        ("lots", "--budget: `usd` must be a number, not the text 'lots'"),
        ("", "--budget: `usd` must be a number, not the text ''"),
        ("call=3", "--budget: unknown field `call` in a budget: did you mean `calls`?"),
        ("calls=1.5", "--budget: `calls` must be a whole number, not the number 1.5"),
        ("usd=1,usd=2", "--budget: `usd` is given twice"),
    ],
)
def test_a_typed_budget_that_is_none_is_refused(said: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_budget(said)
    assert str(error.value) == message


# ── the plan and the roster together ─────────────────────────────────────────────────────────

ROSTER = """\
members:
  - {id: rules, kind: function, target: 'a:b', good_at: [legal]}
  - {id: haiku, kind: anthropic, model: m, good_at: [legal, prose]}
  - {id: off, kind: command, cmd: [a], enabled: false, good_at: [sums]}
"""


def roster(folder: Path, text: str = ROSTER) -> Roster:
    path = folder / "roster.yaml"
    path.write_text(text)
    return load_roster(path)


@pytest.mark.parametrize(
    "fields",
    ["prompt: x", "prompt: x, members: [rules, haiku]", "member: rules", "needs: [legal], prompt: x",
     "member: rules, escalate: [haiku], prompt: x", "needs: legal, fallback: haiku, prompt: x"],
)  # fmt: skip
def test_a_plan_that_fits_its_roster(tmp_path: Path, fields: str) -> None:
    text = f"input: {{count: 1}}\nsteps: [map: {{{fields}}}]"
    check_plan(plan(tmp_path, text), roster(tmp_path))


@pytest.mark.parametrize(
    ("fields", "line", "message"),
    [
        ("member: haikou", 4, "there is no member `haikou` in the roster: did you mean `haiku`?"),
        ("members: [rules, zz]", 4,
         "there is no member `zz` in the roster: known: haiku, off, rules"),
        ("member: off\n      prompt: x", 4, "member `off` is switched off (enabled: false)"),
        ("prompt: x\n      needs: [prose, sums]", 5,
         "no member of the roster ROSTER is good at prose, sums; nearest: haiku (prose)"),
        ("prompt: x\n      needs: [legal, sums]", 5,
         "no member of the roster ROSTER is good at legal, sums; nearest: rules (legal)"),
        ("member: rules\n      fallback: [opus]", 5,
         "there is no member `opus` in the roster: known: haiku, off, rules"),
        ("member: rules\n      fallback: [haiku]", 3,
         "`map` has no `prompt`, but member `haiku` (kind anthropic) needs one"),
        ("member: rules\n      escalate: [opus]", 5,
         "there is no member `opus` in the roster: known: haiku, off, rules"),
        ("member: haiku", 3, "`map` has no `prompt`, but member `haiku` (kind anthropic) needs one"),
        ("member: rules\n      escalate: [haiku]", 3,
         "`map` has no `prompt`, but member `haiku` (kind anthropic) needs one"),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_fit_its_roster(
    tmp_path: Path, fields: str, line: int, message: str
) -> None:
    found = plan(tmp_path, f"input: {{count: 1}}\nsteps:\n  - map:\n      {fields}\n")
    with pytest.raises(BadInput) as error:
        check_plan(found, roster(tmp_path))
    assert (error.value.file, error.value.line, error.value.what) == (
        found.file,
        line,
        message.replace("ROSTER", str(tmp_path / "roster.yaml")),
    )


def test_an_empty_roster_fits_no_plan(tmp_path: Path) -> None:
    found = plan(tmp_path, "input: {count: 1}\nsteps: [map: {prompt: x}]")
    for empty in (Roster(), roster(tmp_path, "members: []")):
        with pytest.raises(BadInput, match="has no members; add one, or name another roster"):
            check_plan(found, empty)


def test_an_asked_reduce_needs_a_member_too(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        "input: {count: 1}\nsteps:\n  - map: {member: rules}\n"
        "  - reduce:\n      kind: ask\n      prompt: x\n      member: opus\n",
    )
    with pytest.raises(BadInput) as error:
        check_plan(found, roster(tmp_path))
    assert (error.value.line, error.value.what) == (
        7, "there is no member `opus` in the roster: known: haiku, off, rules",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "whole", "steps"),
    [
        ("5", Budget(usd=5), {}),
        ("0.5", Budget(usd=0.5), {}),
        ("map.usd=2", None, {"map": Budget(usd=2)}),
        (
            "usd=5,map.usd=2,calls=9,map.judge.calls=7,map.calls=3", Budget(usd=5, calls=9),
            {"map": Budget(usd=2, calls=3), "map.judge": Budget(calls=7)},
        ),
    ],
)  # fmt: skip
def test_a_budget_may_name_steps(said: str, whole: Budget | None, steps: dict[str, Budget]) -> None:
    assert parse_budgets(said) == (whole, steps)


def test_seconds_are_of_the_whole_run() -> None:
    with pytest.raises(BadInput, match="of the whole run, not of a step"):
        parse_budgets("map.seconds=5")
