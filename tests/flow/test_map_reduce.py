"""map_reduce end to end: tree reduces that grow with the map, shards, provenance, crashes."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fanfold.errors import BadInput, FanfoldError, Terminal, Transient
from fanfold.gates.checks import regex
from fanfold.gates.cites import cites
from fanfold.members.openai import OpenAI
from fanfold.patterns.arguments import PatternOptions, terms_of
from fanfold.patterns.asked_reduce import AskedReduce, asked
from fanfold.patterns.fold import collect, total
from fanfold.patterns.map_reduce import fold_batch, map_batch, map_reduce
from fanfold.patterns.prompt import prompt_of
from fanfold.patterns.reduce import reduce_batch, reducing
from fanfold.price import dollars
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.testing.member import Scripted, traits
from fanfold.testing.running import threaded_server
from fanfold.work.ask import Ask, Message, Reply
from fanfold.work.item import Item
from fanfold.work.outcome import Missing, Part, Receipt
from fanfold.work.task import Budget
from tests.examples import points
from tests.flow.crash_child import PRICE, like
from tests.flow.simulation import (
    USAGE,
    Camera,
    Provider,
    Said,
    Scene,
    digest_of,
    echoing,
    in_its_store,
    outcomes,
    pause_at,
    play,
    words,
)

JOIN = "Join these."


def except_for(asks: dict[str, Reply | Exception]) -> Callable[[Ask, int], Said]:
    """As `echoing`, but for prompts that begin so."""

    def says(ask: Ask, n: int) -> Said:
        prompt = ask.messages[0].content
        given = next((one for begins, one in asks.items() if prompt.startswith(begins)), None)
        return echoing(ask, n) if given is None else Said(given, USAGE, 1.0)

    return says


def joined(fan_in: int = 10, **how: Any) -> AskedReduce:
    return asked(JOIN, fan_in=fan_in, **how)


def reduces(sent: Iterable[str]) -> list[str]:
    return [prompt for prompt in sent if prompt.startswith(JOIN)]


def maps(sent: Iterable[str]) -> list[str]:
    return [prompt for prompt in sent if prompt.startswith("Say ")]


# ── a tree that grows with the map ───────────────────────────────────────────────────────────


def test_over_a_thousand_items_the_reduce_begins_early_and_never_sees_more_than_its_fan_in(
    memory_path: Path,
) -> None:
    provider = Provider(echoing)
    scene = Scene(memory_path, (provider,), words(1000), how={"reduce": joined(10)})
    receipt = play(scene)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 1000})
    asked_for = reduces(provider.sent)
    assert len(asked_for) == len(set(asked_for)) == 100 + 10 + 1
    assert {prompt.count("\n\n### ") for prompt in asked_for} == {10}
    assert len(maps(provider.sent[: provider.sent.index(asked_for[0])])) < 100
    assert len(maps(provider.sent[: provider.sent.index(asked_for[-1])])) == 1000
    assert receipt.result == digest_of(asked_for[-1])
    assert [(step.name, step.calls) for step in receipt.steps] == [("map", 1000), ("reduce", 111)]
    assert receipt.seconds < 1.2 * 1000 / 8


def test_a_pure_tree_is_reduced_while_the_map_goes_on(memory_path: Path) -> None:
    provider = Provider(echoing)
    seen: list[tuple[int, int]] = []

    def longest(parts: Iterable[Part]) -> str:
        there = [part.value for part in parts]
        seen.append((len(there), len(provider.sent)))
        return max(there)

    how = {"reduce": longest, "fan_in": 10}
    receipt = play(Scene(memory_path, (provider,), words(1000), how=how))
    assert receipt.result == max(digest_of(prompt) for prompt in provider.sent)
    assert len(seen) == 111 and {many for many, _ in seen} == {10}
    assert seen[0][1] < 100


def test_the_parts_stand_under_their_ids_in_planned_order(memory_path: Path) -> None:
    provider = Provider(echoing)
    items = [{"id": f"c-{n}", "text": f"word {n}"} for n in range(5)]
    play(Scene(memory_path, (provider,), items, how={"reduce": joined(2), "concurrency": 1}))
    one, two, three, four, five = (digest_of(f"Say word {n}") for n in range(5))
    low = f"{JOIN}\n\n### c-0\n{one}\n\n### c-1\n{two}"
    mid = f"{JOIN}\n\n### c-2\n{three}\n\n### c-3\n{four}"
    last = f"{JOIN}\n\n### c-4\n{five}"
    four_of_them = (
        f"{JOIN}\n\n### 1.0 (c-0, c-1)\n{digest_of(low)}\n\n### 1.1 (c-2, c-3)\n{digest_of(mid)}"
    )
    root = (
        f"{JOIN}\n\n### 2.0 (c-0, c-1, c-2, c-3)\n{digest_of(four_of_them)}"
        f"\n\n### 1.2 (c-4)\n{digest_of(last)}"
    )
    assert sorted(reduces(provider.sent)) == sorted([low, mid, last, four_of_them, root])


def test_a_prompt_can_show_the_parts_itself_and_a_function_receives_them(memory_path: Path) -> None:
    prompt = (
        "{% for part in parts %}{{ part.id }}={{ part.value }}/{{ part.ids | length }} {% endfor %}"
    )
    provider = Provider(echoing)
    play(Scene(memory_path / "shown", (provider,), ["a"], how={"reduce": asked(prompt)}))
    assert provider.sent[-1].strip() == f"0={digest_of('Say a')}/1"
    given: list[Any] = []

    def receiving(ask: Ask, n: int) -> Reply:
        given.append(ask.items[0].data)
        return Reply(data=7)

    fn = traits("fn", takes="items", sees_ask=False, shared=False, metered=False)
    members = (Provider(echoing), Scripted(receiving, fn))
    how = {"reduce": asked(member="fn"), "member": "provider"}
    receipt = play(Scene(memory_path / "received", members, ["a"], how=how))
    assert receipt.result == 7
    part = {"id": "0", "ids": ["0"], "value": digest_of("Say a")}
    assert given == [{"parts": [part], "missing": []}]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            {"Say word 57": Terminal("too long", scope="ask", too_long=True)}, id="failed"
        ),
        pytest.param({"Say word 57": Reply("out", usage=USAGE)}, id="filtered"),
        pytest.param({"Say word 57": Reply(" ", usage=USAGE)}, id="kicked"),
    ],
)
def test_one_that_is_lost_or_filtered_shifts_nobody(memory_path: Path, change: Any) -> None:
    """Only the three nodes above it are other asks."""
    how = {"reduce": joined(5), "keep": lambda value: value != "out"}
    whole, holed = Provider(echoing), Provider(except_for(change))
    play(Scene(memory_path / "whole", (whole,), words(100), how=how))
    receipt = play(Scene(memory_path / "holed", (holed,), words(100), how=how))
    assert receipt.passed == 99
    before, after = set(reduces(whole.sent)), set(reduces(holed.sent))
    assert len(before) == len(after) == 20 + 4 + 1
    assert len(before - after) == len(after - before) == 3
    assert sorted(prompt.count("\n\n### ") for prompt in after - before) == [4, 4, 5]


def test_on_a_batch_that_is_done_the_tree_has_the_same_asks(memory_path: Path) -> None:
    """The map first and the reduce from the journal, in another run: nothing is paid again."""
    provider = Provider(except_for({"Say word 7": Terminal("no", scope="ask")}))
    how = {"reduce": joined(3), "keep": lambda value: not value.startswith("<3")}
    grown = play(Scene(memory_path, (provider,), words(40), how=how))
    paid = len(provider.sent)

    async def afterwards(run: Run) -> None:
        stated: PatternOptions = {"keep": how["keep"]}  # type: ignore[typeddict-item]
        terms = terms_of(stated, None, "map")
        batch = await run.plan(Rows(words(40)), terms)
        await map_batch(run, batch, terms, prompt_of("Say {{ item.text }}", None))
        run.set_result(await reduce_batch(run, batch, terms, reducing(joined(3))))
        flat = await reduce_batch(run, batch, terms, reducing(collect()))
        assert flat == await reduce_batch(run, batch, terms, reducing(collect(), 3))
        assert await reduce_batch(run, batch, terms, reducing(None)) is None

    later = play(Scene(memory_path, (provider,), name="later", pattern=afterwards))
    assert later.result == grown.result is not None
    assert maps(provider.sent[paid:]) == ["Say word 7"], "what failed is tried again"
    assert reduces(provider.sent[paid:]) == []


class Sparse:
    """A source that gives only some of what was planned, as after an earlier step's filter."""

    def __init__(self, positions: Iterable[int]) -> None:
        self._positions = list(positions)

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        for n in self._positions:
            if n >= len(skip) or not skip[n]:
                yield n, Item(str(n), f"word {n}")

    def fingerprint(self) -> str:
        return f"{self._positions}"


@pytest.mark.parametrize("there", [range(0), range(30, 40), [0, 1, 2, 20, 21, 29], range(60)])
def test_positions_that_left_the_flow_before_are_empty_slots(
    memory_path: Path, there: Iterable[int]
) -> None:
    provider = Provider(echoing)
    ids: list[Any] = []

    async def pattern(run: Run) -> None:
        terms = terms_of({}, None, "map")
        planned = await run.plan(Rows(words(60)), terms)
        batch = Batch(planned.no, Sparse(there), planned.size)
        prompt = prompt_of("Say {{ item.text }}", None)
        made = await fold_batch(run, batch, terms, prompt, None, reducing(collect(), 4))
        ids.extend(int(part["id"]) for part in made)

    play(Scene(memory_path, (provider,), pattern=pattern))
    assert ids == list(there)
    assert len(provider.sent) == len(ids)


# ── when the reduce goes wrong ───────────────────────────────────────────────────────────────


def test_an_asked_reduce_that_never_passes_gives_no_result_and_flags_the_run(
    memory_path: Path,
) -> None:
    """It is kicked back once; then no other reduce is asked for, but the map goes on to its end."""
    provider = Provider(echoing)
    how = {"reduce": joined(10, gate=regex("^fine$"), concurrency=2), "concurrency": 4}
    receipt = play(Scene(memory_path, (provider,), words(100), how=how))
    assert (receipt.status, receipt.result) == ("flagged", None)
    assert receipt.reason == "reduce: kicked: the reply does not match ^fine$"
    assert outcomes(receipt) == {"passed": 100}
    assert len(reduces(provider.sent)) <= 2 * 2


def test_a_reduce_nobody_answers_gives_no_result_and_pauses_the_run(memory_path: Path) -> None:
    provider = Provider(except_for({JOIN: Terminal("too long", scope="ask")}))
    receipt = play(Scene(memory_path, (provider,), words(5), how={"reduce": joined(2)}))
    assert (receipt.status, receipt.result, outcomes(receipt)) == ("paused", None, {"passed": 5})
    assert receipt.reason == (
        "reduce: failed: too long; all that passed is on record, resume to try this again"
    )


def test_a_prompt_that_cannot_be_rendered_flags_the_run(memory_path: Path) -> None:
    provider = Provider(echoing)
    how = {"reduce": asked("{{ parts[0].value.nothing.at_all }}")}
    receipt = play(Scene(memory_path, (provider,), words(3), how=how))
    assert (receipt.status, receipt.result, len(provider.sent)) == ("flagged", None, 3)
    assert receipt.reason is not None and receipt.reason.startswith("reduce: failed: prompt")


def test_cited_ids_must_be_those_behind_the_parts(memory_path: Path) -> None:
    """The root may cite any item below it; one that nobody gave is sent back."""

    def says(ask: Ask, n: int) -> Said:
        prompt = ask.messages[0].content
        if not prompt.startswith(JOIN):
            return Said(Reply("fine", usage=USAGE))
        cited = "c-3" if "1.0" in prompt else "c-0" if "c-0" in prompt else "c-3"
        wrong = "1.0" in prompt and not ask.turns
        return Said(Reply(f"So it is [{'c-99' if wrong else cited}].", usage=USAGE))

    provider = Provider(says)
    items = [{"id": f"c-{n}", "text": f"word {n}"} for n in range(4)]
    how = {"reduce": joined(2, gate=cites())}
    receipt = play(Scene(memory_path, (provider,), items, how=how))
    assert (receipt.status, receipt.result) == ("complete", "So it is [c-3].")
    assert len(reduces(provider.sent)) == 4


# ── small and bad input ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reduce", "fan_in", "nothing", "one"),
    [
        (joined(2), None, None, digest_of(f"{JOIN}\n\n### 0\n{digest_of('Say word 0')}")),
        (collect(), None, [], [{"id": "0", "value": digest_of("Say word 0")}]),
        (collect(), 2, [], [{"id": "0", "value": digest_of("Say word 0")}]),
        (None, None, None, None),
    ],
)
def test_no_item_and_one_item(
    memory_path: Path, reduce: Any, fan_in: int | None, nothing: Any, one: Any
) -> None:
    how = {"reduce": reduce, "fan_in": fan_in}
    for count, expected in ((0, nothing), (1, one)):
        scene = Scene(memory_path / str(count), (Provider(echoing),), words(count), how=how)
        receipt = play(scene)
        assert (receipt.status, receipt.planned, receipt.result) == ("complete", count, expected)


@pytest.mark.parametrize(
    ("items", "how", "text"),
    [
        (words(3), {"fan_in": 1}, "`fan_in` is a whole number from 2 on, not 1"),
        (words(3), {"reduce": None, "fan_in": 5}, "`fan_in` requires a `reduce`"),
        (
            words(3),
            {"reduce": 5},
            "`reduce` must be a function of the parts, such as concat(), or asked(…), not the number 5",
        ),
        (words(3), {"reduce": joined(2, member="nobody")}, "nobody"),
        (words(3), {"shard": 0}, "`shard` must be 1 or more, not 0"),
        (
            [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}, {"id": "a", "text": "z"}],
            {"reduce": joined(2)},
            "duplicate id 'a': item 0 and item 2; make ids unique",
        ),
    ],
)
def test_bad_input_is_told_before_anything_is_asked(
    memory_path: Path, items: Any, how: Any, text: str
) -> None:
    provider = Provider(echoing)
    with pytest.raises(BadInput, match=re.escape(text)):
        play(Scene(memory_path, (provider,), items, how=how))
    assert provider.sent == []


@pytest.mark.parametrize("fan_in", [None, 2])
def test_a_reducer_that_raises_raises_after_the_map_is_done(
    memory_path: Path, fan_in: int | None
) -> None:
    provider = Provider(echoing)
    how = {"reduce": total("n"), "fan_in": fan_in}
    with pytest.raises(FanfoldError, match=r"^reduce: item `0`: has no field `n`$"):
        play(Scene(memory_path, (provider,), words(20), how=how))
    assert len(provider.sent) == 20


# ── provenance ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reduce", [joined(2), collect()])
def test_the_result_knows_the_items_behind_it_and_those_that_are_missing(
    memory_path: Path, reduce: Any
) -> None:
    odd = {
        "Say b": Terminal("too long", scope="ask"),
        "Say c": Reply("out", usage=USAGE),
        "Say d": Reply(" ", usage=USAGE),
    }
    provider = Provider(except_for(odd))
    found: list[Any] = []

    async def pattern(run: Run) -> None:
        folded = await map_reduce(
            run, [{"id": f"c-{text}", "text": text} for text in "abcdef"],
            prompt="Say {{ item.text }}", keep=lambda value: value != "out", reduce=reduce,
        )  # fmt: skip
        found.extend([list(folded.behind()), list(folded.missing())])

    receipt = play(Scene(memory_path, (provider,), pattern=pattern))
    assert outcomes(receipt) == {"passed": 3, "failed": 1, "skipped": 1, "kicked": 1}
    assert found == [
        ["c-a", "c-e", "c-f"],
        [
            Missing("c-b", 1, "failed", ("too long",)),
            Missing("c-c", 2, "skipped"),
            Missing("c-d", 3, "kicked", ("the reply is empty",)),
        ],
    ]


# ── crashes, stops, a member that dies ───────────────────────────────────────────────────────

ITEMS = 40
CRASHING = {"reduce": joined(4, concurrency=3), "concurrency": 4}


def durable(store: Path, prompts: Iterable[str]) -> set[str]:
    """The prompts whose reply is on disk."""
    keys = {Ask((Message("user", text),)).key("messages"): text for text in prompts}
    with closing(sqlite3.connect(store / "journal.db")) as db:
        return {keys[key] for (key,) in db.execute("select key from replies")}


@pytest.mark.parametrize("many", points(6, 12))
@pytest.mark.parametrize("shard", [None, 3])
def test_killed_at_any_point_nothing_is_paid_twice(
    memory_path: Path, shard: int | None, many: int
) -> None:
    """Neither an item nor a node: the rest is asked for once, and the result is the same."""
    first = Provider(answering_shards)
    how = CRASHING | ({} if shard is None else {"shard": shard})
    scene = Scene(memory_path / "store", (first,), words(ITEMS), how=how)
    camera = Camera(scene.store, memory_path / "images", lambda: None)
    whole = play(scene, after_commit=camera)
    alone = [f"Say word {n}" for n in range(ITEMS)]
    needed = {*alone, *reduces(first.sent)}
    interrupted = 0
    for image in Random(5).sample(list(camera.seen), many):
        known = durable(image, needed)
        interrupted += bool(set(reduces(known))) and known != needed
        second = Provider(answering_shards)
        receipt = play(replace(scene, store=image, members=(second,)), resume=True)
        assert (outcomes(receipt), receipt.result) == ({"passed": ITEMS}, whole.result)
        assert sorted(asked_about(second)) == sorted(needed - known)
    assert interrupted >= many // 3, "too few of the points were in the midst of the reduces"


def answering_shards(ask: Ask, n: int) -> Said:
    """Each item of a shard gets what it would get alone."""
    if len(ask.items) < 2:
        return echoing(ask, n)
    answers = [{"id": item.id, "answer": digest_of(f"Say {item.data}")} for item in ask.items]
    return Said(Reply(data={"answers": answers}, usage=USAGE), USAGE, 1.0)


def asked_about(provider: Provider) -> list[str]:
    """All prompts, a shard's as those of its items."""
    found = [
        line
        for prompt in provider.sent
        for line in ([prompt] if prompt.startswith(JOIN) else prompt.splitlines())
    ]
    return [line for line in found if line.startswith((JOIN, "Say "))]


@pytest.mark.parametrize("seconds", [3.5, 8.5, 11.5])
def test_paused_what_is_under_way_ends_and_is_not_asked_for_again(
    memory_path: Path, seconds: float
) -> None:
    provider = Provider(echoing)
    scene = Scene(memory_path, (provider,), words(ITEMS), how=CRASHING)
    paused = play(scene, meanwhile=pause_at(seconds))
    assert (paused.status, paused.maybe_paid_twice, paused.result) == ("paused", 0, None)
    resumed = play(scene, resume=True)
    assert (resumed.status, outcomes(resumed)) == ("complete", {"passed": ITEMS})
    assert (provider.sent_again, dollars(provider.bill)) == ({}, resumed.cost_usd)


def test_paused_a_reduce_that_takes_longer_than_the_map_is_waited_for(memory_path: Path) -> None:
    """Its reply is paid for: cut off, it would be in doubt and asked for again."""

    def says(ask: Ask, n: int) -> Said:
        one = echoing(ask, n)
        return replace(one, seconds=9.0) if ask.messages[0].content.startswith(JOIN) else one

    provider = Provider(says)
    scene = Scene(memory_path, (provider,), words(ITEMS), how=CRASHING)
    paused = play(scene, meanwhile=pause_at(4.5))
    assert len(reduces(provider.sent)) == 3
    assert (paused.status, paused.maybe_paid_twice) == ("paused", 0)
    assert dollars(provider.bill) == paused.cost_usd
    resumed = play(scene, resume=True)
    assert (resumed.status, provider.sent_again) == ("complete", {})


def test_out_of_money_in_the_midst_of_the_reduces_it_goes_on_later(memory_path: Path) -> None:
    provider = Provider(echoing)
    scene = Scene(memory_path, (provider,), words(ITEMS), Budget(calls=45), how=CRASHING)
    assert play(scene).status == "paused"
    assert len(provider.sent) == 45
    resumed = play(replace(scene, budget=Budget(calls=100)), resume=True)
    assert (resumed.status, outcomes(resumed)) == ("complete", {"passed": ITEMS})
    assert provider.sent_again == {}


def test_cancelled_while_the_map_waits_for_the_reduces_nothing_goes_on(memory_path: Path) -> None:
    """Slow reduces hold the map up; then the operator interrupts twice."""

    def says(ask: Ask, n: int) -> Said:
        slow = ask.messages[0].content.startswith(JOIN)
        return Said(Reply("fine", usage=USAGE), USAGE, 1000.0 if slow else 1.0)

    provider = Provider(says)
    left: list[Any] = []

    async def pattern(run: Run) -> None:
        before = asyncio.all_tasks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100.0):
                await map_reduce(run, words(500), prompt="Say {{ item.text }}",
                                 reduce=joined(2, concurrency=1))  # fmt: skip
        left.extend(asyncio.all_tasks() - before)

    play(Scene(memory_path, (provider,), pattern=pattern))
    assert len(maps(provider.sent)) < 100, "the map was not held up"
    assert left == []


class Dying:
    """Answers so many calls, then never again."""

    def __init__(self, calls: int, error: Exception) -> None:
        self._calls, self._error = calls, error

    def __call__(self, ask: Ask, n: int) -> Said:
        return echoing(ask, n) if n < self._calls else Said(self._error)


@pytest.mark.parametrize("calls", [25, 44])
@pytest.mark.parametrize(
    "error", [Transient("503"), Terminal("bad key", scope="pool")], ids=["transient", "terminal"]
)
def test_with_a_member_that_dies_the_other_takes_over(
    memory_path: Path, calls: int, error: Exception
) -> None:
    """In the map or among the reduces; both are asked of either."""
    dying = Provider(Dying(calls // 2, error), traits("dying"))
    other = Provider(echoing, traits("other"))
    receipt = play(Scene(memory_path, (dying, other), words(ITEMS), how=CRASHING))
    alone = play(Scene(memory_path / "alone", (Provider(echoing),), words(ITEMS), how=CRASHING))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": ITEMS})
    assert receipt.result == alone.result
    assert other.sent_again == {}


@pytest.mark.parametrize("calls", [20, 43])
def test_with_the_only_member_dead_the_run_pauses_and_goes_on_with_its_key_put_right(
    memory_path: Path, calls: int
) -> None:
    dying = Provider(Dying(calls, Terminal("bad key", scope="pool")))
    scene = Scene(memory_path, (dying,), words(ITEMS), how=CRASHING)
    assert play(scene).status == "paused"
    healthy = Provider(echoing)
    receipt = play(replace(scene, members=(healthy,)), resume=True)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": ITEMS})
    answered = set(dying.sent[:calls])
    assert len(answered) == calls
    assert answered & set(healthy.sent) == set() and healthy.sent_again == {}


# ── shards ───────────────────────────────────────────────────────────────────────────────────


def forgetful(ask: Ask, n: int) -> Said:
    """Leaves the last item of a shard out; alone, all are answered but the one called word 7."""
    if len(ask.items) > 1:
        some = [{"id": item.id, "answer": f"of {item.data}"} for item in ask.items[:-1]]
        return Said(Reply(data={"answers": some}, usage=USAGE), USAGE)
    (item,) = ask.items
    if item.data == "word 7":
        return Said(Reply("", usage=USAGE), USAGE)
    return Said(Reply(f"of {item.data}", usage=USAGE), USAGE)


def test_an_item_that_a_shard_forgot_is_asked_alone_or_flagged(memory_path: Path) -> None:
    provider = Provider(forgetful)
    how = {"shard": 4, "reduce": collect(), "fan_in": 3}
    receipt = play(Scene(memory_path, (provider,), words(12), how=how))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 11, "kicked": 1})
    expected = [{"id": str(n), "value": f"of word {n}"} for n in range(12) if n != 7]
    assert receipt.result == expected
    alone = [prompt for prompt in provider.sent if "separate items" not in prompt]
    assert sorted(alone) == ["Say word 11", "Say word 3", "Say word 7", "Say word 7"]


def test_the_same_content_twice_in_a_shard_is_an_answer_for_each(memory_path: Path) -> None:
    items = [{"id": str(n), "text": "same"} for n in range(7)]

    def says(ask: Ask, n: int) -> Said:
        if len(ask.items) < 2:
            return Said(Reply("fine", usage=USAGE), USAGE)
        answers = [{"id": item.id, "answer": "fine"} for item in ask.items]
        return Said(Reply(data={"answers": answers}, usage=USAGE), USAGE)

    receipt = play(Scene(memory_path, (Provider(says),), items, how={"shard": 3}))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 7})


def test_an_answer_whose_schema_has_an_id_keeps_it(memory_path: Path) -> None:
    def inline(ask: Ask, n: int) -> Said:
        rows = [{"id": item.id, "n": int(item.id)} for item in ask.items]
        return Said(Reply(data=rows if len(rows) > 1 else rows[0], usage=USAGE), USAGE)

    schema = {"type": "object", "properties": {"id": {}, "n": {}}, "required": ["id", "n"]}
    how = {"schema": schema, "shard": 3}
    receipt = play(Scene(memory_path, (Provider(inline),), words(4), how=how))
    assert receipt.calls == 2
    assert [part["value"] for part in receipt.result] == [{"id": str(n), "n": n} for n in range(4)]


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────


def test_over_the_model_server_and_again_for_nothing(tmp_path: Path) -> None:
    def journaled(url: str, name: str) -> Receipt:
        member = OpenAI(like(), url, lambda: "key")
        how = {"reduce": joined(5), "concurrency": 8}
        scene = Scene(tmp_path / "store", (member,), words(30), Budget(usd=1.0), name, how)

        return asyncio.run(in_its_store(scene))

    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=2.0) as server:
        first = journaled(server.url, "first")
        second = journaled(server.url, "second")
        server.wait_idle()
        prompts = [entry.prompt for entry in server.books().asked]
        assert dollars(server.books().bill) == first.cost_usd > 0
    assert (first.status, outcomes(first)) == ("complete", {"passed": 30})
    assert (len(prompts), len(reduces(prompts))) == (30 + 6 + 1 + 1, 6 + 1 + 1)
    assert all(prompt.count("\n### ") >= 1 for prompt in reduces(prompts))
    assert isinstance(first.result, str) and first.result.startswith(JOIN)
    assert (second.calls, second.reused, second.result) == (0, len(prompts), first.result)


def fine_for_each(ask: Ask, n: int) -> Said:
    answers = [{"id": id, "answer": "fine"} for id in together_in(ask.messages[0].content)]
    return Said(Reply(data={"answers": answers} if answers else None, text="fine"))


def together_in(prompt: str) -> list[str]:
    return re.findall(r'^### "(\w+)"$', prompt, re.MULTILINE)


PAPERS = [
    {"id": f"p{n}", "text": f"paper {n}", "by": "abc"[n % 3], "year": 1980 + 4 * n}
    for n in range(9)
]
BY_YEAR = {"range": "item.year", "bounds": [1990, 2000]}


@pytest.mark.parametrize(
    ("shard", "together"),
    [
        ({"count": 4}, ["p0 p1 p2", "p3 p4", "p5 p6", "p7 p8"]),
        ({"count": 2, "items": 3}, ["p0 p1 p2", "p3 p4", "p5 p6 p7", "p8"]),
        (BY_YEAR, ["p0 p1 p2", "p3 p4", "p5 p6 p7 p8"]),
        (BY_YEAR | {"items": 3}, ["p0 p1 p2", "p3 p4", "p5 p6 p7", "p8"]),
        ({"hash": "item.by", "count": 64}, ["p0 p3 p6", "p1 p4 p7", "p2 p5 p8"]),
    ],
    ids=repr,
)
def test_a_shard_has_the_items_of_a_part_a_range_or_a_hash(
    memory_path: Path, shard: dict[str, Any], together: list[str]
) -> None:
    provider = Provider(fine_for_each)
    receipt = play(Scene(memory_path, (provider,), PAPERS, how={"shard": shard}))
    asked = [" ".join(together_in(ask) or ["p8"]) for ask in provider.sent]
    assert (sorted(asked), outcomes(receipt)) == (together, {"passed": 9})


def test_an_item_without_the_field_of_its_shard_fails_and_only_it(memory_path: Path) -> None:
    papers = [*PAPERS[:4], {"id": "x", "text": "?"}, {"id": "y", "text": "!", "year": "soon"}]
    reasons = {}

    async def pattern(run: Run) -> None:
        found = await map_reduce(run, papers, prompt="Say {{ item.text }}", shard=BY_YEAR)
        reasons.update({one.id: one.reasons for one in found.missing()})

    receipt = play(Scene(memory_path, (Provider(fine_for_each),), pattern=pattern))
    assert outcomes(receipt) == {"passed": 4, "failed": 2}
    assert reasons == {
        "x": ("it has no field `item.year` to shard by",),
        "y": ("its `item.year` is not a number",),
    }


def test_a_shard_by_bytes_takes_as_many_items_as_fit(memory_path: Path) -> None:
    """`Say word 0` has ten bytes."""
    provider = Provider(fine_for_each)
    receipt = play(Scene(memory_path, (provider,), words(8), how={"shard": {"bytes": 40}}))
    assert (outcomes(receipt), len(provider.sent)) == ({"passed": 8}, 2)
    with pytest.raises(BadInput, match="state `tokens` or `bytes` of a shard, not both"):
        play(Scene(memory_path, (provider,), words(1), how={"shard": {"bytes": 4, "tokens": 1}}))
