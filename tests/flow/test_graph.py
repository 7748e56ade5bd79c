"""Graph, end to end: order, parents' answers, failures, stops, kills, a member that dies."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fanfold.errors import BadInput, Terminal
from fanfold.gates.checks import require
from fanfold.members.function import function
from fanfold.members.openai import OpenAI
from fanfold.observe.script import open_run
from fanfold.patterns.graph import GraphNode, graph, graph_batch, node
from fanfold.price import Price, dollars
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.testing.running import threaded_server
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Member, MemberLimits
from fanfold.work.outcome import Missing, Outcome, Receipt
from fanfold.work.task import Budget, Task
from tests.flow.simulation import (
    Camera,
    Provider,
    Said,
    Scene,
    cancel_at,
    outcomes,
    pause_at,
    play,
)

Stated = Iterable[GraphNode | dict[str, Any]]


def drawn(text: str, **more: Any) -> list[dict[str, Any]]:
    """`a b<a c<a,b` as tasks whose prompts hold their own name and what their parents said."""
    tasks = []
    for word in text.split():
        id, _, parents = word.partition("<")
        names = parents.split(",") if parents else []
        shown = " ".join(f"[{{{{ parents.{name} }}}}]" for name in names)
        tasks.append({"id": id, "prompt": f"{id}: {shown}", "depends_on": names, **more})
    return tasks


DIAMOND = "a b<a c<a d<b,c"


class Told:
    """What a graph gave back, kept for after its run."""

    value: dict[str, Any]
    missing: list[Missing]
    behind: list[str]


def scene(store: Path, company: tuple[Member, ...], tasks: Stated, **how: Any) -> Scene:
    return Scene(store, company, pattern=lambda run: graph(run, tasks, **how))


def ran(
    store: Path, company: tuple[Member, ...], tasks: Stated, **how: Any
) -> tuple[Receipt, Told]:
    told = Told()

    async def pattern(run: Run) -> None:
        folded = await graph(run, tasks, **how)
        told.value, told.missing = folded.value, list(folded.missing())
        told.behind = list(folded.behind())

    return play(Scene(store, company, pattern=pattern)), told


def first(ask: Ask) -> str:
    """The name of the task that asks."""
    return ask.messages[0].content.partition(":")[0]


def capitals(ask: Ask, n: int) -> Reply:
    return Reply(first(ask).upper(), usage=Usage(10, 5))


def answering(*bad: str, latency: float = 1.0) -> Scripted:
    """Says its task's name in capitals; for the bad ones the member raises."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        return ZeroDivisionError("oops") if first(ask) in bad else capitals(ask, n)

    return Scripted(script, latency=latency)


# ── the shape ────────────────────────────────────────────────────────────────────────────────


def test_a_diamond_hands_the_answers_on(memory_path: Path) -> None:
    member = answering()
    receipt, told = ran(memory_path, (member,), drawn(DIAMOND))
    assert member.asked == ["a: ", "b: [A]", "c: [A]", "d: [B] [C]"]
    assert told.value == receipt.result == {"a": "A", "b": "B", "c": "C", "d": "D"}
    assert (receipt.status, receipt.planned, outcomes(receipt)) == ("complete", 4, {"passed": 4})
    assert (told.behind, told.missing) == (["a", "b", "c", "d"], [])
    assert [step.name for step in receipt.steps] == ["graph"]
    assert receipt.cost_usd == dollars(member.bill)


def test_the_value_is_in_planned_order_whatever_lands_first(memory_path: Path) -> None:
    _, told = ran(memory_path, (answering(),), drawn("d<b,c c<a b<a a"))
    assert list(told.value) == ["d", "c", "b", "a"]


def test_no_task_and_one_task(memory_path: Path) -> None:
    member = answering()
    receipt, told = ran(memory_path / "none", (member,), [])
    assert (told.value, receipt.status, receipt.planned, member.asked) == ({}, "complete", 0, [])
    receipt, told = ran(memory_path / "one", (member,), drawn("a"))
    assert (told.value, receipt.status, receipt.planned) == ({"a": "A"}, "complete", 1)


def test_a_function_receives_data_parents_and_what_is_missing(memory_path: Path) -> None:
    seen: dict[str, Any] = {}

    def work(data: dict[str, Any]) -> dict[str, Any]:
        seen[data["id"]] = data
        return {"got": sorted(data["parents"])}

    tasks = [
        node("a-1", data={"size": 2}),
        node("b", data=[1]),
        node("c", depends_on=["a-1", "b"]),
    ]
    _, told = ran(memory_path, (function(work),), tasks)
    assert seen == {
        "a-1": {"size": 2, "id": "a-1", "parents": {}, "missing": []},
        "b": {"data": [1], "id": "b", "parents": {}, "missing": []},
        "c": {"id": "c", "parents": {"a-1": {"got": []}, "b": {"got": []}}, "missing": []},
    }
    assert told.value["c"] == {"got": ["a-1", "b"]}


def test_ids_that_are_no_plain_names(memory_path: Path) -> None:
    member = answering()
    tasks = [
        node("a-b", "a-b: {{ topic }}", data={"topic": "x"}),
        node("c", 'c: {{ parents["a-b"] }}', depends_on="a-b"),
    ]
    ran(memory_path, (member,), tasks)
    assert member.asked == ["a-b: x", "c: A-B"]


def test_each_task_may_have_its_own_member_and_gate(memory_path: Path) -> None:
    """What the graph says holds for those that do not say it themselves."""
    quick = Scripted(lambda ask, n: Reply("quick"), traits("quick"))
    deep = Scripted(lambda ask, n: Reply(data={"claim": 1}), traits("deep"))
    tasks = [
        *drawn("a"),
        node("b", "b: ", member="deep", gate=require("claim", "evidence"), revise=0),
        {"id": "c", "prompt": "c: ", "members": ["deep"]},
    ]
    receipt, told = ran(memory_path, (quick, deep), tasks, member="quick", revise=3)
    assert (quick.asked, sorted(deep.asked)) == (["a: "], ["b: ", "c: "])
    assert told.value == {"a": "quick", "c": {"claim": 1}}
    assert outcomes(receipt) == {"passed": 2, "kicked": 1}


def test_nobody_without_a_price_is_asked_under_a_dollar_budget(memory_path: Path) -> None:
    """Not even when the step was opened for another member."""
    priced, unpriced = answering(), Scripted(lambda ask, n: Reply("x"), traits("free", price=None))
    tasks = [*drawn("a", member="scripted"), *drawn("b", member="free")]
    with pytest.raises(BadInput, match="member free has no known price"):
        play(replace(scene(memory_path, (priced, unpriced), tasks), budget=Budget(usd=1.0)))
    assert priced.asked == unpriced.asked == []


def test_at_most_so_many_at_once(memory_path: Path) -> None:
    member = answering()
    ran(memory_path, (member,), drawn(" ".join(f"t{n}" for n in range(20))), concurrency=3)
    assert (member.most_in_flight, len(member.asked)) == (3, 20)


def test_a_task_may_be_carried_out_in_another_way(memory_path: Path) -> None:
    async def twice(run: Run, task: Task) -> Outcome:
        """Two samples, asked without a place; together they decide the item."""
        texts = []
        for sample in (0, 1):
            ask = Ask(task.ask.messages, task.ask.items, sample=sample)
            one = await run.do(Task(f"{task.id}/{sample}", ask, task.terms))
            texts.append(one.value)
        return run.settle(task, Outcome(task.id, "passed", Reply("+".join(texts))))

    member = answering()
    tasks = [*drawn("a"), node("b", "b: {{ parents.a }}", depends_on="a", by=twice)]
    receipt, told = ran(memory_path, (member,), [*tasks, *drawn("c")])
    assert told.value == {"a": "A", "b": "B+B", "c": "C"}
    assert (receipt.planned, receipt.calls, outcomes(receipt)) == (3, 4, {"passed": 3})


def test_ready_made_nodes_as_a_step_of_something_larger(memory_path: Path) -> None:
    member = answering()
    values: dict[str, Any] = {}

    async def pattern(run: Run) -> None:
        nodes = [node("a", "a: "), node("b", "b: {{ parents.a }}", depends_on="a")]
        values.update(await graph_batch(run, nodes, 4, "middle"))
        values["none"] = await graph_batch(run, [], 4, "middle")

    receipt = play(Scene(memory_path, (member,), pattern=pattern))
    assert values == {"a": "A", "b": "B", "none": {}}
    assert ([step.name for step in receipt.steps], receipt.result) == (["middle"], None)


# ── when something fails ─────────────────────────────────────────────────────────────────────


def test_what_depends_on_a_failed_task_fails_without_an_ask(memory_path: Path) -> None:
    member = answering("b")
    receipt, told = ran(memory_path, (member,), drawn("a b<a c<b d<c,a e<a"))
    assert sorted(member.asked) == ["a: ", "b: [A]", "e: [A]"]
    assert told.value == {"a": "A", "e": "E"}
    assert [(one.id, one.state, one.reasons) for one in told.missing] == [
        ("b", "failed", ("ZeroDivisionError: oops",)),
        ("c", "failed", ("parent: b failed",)),
        ("d", "failed", ("parent: c failed",)),
    ]
    assert (receipt.status, receipt.planned, outcomes(receipt)) == (
        "flagged", 5, {"passed": 2, "failed": 3},
    )  # fmt: skip


def test_a_kicked_a_filtered_and_an_unjudged_parent_are_no_parents_either(
    memory_path: Path,
) -> None:
    def odd(task: Task, reply: Reply, ask: Any) -> Any:
        raise KeyError("x")

    tasks = [
        node("bad", "bad: ", gate=require("claim"), revise=0),
        node("dropped", "dropped: ", keep=lambda value: False),
        node("odd", "odd: ", gate=odd),
        *drawn("end<bad,dropped,odd"),
    ]
    receipt, told = ran(memory_path, (answering(),), tasks)
    assert told.value == {}
    assert told.missing[-1].reasons == (
        "parent: bad kicked", "parent: dropped skipped", "parent: odd unjudged",
    )  # fmt: skip
    assert outcomes(receipt) == {"kicked": 1, "skipped": 1, "unjudged": 1, "failed": 1}


def test_a_partial_task_is_asked_with_what_there_is(memory_path: Path) -> None:
    """The others are in `missing`; a prompt that does not show them gets them appended."""
    member = answering("b")
    shown = "shown: {% for id in parents %}{{ id }}={{ parents[id] }};{% endfor %}"
    tasks = [
        *drawn("a b"),
        node("shown", shown + "{{ missing }}", depends_on=["a", "b"], partial=True),
        node("plain", "plain: {{ parents.a }}", depends_on=["a", "b"], partial=True),
        node("needs", "needs: {{ parents.b }}", depends_on=["a", "b"], partial=True),
        *drawn("after<plain"),
    ]
    receipt, told = ran(memory_path, (member,), tasks)
    assert sorted(member.asked[2:]) == [
        "after: [PLAIN]", "plain: A\n\nThere is no answer for: b", 'shown: a=A;["b"]',
    ]  # fmt: skip
    assert told.missing[-1] == Missing("needs", 4, "failed", ("prompt: there is no field `b`",))
    assert outcomes(receipt) == {"passed": 4, "failed": 2}


def test_with_no_parent_that_passed_a_partial_task_fails_unless_it_always_goes(
    memory_path: Path,
) -> None:
    member = answering("a")
    tasks = [
        *drawn("a"),
        node("some", "some", depends_on="a", partial=True),
        node("always", "always", depends_on="a", partial="always"),
    ]
    receipt, told = ran(memory_path, (member,), tasks)
    assert member.asked[1:] == ["always\n\nThere is no answer for: a"]
    assert told.missing[-1] == Missing("some", 1, "failed", ("parent: a failed",), True)
    assert outcomes(receipt) == {"passed": 1, "failed": 2}


def test_a_prompt_that_cannot_be_rendered_fails_its_task_however_it_is_carried_out(
    memory_path: Path,
) -> None:
    async def never(run: Run, task: Task) -> Outcome:
        raise AssertionError("it has no ask")

    tasks = [*drawn("a"), node("b", "{{ parents.a.x }}", depends_on="a", by=never), *drawn("c<b")]
    receipt, told = ran(memory_path, (answering(),), tasks)
    assert outcomes(receipt) == {"passed": 1, "failed": 2}
    assert told.missing[1].reasons == ("parent: b failed",)


def test_abort_ends_the_run_and_the_rest_is_cancelled(memory_path: Path) -> None:
    member = answering("a")
    receipt = play(scene(memory_path, (member,), drawn("a b<a c d<c"), on_failure="abort"))
    assert (receipt.status, receipt.reason) == ("aborted", "a: ZeroDivisionError: oops")
    assert outcomes(receipt) == {"passed": 1, "failed": 2, "cancelled": 1}
    assert sorted(member.asked) == ["a: ", "c: "]


def test_hold_waits_for_the_operator_and_a_resumed_run_goes_through(memory_path: Path) -> None:
    held = scene(memory_path, (answering("a"),), drawn("a b<a c"), on_failure="hold")
    receipt = play(held)
    assert (receipt.status, outcomes(receipt)) == ("paused", {"failed": 2, "passed": 1})
    mended = answering()
    again = play(replace(held, members=(mended,)), resume=True)
    assert (again.status, outcomes(again)) == ("complete", {"passed": 3})
    assert sorted(mended.asked) == ["a: ", "b: [A]"]


# ── stops ────────────────────────────────────────────────────────────────────────────────────


def wide(many: int = 6) -> list[dict[str, Any]]:
    """A root, so many in the middle, an end behind all of them."""
    middle = [f"m{n}" for n in range(many)]
    return drawn(" ".join(["root", *(f"{m}<root" for m in middle), f"end<{','.join(middle)}"]))


def billing() -> Provider:
    """Its answers cost a good part of what they may at worst."""

    def says(ask: Ask, n: int) -> Said:
        usage = Usage(20, 390)
        return Said(Reply(first(ask).upper(), usage=usage), usage, 1.0)

    return Provider(says)


def test_out_of_money_it_pauses_and_goes_on_with_nothing_paid_twice(memory_path: Path) -> None:
    provider = billing()
    poor = replace(scene(memory_path, (provider,), wide()), budget=Budget(usd=0.0125))
    receipt = play(poor)
    assert (receipt.status, receipt.maybe_paid_twice) == ("paused", 0)
    assert receipt.passed + receipt.unfunded == 8 and 1 < receipt.passed < 8
    assert dollars(provider.bill) == receipt.cost_usd <= 0.0125
    again = play(replace(poor, budget=Budget(usd=1.0)), resume=True)
    assert (again.status, outcomes(again)) == ("complete", {"passed": 8})
    assert (provider.sent_again, len(provider.sent)) == ({}, 8)
    assert again.cost_usd == dollars(provider.bill)


def test_a_pause_lets_what_is_under_way_end(memory_path: Path) -> None:
    provider = billing()
    whole = scene(memory_path, (provider,), wide(), concurrency=2)
    receipt = play(whole, meanwhile=pause_at(1.5))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 3, "cancelled": 5})
    again = play(whole, resume=True)
    assert (outcomes(again), provider.sent_again) == ({"passed": 8}, {})


def test_what_waits_for_its_turn_at_a_pause_does_not_end_what_is_under_way(
    memory_path: Path,
) -> None:
    """Three slots, a member that takes two at once: the third is told to stop, the two are not."""
    like = traits("narrow", limits=MemberLimits(concurrency=2))
    member = Scripted(capitals, like, latency=1.0)
    receipt = play(
        scene(memory_path, (member,), drawn("a b c d"), concurrency=3), meanwhile=pause_at(0.5)
    )
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 2, "cancelled": 2})
    assert receipt.maybe_paid_twice == 0


def test_a_stopping_run_starts_nothing_new(memory_path: Path) -> None:
    """Not even what would need no call."""
    started: list[str] = []

    async def noting(run: Run, task: Task) -> Outcome:
        started.append(task.id)
        return run.settle(task, Outcome(task.id, "passed", Reply("here")))

    tasks = [*drawn("a"), node("b", "b: ", depends_on="a", by=noting)]
    receipt = play(scene(memory_path, (answering(),), tasks), meanwhile=pause_at(0.5))
    assert (started, outcomes(receipt)) == ([], {"passed": 1, "cancelled": 1})


def test_a_resumed_run_leaves_on_record_what_its_tasks_took(memory_path: Path) -> None:
    def took() -> list[Any]:
        with closing(sqlite3.connect(memory_path / "journal.db")) as db:
            return db.execute(
                "select position, state, cost, calls from outcomes where state = 'passed'"
            ).fetchall()

    whole = scene(memory_path, (billing(),), wide(), concurrency=2)
    play(whole, meanwhile=pause_at(1.5))
    before = took()
    play(whole, resume=True)
    assert len(before) == 3 and all(cost and calls == 1 for _, _, cost, calls in before)
    assert took()[:3] == before


def test_cancelled_in_mid_call_every_task_has_its_outcome(memory_path: Path) -> None:
    provider = billing()
    whole = scene(memory_path, (provider,), wide(), concurrency=2)
    receipt = play(whole, meanwhile=cancel_at(1.5))
    assert (receipt.status, outcomes(receipt)) == (
        "killed", {"passed": 1, "in_doubt": 2, "cancelled": 5},
    )  # fmt: skip
    again = play(whole, resume=True)
    assert (outcomes(again), again.maybe_paid_twice) == ({"passed": 8}, 2)


def test_a_tasks_own_defect_ends_the_run_and_leaves_nothing_behind(memory_path: Path) -> None:
    """A way of carrying out that raises is a defect of the script: the others are cancelled."""

    async def broken(run: Run, task: Task) -> Outcome:
        raise LookupError("defect")

    tasks = [*drawn("a"), node("b", "b: ", by=broken)]
    member = answering()

    async def main(run: Run) -> None:
        before = asyncio.all_tasks()
        with pytest.raises(LookupError, match="defect"):
            await graph(run, tasks)
        assert asyncio.all_tasks() == before

    play(Scene(memory_path, (member,), pattern=main))
    assert member.in_flight == 0


# ── kills ────────────────────────────────────────────────────────────────────────────────────


def durable(store: Path) -> tuple[set[str], int]:
    """The tasks whose reply is on disk, and how many calls are under way according to it."""
    with closing(sqlite3.connect(store / "journal.db")) as db:
        ids = db.execute(
            "select items.id from outcomes join items using (run, batch, position)"
            " where state = 'passed'"
        )
        started = db.execute("select count(*) from attempts where state = 'started'")
        return {id for (id,) in ids}, started.fetchone()[0]


def killed_at(
    memory_path: Path, make: Callable[[], Any], check: Callable[[Any, Receipt, Any], None]
) -> int:
    """Play, killed at 12 commits chosen by a seed; resume each of them with a new member."""
    before = make()
    whole = scene(memory_path / "store", (before,), wide(), concurrency=3)
    camera = Camera(
        whole.store,
        memory_path / "images",
        lambda: (*durable(whole.store), getattr(before, "bill", 0)),
    )
    expected = play(whole, after_commit=camera)
    chosen = Random(5).sample(sorted(camera.seen), min(12, len(camera.seen)))
    for image in chosen:
        member = make()
        receipt = play(replace(whole, store=image, members=(member,)), resume=True)
        assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 8})
        assert receipt.result == expected.result
        check(camera.seen[image], receipt, member)
    return len(chosen)


def test_killed_and_resumed_nothing_is_paid_twice(memory_path: Path) -> None:
    def check(seen: Any, receipt: Receipt, provider: Provider) -> None:
        known, under_way, billed = seen
        asked = sorted(prompt.partition(":")[0] for prompt in provider.sent)
        assert asked == sorted({task["id"] for task in wide()} - known)
        assert receipt.maybe_paid_twice == under_way
        assert dollars(billed + provider.bill) <= receipt.cost_usd

    assert killed_at(memory_path, billing, check) == 12


def test_killed_and_resumed_a_functions_answers_are_not_asked_for_again(memory_path: Path) -> None:
    """It has no version, so its answers stand with their outcomes; they serve this run all the same."""

    class Counting:
        def __init__(self) -> None:
            self.asked: list[str] = []
            self._member = function(self.work, id="work")

        async def work(self, data: dict[str, Any]) -> str:
            self.asked.append(data["id"])
            await asyncio.sleep(1.0)
            return str(data["id"]).upper()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._member, name)

    def check(seen: Any, receipt: Receipt, member: Counting) -> None:
        known, _, _ = seen
        assert sorted(member.asked) == sorted({task["id"] for task in wide()} - known)

    assert killed_at(memory_path, Counting, check) >= 5


# ── a member that dies ───────────────────────────────────────────────────────────────────────


def dying(after: int, id: str) -> Scripted:
    def script(ask: Ask, n: int) -> Reply | Exception:
        gone = Terminal("410: the model is gone", scope="member")
        return gone if n >= after else capitals(ask, n)

    return Scripted(script, traits(id), latency=1.0)


def test_a_member_that_dies_half_way_is_replaced_by_the_other(memory_path: Path) -> None:
    weak, strong = dying(2, "weak"), Scripted(capitals, traits("strong"), latency=1.0)
    receipt = play(scene(memory_path, (weak, strong), wide(), members=["weak", "strong"]))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 8})
    assert 2 < len(weak.asked) < 8 and len(strong.asked) >= 5
    assert receipt.cost_usd == dollars(weak.bill + strong.bill)


def test_the_only_member_dies_half_way_and_the_rest_waits_for_a_living_one(
    memory_path: Path,
) -> None:
    weak = dying(3, "m")
    whole = scene(memory_path, (weak,), wide(), concurrency=2)
    receipt = play(whole)
    assert receipt.status == "paused" and "the model is gone" in (receipt.reason or "")
    assert receipt.passed == 3 and receipt.failed + receipt.cancelled == 5
    strong = Scripted(capitals, traits("m"))
    again = play(replace(whole, members=(strong,)), resume=True)
    assert (again.status, outcomes(again)) == ("complete", {"passed": 8})
    assert len(strong.asked) == 5
    assert again.cost_usd == dollars(weak.bill + strong.bill)


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────


def test_end_to_end_over_the_model_server(tmp_path: Path) -> None:
    """A real member, a real connection, the server's own books; the second run asks nothing."""
    price = Price(input=1.0, output=5.0)
    like = traits("http", kind="openai", answerer="openai:m", model="m", price=price)

    def opened(url: str, name: str) -> Awaitable[Any]:
        async def main() -> Any:
            member = OpenAI(like, url, lambda: "key")
            async with open_run(
                name, members=[member], store=tmp_path / "store", budget=Budget(usd=1.0)
            ) as run:
                folded = await graph(run, drawn(DIAMOND), concurrency=2)
            return folded.value, run.closing

        return main()

    with threaded_server(tmp_path / "books.jsonl", price=price, latency_ms=2.0) as server:
        value, receipt = asyncio.run(opened(server.url, "first"))
        again, reused = asyncio.run(opened(server.url, "second"))
        books = server.books()
    a, b, c = "a: ", "b: [a: ]", "c: [a: ]"  # the server gives the prompt back
    assert value == again == {"a": a, "b": b, "c": c, "d": f"d: [{b}] [{c}]"}
    assert sorted(entry.prompt for entry in books.asked) == sorted(value.values())
    assert (receipt.status, outcomes(receipt), receipt.calls) == ("complete", {"passed": 4}, 4)
    assert receipt.cost_usd == dollars(books.bill)
    assert (reused.calls, reused.reused, reused.cost_usd) == (0, 4, 0.0)


def test_a_scarce_member_takes_the_most_urgent_task_first(tmp_path: Path) -> None:
    """With one slot at the member and eight in the graph, a long chain that becomes ready late does
    not wait behind leaves that were ready before it."""
    order: list[str] = []

    async def work(data: dict[str, Any]) -> str:
        order.append(data["id"])
        await asyncio.sleep(1)
        return "done"

    tasks = [node(f"leaf{n}") for n in range(6)]
    tasks += [node("first", weight=2), node("second", depends_on="first", weight=5)]
    narrow = function(work, concurrency=1)
    scene = Scene(tmp_path, (narrow,), pattern=lambda run: graph(run, tasks))
    assert outcomes(play(scene)) == {"passed": 8}
    assert order[:2] == ["first", "second"]
