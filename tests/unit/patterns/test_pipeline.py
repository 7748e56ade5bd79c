"""Stages: what is refused before anything is asked, what a later stage sees, patterns inside."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput, FanfoldError
from fanfold.gates.checks import require
from fanfold.members.function import Function, function
from fanfold.patterns.arguments import TaskHandler, terms_of
from fanfold.patterns.asked_reduce import asked
from fanfold.patterns.fold import collect, total
from fanfold.patterns.nested import MOST_LEVELS, map_reduce_inside
from fanfold.patterns.pipeline import Mode, Stage, pipeline, stage
from fanfold.patterns.prompt import Prompt, prompt_of
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import PASS, Outcome, Receipt, Verdict, fail
from fanfold.work.task import Task, Terms
from tests.examples import examples
from tests.flow.simulation import Scene, outcomes, play, words

MODES: tuple[Mode, ...] = get_args(Mode)
SHARED_MEMORY = Path("/dev/shm")


def echoes(ask: Ask, n: int) -> Reply:
    return Reply(f"<{ask.messages[0].content}>", usage=Usage(1, 1))


def piped(store: Path, members: Any, items: Any, *stages: Stage, **how: Any) -> Receipt:
    how = {"reduce": collect(), **how}
    scene = Scene(store, tuple(members), pattern=lambda run: pipeline(run, items, *stages, **how))
    return play(scene)


def values(receipt: Receipt) -> dict[str, Any]:
    return {part["id"]: part["value"] for part in receipt.result}


# ── bad input ────────────────────────────────────────────────────────────────────────────────


def test_a_pipeline_without_stages_is_refused(memory_path: Path) -> None:
    with pytest.raises(BadInput, match="at least one stage"):
        piped(memory_path, [Scripted(echoes)], words(2))


@pytest.mark.parametrize("second", ["draft", "stage1"])
def test_two_stages_of_one_name_are_refused(memory_path: Path, second: str) -> None:
    """Also when one of them is the name that the other was given for want of one."""
    member = Scripted(echoes)
    first = stage("a") if second == "stage1" else stage("a", step="draft")
    with pytest.raises(BadInput, match=f"two stages are named '{second}'"):
        piped(memory_path, [member], words(2), first, stage("b", step=second))
    assert member.asked == []


def test_an_unknown_mode_is_refused(memory_path: Path) -> None:
    with pytest.raises(BadInput, match="`mode` is streaming or batch, not 'eager'"):
        piped(memory_path, [Scripted(echoes)], words(2), stage("a"), mode="eager")


@pytest.mark.parametrize("shard", [0, -1, True, 2.5])
def test_a_shard_is_a_whole_number(shard: Any) -> None:
    with pytest.raises(BadInput, match="`shard` must be"):
        stage("a", shard=shard)


def test_a_stage_with_a_way_of_its_own_takes_no_shards() -> None:
    with pytest.raises(BadInput, match="leave `shard` out"):
        stage("a", shard=2, by=settled("x"))


@pytest.mark.parametrize(
    ("stages", "why"),
    [
        ([stage("{{ steps.draft }}")], "stage1 reads steps.draft, but no stage comes before it"),
        (
            [stage("a", step="draft"), stage("{{ steps.drafts }}")],
            "stage2 reads steps.drafts, but there are: draft",
        ),
    ],
)
def test_a_prompt_reads_only_stages_before_it(
    memory_path: Path, stages: list[Stage], why: str
) -> None:
    member = Scripted(echoes)
    with pytest.raises(BadInput, match=why):
        piped(memory_path, [member], words(2), *stages)
    assert member.asked == []


@pytest.mark.parametrize("mode", MODES)
def test_an_unknown_member_of_a_later_stage_is_refused_before_the_first_ask(
    memory_path: Path, mode: Mode
) -> None:
    member = Scripted(echoes)
    inner = inside_of(member="nobody")
    for late in (stage("b", member="nobody"), stage(by=inner)):
        with pytest.raises(FanfoldError, match="nobody"):
            piped(memory_path, [member], words(2), stage("a"), late, mode=mode)
    assert member.asked == []


@pytest.mark.parametrize("mode", MODES)
def test_duplicate_ids_are_refused_before_the_first_ask(memory_path: Path, mode: Mode) -> None:
    member = Scripted(echoes)
    items = [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 3}]
    with pytest.raises(BadInput, match="duplicate id 'a'"):
        piped(memory_path, [member], items, stage("{{ item.n }}"), stage("b"), mode=mode)
    assert member.asked == []


@pytest.mark.parametrize("mode", MODES)
def test_of_nothing_nothing_is_asked_and_the_run_is_complete(memory_path: Path, mode: Mode) -> None:
    member = Scripted(echoes)
    receipt = piped(memory_path, [member], [], stage("a"), stage("b"), stage("c"), mode=mode)
    assert (receipt.status, receipt.planned, receipt.calls, receipt.result) == (
        "complete",
        0,
        0,
        [],
    )
    assert member.asked == []


# ── what a stage sees ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", MODES)
def test_one_item_goes_through_all_stages_with_its_replies(memory_path: Path, mode: Mode) -> None:
    member = Scripted(echoes)
    stages = [
        stage("one {{ item.text }}", step="first"),
        stage("two {{ steps.first }}"),
        stage("three {{ item.id }} {{ item.text }} {{ steps.first }} {{ steps.stage2 }}"),
    ]
    receipt = piped(memory_path, [member], [{"id": "x", "text": "word"}], *stages, mode=mode)
    assert member.asked == [
        "one word", "two <one word>", "three x word <one word> <two <one word>>",
    ]  # fmt: skip
    assert values(receipt) == {"x": f"<{member.asked[-1]}>"}
    assert [(step.name, step.calls) for step in receipt.steps] == [
        ("first", 1), ("stage2", 1), ("stage3", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_a_function_at_a_later_stage_receives_the_item_with_its_replies(
    memory_path: Path, mode: Mode
) -> None:
    seen: list[Any] = []

    def first(data: Any) -> Any:
        return {"len": len(data)}

    def second(data: Any) -> Any:
        seen.append(data)
        return data["steps"]["stage1"]["len"]

    members = [function(first), function(second)]
    stages = [stage(member="first"), stage(member="second")]
    receipt = piped(memory_path, members, ["word"], *stages, mode=mode)
    assert seen == [{"id": "0", "text": "word", "value": "word", "steps": {"stage1": {"len": 4}}}]
    assert values(receipt) == {"0": 4}


@pytest.mark.parametrize("mode", MODES)
def test_what_does_not_pass_leaves_there_with_its_outcome(memory_path: Path, mode: Mode) -> None:
    """Kicked by the first gate, filtered out by the second stage, failed at the third."""

    def first(data: Any) -> Any:
        return {"bad": 1} if data["n"] == 1 else {"good": data["n"]}

    def second(data: Any) -> Any:
        return data["n"]

    def third(data: Any) -> Any:
        return 100 // (data["steps"]["second"] - 3)

    members = [function(target) for target in (first, second, third)]
    stages = [
        stage(member="first", step="first", gate=require("good"), revise=0),
        stage(member="second", step="second", keep=lambda value: value != 2),
        stage(member="third", step="third", attempts=1),
    ]
    items = [{"id": f"i{n}", "n": n} for n in range(5)]
    receipt = piped(memory_path, members, items, *stages, mode=mode)
    assert receipt.status == "flagged"
    assert outcomes(receipt) == {"passed": 2, "kicked": 1, "skipped": 1, "failed": 1}
    assert values(receipt) == {"i0": -34, "i4": 100}
    assert {step.name: step.calls for step in receipt.steps} == {
        "first": 5,
        "second": 4,
        "third": 3,
    }


@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_that_cannot_be_rendered_fails_only_its_item(
    memory_path: Path, mode: Mode
) -> None:
    member = Scripted(echoes)
    items = [{"id": "a", "late": "x"}, {"id": "b"}]
    stages = [stage("{{ item.id }}"), stage("{{ item.late }} {{ steps.stage1 }}")]
    receipt = piped(memory_path, [member], items, *stages, mode=mode)
    assert outcomes(receipt) == {"passed": 1, "failed": 1}
    assert sorted(member.asked) == ["a", "b", "x <a>"]


def test_what_a_function_changes_in_its_item_does_not_go_on(memory_path: Path) -> None:
    """A resumed run does not call the function again, so the next ask must not hang on that."""

    def spoils(data: Any) -> Any:
        data["extra"] = data.setdefault("steps", {})["extra"] = 1
        return "ok"

    seen: list[Any] = []

    def looks(data: Any) -> Any:
        seen.append((sorted(data), sorted(data["steps"])))
        return spoils(data)

    def last(data: Any) -> Any:
        return looks(data)

    members = [function(target) for target in (spoils, looks, last)]
    stages = [stage(member=one) for one in ("spoils", "looks", "last")]
    piped(memory_path, members, [{"id": "a"}], *stages)
    fields = ["id", "steps"]
    assert seen == [(fields, ["stage1"]), (fields, ["stage1", "stage2"])]


@pytest.mark.parametrize("mode", MODES)
def test_a_field_of_the_items_own_that_is_named_steps_is_hidden_later(
    memory_path: Path, mode: Mode
) -> None:
    member = Scripted(echoes)
    items = [{"id": "a", "steps": {"mine": 1}}]
    stages = [stage("{{ item.steps.mine }}"), stage("{{ item.steps }}")]
    piped(memory_path, [member], items, *stages, mode=mode)
    assert member.asked == ["1", '{"stage1": "<1>"}']


@pytest.mark.parametrize("mode", MODES)
def test_a_shard_at_a_later_stage(memory_path: Path, mode: Mode) -> None:
    def answers(ask: Ask, n: int) -> Reply:
        said = [
            {"id": item.id, "answer": f"to {item.data['steps']['stage1']}"} for item in ask.items
        ]
        return Reply(data={"answers": said}, usage=Usage(1, 1))

    many = Scripted(answers, traits("many"))
    stages = [stage("{{ item.text }}", member="scripted"),
              stage("{{ steps.stage1 }}", member="many", shard=4)]  # fmt: skip
    receipt = piped(memory_path, [Scripted(echoes), many], words(10), *stages, mode=mode)
    assert values(receipt) == {str(n): f"to <word {n}>" for n in range(10)}
    assert len(many.asked) == 3


class Case(msgspec.Struct, frozen=True):
    """Items by number, and for each stage those that it kicks, filters out or cannot answer."""

    items: int
    leave: list[dict[int, str]]
    concurrency: list[int]
    shard: int | None


CASES = st.builds(
    Case,
    items=st.integers(0, 30),
    leave=st.lists(
        st.dictionaries(st.integers(0, 29), st.sampled_from(["kicked", "skipped", "failed"])),
        min_size=1, max_size=4,
    ),
    concurrency=st.lists(st.integers(1, 6), min_size=4, max_size=4),
    shard=st.sampled_from([None, 1, 3]),
)  # fmt: skip


@examples(40)
@given(CASES)
def test_both_modes_give_the_same_and_each_item_leaves_where_it_should(case: Case) -> None:
    """Every planned item has exactly one outcome; what passed carries all its replies."""
    left: dict[int, str] = {}
    for stage_leaves in reversed(case.leave):
        left.update({n: how for n, how in stage_leaves.items() if n < case.items})
    asked_at = [
        {n for n in range(case.items) if all(n not in earlier for earlier in case.leave[:k])}
        for k in range(len(case.leave))
    ]
    expected = {state: list(left.values()).count(state) for state in set(left.values())}
    if len(left) < case.items:
        expected["passed"] = case.items - len(left)
    seen = []
    for mode in MODES:
        called: list[set[int]] = [set() for _ in case.leave]
        with TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.exists() else None) as folder:
            members = [function(leaver(k, case, called[k]), id=f"m{k}") for k in range(len(called))]
            receipt = piped(Path(folder), members, numbers(case.items), *stages_of(case), mode=mode)
        assert (outcomes(receipt), called) == (expected, asked_at)
        seen.append(receipt.result)
    assert (
        seen[0]
        == seen[1]
        == [
            {"id": f"i{n}", "value": [f"stage{k}" for k in range(1, len(case.leave))]}
            for n in range(case.items)
            if n not in left
        ]
    )


def numbers(many: int) -> list[dict[str, Any]]:
    return [{"id": f"i{n}", "n": n} for n in range(many)]


def stages_of(case: Case) -> list[Stage]:
    return [
        stage(
            member=f"m{k}", revise=0, attempts=1, concurrency=case.concurrency[k], shard=case.shard,
            gate=kicks,
            keep=lambda value: value != "skipped",
        )
        for k in range(len(case.leave))
    ]  # fmt: skip


def kicks(task: Any, reply: Reply, ask: Any) -> Verdict:
    return fail("no") if reply.value == "kicked" else PASS


def leaver(k: int, case: Case, called: set[int]) -> Callable[[Any], Any]:
    async def target(data: Any) -> Any:
        called.add(data["n"])
        await asyncio.sleep((data["n"] * 7 + k) % 5)
        how = case.leave[k].get(data["n"])
        if how == "failed":
            raise ValueError("cannot")
        return how or list(data.get("steps", {}))

    return target


# ── another way to carry a stage out ─────────────────────────────────────────────────────────


def settled(value: str) -> TaskHandler:
    async def way(run: Run, task: Task) -> Outcome:
        await run.clock.sleep(1)
        said = Reply(f"{value} {task.ask.items[0].data['steps']['stage1']}")
        return run.settle(task, Outcome(task.id, "passed", said))

    return way


@pytest.mark.parametrize("mode", MODES)
def test_a_stage_may_be_carried_out_in_another_way(memory_path: Path, mode: Mode) -> None:
    member = Scripted(echoes)
    stages = [stage("{{ item.text }}"), stage(by=settled("so"), concurrency=3),
              stage("{{ steps.stage2 }}")]  # fmt: skip
    receipt = piped(memory_path, [member], words(9), *stages, mode=mode)
    assert values(receipt) == {str(n): f"<so <word {n}>>" for n in range(9)}
    assert receipt.seconds == pytest.approx(3, abs=0.1)


# ── a map_reduce inside ──────────────────────────────────────────────────────────────────────


def double(data: Any) -> Any:
    if data["n"] == 13:
        raise ValueError("unlucky")
    return {"twice": data["n"] * 2}


def inner_terms(step: str = "parts", **how: Any) -> Terms:
    return terms_of({"member": "double", "attempts": 1, **how}, None, step)


def parts_of(item: dict[str, Any]) -> list[Any]:
    return [{"n": n} for n in item["ns"]]


def inside_of(over: Any = parts_of, reduce: Any = None, **how: Any) -> TaskHandler:
    return map_reduce_inside(over, Prompt(), inner_terms(**how), reduce or total("twice"))


def doubled() -> Function:
    return function(double)


@pytest.mark.parametrize("mode", MODES)
def test_a_list_inside_an_item_is_mapped_and_reduced(memory_path: Path, mode: Mode) -> None:
    """Its parts count in `planned`; the stage's value is that of the reduce."""
    items = [{"id": "a", "ns": [1, 2, 3]}, {"id": "b", "ns": [10]}, {"id": "c", "ns": []}]
    receipt = piped(memory_path, [doubled()], items, stage(by=inside_of()), mode=mode)
    assert values(receipt) == {"a": 12, "b": 20, "c": 0}
    assert (receipt.status, receipt.planned, receipt.passed) == ("complete", 7, 7)


@pytest.mark.parametrize(
    ("over", "state", "why"),
    [
        (
            lambda item: item["nothing"],
            "failed",
            "its list could not be computed: KeyError: 'nothing'",
        ),
        (lambda item: "text", "failed", "its list must be a list, not str"),
        (lambda item: [{"id": "x"}, {"id": "x"}], "failed", "duplicate id 'x' in its list"),
        (lambda item: [object()], "failed", "part 0 of its list is not plain JSON"),
        (lambda item: [{"n": 13}, {"n": 13, "m": 1}], "failed", "none of its 2 parts passed parts"),
    ],
)
def test_of_a_bad_list_only_its_item_fails_with_the_reason(
    memory_path: Path, over: Any, state: str, why: str
) -> None:
    def told(item: dict[str, Any]) -> Any:
        return over(item) if item["id"] == "bad" else parts_of(item)

    missing: list[Any] = []

    async def main(run: Run) -> None:
        items = [{"id": "good", "ns": [1]}, {"id": "bad"}]
        folded = await pipeline(run, items, stage(by=inside_of(told)), reduce=collect())
        missing.extend(folded.missing())

    receipt = play(Scene(memory_path, (doubled(),), pattern=main))
    assert values(receipt) == {"good": 2}
    assert [(one.id, one.state) for one in missing] == [("bad", state)]
    assert missing[0].reasons[0].startswith(why)


def raises(parts: Any) -> Any:
    raise ZeroDivisionError("oops")


@pytest.mark.parametrize(
    ("reduce", "why"),
    [
        (raises, "the reduce failed: `raises` raised ZeroDivisionError: oops"),
        (lambda parts: None, "the reduce gave no value"),
        (lambda parts: {1, object()}, "what the reduce gave is not plain JSON"),
        (total("nothing"), "the reduce failed: "),
    ],
)
def test_a_reduce_without_a_value_fails_its_item(memory_path: Path, reduce: Any, why: str) -> None:
    missing: list[Any] = []

    async def main(run: Run) -> None:
        items = [{"id": "a", "ns": [1, 2]}]
        folded = await pipeline(run, items, stage(by=inside_of(reduce=reduce)), reduce=collect())
        missing.extend(folded.missing())

    receipt = play(Scene(memory_path, (doubled(),), pattern=main))
    assert outcomes(receipt) == {"passed": 2, "failed": 1}
    assert missing[0].reasons[0].startswith(why)


def test_parts_that_do_not_pass_are_left_out_and_accounted_for(memory_path: Path) -> None:
    items = [{"id": "a", "ns": [1, 13, 2]}]
    receipt = piped(memory_path, [doubled()], items, stage(by=inside_of()))
    assert values(receipt) == {"a": 6}
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 3, "failed": 1})


def test_the_stages_own_gate_and_filter_judge_the_value(memory_path: Path) -> None:
    items = [{"id": "a", "ns": [1]}, {"id": "b", "ns": [2]}, {"id": "c", "ns": [3]}]

    def gate(task: Task, reply: Reply, ask: Any) -> Any:
        assert task.id != "c", "cannot be judged"
        return PASS if reply.value == 2 else fail("not two")

    for how, expected in (
        ({"gate": gate}, {"passed": 4, "kicked": 1, "unjudged": 1}),
        ({"keep": lambda value: value > 2}, {"passed": 5, "skipped": 1}),
        ({"keep": lambda value: 1 // (value - 2)}, {"passed": 3, "skipped": 2, "unjudged": 1}),
    ):
        store = memory_path / "-".join(expected)
        receipt = piped(store, [doubled()], items, stage(by=inside_of(), **how))
        assert outcomes(receipt) == expected


def test_an_asked_reduce_inside(memory_path: Path) -> None:
    """Of more parts than the fan-in it is a tree; one that does not pass fails the item."""
    writer = Scripted(
        lambda ask, n: Reply("" if "13" in ask.messages[0].content else "sum", usage=Usage(1, 1)),
        traits("writer"),
    )
    way = asked("Add up: {{ parts }}", member="writer", fan_in=2, revise=0, step="add")
    by = map_reduce_inside(parts_of, Prompt(), inner_terms(), way)
    items = [{"id": "a", "ns": [1, 2, 3]}, {"id": "b", "ns": [65]}]

    receipt = piped(memory_path, [doubled(), writer], items, stage(by=by))
    assert (values(receipt), outcomes(receipt)) == ({"a": "sum"}, {"passed": 5, "failed": 1})
    assert max(prompt.count('"twice"') for prompt in writer.asked) == 2


def test_patterns_nest_and_batches_keep_their_names_apart(memory_path: Path) -> None:
    """Two items with parts of the same ids, each of which has parts of its own."""

    def chapters(item: dict[str, Any]) -> list[Any]:
        return [{"id": str(n), "ns": [n, item["k"]]} for n in (1, 2)]

    inner = map_reduce_inside(parts_of, Prompt(), inner_terms("pages"), total("twice"))
    outer = map_reduce_inside(chapters, Prompt(), inner_terms("chapters"), total(), by=inner)
    items = [{"id": "a", "k": 100}, {"id": "b", "k": 1000}]
    receipt = piped(memory_path, [doubled()], items, stage(by=outer, step="books"))
    assert values(receipt) == {"a": 2 * (1 + 2 + 200), "b": 2 * (1 + 2 + 2000)}
    assert (receipt.planned, outcomes(receipt)) == (2 + 4 + 8, {"passed": 14})
    with closing(sqlite3.connect(memory_path / "journal.db")) as db:
        names = {name for (name,) in db.execute("select name from batches")}
    assert names == {
        "books", "books/a", "books/b", "chapters/a/1", "chapters/a/2", "chapters/b/1", "chapters/b/2",
    }  # fmt: skip


def test_nesting_deeper_than_the_cap_is_refused() -> None:
    by = inside_of()
    for _ in range(MOST_LEVELS - 1):
        by = map_reduce_inside(parts_of, Prompt(), inner_terms(), total(), by=by)
    with pytest.raises(BadInput, match="nested 5 levels deep; at most 4 are possible"):
        map_reduce_inside(parts_of, Prompt(), inner_terms(), total(), by=by)


def test_a_prompt_inside_sees_the_part_and_the_stage_before_it_the_list(memory_path: Path) -> None:
    """A list that an earlier stage produced, as a member wrote it."""
    split = Scripted(lambda ask, n: Reply(data={"parts": ["x", "y"]}, usage=Usage(1, 1)))
    member = Scripted(echoes, traits("reader"))
    by = map_reduce_inside(
        lambda item: item["steps"]["split"]["parts"], prompt_of("Read {{ item.text }}", None),
        terms_of({"member": "reader"}, None, "read"), lambda parts: [part.value for part in parts],
    )  # fmt: skip
    stages = [stage("Split {{ item.text }}", member="scripted", step="split"), stage(by=by)]
    receipt = piped(memory_path, [split, member], ["whole"], *stages)
    assert values(receipt) == {"0": ["<Read x>", "<Read y>"]}
    assert sorted(member.asked) == ["Read x", "Read y"]


def test_more_parts_than_the_governor_allows_hold_the_run(memory_path: Path) -> None:
    """They were in no preview; nothing of them is asked before there is a yes."""
    member = Scripted(echoes)
    by = map_reduce_inside(
        lambda item: [f"part {n}" for n in range(101)], prompt_of("{{ item.text }}", None),
        terms_of({}, None, "parts"), collect(),
    )  # fmt: skip
    receipt = piped(memory_path, [member], ["whole"], stage(by=by))
    assert (receipt.status, member.asked) == ("paused", [])
    assert "101 tasks" in (receipt.reason or "")
