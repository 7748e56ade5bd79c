"""Scatter and gather, end to end: all, the first so many, what came in time; killed and resumed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.clock import RealClock
from fanfold.errors import BadInput, Terminal
from fanfold.gates.checks import regex, require
from fanfold.journal.opening import open_store
from fanfold.members.function import function
from fanfold.members.openai import OpenAI
from fanfold.patterns.arguments import Folded
from fanfold.patterns.asked_reduce import asked
from fanfold.patterns.fold import concat
from fanfold.patterns.scatter import scatter_gather
from fanfold.price import dollars
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import PASS, Missing, Receipt, Verdict
from fanfold.work.task import Budget, Task
from tests.examples import examples, points
from tests.flow.crash_child import PRICE, like
from tests.flow.simulation import (
    Camera,
    Provider,
    Said,
    Scene,
    cancel_at,
    carry_out,
    outcomes,
    pause_at,
    play,
)

USED = Usage(20, 10)
IDS = "abcdefgh"


class Told:
    """A scatter over entries, as a pattern for a scene; it keeps what came of it."""

    def __init__(self, over: Any, **how: Any) -> None:
        self.over = over
        self.how = {"prompt": "What of {{ item.id }}?", **how}
        self.value: Any = "not reached"
        self.missing: list[Missing] = []
        self.behind: list[str] = []
        self.ended = -1.0

    async def __call__(self, run: Run) -> Folded:
        folded = await scatter_gather(run, self.over, **self.how)
        self.value, self.ended = folded.value, run.clock.monotonic()
        self.missing, self.behind = list(folded.missing()), list(folded.behind())
        return folded


def entries(ids: str = IDS, **own: Any) -> list[dict[str, Any]]:
    return [{"id": id, **own} for id in ids]


def about(ask: Ask) -> str:
    """Which entry an ask is about; `synthesis` if it is about none."""
    text = ask.messages[0].content
    return text.removeprefix("What of ")[0] if text.startswith("What of ") else "synthesis"


def answering(seconds: Callable[[str], float] = lambda id: 1.0) -> Callable[[Ask, int], Said]:
    def says(ask: Ask, n: int) -> Said:
        id = about(ask)
        return Said(Reply(f"{id}!", usage=USED), USED, seconds(id))

    return says


def in_order(id: str) -> float:
    """The first is the slowest: h after 1 second, g after 2 and so on."""
    return float(8 - IDS.index(id)) if id in IDS else 1.0


def collected(ids: str) -> list[dict[str, str]]:
    return [{"id": id, "value": f"{id}!"} for id in ids]


def attempts(store: Path) -> list[tuple[str, str]]:
    """Of which entry, and how it went."""
    with closing(sqlite3.connect(store / "journal.db")) as db:
        rows = db.execute("select ids, state from attempts order by no").fetchall()
    return [(msgspec.json.decode(ids)[0], state) for ids, state in rows]


# ── gather all ───────────────────────────────────────────────────────────────────────────────


def test_all_are_asked_at_once_and_gathered_in_planned_order(memory_path: Path) -> None:
    provider, told = Provider(answering(in_order)), Told(entries())
    receipt = play(Scene(memory_path, (provider,), pattern=told))
    assert (receipt.status, outcomes(receipt), receipt.calls) == ("complete", {"passed": 8}, 8)
    assert (told.value, told.ended) == (collected(IDS), 8.0)
    assert (told.behind, told.missing) == (list(IDS), [])
    assert receipt.result == told.value
    assert receipt.cost_usd == dollars(provider.bill)


def test_the_same_question_goes_to_several_members_at_the_same_time(memory_path: Path) -> None:
    """The same content, so the same key: but each of them answers for itself."""
    members = tuple(
        Scripted(lambda ask, n, id=id: Reply(f"{id} says"), traits(id), latency=5.0) for id in "xyz"
    )
    told = Told([{"id": f"of {id}", "member": id} for id in "xyz"], prompt="What is best?")
    receipt = play(Scene(memory_path, members, pattern=told))
    assert told.value == [{"id": f"of {id}", "value": f"{id} says"} for id in "xyz"]
    assert [member.asked for member in members] == [["What is best?"]] * 3
    assert (outcomes(receipt), told.ended) == ({"passed": 3}, 5.0)


def test_different_questions_to_different_members(memory_path: Path) -> None:
    members = tuple(Scripted(lambda ask, n: Reply("fine"), traits(id)) for id in "xy")
    over = [
        {"id": "a", "topic": "auth", "member": "x", "prompt": "Attack {{ item.topic }}"},
        {"id": "b", "topic": "auth", "member": "y", "prompt": "Defend {{ item.topic }}"},
        {"id": "c", "topic": "memory", "members": ["y"]},
    ]
    told = Told(over, prompt="Look at {{ item.topic }}")
    play(Scene(memory_path, members, pattern=told))
    assert members[0].asked == ["Attack auth"]
    assert sorted(members[1].asked) == ["Defend auth", "Look at memory"]


def test_a_function_receives_the_entry_without_what_is_for_asking(memory_path: Path) -> None:
    seen: list[Any] = []

    def look(data: Any) -> str:
        seen.append(data)
        return "fine"

    over = [{"id": "a", "topic": "auth", "member": "look", "prompt": "{{ item.nothing }}"}]
    receipt = play(Scene(memory_path, (function(look),), pattern=Told(over)))
    assert (seen, outcomes(receipt)) == ([{"id": "a", "topic": "auth"}], {"passed": 1})


def test_one_that_never_passes_and_one_that_fails_are_missing_with_their_reasons(
    memory_path: Path,
) -> None:
    def script(ask: Ask, n: int) -> Reply | Exception:
        id = about(ask)
        return ZeroDivisionError("oops") if id == "b" else Reply("no" if id == "c" else "yes")

    told = Told(entries("abcd"), gate=regex("yes"))
    receipt = play(Scene(memory_path, (Scripted(script),), pattern=told))
    assert (receipt.status, outcomes(receipt)) == (
        "flagged",
        {"passed": 2, "kicked": 1, "failed": 1},
    )
    assert told.value == [{"id": "a", "value": "yes"}, {"id": "d", "value": "yes"}]
    assert told.missing == [
        Missing("b", 1, "failed", ("ZeroDivisionError: oops",)),
        Missing("c", 2, "kicked", ("the reply does not match yes",)),
    ]


# ── the first so many ────────────────────────────────────────────────────────────────────────


def test_the_first_k_that_passed_are_gathered_and_the_rest_is_not_needed(
    memory_path: Path,
) -> None:
    """What is under way when the third lands is cut off, and counts as spent."""
    provider, told = Provider(answering(in_order)), Told(entries(), first=3)
    receipt = play(Scene(memory_path, (provider,), pattern=told))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 3, "skipped": 5})
    assert (told.value, told.ended) == (collected("fgh"), 3.0)
    why = ("not needed: the first 3 had answered",)
    assert told.missing == [Missing(id, n, "skipped", why) for n, id in enumerate("abcde")]
    assert Counter(attempts(memory_path)) == {
        **{(id, "ok"): 1 for id in "fgh"},
        **{(id, "in_doubt"): 1 for id in "abcde"},
    }
    assert receipt.cost_usd > dollars(provider.bill)


def test_after_the_first_k_no_new_call_is_started(memory_path: Path) -> None:
    """Two at a time: a and b are there in the same moment, and they are enough."""
    provider, told = Provider(answering()), Told(entries(), first=2, concurrency=2)
    receipt = play(Scene(memory_path, (provider,), pattern=told))
    assert provider.sent == [f"What of {id}?" for id in "ab"]
    assert (outcomes(receipt), told.value) == ({"passed": 2, "skipped": 6}, collected("ab"))


def test_exactly_k_are_gathered_when_more_land_at_the_same_moment(memory_path: Path) -> None:
    told = Told(entries(), first=3)
    receipt = play(Scene(memory_path, (function(lambda data: f"{data['id']}!"),), pattern=told))
    assert (outcomes(receipt), len(told.value)) == ({"passed": 3, "skipped": 5}, 3)


def test_only_what_passed_counts_towards_the_first_k(memory_path: Path) -> None:
    """Fewer than k can pass: then all have been asked, and the run says so."""

    def script(ask: Ask, n: int) -> Reply:
        return Reply("yes" if about(ask) in "ag" else "no")

    told = Told(entries(), first=3, gate=regex("yes"), revise=0)
    receipt = play(Scene(memory_path, (Scripted(script),), pattern=told))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 2, "kicked": 6})
    assert [part["id"] for part in told.value] == ["a", "g"]


def test_an_entry_that_failed_and_is_not_needed_does_not_flag_the_run(memory_path: Path) -> None:
    """It is skipped, and its reasons say how it ended; where it is needed it has failed."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        return Terminal("refused", scope="ask") if about(ask) == "a" else Reply(f"{about(ask)}!")

    told = Told(entries("abc"), first=2, concurrency=1)
    receipt = play(Scene(memory_path / "two", (Scripted(script),), pattern=told))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 2, "skipped": 1})
    why = ("not needed: the first 2 had answered", "failed: refused")
    assert (told.value, told.missing) == (collected("bc"), [Missing("a", 0, "skipped", why)])
    told = Told(entries("abc"), first=3, concurrency=1)
    receipt = play(Scene(memory_path / "three", (Scripted(script),), pattern=told))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 2, "failed": 1})


def test_a_finished_first_k_again_makes_no_call(memory_path: Path) -> None:
    """Also in a new run: the replies on record come first, and they are enough."""
    first = Told(entries(), first=3, synthesise=asked("Sum up.", step="sum"))
    play(Scene(memory_path, (Provider(answering(in_order)),), pattern=first))
    provider, again = Provider(answering(in_order)), Told(**vars_of(first))
    receipt = play(Scene(memory_path, (provider,), name="again", pattern=again))
    assert (provider.sent, receipt.calls, receipt.cost_usd) == ([], 0, 0.0)
    assert (again.value, again.behind) == (first.value, first.behind) == ("synthesis!", list("fgh"))


def test_who_was_chosen_stays_chosen_when_the_run_goes_on(memory_path: Path) -> None:
    """The reply of a came first, but was judged too late; a quicker gate does not change that."""

    def slowly(seconds: float) -> Any:
        async def gate(task: Task, reply: Reply, ask: Any) -> Verdict:
            await asyncio.sleep(seconds if task.id == "a" else 0.0)
            return PASS

        return gate

    provider = Provider(answering(lambda id: {"a": 1.0, "c": 2.0, "d": 3.0}.get(id, 9.0)))
    told = Told(entries("abcd"), first=2, gate=slowly(5.0))
    scene = Scene(memory_path, (provider,), pattern=told)
    play(scene)
    again = Told(entries("abcd"), first=2, gate=slowly(0.0))
    play(replace(scene, pattern=again), resume=True)
    assert told.value == again.value == collected("cd")
    assert provider.sent_again == {}


def vars_of(told: Told) -> dict[str, Any]:
    return {"over": told.over, **told.how}


@examples(25)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["yes", "no", "raise"])),
        min_size=1,
        max_size=8,
    ),
    st.data(),
)
def test_whatever_happens_every_entry_has_one_outcome_and_at_most_k_pass(
    tmp_path_factory: pytest.TempPathFactory, scripts: list[tuple[int, str]], data: st.DataObject
) -> None:
    first = data.draw(st.none() | st.integers(1, len(scripts)))
    within = data.draw(st.none() | st.sampled_from([0.5, 2.5]))
    ids = IDS[: len(scripts)]

    def says(ask: Ask, n: int) -> Said:
        seconds, word = scripts[ids.index(about(ask))]
        given = ZeroDivisionError("oops") if word == "raise" else Reply(word, usage=USED)
        return Said(given, USED, float(seconds))

    provider = Provider(says)
    told = Told(entries(ids), first=first, within=within, gate=regex("yes"), revise=0)
    receipt = play(Scene(tmp_path_factory.mktemp("s"), (provider,), pattern=told))
    in_time = [
        id
        for id, (seconds, word) in zip(ids, scripts, strict=True)
        if word == "yes" and (within is None or seconds < within)
    ]
    assert len(told.value) == min(len(in_time), first or len(ids)) == receipt.passed
    assert {part["id"] for part in told.value} <= set(in_time)
    assert sum(outcomes(receipt).values()) == receipt.planned == len(ids)
    assert provider.sent_again == {}
    assert dollars(provider.bill) <= receipt.cost_usd + 1e-12


# ── in time ──────────────────────────────────────────────────────────────────────────────────


def test_who_has_not_answered_in_time_has_failed(memory_path: Path) -> None:
    provider, told = Provider(answering(in_order)), Told(entries(), within=3.5)
    receipt = play(Scene(memory_path, (provider,), pattern=told))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 3, "failed": 5})
    assert (told.value, told.ended) == (collected("fgh"), 3.5)
    why = ("no answer within 3.5 s",)
    assert told.missing == [Missing(id, n, "failed", why) for n, id in enumerate("abcde")]


def test_when_all_came_in_time_nobody_waits_for_the_deadline(memory_path: Path) -> None:
    told = Told(entries("gh"), within=30)
    receipt = play(Scene(memory_path, (Provider(answering(in_order)),), pattern=told))
    assert (receipt.status, told.value, told.ended) == ("complete", collected("gh"), 2.0)


def test_a_gathering_that_goes_on_tries_the_late_ones_again_with_a_new_deadline(
    memory_path: Path,
) -> None:
    scene = Scene(
        memory_path, (Provider(answering(in_order)),), pattern=Told(entries(), within=3.5)
    )
    play(scene)
    quick, told = Provider(answering()), Told(entries(), within=3.5)
    receipt = play(replace(scene, members=(quick,), pattern=told), resume=True)
    assert sorted(quick.sent) == [f"What of {id}?" for id in "abcde"]
    assert (receipt.status, told.value) == ("complete", collected(IDS))
    assert receipt.maybe_paid_twice == 5


def test_the_first_k_but_not_longer_than_so_many_seconds(memory_path: Path) -> None:
    """Whichever comes first."""
    provider = Provider(answering(in_order))
    late = Told(entries(), first=5, within=3.5)
    receipt = play(Scene(memory_path / "late", (provider,), pattern=late))
    assert (outcomes(receipt), late.ended) == ({"passed": 3, "failed": 5}, 3.5)
    soon = Told(entries(), first=2, within=3.5)
    receipt = play(Scene(memory_path / "soon", (provider,), pattern=soon))
    assert (outcomes(receipt), soon.ended) == ({"passed": 2, "skipped": 6}, 2.0)


@pytest.mark.parametrize(("policy", "status"), [("hold", "paused"), ("abort", "aborted")])
def test_a_late_answer_is_a_failure_and_the_step_says_what_follows(
    memory_path: Path, policy: str, status: str
) -> None:
    told = Told(entries("gh"), within=1.5, on_failure=policy)
    receipt = play(Scene(memory_path, (Provider(answering(in_order)),), pattern=told))
    assert (receipt.status, outcomes(receipt)) == (status, {"passed": 1, "failed": 1})
    assert policy == "abort" or receipt.reason == (
        "1 failed items are held; resume to try them again"
    )


def test_a_failure_that_is_held_is_held_once(memory_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply | Exception:
        return ZeroDivisionError("oops") if about(ask) == "b" else Reply("fine")

    told = Told(entries("abc"), within=30, on_failure="hold")
    receipt = play(Scene(memory_path, (Scripted(script),), pattern=told))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 2, "failed": 1})
    assert receipt.reason == "1 failed items are held; resume to try them again"


# ── synthesis ────────────────────────────────────────────────────────────────────────────────


def test_a_pure_synthesis_is_made_of_what_passed_in_planned_order(memory_path: Path) -> None:
    told = Told(entries(), first=3, synthesise=concat(" "))
    play(Scene(memory_path, (Provider(answering(in_order)),), pattern=told))
    assert told.value == "f! g! h!"


def test_an_asked_synthesis_is_told_the_answers_and_who_is_missing(memory_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply | Exception:
        id = about(ask)
        return ZeroDivisionError("oops") if id == "b" else Reply(f"{id}!", usage=USED)

    member = Scripted(script)
    told = Told(entries("abc"), synthesise=asked("Sum up.", step="sum"))
    receipt = play(Scene(memory_path, (member,), pattern=told))
    assert (
        member.asked[-1]
        == "Sum up.\n\n### a\na!\n\n### c\nc!\n\nThere is no answer for: b (failed)"
    )
    assert (told.value, receipt.status, receipt.planned) == ("synthesis!", "flagged", 3)
    assert [(step.name, step.calls) for step in receipt.steps] == [("scatter", 3), ("sum", 1)]


def test_a_synthesis_by_a_function_receives_the_parts_and_the_missing(memory_path: Path) -> None:
    seen: list[Any] = []

    def sum_up(data: Any) -> str:
        seen.append(data)
        return "one"

    told = Told(
        entries("gh"), member="provider", within=1.5, synthesise=asked(member="sum_up", step="sum")
    )
    members = (Provider(answering(in_order)), function(sum_up))
    play(Scene(memory_path, members, pattern=told))
    missing = {"id": "g", "state": "failed", "reasons": ["no answer within 1.5 s"]}
    assert seen == [{"parts": [{"id": "h", "ids": ["h"], "value": "h!"}], "missing": [missing]}]
    assert told.value == "one"


def test_a_synthesis_that_does_not_pass_its_gate_gives_no_result(memory_path: Path) -> None:
    told = Told(entries("ab"), synthesise=asked("Sum up.", step="sum", gate=require("sum")))
    receipt = play(Scene(memory_path, (Provider(answering()),), pattern=told))
    assert (told.value, receipt.result, receipt.status) == (None, None, "flagged")
    assert receipt.reason == "sum: kicked: missing or empty: `sum`"
    assert outcomes(receipt) == {"passed": 2}


def test_of_no_answers_nothing_is_asked_for(memory_path: Path) -> None:
    member = Scripted(lambda ask, n: ZeroDivisionError("oops"))
    told = Told(entries("ab"), synthesise=asked("Sum up.", step="sum"))
    receipt = play(Scene(memory_path, (member,), pattern=told))
    assert (told.value, receipt.status, len(member.asked)) == (None, "flagged", 2)
    assert receipt.reason == "sum: no answer passed, so there is nothing to combine"


def breaks(parts: Any) -> Any:
    raise KeyError("total")


@pytest.mark.parametrize(
    ("reduce", "reason"),
    [
        (breaks, "synthesis raised KeyError: 'total'"),
        (lambda parts: parts, "synthesis raised TypeError:"),
    ],
)
def test_a_reducer_that_raises_or_gives_no_json_gives_no_result(
    memory_path: Path, reduce: Any, reason: str
) -> None:
    told = Told(entries("ab"), synthesise=reduce)
    receipt = play(Scene(memory_path, (Provider(answering()),), pattern=told))
    assert (told.value, receipt.status, outcomes(receipt)) == (None, "flagged", {"passed": 2})
    assert (receipt.reason or "").startswith(reason)


def test_more_answers_than_the_fan_in_go_through_a_tree_fixed_by_their_places(
    memory_path: Path,
) -> None:
    """25 entries, 10 at a time; the one that failed shifts no other, and is named in its group and at
    the top."""
    over = [{"id": f"{n:02}"} for n in range(25)]

    def script(ask: Ask, n: int) -> Reply | Exception:
        text = ask.messages[0].content
        if text.startswith("What of "):
            return ZeroDivisionError("oops") if "03" in text else Reply(text[8:10])
        return Reply(f"sum of {text.count('###')}")

    member = Scripted(script)
    told = Told(over, synthesise=asked("Sum up.", step="sum", fan_in=10))
    play(Scene(memory_path, (member,), pattern=told))
    sums = [prompt for prompt in member.asked if prompt.startswith("Sum up.")]
    groups = [[f"{n:02}" for n in range(10) if n != 3], [f"{n}" for n in range(10, 20)],
              [f"{n}" for n in range(20, 25)]]  # fmt: skip
    gone = "\n\nThere is no answer for: 03 (failed)"
    assert sorted(sums[:3]) == sorted(
        "Sum up.\n\n" + "\n\n".join(f"### {id}\n{id}" for id in group) + (gone if not n else "")
        for n, group in enumerate(groups)
    )
    tops = "\n\n".join(
        f"### sum 1.{n} ({', '.join(group)})\nsum of {len(group)}"
        for n, group in enumerate(groups, 1)
    )
    assert sums[3:] == [f"Sum up.\n\n{tops}{gone}"]
    assert told.value == "sum of 3"


def test_a_group_of_the_tree_that_does_not_pass_gives_no_result(memory_path: Path) -> None:
    over = [{"id": f"{n:02}"} for n in range(4)]

    def script(ask: Ask, n: int) -> Reply:
        return Reply("" if "### 02" in ask.messages[0].content else "fine")

    told = Told(over, synthesise=asked("Sum up.", step="sum", fan_in=2))
    receipt = play(Scene(memory_path, (Scripted(script),), pattern=told))
    assert (told.value, receipt.status, receipt.reason) == (
        None, "flagged", "sum: kicked: the reply is empty",
    )  # fmt: skip


# ── killed and resumed ───────────────────────────────────────────────────────────────────────

REACHES: dict[str, dict[str, Any]] = {"all": {}, "first": {"first": 3}, "within": {"within": 30}}


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("many", points(4, 12))
@pytest.mark.parametrize("free", [False, True])
def test_killed_at_any_point_it_goes_on_and_pays_nothing_twice(
    memory_path: Path, reach: str, free: bool, many: int
) -> None:
    """What was answered durably is not asked again, and only what was under way is repeated."""
    like = traits("provider", takes="items", shared=False, metered=False) if free else None
    how = {**REACHES[reach], "synthesise": asked("Sum up.", step="sum"), "concurrency": 4}
    first, told = Provider(answering(in_order), like), Told(entries(), **how)
    scene = Scene(memory_path / "store", (first,), pattern=told)
    camera = Camera(scene.store, memory_path / "images", lambda: durable(scene.store))
    play(scene, after_commit=camera)
    assert told.value == "synthesis!"
    images = list(camera.seen.items())
    for image, (known, lost) in Random(reach).sample(images, min(many, len(images))):
        second, again = Provider(answering(in_order), like), Told(entries(), **how)
        receipt = play(replace(scene, store=image, members=(second,), pattern=again), resume=True)
        assert receipt.status == "complete"
        assert (again.value, len(again.behind)) == (told.value, len(told.behind))
        sent = Counter(map(about_prompt, second.sent))
        assert max(sent.values(), default=1) == 1
        assert sent.keys() & known == set()
        assert receipt.maybe_paid_twice == len(sent.keys() & lost)
        if reach == "first":
            assert len(known - {"synthesis"}) < 3 or sent.keys() <= {"synthesis"}
        else:
            assert sent.keys() | known == {*IDS, "synthesis"}


def about_prompt(prompt: str) -> str:
    return prompt.removeprefix("What of ")[0] if prompt.startswith("What of ") else "synthesis"


def durable(store: Path) -> tuple[set[str], set[str]]:
    """Whose replies are on disk, and who was under way or in doubt."""
    with closing(sqlite3.connect(store / "journal.db")) as db:
        filed = [body for (body,) in db.execute("select reply from replies")]
        filed += [
            body for (body,) in db.execute("select body from outcomes where body is not null")
        ]
    known = {"synthesis" if text == "synthesis!" else text[0]
             for text in (msgspec.json.decode(body)["text"] for body in filed)}  # fmt: skip
    lost = {id for id, state in attempts(store) if state in ("started", "in_doubt")}
    return known, {"synthesis" if id == "sum" else id for id in lost}


@pytest.mark.parametrize("reach", REACHES)
def test_interrupted_twice_nothing_is_lost_and_it_goes_on(memory_path: Path, reach: str) -> None:
    how = REACHES[reach]
    provider = Provider(answering(in_order))
    scene = Scene(memory_path, (provider,), pattern=Told(entries(), **how))
    receipt = play(scene, meanwhile=cancel_at(1.5))
    assert receipt.status == "killed"
    assert (receipt.passed, sum(outcomes(receipt).values())) == (1, 8)
    told = Told(entries(), **how)
    again = play(replace(scene, pattern=told), resume=True)
    assert (again.status, sum(outcomes(again).values())) == ("complete", 8)
    assert provider.sent.count("What of h?") == 1


@pytest.mark.parametrize("reach", REACHES)
def test_paused_it_lets_what_is_under_way_come_in(memory_path: Path, reach: str) -> None:
    how = {**REACHES[reach], "concurrency": 2}
    provider = Provider(answering())
    scene = Scene(memory_path, (provider,), pattern=Told(entries(), **how))
    receipt = play(scene, meanwhile=pause_at(0.5))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 2, "cancelled": 6})
    told = Told(entries(), **how)
    assert play(replace(scene, pattern=told), resume=True).status == "complete"
    assert provider.sent_again == {}
    assert told.value == collected("abc" if reach == "first" else IDS)


def test_out_of_money_it_pauses_and_goes_on_with_more(memory_path: Path) -> None:
    dear = Usage(20, 400)
    provider = Provider(lambda ask, n: Said(Reply(f"{about(ask)}!", usage=dear), dear, 1.0))
    scene = Scene(memory_path, (provider,), pattern=Told(entries(), first=6))
    receipt = play(replace(scene, budget=Budget(usd=0.01)))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 4, "unfunded": 4})
    told = Told(entries(), first=6)
    again = play(replace(scene, budget=Budget(usd=1.0), pattern=told), resume=True)
    assert (again.status, outcomes(again)) == ("complete", {"passed": 6, "skipped": 2})
    assert (told.value, provider.sent_again) == (collected("".join(told.behind)), {})


# ── a member dies ────────────────────────────────────────────────────────────────────────────


def dying(after: int) -> Callable[[Ask, int], Reply | Exception]:
    return lambda ask, n: (
        Reply(f"{about(ask)}!", usage=USED)
        if n < after
        else Terminal("401: key refused", scope="pool")
    )


def test_when_one_of_two_dies_half_way_the_other_answers_the_rest(memory_path: Path) -> None:
    members = (Scripted(dying(2), traits("dies")), Scripted(dying(99), traits("lives")))
    told = Told(entries(), concurrency=2, members=["dies", "lives"])
    receipt = play(Scene(memory_path, members, pattern=told))
    assert (receipt.status, told.value) == ("complete", collected(IDS))
    assert receipt.cost_usd == dollars(members[0].bill + members[1].bill)


def test_a_member_of_its_own_that_dies_takes_only_its_entries_with_it(memory_path: Path) -> None:
    members = (Scripted(dying(1), traits("dies")), Scripted(dying(99), traits("lives")))
    over = [{"id": id, "member": "dies" if id in "abc" else "lives"} for id in "abcde"]
    told = Told(over, concurrency=1, synthesise=asked("Sum up.", member="lives", step="sum"))
    receipt = play(Scene(memory_path, members, pattern=told))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 3, "failed": 2})
    assert [(one.id, one.state) for one in told.missing] == [("b", "failed"), ("c", "failed")]
    assert all("key refused" in reason for one in told.missing for reason in one.reasons)
    assert "There is no answer for: b (failed), c (failed)" in members[1].asked[-1]


def test_when_nobody_is_left_for_any_entry_the_run_pauses(memory_path: Path) -> None:
    """Nobody was really asked, so nothing has failed: it goes on with a good key."""
    over = [{"id": id, "member": id} for id in "ab"]
    dead = tuple(Scripted(dying(0), traits(id)) for id in "ab")
    scene = Scene(memory_path, dead, pattern=Told(over))
    receipt = play(scene)
    assert (receipt.status, outcomes(receipt)) == ("paused", {"cancelled": 2})
    assert "key refused" in (receipt.reason or "")
    told = Told(over)
    members = tuple(Scripted(dying(9), traits(id)) for id in "ab")
    again = play(replace(scene, members=members, pattern=told), resume=True)
    assert (again.status, told.value) == ("complete", collected("ab"))


@pytest.mark.parametrize("reach", REACHES)
def test_when_the_only_member_dies_the_run_pauses_and_goes_on_later(
    memory_path: Path, reach: str
) -> None:
    how = {**REACHES[reach], "concurrency": 1}
    scene = Scene(memory_path, (Scripted(dying(2)),), pattern=Told(entries(), **how))
    receipt = play(scene)
    assert (receipt.status, receipt.passed) == ("paused", 2)
    told, member = Told(entries(), **how), Scripted(dying(99))
    again = play(replace(scene, members=(member,), pattern=told), resume=True)
    assert again.status == "complete"
    sent = "c" if reach == "first" else "cdefgh"
    assert member.asked == [f"What of {id}?" for id in sent]


# ── bad input ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("synthesise", "value"), [(None, []), (concat(), ""), (asked("Sum up.", step="sum"), None)]
)
def test_of_no_entries_comes_an_empty_result(
    memory_path: Path, synthesise: Any, value: Any
) -> None:
    provider, told = Provider(answering()), Told([], synthesise=synthesise)
    receipt = play(Scene(memory_path, (provider,), pattern=told))
    assert (told.value, receipt.status, receipt.planned) == (value, "complete", 0)
    assert (provider.sent, told.missing) == ([], [])


def test_one_entry_is_a_scatter_too(memory_path: Path) -> None:
    told = Told(entries("a"), first=1, synthesise=asked("Sum up.", step="sum"))
    receipt = play(Scene(memory_path, (Provider(answering()),), pattern=told))
    assert (told.value, receipt.status, receipt.calls) == ("synthesis!", "complete", 2)


@pytest.mark.parametrize(
    ("how", "wrong"),
    [
        ({"over": entries("aba")}, "duplicate id 'a'"),
        ({"first": 9}, "`first` is 9, but there are only 8 entries"),
        ({"first": 0}, "`first` must be 1 or more"),
        ({"within": -1}, "`within` must be"),
        ({"over": entries("a", member="nobody")}, "there is no member `nobody`"),
        (
            {"synthesise": "Sum up."},
            "`synthesise` must be a function of the parts, such as concat(), or asked(…)",
        ),
        ({"synthesise": asked("Sum up.", member="nobody")}, "there is no member `nobody`"),
        ({"over": "auth"}, "`over` must be a list of entries"),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(
    memory_path: Path, how: dict[str, Any], wrong: str
) -> None:
    provider, told = Provider(answering()), Told(**{"over": entries(), **how})
    with pytest.raises(BadInput) as refused:
        play(Scene(memory_path, (provider,), pattern=told))
    assert (wrong in str(refused.value), provider.sent) == (True, [])


def test_under_a_dollar_budget_no_entry_is_for_a_member_without_a_price(memory_path: Path) -> None:
    members = (Provider(answering()), Provider(answering(), traits("dark", price=None)))
    told = Told([{"id": "a", "member": "provider"}, {"id": "b", "member": "dark"}])
    with pytest.raises(BadInput, match="member dark has no known price"):
        play(Scene(memory_path, members, budget=Budget(usd=1.0), pattern=told))


def test_a_prompt_that_does_not_fit_one_entry_fails_only_that_one(memory_path: Path) -> None:
    over = [{"id": "a", "topic": "auth"}, {"id": "b"}]
    told = Told(over, prompt="Look at {{ item.topic }}")
    receipt = play(Scene(memory_path, (Scripted(lambda ask, n: Reply("fine")),), pattern=told))
    assert (outcomes(receipt), told.value) == (
        {"passed": 1, "failed": 1}, [{"id": "a", "value": "fine"}],
    )  # fmt: skip


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=2.0) as running:
        yield running


def two_of_them(asked: Asked) -> Says:
    """Only the first two are answered at once; all others when they are released."""
    return Says(latency=3600.0 if asked.n > 2 else 0.0)


def over_http(server: RunningServer, store: Path, told: Told, **changes: Any) -> Receipt:
    resume = changes.pop("resume", False)
    member = OpenAI(like(), server.url, lambda: "key")
    scene = Scene(store, (member,), pattern=told, **changes)
    journal = open_store(store)

    async def main() -> Receipt:
        try:
            return await carry_out(journal, scene, RealClock(), resume)
        finally:
            journal.close()

    return asyncio.run(main())


def test_over_http_scattered_gathered_and_synthesised(
    server: RunningServer, tmp_path: Path
) -> None:
    """The server says what it is asked; the bill is the cost, and again it is free."""
    synthesise = asked("Sum up {{ parts | length }} answers.", step="sum")
    told = Told(entries(), prompt="http {{ item.id }}", synthesise=synthesise)
    receipt = over_http(server, tmp_path, told, budget=Budget(usd=1.0))
    server.wait_idle()
    prompts = [entry.prompt for entry in server.books().asked]
    assert sorted(prompts[:-1]) == [f"http {id}" for id in IDS]
    assert (prompts[-1], told.value) == ("Sum up 8 answers.", "Sum up 8 answers.")
    assert receipt.cost_usd == dollars(server.books().bill) > 0
    again = over_http(server, tmp_path, Told(**vars_of(told)), name="again")
    assert (again.calls, again.reused, again.cost_usd) == (0, 9, 0.0)


def test_over_http_the_first_two_are_enough(tmp_path: Path) -> None:
    """No more are sent than were under way when the second answer was on record."""
    told = Told(entries(), prompt="two {{ item.id }}", first=2, concurrency=2)
    script = f"{__name__}:two_of_them"
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, script=script) as server:
        receipt = over_http(server, tmp_path, told)
        server.release()
        server.wait_idle()
        sent = [entry.prompt for entry in server.books().asked]
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 2, "skipped": 6})
    assert 2 <= len(sent) == len(set(sent)) <= receipt.calls <= 4
