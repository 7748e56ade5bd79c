"""What the picture of a plan shows: every step, who answers, and the shape of each pattern."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import Roster, load_roster
from fanfold.plans.asking import Asking
from fanfold.plans.drawing.picture import count_items, picture
from fanfold.plans.header import Input
from fanfold.plans.plan import Plan
from fanfold.plans.steps.ask import Once
from fanfold.plans.steps.conduct import Conduct
from fanfold.plans.steps.divide import Divide
from fanfold.plans.steps.ensemble import Ensemble
from fanfold.plans.steps.graph import Graph
from fanfold.plans.steps.graph import GraphTask as Task
from fanfold.plans.steps.kind import Step
from fanfold.plans.steps.map import Map
from fanfold.plans.steps.map_reduce import MapReduce
from fanfold.plans.steps.pipeline import Pipeline
from fanfold.plans.steps.reduce import Reduce
from fanfold.plans.steps.scatter import Scatter
from fanfold.plans.steps.scatter import ScatterEntry as Entry
from fanfold.plans.steps.write import Write
from fanfold.work.ask import Schema
from fanfold.work.picture import Arrow, Box, Picture
from fanfold.work.shard import ShardSize
from fanfold.work.task import Budget, Who

JSONL = Input("jsonl", "contracts.jsonl")
DEFAULT_GATE = Box("gate", "gate", ("not empty, not cut off", "kick back once"), "gate")
ASKS = (Box("ask 1", "ask 1"), Box("ask 2", "ask 2"), Box("ask …", "…", look="more"))
UNKNOWN = (*ASKS, Box("ask n", "ask n"))


def planned(*steps: Step, input: Input | None = JSONL, budget: Budget = Budget()) -> Plan:
    return Plan(
        name="review", file="plan.yaml", folder="/nowhere", input=input, budget=budget, steps=steps
    )


def by(*members: str) -> Who:
    return Who(members=members)


def box_of(step: Step, *, items: int | None = None, roster: Roster | None = None) -> Box:
    """The box of a step by itself."""
    (box,) = picture(planned(step, input=None), items=items, roster=roster).boxes
    return box


def inside(step: Step, *, items: int | None = None) -> Picture:
    found = box_of(step, items=items).inside
    assert found is not None
    return found


def pairs(drawn: Picture) -> list[tuple[str, str]]:
    return [(arrow.start, arrow.end) for arrow in drawn.arrows]


def joined(*rows: list[str]) -> list[tuple[str, str]]:
    return [(a, b) for up, low in pairwise(rows) for a in up for b in low]


# ── the whole ────────────────────────────────────────────────────────────────────────────────


def test_what_is_written_of_each_item_is_said() -> None:
    assert box_of(Write(path="out.md")).lines == ("out.md",)
    each = Write(path="out/{{ item.id }}.md", each=True)
    assert box_of(each).lines == ("out/{{ item.id }}.md", "a file for each item")
    beside = Write(path="out.csv", with_input=True)
    assert box_of(beside).lines == ("out.csv", "with the input's fields")


def test_stdin_is_named() -> None:
    drawn = picture(planned(Map(), input=Input("lines", "-")))
    assert drawn.boxes[0].lines == ("lines from stdin",)


def test_input_and_steps_in_order() -> None:
    plan = planned(
        Once(name="letter", prompt="Write", who=by("opus")),
        Reduce(kind="sort", options={"by": "severity", "order": "descending"}),
        Write(path="report.md"),
        budget=Budget(usd=5, calls=900),
    )
    assert picture(plan, items=163) == Picture(
        (
            Box("input", "input", ("jsonl contracts.jsonl", "163 items"), "input"),
            Box("step 0", "letter (ask)", ("opus",)),
            Box("step 1", "reduce", ("sort · by severity · order descending",), "fold"),
            Box("step 2", "write", ("report.md",), "file"),
        ),
        (Arrow("input", "step 0"), Arrow("step 0", "step 1"), Arrow("step 1", "step 2")),
        "review · at most $5.00, 900 calls",
    )


def test_a_plan_without_input_begins_with_its_first_step() -> None:
    drawn = picture(planned(Once(prompt="x"), Write(path="a.md"), input=None))
    assert ([box.id for box in drawn.boxes], pairs(drawn), drawn.title) == (
        ["step 0", "step 1"], [("step 0", "step 1")], "review",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "items", "lines"),
    [
        (Input("files", "src/**/*.ts"), 1, ("files src/**/*.ts", "1 item")),
        (Input("list", ["a", "b"], limit=1), None, ("a list in the plan", "the first 1")),
        (Input("count", 12000), 12000, ("count 12,000", "12,000 items")),
        (Input("command", ["ls", "-1"]), None, ("command ls -1",)),
        (Input("http", "https://h.example:8080/a?key=s3cret"), None, ("http h.example/a",)),
    ],
)
def test_the_input_by_its_kind(spec: Input, items: int | None, lines: tuple[str, ...]) -> None:
    drawn = picture(planned(Once(prompt="x"), input=spec), items=items)
    assert drawn.boxes[0] == Box("input", "input", lines, "input")


def test_a_step_that_reads_a_far_one_has_an_arrow_from_it() -> None:
    """The next one has an arrow anyway."""
    plan = planned(
        Map(name="scan", prompt="x"),
        Once(name="first", prompt="{{ steps.scan }}"),
        Pipeline(
            stages=(Map(name="deep", prompt="x"), Map(name="last", prompt="{{ steps.scan }}"))
        ),
        Reduce(kind="ask", ask=Asking(prompt="{{ parts }} {{ steps['deep'] }} {{ steps.first }}")),
        Map(name="again", prompt="{{ item }}", over="steps.scan"),
    )
    drawn = picture(plan)
    assert [arrow for arrow in drawn.arrows if arrow.kind == "reads"] == [
        Arrow("step 0", "step 2", kind="reads"),
        Arrow("step 1", "step 3", kind="reads"),
        Arrow("step 0", "step 4", kind="reads"),
    ]
    assert [box.lines[-1] for box in drawn.boxes[3:]] == [
        "reads steps.scan", "reads steps.first", "over steps.scan",
    ]  # fmt: skip


# ── one ask per item ─────────────────────────────────────────────────────────────────────────


def test_a_map_fans_out_to_a_gate() -> None:
    step = Map(
        prompt="x", who=by("haiku", "sonnet"), shard=ShardSize(items=50), keep="reply.relevant",
        gate=({"require": ["clause", "evidence"]}, {"quotes": "evidence"}), escalate=("opus",),
        revise=2, budget=Budget(usd=2), on_failure="hold", schema=Schema.of({"type": "object"}),
        concurrency=4,
    )  # fmt: skip
    gate = (
        "require clause, evidence",
        "quotes evidence",
        "kick back twice, then ask opus",
    )
    assert box_of(step, items=1001) == Box(
        "step 0",
        "map",
        (
            "haiku, sonnet",
            "4 at once · schema · on failure: hold · at most $2.00",
            "50 items in one ask · keep reply.relevant",
        ),
        inside=Picture(
            (*ASKS, Box("ask 21", "ask 21"), Box("gate", "gate", gate, "gate")),
            tuple(Arrow(f"ask {n}", "gate") for n in ("1", "2", "…", "21")),
        ),
    )


@pytest.mark.parametrize(
    ("step", "items", "lanes"),
    [
        (Map(prompt="x"), 3, ["ask 1", "ask 2", "ask 3"]),
        (Map(prompt="x"), 1, ["ask 1"]),
        (Map(prompt="x"), 12000, ["ask 1", "ask 2", "…", "ask 12,000"]),
        (Map(prompt="x"), None, ["ask 1", "ask 2", "…", "ask n"]),
        (Map(prompt="x", shard=ShardSize(tokens=9)), 500, ["ask 1", "ask 2", "…", "ask n"]),
        (Map(prompt="x", shard=ShardSize(count=3)), 500, ["ask 1", "ask 2", "ask 3"]),
        (Map(prompt="x", shard=ShardSize(count=3)), 2, ["ask 1", "ask 2"]),
        (Map(prompt="x", shard=ShardSize(range="n", bounds=(5,))), 9, ["ask 1", "ask 2"]),
        (Map(prompt="x", over="steps.a"), 500, ["ask 1", "ask 2", "…", "ask n"]),
    ],
)
def test_as_many_lanes_as_asks(step: Map, items: int | None, lanes: list[str]) -> None:
    assert [box.title for box in inside(step, items=items).boxes] == [*lanes, "gate"]


@pytest.mark.parametrize(
    ("gate", "lines"),
    [
        (None, ("not empty, not cut off", "kick back once")),
        ({"range": {"field": "n", "low": 0, "high": 9}}, ("range field n, low 0, high 9",)),
        ({"judge": {"member": "opus", "prompt": "Good?"}}, ("judge opus",)),
        ({"judge": {"needs": ["law", "wit"], "prompt": "Good?"}}, ("judge law, wit",)),
        ({"schema": {"type": "object", "properties": {}}}, ("schema",)),
        ({"python": "m:f", "regex": "^a"}, ("python m:f", "regex ^a")),
        ({"any_of": [{"require": ["a"]}, {"regex": "b"}]}, ("any_of require a, regex b",)),
    ],
)
def test_a_gate_by_its_checks(gate: dict[str, object] | None, lines: tuple[str, ...]) -> None:
    step = Map(prompt="x", gate=gate and (gate,), revise=0 if gate else 1)
    assert inside(step).boxes[-1] == Box("gate", "gate", lines, "gate")


def test_the_default_gate_knows_the_schema() -> None:
    step = Map(prompt="x", schema=Schema.of({"type": "object"}), revise=0)
    assert inside(step).boxes[-1].lines == ("not empty, not cut off, fits the schema",)


def test_a_map_with_a_command_of_its_own() -> None:
    step = Map(name="clean", command={"id": "clean", "cmd": ["python3", "clean.py"]})
    assert box_of(step).title == "clean (map)"
    assert box_of(step).lines == ("command python3 clean.py", "8 at once")


def test_a_map_reduce_has_its_reduce_inside() -> None:
    step = MapReduce(
        over="item.files", concurrency=3, map=Map(prompt="x", who=by("a")),
        reduce=Reduce(kind="concat", options={"sep": "\n"}),
    )  # fmt: skip
    drawn = box_of(step)
    assert drawn.lines == ("for each item, over item.files · 3 of them at once", "a", "8 at once")
    assert inside(step).boxes == (
        *UNKNOWN, DEFAULT_GATE, Box("reduce", "reduce", ("concat · sep '\\n'",), "fold"),
    )  # fmt: skip
    asks = [box.id for box in UNKNOWN]
    assert pairs(inside(step)) == joined(asks, ["gate"], ["reduce"])


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("streaming", "streaming: an item goes on as soon as it is ready"),
        ("batch", "batch: a stage waits for all of the one before"),
    ],
)
def test_a_pipeline_is_a_chain_of_its_stages(mode: str, line: str) -> None:
    step = Pipeline(
        mode=mode,  # type: ignore[arg-type]
        stages=(
            Map(name="clean", prompt="x", who=by("a"), gate=({"regex": "^a"},)),
            Ensemble(name="vote", prompt="x", who=by("b", "c")),
            Map(prompt="x", who=by("d")),
        ),
    )
    drawn = box_of(step)
    assert (drawn.title, drawn.lines) == ("pipeline", (line,))
    first, vote, last = inside(step).boxes
    assert first == Box(
        "stage 0", "clean (map)", ("a", "8 at once", "gate: regex ^a · kick back once")
    )
    assert (vote.title, last) == ("vote (ensemble)", Box("stage 2", "map", ("d", "8 at once")))
    assert vote.inside is not None
    assert [box.title for box in vote.inside.boxes] == ["b", "c", "majority vote"]
    assert pairs(inside(step)) == [("stage 0", "stage 1"), ("stage 1", "stage 2")]


# ── several at once ──────────────────────────────────────────────────────────────────────────


def test_an_ensemble_shows_its_voters_and_the_decision() -> None:
    step = Ensemble(
        prompt="x", who=by("a", "b", "c"), decide="quorum", quorum=2, stop_early=True,
        confidence=0.9, field="answer", keep="reply.ok",
    )  # fmt: skip
    assert box_of(step) == Box(
        "step 0",
        "ensemble",
        ("8 at once", "keep reply.ok"),
        inside=Picture(
            (
                Box("voter 0", "a"),
                Box("voter 1", "b"),
                Box("voter 2", "c"),
                Box(
                    "decision", "quorum of 2", ("on answer · stops early · confidence 0.9",), "fold"
                ),
            ),
            tuple(Arrow(f"voter {n}", "decision") for n in range(3)),
        ),
    )


@pytest.mark.parametrize(
    ("step", "decision"),
    [
        (Ensemble(prompt="x", decide="weighted", weights={"a": 1.5, "b": 1}),
         ("weighted vote", "a 1.5, b 1")),
        (Ensemble(prompt="x", decide="judge", judge=Asking(who=by("opus"))), ("judge", "opus")),
        (Ensemble(prompt="x", decide="plurality"), ("plurality vote",)),
        (Ensemble(prompt="x", judge=Asking(who=by("opus"))), ("majority vote", "else judge opus")),
        (Ensemble(prompt="x", decide="rules:pick"), ("decide by rules:pick",)),
    ],
)  # fmt: skip
def test_how_an_ensemble_decides(step: Ensemble, decision: tuple[str, ...]) -> None:
    last = inside(step).boxes[-1]
    assert (last.title, *last.lines) == decision


@pytest.mark.parametrize(
    ("step", "voters"),
    [
        (Ensemble(prompt="x", who=by("a"), samples=3),
         [("sample 1", "a"), ("sample 2", "a"), ("sample 3", "a")]),
        (Ensemble(prompt="x", who=by("a"), samples=9),
         [("sample 1", "a"), ("sample 2", "a"), ("…",), ("sample 9", "a")]),
        (Ensemble(prompt="x", who=Who(needs=("law",), use=2)), [("voter 1",), ("voter 2",)]),
        (Ensemble(prompt="x"), [("voter 1",), ("voter 2",), ("…",), ("voter n",)]),
    ],
)  # fmt: skip
def test_voters_that_are_samples_or_not_known(
    step: Ensemble, voters: list[tuple[str, ...]]
) -> None:
    assert [(box.title, *box.lines) for box in inside(step).boxes[:-1]] == voters


def test_an_ensemble_as_a_reduce() -> None:
    drawn = box_of(Reduce(kind="ensemble", vote=Ensemble(prompt="x", who=by("a", "b")), fan_in=5))
    assert (drawn.title, drawn.lines, drawn.look) == ("reduce", ("ensemble · tree of 5",), "fold")
    assert drawn.inside is not None
    assert [box.title for box in drawn.inside.boxes] == ["a", "b", "majority vote"]


def test_an_asked_reduce_in_a_tree() -> None:
    ask = Asking(prompt="x", who=Who(needs=("legal",)), gate=({"regex": "a"},), revise=0)
    step = Reduce(name="brief", kind="ask", ask=ask, fan_in=10)
    assert box_of(step) == Box(
        "step 0", "brief (reduce)", ("asked: needs legal · tree of 10", "gate: regex a"), "fold"
    )
    assert box_of(msgspec.structs.replace(step, partial=True)).lines[0] == (
        "asked: needs legal · tree of 10 · on failure: partial"
    )


@pytest.mark.parametrize(
    ("first", "within", "gather"),
    [(None, None, "all"), (2, None, "the first 2"), (None, 30.0, "within 30 s")],
)
def test_a_scatter_shows_its_entries_and_the_synthesis(
    first: int | None, within: float | None, gather: str
) -> None:
    step = Scatter(
        prompt="x", over=(Entry("auth", {}, by("a")), Entry("money", {}, None, "Own {{ item }}")),
        who=by("z"), first=first, within=within,
        synthesise=Reduce(kind="ask", ask=Asking(prompt="s", who=by("opus"))),
    )  # fmt: skip
    assert box_of(step).lines == ("z", "8 at once")
    assert inside(step) == Picture(
        (
            Box("entry 0", "auth", ("a",)),
            Box("entry 1", "money", ("own prompt",)),
            Box("gather", f"gather {gather}", (), "fold"),
            Box("synthesise", "synthesise", ("asked: opus",), "fold"),
        ),
        (
            Arrow("entry 0", "gather"),
            Arrow("entry 1", "gather"),
            Arrow("gather", "synthesise"),
        ),
    )


def test_a_scatter_over_the_items_of_the_flow() -> None:
    assert [box.title for box in inside(Scatter(prompt="x"), items=2).boxes] == [
        "ask 1", "ask 2", "gather all",
    ]  # fmt: skip


def test_many_entries_are_summarised() -> None:
    step = Scatter(prompt="x", over=tuple(Entry(f"e{n}", {}) for n in range(61)))
    assert [box.title for box in inside(step).boxes] == [
        "question 1", "question 2", "…", "question 61", "gather all",
    ]  # fmt: skip


def test_a_scatter_where_each_has_its_own_member_names_no_other() -> None:
    assert box_of(Scatter(prompt="x", over=(Entry("a", {}, by("m")),))).lines == ("8 at once",)


def test_a_conduct_kicks_back_with_an_arrow() -> None:
    step = Conduct(
        prompt="x", who=by("m"), gate=({"require": ["evidence"]},),
        synthesise=Reduce(kind="python", options={"target": "m:f"}),
    )  # fmt: skip
    assert box_of(step).lines == ("m", "7 at once", "at most 40 tasks, planned first")
    assert inside(step, items=2) == Picture(
        (
            Box("ask 1", "ask 1"),
            Box("ask 2", "ask 2"),
            Box("barrier", "barrier", ("all have ended",), "fold"),
            Box("gate", "gate", ("require evidence",), "gate"),
            Box("synthesise", "synthesise", ("python · target m:f",), "fold"),
        ),
        (
            Arrow("ask 1", "barrier"),
            Arrow("ask 2", "barrier"),
            Arrow("barrier", "gate"),
            Arrow("gate", "synthesise"),
            Arrow("gate", "ask 2", "kick back once", "back"),
        ),
    )


def test_a_conduct_without_a_kick_back_has_no_arrow_back() -> None:
    assert {arrow.kind for arrow in inside(Conduct(prompt="x", revise=0)).arrows} == {"flow"}


@pytest.mark.parametrize(
    ("tokens", "items", "fits"),
    [
        (3000, None, "3,000 tokens"),
        (None, 20, "20 items"),
        (9, 1, "1 item and 9 tokens"),
        (None, None, "the member's context"),
    ],
)
def test_a_divide_splits_solves_and_combines(
    tokens: int | None, items: int | None, fits: str
) -> None:
    step = Divide(
        prompt="x", who=by("haiku"), tokens=tokens, items=items, split="paragraphs",
        combine=Reduce(kind="ask", ask=Asking(prompt="c", who=by("opus")), fan_in=10),
    )  # fmt: skip
    pieces = [f"piece {n}" for n in ("1", "2", "…", "n")]
    assert inside(step).boxes == (
        Box("split", "split by paragraphs",
            (f"until a piece fits {fits}", "at most 8 deep, 1,000 pieces"), "fold"),
        *(Box(id, id) for id in pieces[:2]),
        Box("piece …", "…", look="more"),
        Box("piece n", "piece n"),
        DEFAULT_GATE,
        Box("combine", "combine", ("asked: opus · tree of 10",), "fold"),
    )  # fmt: skip
    assert pairs(inside(step)) == joined(["split"], pieces, ["gate"], ["combine"])


# ── graph ────────────────────────────────────────────────────────────────────────────────────


def test_a_graph_has_its_real_edges() -> None:
    tasks = (
        Task(id="fetch", prompt="x", who=by("m")),
        Task(id="parse", prompt="x", depends_on=("fetch",), gate=({"regex": "a"},)),
        Task(id="ship", prompt="x", depends_on=("parse", "fetch", "parse"), partial=True),
        Task(id="tell", prompt="x", depends_on=("fetch",), partial="always"),
    )
    assert box_of(Graph(tasks=tasks, concurrency=2)) == Box(
        "step 0",
        "graph",
        ("4 tasks · longest path 3 · 2 at once",),
        inside=Picture(
            (
                Box("fetch", "fetch", ("m",)),
                Box("parse", "parse", ("gate: regex a · kick back once",)),
                Box("ship", "ship", ("some of its parents are enough",)),
                Box("tell", "tell", ("needs no parent",)),
            ),
            (
                Arrow("fetch", "parse"),
                Arrow("parse", "ship"),
                Arrow("fetch", "ship"),
                Arrow("fetch", "tell"),
            ),
        ),
    )


def test_a_large_graph_is_summarised_by_its_layers() -> None:
    """60 tasks are drawn; with one more, a box per layer, an arrow where a task waits for another."""
    first = [Task(id=f"a{n}", prompt="x") for n in range(40)]
    second = [Task(id=f"b{n}", prompt="x", depends_on=(f"a{n}",)) for n in range(20)]
    last = Task(id="c", prompt="x", depends_on=("b0", "a0"))
    assert len(inside(Graph(tasks=(*first, *second))).boxes) == 60
    assert inside(Graph(tasks=(*first, *second, last))) == Picture(
        (
            Box("layer 0", "layer 1: 40 tasks"),
            Box("layer 1", "layer 2: 20 tasks"),
            Box("layer 2", "layer 3: 1 task"),
        ),
        (
            Arrow("layer 0", "layer 1"),
            Arrow("layer 0", "layer 2"),
            Arrow("layer 1", "layer 2"),
        ),
    )


@pytest.mark.parametrize(
    ("tasks", "what"),
    [
        ([("a", "b"), ("b", "a")], "CYCLE:a,b"),
        ([("a", "zz")], "task `a` depends on `zz`"),
        ([("a", "b"), ("b", None), ("a", None)], "duplicate task id `a`"),
    ],
)
def test_a_graph_that_cannot_be_is_refused_with_its_line(
    tasks: list[tuple[str, str | None]], what: str
) -> None:
    made = tuple(Task(id=id, prompt="x", depends_on=(a,) if a else ()) for id, a in tasks)
    with pytest.raises(BadInput, match=r"^plan\.yaml:7: ") as refused:
        picture(planned(Graph(tasks=made, line=7)))
    assert what in str(refused.value)


# ── members and counts ───────────────────────────────────────────────────────────────────────


def test_with_a_roster_needs_are_names(tmp_path: Path) -> None:
    (tmp_path / "roster.yaml").write_text(
        "members:\n"
        "  - {id: a, kind: command, cmd: [cat], good_at: [law, wit]}\n"
        "  - {id: b, kind: command, cmd: [cat], good_at: [wit]}\n"
        "  - {id: c, kind: command, cmd: [cat], good_at: [wit], enabled: false}\n"
    )
    roster = load_roster(tmp_path / "roster.yaml")
    for who, told in [
        (Who(needs=("wit",), use=1), "needs wit: a, b (at most 1 of them)"),
        (Who(needs=("law", "wit")), "needs law, wit: a"),
        (Who(needs=("wit",), spread="best"), "needs wit: a, b, waits for the best"),
        (Who(needs=("song",)), "needs song"),
        (Who(), "any member: a, b"),
        (by("gone"), "gone"),
    ]:
        assert box_of(Once(prompt="x", who=who), roster=roster).lines == (told,)
    vote = box_of(Ensemble(prompt="x", who=Who(needs=("wit",))), roster=roster).inside
    assert vote is not None
    assert [box.title for box in vote.boxes] == ["a", "b", "majority vote"]
    assert box_of(Once(prompt="x", who=Who(needs=("wit",), use=1))).lines == (
        "needs wit (at most 1 of them)",
    )


def test_items_are_counted_where_it_is_cheap(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n\n{"id": 2}\n')
    (tmp_path / "a.csv").write_text("id,text\n1,one\n2,two\n3,three\n")
    (tmp_path / "a.json").write_text("[1, 2, 3, 4]")
    (tmp_path / "broken.json").write_text("[1, 2")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "device.txt").symlink_to(os.devnull)
    for spec, many in [
        (Input("jsonl", "a.jsonl"), 2),
        (Input("csv", "a.csv"), 3),
        (Input("csv", "a.csv", limit=2), 2),
        (Input("csv", "a.csv", limit=9), 3),
        (Input("json", "a.json"), 4),
        (Input("lines", "a.csv"), 4),
        (Input("files", "a.*"), 3),
        (Input("list", ["x"]), 1),
        (Input("count", 7), 7),
        (Input("json", "broken.json"), None),
        (Input("jsonl", "gone.jsonl"), None),
        (Input("jsonl", "\0"), None),
        (Input("lines", "pipe.txt"), None),
        (Input("lines", "device.txt"), None),
        (Input("command", ["touch", "started"]), None),
        (Input("http", "http://127.0.0.1:9/"), None),
    ]:
        assert (spec, count_items(spec, tmp_path)) == (spec, many)
    assert not (tmp_path / "started").exists()
