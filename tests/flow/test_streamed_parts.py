"""A stage that starts on the parts of a reply while that still comes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanfold import predicate
from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.patterns.fold import collect
from fanfold.patterns.pipeline import pipeline, stage
from fanfold.patterns.streamed import on_parts
from fanfold.plans.drawing.picture import picture
from fanfold.plans.load import load_plan
from fanfold.plans.preview.estimate import estimate, readable_input
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.testing.script import Asked, Says
from fanfold.work.ask import Reply, Usage
from fanfold.work.member import Event, Request, Tell
from fanfold.work.parts import PartReader, parts_of
from fanfold.work.task import Budget
from tests.examples import seeds
from tests.flow.killed_plans import carried_through
from tests.flow.simulation import Scene, outcomes, play

LINES = ["one", "two", "three", "four", "five", "six"]


# ── what a part is ───────────────────────────────────────────────────────────────────────────

JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda one: st.lists(one, max_size=3),
    max_leaves=5,
)


@given(st.data(), st.lists(JSON, max_size=5), st.sampled_from(["", '{"tasks": ', "Here it is: "]))
@settings(max_examples=25)
def test_however_a_list_is_cut_its_elements_come_whole_and_in_order(
    data: st.DataObject, values: list[Any], before: str
) -> None:
    text = before + json.dumps(values) + ("}" if before.startswith("{") else "")
    reader, found, at = PartReader("items"), list[Any](), 0
    while at < len(text):
        size = data.draw(st.integers(1, len(text) - at))
        found += reader.take(text[at : at + size])
        at += size
    assert found == values == parts_of(text, "items")


@given(st.lists(st.text(alphabet="ab \r", max_size=5)), st.integers(1, 4))
@settings(max_examples=25)
def test_however_lines_are_cut_all_but_the_last_come_early(lines: list[str], size: int) -> None:
    text, reader = "\n".join(lines), PartReader("lines")
    found = [part for at in range(0, len(text), size) for part in reader.take(text[at : at + size])]
    whole = parts_of(text, "lines")
    assert found == whole[: len(found)] and len(whole) - len(found) <= 1


# ── when it starts ───────────────────────────────────────────────────────────────────────────


class Talker(Scripted):
    """Says its lines one by one. Before the last it waits until `enough` others were asked."""

    def __init__(self, enough: int, end: str = "", lines: list[str] = LINES) -> None:
        super().__init__(lambda ask, n: Reply("?"), traits("talker"))
        self.enough, self.end, self.lines = enough, end, lines
        self.heard = 0
        self.more = asyncio.Event()

    async def ask(self, request: Request, tell: Tell) -> Reply:
        self.asked.append(request.ask.conversation()[-1].content)
        for line in self.lines:
            tell(Event("delta", line + "\n"))
        while self.heard < self.enough:
            await self.more.wait()
            self.more.clear()
        return Reply("\n".join(self.lines) + self.end, usage=Usage(5, 5))


class Listener(Scripted):
    """Answers what the talker says, and lets it know."""

    def __init__(self, talker: Talker, hold: bool = False) -> None:
        super().__init__(lambda ask, n: Reply("?"), traits("listener"))
        self.talker, self.most, self.now = talker, 0, 0

    async def ask(self, request: Request, tell: Tell) -> Reply:
        said = request.ask.conversation()[-1].content
        self.asked.append(said)
        self.now += 1
        self.most = max(self.most, self.now)
        self.talker.heard += 1
        self.talker.more.set()
        await asyncio.sleep(1)
        self.now -= 1
        return Reply(f"<{said}>", usage=Usage(3, 3))


def scene(
    store: Path, talker: Talker, *, budget: Budget = Budget(), **how: Any
) -> tuple[Scene, Listener]:
    listener = Listener(talker)
    waiting = how.pop("waiting", 8)

    async def pattern(run: Run) -> Any:
        by = on_parts("lines", "about {{ item.text }}", member="listener", waiting=waiting)
        first = stage("talk {{ item.text }}", member="talker", step="talk", **how)
        return await pipeline(run, ["x"], first, stage(step="each", by=by), reduce=collect())

    return Scene(store, (talker, listener), budget=budget, pattern=pattern), listener


def test_parts_are_asked_about_before_the_reply_has_ended(memory_path: Path) -> None:
    """The talker goes on only when four of its lines have been taken up."""
    talker = Talker(enough=4)
    made, listener = scene(memory_path, talker)
    receipt = play(made)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 7})
    assert sorted(listener.asked) == sorted(f"about {line}" for line in LINES)
    (value,) = receipt.result
    assert value["value"] == [
        {"id": f"0/{n}", "value": f"<about {line}>"} for n, line in enumerate(LINES)
    ]


def test_no_more_parts_are_under_way_than_may_wait(memory_path: Path) -> None:
    made, listener = scene(memory_path, Talker(enough=6), waiting=2)
    assert play(made).status == "complete"
    assert listener.most == 2


def test_nothing_is_made_of_the_parts_of_a_reply_that_did_not_pass(memory_path: Path) -> None:
    """They were paid for, which is on record; but none is an item, and the item has failed."""
    talker = Talker(enough=4)
    made, listener = scene(
        memory_path, talker, gate=predicate(lambda value: "never" in value), revise=0
    )
    receipt = play(made)
    assert (receipt.status, receipt.planned, outcomes(receipt)) == ("flagged", 1, {"kicked": 1})
    assert len(listener.asked) >= 4


def test_a_revised_reply_pays_only_for_lines_that_are_new(memory_path: Path) -> None:
    """The first reply lacks its last line; the second has the same lines and one more."""

    class Reviser(Talker):
        async def ask(self, request: Request, tell: Tell) -> Reply:
            self.lines = LINES if not self.asked else [*LINES, "seven"]
            return await super().ask(request, tell)

    made, listener = scene(memory_path, Reviser(enough=5), gate=predicate(lambda v: "seven" in v))
    receipt = play(made)
    assert (receipt.status, receipt.planned, outcomes(receipt)) == ("complete", 8, {"passed": 8})
    assert len(listener.asked) == len(set(listener.asked)) == 7


def test_the_budget_holds_for_parts_too(memory_path: Path) -> None:
    made, listener = scene(memory_path, Talker(enough=0), budget=Budget(calls=3))
    receipt = play(made)
    assert receipt.status == "paused" and receipt.calls <= 3
    assert len(listener.asked) <= 2
    more = Scene(**{**made.__dict__, "budget": Budget(calls=20)})
    last = play(more, resume=True)
    assert (last.status, outcomes(last)) == ("complete", {"passed": 7})
    assert len(listener.asked) == len(set(listener.asked)) == 6


def test_what_is_wrong_is_refused_in_python_too() -> None:
    with pytest.raises(BadInput, match="parts are lines or items"):
        on_parts("words", "x")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="waiting"):
        on_parts("lines", "x", waiting=0)


# ── as a plan ────────────────────────────────────────────────────────────────────────────────

PLAN = """\
name: killed
input: {count: 3}
govern: {max_tasks: 1000}
steps:
  - pipeline:
      stages:
        - map: {name: list, prompt: "list {{ item.n }}", member: m, max_tokens: 250}
        - map: {name: each, stream: lines, waiting: 3, prompt: "each {{ item.text }}", member: m}
        - map: {name: sum, prompt: "sum {{ steps.each | length }} of {{ item.n }}", member: m}
"""


def written(folder: Path, plan: str = PLAN) -> Path:
    (folder / "p.yaml").write_text(plan)
    (folder / "roster.yaml").write_text(
        'members:\n  - {id: m, kind: openai, model: x, base_url: "http://127.0.0.1:9/v1",'
        " price: {input: 1, output: 1}}\n"
    )
    return folder / "p.yaml"


def test_the_preview_does_not_know_how_many_and_the_picture_says_how(tmp_path: Path) -> None:
    plan = load_plan(written(tmp_path))
    made = estimate(plan, load_roster(tmp_path / "roster.yaml"), readable_input(plan), None)
    assert [(one.name, one.tasks, one.watched) for one in made.steps] == [
        ("list", 3, False), ("each.map", None, True), ("sum", 3, False),
    ]  # fmt: skip
    inside = picture(plan).boxes[1].inside
    assert inside is not None
    assert "starts on its lines as they come, at most 3 ahead" in inside.boxes[1].lines


BAD = [
    ("name: each, stream: lines,", "name: each, stream: words,", 8, "stream"),
    ("waiting: 3", "waiting: 0", 8, "`waiting` must be 1 or more"),
    ("waiting: 3", "shard: {items: 2}", 8, "a stage with `stream` has no `shard`"),
    ("max_tokens: 250", "shard: {items: 2}", 8, "`stream` needs a `map` without `shard`"),
    ("max_tokens: 250", "stream: lines", 7, "`stream` needs a `map` without `shard`"),
]


@pytest.mark.parametrize(("old", "new", "line", "why"), BAD)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, why: str
) -> None:
    with pytest.raises(BadInput) as error:
        load_plan(written(tmp_path, PLAN.replace(old, new)))
    assert why in str(error.value) and f"p.yaml:{line}" in str(error.value)


def test_outside_of_a_pipeline_there_is_no_reply_before(tmp_path: Path) -> None:
    plan = "input: {count: 1}\nsteps:\n  - map: {prompt: x, member: m, stream: lines}\n"
    with pytest.raises(BadInput, match=r"p.yaml:3: `stream` is for a stage of a pipeline"):
        load_plan(written(tmp_path, plan))


def listed(asked: Asked) -> Says:
    kind, _, rest = asked.prompt.partition(" ")
    if kind == "list":
        return Says(text="\n".join(f"{rest}{letter}" for letter in "abcdef"))
    return Says(text=f"{kind} of {rest}")


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_killed_and_resumed_no_part_is_asked_about_twice(tmp_path: Path, seed: int) -> None:
    ended = carried_through(tmp_path, PLAN, listed, seed)
    ended.check()
    receipt = ended.receipt
    assert (ended.kills, receipt.status, receipt.planned, receipt.passed) == (3, "complete", 21, 21)
    assert len({*ended.asked}) <= 3 + 18 + 3 + receipt.maybe_paid_twice
