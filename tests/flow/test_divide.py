"""divide_and_conquer end to end: shape of the tree, too long pieces, crashes, dying members."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fanfold.clock import RealClock
from fanfold.errors import BadInput, Terminal, TimedOut, Transient
from fanfold.gates.checks import quotes, regex
from fanfold.journal.opening import open_store
from fanfold.members.function import function
from fanfold.members.openai import OpenAI
from fanfold.patterns.arguments import Folded
from fanfold.patterns.asked_reduce import AskedReduce, asked
from fanfold.patterns.divide import divide_and_conquer
from fanfold.patterns.fold import collect, concat, count, sort_by, top, total
from fanfold.price import dollars
from fanfold.run.run import Run
from fanfold.run.settings import Govern
from fanfold.testing import script
from fanfold.testing.member import Scripted, traits
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Says
from fanfold.work.ask import Ask, Message, Reply
from fanfold.work.outcome import Missing, Receipt
from fanfold.work.pieces import Fits, Piece
from fanfold.work.split import estimate_tokens
from tests.flow.crash_child import PRICE, like
from tests.flow.simulation import (
    USAGE,
    Camera,
    Provider,
    Said,
    Scene,
    carry_out,
    digest_of,
    echoing,
    outcomes,
    pause_at,
    play,
    words,
)

SUM = "Sum up:{% for item in items %}\n[{{ item.id }}] {{ item.text }}{% endfor %}"
JOIN = "Join these."
ASK = "Sum up:"
YES = {"govern": Govern(yes=True, cap=10**6)}
_IDS = re.compile(r"\[(\S+)\]")
_PARTS = re.compile(r"^### (\S+)", re.MULTILINE)

Divided = Callable[[Run], Awaitable[Folded]]


def except_for(asks: dict[str, Reply | Exception]) -> Callable[[Ask, int], Said]:
    """As `echoing`, but for prompts that contain this."""

    def says(ask: Ask, n: int) -> Said:
        prompt = ask.messages[0].content
        given = next((one for part, one in asks.items() if part in prompt), None)
        return echoing(ask, n) if given is None else Said(given, USAGE, 1.0)

    return says


def short_sighted(most: int) -> Callable[[Ask, int], Said]:
    """A member that takes no piece of more than so many characters; a refusal is not billed."""

    def says(ask: Ask, n: int) -> Said:
        prompt = ask.messages[0].content
        if len(prompt) > most and not prompt.startswith(JOIN):
            return Said(Terminal("prompt is too long", scope="ask", too_long=True), seconds=1.0)
        return echoing(ask, n)

    return says


def joined(**how: Any) -> AskedReduce:
    return asked(JOIN, **{"step": "combine", **how})


def dividing(items: Any, seen: dict[str, Any] | None = None, **how: Any) -> Divided:
    """The pattern; `seen` gets the value, and which ids are behind it and which are missing."""

    async def pattern(run: Run) -> Folded:
        given = {"prompt": SUM, "combine": joined(), **how}
        folded = await divide_and_conquer(run, items, **given)
        if seen is not None:
            seen.update(value=folded.value, behind=list(folded.behind()),
                        missing=list(folded.missing()))  # fmt: skip
        return folded

    return pattern


def scene_of(store: Path, member: Any, pattern: Divided, **more: Any) -> Scene:
    members = member if isinstance(member, tuple) else (member,)
    return Scene(store, members, pattern=pattern, **{"settings": YES, **more})


def leaves(sent: list[str]) -> list[str]:
    return [prompt for prompt in sent if prompt.startswith(ASK)]


def joins(sent: list[str]) -> list[str]:
    return [prompt for prompt in sent if prompt.startswith(JOIN)]


def ids_in(prompts: list[str]) -> list[list[str]]:
    return [_IDS.findall(prompt) for prompt in prompts]


# ── the tree ─────────────────────────────────────────────────────────────────────────────────


def reviews(many: int) -> list[dict[str, str]]:
    return [{"id": f"r{n}", "text": f"review {n} " + "word " * (n % 29)} for n in range(many)]


def test_ten_thousand_items_are_a_shallow_tree_of_full_leaves(memory_path: Path) -> None:
    """Every leaf fits and could not take one more; combines see ten parts at most, in order, and
    begin while leaves are still asked about."""
    reader = Scripted(lambda ask, n: Reply(f"s{n}"), traits("reader"), latency=1.0)
    leaves_before_join: list[int] = []

    def joining(ask: Ask, n: int) -> Reply:
        leaves_before_join.append(len(reader.asked))
        return Reply(f"c{n}")

    writer = Scripted(joining, traits("writer"), latency=1.0)
    seen: dict[str, Any] = {}
    pattern = dividing(
        reviews(10_000), seen, fits=Fits(tokens=3000), member="reader",
        combine=joined(member="writer"), concurrency=6,
    )  # fmt: skip
    receipt = play(scene_of(memory_path, (reader, writer), pattern))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 10_000})
    found = ids_in(reader.asked)
    assert [id for ids in found for id in ids] == [f"r{n}" for n in range(10_000)]
    sizes = [estimate_tokens(prompt) for prompt in reader.asked]
    assert max(sizes) <= 3000 and min(sizes[:-1]) > 2900
    many = len(reader.asked)
    assert reader.most_in_flight == 6
    assert [len(_PARTS.findall(prompt)) for prompt in writer.asked] == [10] * (many // 10) + [
        many % 10, many // 10 + 1
    ]  # fmt: skip
    parts = [part for prompt in writer.asked[:-1] for part in _PARTS.findall(prompt)]
    assert parts == [f"{ids[0]}..{ids[-1]}" for ids in found]
    assert leaves_before_join[0] < many / 2
    assert seen["value"] == f"c{len(writer.asked) - 1}"
    assert (len(seen["behind"]), seen["missing"]) == (10_000, [])


def test_many_thousand_items_pass_by_in_full_pieces(memory_path: Path) -> None:
    """The values of the pieces are all that is kept of them."""
    member = function(lambda data: len(data["items"]))
    most = 0

    def adding(parts: Any) -> int:
        nonlocal most
        values = [part.value for part in parts]
        most = max(values)
        return sum(values)

    items = ({"id": str(n), "text": "word"} for n in range(6_000))
    pattern = dividing(items, combine=adding, prompt=None, fits=Fits(items=150))
    receipt = play(scene_of(memory_path, member, pattern))
    assert (receipt.status, receipt.result, receipt.calls) == ("complete", 6_000, 40)
    assert (outcomes(receipt), most) == ({"passed": 6_000}, 150)


def test_what_fits_the_context_of_everybody_who_may_answer(memory_path: Path) -> None:
    """Of the smallest context, what its longest reply leaves."""
    wide = Scripted(lambda ask, n: Reply("w"), traits("wide", context=900), latency=1.0)
    narrow = Scripted(
        lambda ask, n: Reply("n"), traits("narrow", context=300, max_tokens=100), latency=1.0
    )
    pattern = dividing(reviews(60), combine=collect())
    assert play(scene_of(memory_path, (wide, narrow), pattern)).status == "complete"
    sizes = [estimate_tokens(prompt) for prompt in wide.asked + narrow.asked]
    assert 150 < max(sizes) <= 200


def test_the_schema_takes_its_part_of_the_context(memory_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "title": "x" * 300}}}
    member = Scripted(lambda ask, n: Reply(data={"n": 1}), traits("narrow", context=300))
    pattern = dividing(reviews(60), combine=count(), schema=schema)
    assert play(scene_of(memory_path, member, pattern)).status == "complete"
    assert 60 < max(map(estimate_tokens, member.asked)) <= 200 - 300 // 4


def test_parts_fit_with_the_ids_they_are_shown_under(memory_path: Path) -> None:
    provider = Provider(echoing)
    pattern = dividing(
        "x" * 900, prompt="Sum up: {{ item.id }} {{ item.text }}", fits=Fits(tokens=20),
        split="paragraphs", combine=count(),
    )  # fmt: skip
    assert play(scene_of(memory_path, provider, pattern)).status == "complete"
    assert max(map(estimate_tokens, provider.sent)) <= 20


def test_a_long_text_is_read_in_stretches_and_joined(memory_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "It goes on. " * 12 for n in range(20))
    provider = Provider(echoing)
    pattern = dividing(
        text, prompt="Sum up: {{ item.text }}", fits=Fits(tokens=120), split="paragraphs"
    )
    receipt = play(scene_of(memory_path, provider, pattern))
    asked_about = leaves(provider.sent)
    assert "".join(sorted_by_place(asked_about, text)) == text
    assert all(estimate_tokens(prompt) <= 120 for prompt in asked_about)
    assert (receipt.status, receipt.planned, outcomes(receipt)) == ("complete", 1, {"passed": 1})
    assert isinstance(receipt.result, str)


def sorted_by_place(prompts: list[str], text: str) -> list[str]:
    stretches = [prompt.removeprefix("Sum up: ") for prompt in prompts]
    return sorted(stretches, key=text.index)


def test_a_single_piece_is_reduced_but_not_asked_about_twice(memory_path: Path) -> None:
    provider = Provider(echoing)
    for combine, value in ((collect(), [{"id": "0..2", "value": None}]), (joined(), None)):
        provider.sent.clear()
        pattern = dividing(words(3), combine=combine, fits=Fits(items=3))
        result = play(scene_of(memory_path, provider, pattern, name=str(value))).result
        whole = digest_of(f"{ASK}\n[0] word 0\n[1] word 1\n[2] word 2")
        assert result == (whole if value is None else [{"id": "0..2", "value": whole}])
    assert joins(provider.sent) == []


@pytest.mark.parametrize(
    ("combine", "value"), [(collect(), []), (count(), 0), (concat(), ""), (joined(), None)]
)
def test_of_nothing_there_is_the_reducer_of_nothing(
    memory_path: Path, combine: Any, value: Any
) -> None:
    provider = Provider(echoing)
    receipt = play(
        scene_of(memory_path, provider, dividing([], combine=combine, fits=Fits(items=3)))
    )
    assert (receipt.status, receipt.planned, receipt.result) == ("complete", 0, value)
    assert provider.sent == []


def test_a_function_solves_pieces_and_a_reducer_combines_each_split(memory_path: Path) -> None:
    """Merge sort: numbers in halves until two are left."""

    def halves(data: list[int]) -> list[list[int]]:
        return [data[: len(data) // 2], data[len(data) // 2 :]]

    def merged(parts: Any) -> list[int]:
        return sorted(number for part in parts for number in part.value)

    numbers = Random(3).sample(range(1000), 37)
    pattern = dividing(
        [{"id": "numbers", "data": numbers}], prompt=None, combine=merged,
        fits=Fits(items=1, test=two_at_most), split=lambda d: [{"data": x} for x in halves(d["data"])],
    )  # fmt: skip
    receipt = play(scene_of(memory_path, function(lambda data: sorted(data["data"])), pattern))
    assert (receipt.status, receipt.result) == ("complete", sorted(numbers))
    assert (receipt.planned, outcomes(receipt)) == (1, {"passed": 1})


@pytest.mark.parametrize(
    ("combine", "result", "why"),
    [
        (sort_by("low"), [0, 1, 2, 3, 4, 5, 6, 7], None),
        (top(2, "low"), [3, 2], None),
        (top(1, "none"), None, "divide: combine: reduce: no reply has the field `none`: known: item, low, n"),
    ],
)  # fmt: skip
def test_a_split_may_lack_the_field_that_orders_the_whole(
    memory_path: Path, combine: Any, result: list[int] | None, why: str | None
) -> None:
    """That no piece has it is known when all are there."""

    def halves(item: dict[str, Any]) -> list[dict[str, Any]]:
        data = item["data"]
        return [{"data": data[: len(data) // 2]}, {"data": data[len(data) // 2 :]}]

    def answer(item: dict[str, Any]) -> list[dict[str, int]]:
        return [{"low": n, "n": n} if n < 4 else {"n": n} for n in item["data"]]

    pattern = dividing(
        [{"id": "all", "data": [*range(8)]}], prompt=None, combine=combine, split=halves,
        fits=Fits(items=1, test=two_at_most),
    )  # fmt: skip
    receipt = play(scene_of(memory_path, function(answer), pattern))
    assert receipt.reason == why
    found = None if receipt.result is None else [record["n"] for record in receipt.result]
    assert found == result


def two_at_most(piece: Piece) -> bool:
    return len(piece.items[0].data["data"]) <= 2


def test_a_gate_finds_quotes_in_any_item_of_a_piece(memory_path: Path) -> None:
    def quoting(data: dict[str, Any]) -> dict[str, str]:
        return {"evidence": data["items"][-1]["text"]}

    pattern = dividing(
        reviews(9), prompt=None, combine=count(), fits=Fits(items=4), gate=quotes("evidence")
    )
    receipt = play(scene_of(memory_path, function(quoting), pattern))
    assert (receipt.status, outcomes(receipt), receipt.result) == ("complete", {"passed": 9}, 3)


# ── asked to split ───────────────────────────────────────────────────────────────────────────

SPLIT = "Split it."


def splitting(ask: Ask, n: int) -> Said:
    """Halves of what stands under the heading, as a JSON list."""
    prompt = ask.messages[0].content
    if not prompt.startswith(SPLIT):
        return echoing(ask, n)
    text = prompt.split("\n", 3)[3]
    middle = len(text) // 2
    return Said(Reply(f'["{text[:middle]}", "{text[middle:]}"]', usage=USAGE), USAGE, 1.0)


def test_a_member_is_asked_to_split_and_what_it_gives_is_split_again(memory_path: Path) -> None:
    provider = Provider(splitting)
    pattern = dividing(
        "abcdefgh" * 5, prompt="Sum up: {{ item.text }}", fits=Fits(tokens=5),
        split=asked(SPLIT, step="split"), combine=collect(),
    )  # fmt: skip
    receipt = play(scene_of(memory_path, provider, pattern))
    texts = [prompt.removeprefix("Sum up: ") for prompt in leaves(provider.sent)]
    assert texts == ["abcdefghab", "cdefghabcd", "efghabcdef", "ghabcdefgh"]
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 1})
    assert [one["id"] for one in receipt.result] == ["0/1", "0/2"]
    assert [step.calls for step in receipt.steps if step.name == "split"] == [3]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("no idea", "its splitter gave no list of pieces: it takes two"),
        ('["one"]', "its splitter gave 1 pieces: it takes two"),
        (f'["x", "{"long " * 20}"]', "its splitter gave it back whole"),
    ],
)
def test_a_member_that_does_not_split_fails_the_item_and_only_it(
    memory_path: Path, reply: str, why: str
) -> None:
    provider = Provider(except_for({SPLIT: Reply(reply, usage=USAGE)}))
    items = ["short", "long " * 20, "also short"]
    seen: dict[str, Any] = {}
    pattern = dividing(items, seen, fits=Fits(tokens=12), split=asked(SPLIT, step="split"))
    receipt = play(scene_of(memory_path, provider, pattern))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 2, "failed": 1})
    assert seen["missing"] == [Missing("1", 1, "failed", (f"`1` does not fit, and {why}",))]


def test_an_object_with_one_list_and_texts_for_a_record_are_pieces_too(memory_path: Path) -> None:
    provider = Provider(except_for({SPLIT: Reply(data={"pieces": ["ab", "cd"]}, usage=USAGE)}))
    items = [{"id": "doc", "lang": "en", "text": "abcd" * 10}]
    pattern = dividing(
        items, prompt="Sum up: {{ item.lang }} {{ item.text }}", fits=Fits(tokens=6),
        split=asked(SPLIT, step="split"),
    )  # fmt: skip
    assert play(scene_of(memory_path, provider, pattern)).status == "complete"
    assert leaves(provider.sent) == ["Sum up: en ab", "Sum up: en cd"]


# ── too long for the member ──────────────────────────────────────────────────────────────────


def test_a_piece_that_the_member_finds_too_long_is_split_further(memory_path: Path) -> None:
    """Also under `abort`: it has not failed."""
    provider = Provider(short_sighted(120))
    seen: dict[str, Any] = {}
    pattern = dividing(words(40), seen, fits=Fits(items=20), on_failure="abort")
    receipt = play(scene_of(memory_path, provider, pattern))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 40})
    paid = [prompt for prompt in leaves(provider.sent) if len(prompt) <= 120]
    assert sorted((id for ids in ids_in(paid) for id in ids), key=int) == [
        str(n) for n in range(40)
    ]
    assert len(leaves(provider.sent)) - len(paid) == 6
    assert seen["behind"] == [str(n) for n in range(40)]


def test_a_text_that_the_member_finds_too_long_is_cut_further(memory_path: Path) -> None:
    text = " ".join(f"word{n}" for n in range(60))
    provider = Provider(short_sighted(100))
    pattern = dividing(
        ["tiny", text], prompt="Sum up: {{ item.text }}", fits=Fits(tokens=1000), split="paragraphs"
    )
    receipt = play(scene_of(memory_path, provider, pattern))
    paid = [prompt for prompt in leaves(provider.sent) if len(prompt) <= 100]
    stretches = sorted_by_place([one for one in paid if "word" in one], text)
    assert "".join(stretches) == text
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 2})


def test_too_long_and_not_to_be_split_fails_with_both_reasons(memory_path: Path) -> None:
    provider = Provider(short_sighted(60))
    seen: dict[str, Any] = {}
    items = ["short", "long " * 20]
    receipt = play(scene_of(memory_path, provider, dividing(items, seen, fits=Fits(items=9))))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 1, "failed": 1})
    assert seen["missing"] == [
        Missing("1", 1, "failed", (
            "prompt is too long",
            "`1` does not fit, and one item is not split: use split paragraphs or a function, or"
            " let more fit",
        ))
    ]  # fmt: skip
    (join,) = joins(provider.sent)
    assert (_PARTS.findall(join), seen["value"]) == (["0"], digest_of(join))
    assert join.endswith("There is no answer for: 1 (failed)")


@pytest.mark.parametrize(
    ("caps", "why"),
    [
        ({"max_depth": 2}, "`0/1/1` still does not fit after 2 splits"),
        ({"max_pieces": 3}, "more than 3 pieces"),
    ],
)
def test_a_cap_that_is_met_on_the_way_fails_that_piece(
    memory_path: Path, caps: dict[str, int], why: str
) -> None:
    provider = Provider(short_sighted(20))
    seen: dict[str, Any] = {}
    pattern = dividing(
        "abcdefghij" * 20, seen, prompt="Sum up: {{ item.text }}", fits=Fits(tokens=1000),
        split="paragraphs", **caps,
    )  # fmt: skip
    receipt = play(scene_of(memory_path, provider, pattern))
    assert (receipt.status, outcomes(receipt), receipt.result) == ("flagged", {"failed": 1}, None)
    (missing,) = seen["missing"]
    assert missing.reasons[-1].removeprefix("0/1/1: ").removeprefix("0/1: ").startswith(why)


# ── what fails ───────────────────────────────────────────────────────────────────────────────


def test_a_leaf_that_fails_is_named_to_the_combines_above_it_and_the_rest_goes_on(
    memory_path: Path,
) -> None:
    provider = Provider(except_for({"[7]": Terminal("refused", scope="ask")}))
    seen: dict[str, Any] = {}
    pattern = dividing(words(40), seen, fits=Fits(items=2), combine=joined(fan_in=4))
    receipt = play(scene_of(memory_path, provider, pattern))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 38, "failed": 2})
    told = [prompt for prompt in joins(provider.sent) if "There is no answer for" in prompt]
    assert _PARTS.findall(told[0]) == ["0..1", "2..3", "4..5"]
    assert told[-1] == joins(provider.sent)[-1], "the last one knows of all"
    assert {prompt.rpartition("\n\n")[2] for prompt in told} == {
        "There is no answer for: 6 (failed), 7 (failed)"
    }
    assert seen["missing"] == [
        Missing(str(n), n, "failed", ("refused",)) for n in (6, 7)
    ]  # fmt: skip
    assert seen["behind"] == [str(n) for n in range(40) if n not in (6, 7)]
    assert seen["value"] is not None


def test_an_item_of_many_pieces_fails_with_the_first_that_did(memory_path: Path) -> None:
    provider = Provider(except_for({"gamma": Terminal("refused", scope="ask")}))
    text = "alpha beta.\n\ngamma delta.\n\ngamma zeta."
    seen: dict[str, Any] = {}
    pattern = dividing(
        [{"id": "doc", "text": text}, "other"], seen, prompt="Sum up: {{ item.text }}",
        fits=Fits(tokens=6), split="paragraphs",
    )  # fmt: skip
    receipt = play(scene_of(memory_path, provider, pattern))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 1, "failed": 1})
    assert seen["missing"] == [Missing("doc", 0, "failed", ("doc/2: refused",))]
    first, last = joins(provider.sent)
    assert first.endswith("There is no answer for: doc/2 (failed), doc/3 (failed)")
    assert _PARTS.findall(last) == ["doc", "1"]


def test_a_group_of_which_nothing_is_left_is_named_from_one_level_up_on(memory_path: Path) -> None:
    gone: dict[str, Reply | Exception] = {
        f"[{n}]": Terminal("refused", scope="ask") for n in (0, 1)
    }
    provider = Provider(except_for(gone))
    pattern = dividing(words(8), fits=Fits(items=1), combine=joined(fan_in=2))
    assert play(scene_of(memory_path, provider, pattern)).status == "flagged"
    told, last = [prompt for prompt in joins(provider.sent) if "no answer" in prompt]
    assert _PARTS.findall(told) == ["2..3"]
    assert told.endswith("There is no answer for: 0 (failed), 1 (failed)")
    assert last == joins(provider.sent)[-1]


def test_what_a_filter_skipped_is_not_named_as_missing(memory_path: Path) -> None:
    provider = Provider(except_for({"[3]": Reply("irrelevant", usage=USAGE)}))
    pattern = dividing(words(6), fits=Fits(items=1), keep=lambda value: value != "irrelevant")
    receipt = play(scene_of(memory_path, provider, pattern))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 5, "skipped": 1})
    (join,) = joins(provider.sent)
    assert _PARTS.findall(join) == ["0", "1", "2", "4", "5"] and "no answer" not in join


def test_a_filter_skips_pieces_without_a_flaw(memory_path: Path) -> None:
    pattern = dividing(
        words(9), prompt=None, combine=total(), fits=Fits(items=3),
        keep=lambda value: value != 3,
    )  # fmt: skip
    odd = function(lambda data: len(data["items"]) + ("word 4" in data["items"]))
    receipt = play(scene_of(memory_path, odd, pattern))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 3, "skipped": 6})
    assert receipt.result == 4


def test_when_nothing_passes_there_is_no_answer_to_ask_for(memory_path: Path) -> None:
    for combine, value in ((joined(), None), (collect(), [])):
        provider = Provider(except_for({ASK: Terminal("refused", scope="ask")}))
        pattern = dividing(words(6), combine=combine, fits=Fits(items=2))
        receipt = play(scene_of(memory_path, provider, pattern, name=str(value)))
        assert (receipt.status, outcomes(receipt)) == ("flagged", {"failed": 6})
        assert (receipt.result, joins(provider.sent)) == (value, [])


def test_a_combine_that_fails_gives_no_result_and_the_others_are_not_paid_for(
    memory_path: Path,
) -> None:
    """It is gated like any ask: here no reply passes. Those under way by then end, no more begin."""
    provider = Provider(echoing)
    combine = joined(fan_in=2, gate=regex("^impossible$"), revise=0, concurrency=1)
    pattern = dividing(words(60), fits=Fits(items=1), combine=combine, concurrency=4)
    receipt = play(scene_of(memory_path, provider, pattern))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 60})
    assert receipt.result is None and (receipt.reason or "").startswith("combine: kicked: ")
    combined = [part for prompt in joins(provider.sent) for part in _PARTS.findall(prompt)]
    assert 2 <= len(combined) <= 12 and all(".." not in part for part in combined)


def clumsy(parts: Any) -> Any:
    raise KeyError("severity")


@pytest.mark.parametrize(
    ("combine", "why"),
    [
        (clumsy, "divide: combine: raised KeyError: 'severity'"),
        (total(), "divide: combine: reduce: item `0..1`: not a number"),
        (lambda parts: object(), "divide: combine: gave a object that is not JSON"),
    ],
)
def test_a_reducer_that_raises_flags_the_run_and_loses_no_item(
    memory_path: Path, combine: Any, why: str
) -> None:
    pattern = dividing(words(6), fits=Fits(items=2), combine=combine)
    receipt = play(scene_of(memory_path, Provider(echoing), pattern))
    assert (receipt.status, outcomes(receipt), receipt.result) == ("flagged", {"passed": 6}, None)
    assert (receipt.reason or "").startswith(why)


def test_held_pieces_hold_up_the_combines_above_them(memory_path: Path) -> None:
    """So that nothing is paid for twice when they are tried again."""
    sick = Provider(except_for({"[3]": Terminal("refused", scope="ask")}))
    pattern = dividing(words(8), fits=Fits(items=1), combine=joined(fan_in=2), on_failure="hold")
    scene = scene_of(memory_path, sick, pattern)
    receipt = play(scene)
    assert (receipt.status, receipt.result) == ("paused", None)
    assert outcomes(receipt) == {"passed": 7, "failed": 1}
    well = Provider(echoing)
    again = play(replace(scene, members=(well,)), resume=True)
    assert (again.status, outcomes(again)) == ("complete", {"passed": 8})
    assert (ids_in(leaves(well.sent)), len(joins(sick.sent)), len(joins(well.sent))) == (
        [["3"]],
        4,
        3,
    )
    assert set(joins(sick.sent)).isdisjoint(well.sent)


def test_a_piece_in_doubt_waits_for_the_operator(memory_path: Path) -> None:
    lost = Provider(except_for({"[2]": TimedOut("no answer")}))
    pattern = dividing(words(6), fits=Fits(items=2), in_doubt="hold")
    scene = scene_of(memory_path, lost, pattern)
    receipt = play(scene)
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 4, "in_doubt": 2})
    assert joins(lost.sent) == []
    freed = replace(scene, members=(Provider(echoing),), settings={**YES, "retry_in_doubt": None})
    again = play(freed, resume=True)
    assert (again.status, again.maybe_paid_twice) == ("complete", 1)


def test_abort_stops_at_the_first_item_that_fails(memory_path: Path) -> None:
    provider = Provider(except_for({"[4]": Terminal("refused", scope="ask")}))
    pattern = dividing(
        words(40), fits=Fits(items=2), on_failure="abort", combine=count(), concurrency=1
    )
    receipt = play(scene_of(memory_path, provider, pattern))
    assert (receipt.status, receipt.reason) == ("aborted", "4: refused")
    assert outcomes(receipt)["failed"] == 2
    assert outcomes(receipt)["cancelled"] >= 30, "only what was under way has ended"


def test_aborted_by_the_last_item_there_is_no_result(memory_path: Path) -> None:
    provider = Provider(except_for({"[1]": Terminal("refused", scope="ask")}))
    pattern = dividing(
        words(2), fits=Fits(items=1), on_failure="abort", combine=count(), concurrency=1
    )
    receipt = play(scene_of(memory_path, provider, pattern))
    assert (receipt.status, receipt.reason, receipt.result) == ("aborted", "1: refused", None)


# ── refused before anything is asked ─────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("items", "how", "why"),
    [
        (words(3), {}, "no member that may answer states a context.*fits=Fits"),
        ("a text", {}, "no member that may answer states a context.*fits=Fits"),
        (words(9), {"fits": Fits(items=2), "max_pieces": 4}, "more than 4 pieces.*max_pieces"),
        (
            ["ab" * 50], {"fits": Fits(tokens=10), "split": lambda s: [s[:1], s[1:]],
            "max_depth": 3}, "`0/2/2/2` still does not fit after 3 splits",
        ),
        (words(3), {"fits": Fits(items=2), "split": "pages"}, "unknown split `pages`"),
        (
            words(3), {"fits": Fits(items=2), "prompt": "About {{ item.text }}"},
            "a piece may have 2 items, but the prompt shows only `item`",
        ),
        (
            [{"id": "a"}, {"id": "b"}, {"id": "a"}], {"fits": Fits(items=2)},
            "duplicate id 'a': item 0 and item 2",
        ),
        (
            words(3), {"fits": Fits(items=2), "combine": joined(member="nobody")},
            "there is no member `nobody`",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_is_asked(
    memory_path: Path, items: Any, how: dict[str, Any], why: str
) -> None:
    provider = Provider(echoing)
    with pytest.raises(BadInput, match=why):
        play(scene_of(memory_path, provider, dividing(items, **how)))
    assert provider.sent == []


def test_a_context_without_room_is_refused(memory_path: Path) -> None:
    member = Scripted(lambda ask, n: Reply("x"), traits("tiny", context=100, max_tokens=100))
    with pytest.raises(BadInput, match="the context of member tiny is used up by its max_tokens"):
        play(scene_of(memory_path, member, dividing(words(3))))


def test_an_item_the_prompt_cannot_be_made_for_fails_alone(memory_path: Path) -> None:
    items: list[Any] = [{"id": str(n), "text": "fine"} for n in range(6)]
    del items[2]["text"]
    seen: dict[str, Any] = {}
    provider = Provider(echoing)
    receipt = play(scene_of(memory_path, provider, dividing(items, seen, fits=Fits(items=6))))
    assert (receipt.status, outcomes(receipt)) == ("flagged", {"passed": 5, "failed": 1})
    (missing,) = seen["missing"]
    assert (missing.id, "there is no field `text`" in missing.reasons[0]) == ("2", True)
    assert sorted(ids_in(leaves(provider.sent))) == [["0", "1"], ["3", "4", "5"]]


def test_more_pieces_than_approved_pause_the_run_before_the_first(memory_path: Path) -> None:
    provider = Provider(echoing)
    pattern = dividing(words(30), fits=Fits(items=2))
    scene = scene_of(memory_path, provider, pattern, settings={"govern": Govern(max_tasks=14)})
    receipt = play(scene)
    assert (receipt.status, outcomes(receipt), provider.sent) == ("paused", {"cancelled": 30}, [])
    assert "divide would ask 15 tasks that were not in the preview" in (receipt.reason or "")
    assert play(replace(scene, settings=YES), resume=True).status == "complete"


def test_what_a_too_long_piece_adds_is_governed_too(memory_path: Path) -> None:
    provider = Provider(short_sighted(60))
    pattern = dividing(words(16), fits=Fits(items=8))
    scene = scene_of(memory_path, provider, pattern, settings={"govern": Govern(cap=3)})
    receipt = play(scene)
    assert (receipt.status, outcomes(receipt)) == ("paused", {"cancelled": 16})
    assert all(len(prompt) > 60 for prompt in provider.sent)
    again = play(replace(scene, settings=YES), resume=True)
    assert (again.status, outcomes(again)) == ("complete", {"passed": 16})


# ── crashes, pauses, dying members ───────────────────────────────────────────────────────────

POINTS = 12


def mixed() -> list[Any]:
    """Short ones, and two that are split at their paragraphs; some leaves are too long."""
    long = "\n\n".join(f"Paragraph {n} of a long one." for n in range(9))
    return [*words(40), {"id": "long", "text": long}, *[f"tail {n}" for n in range(9)]]


CRASHING: dict[str, Any] = {
    "fits": Fits(tokens=30), "split": "paragraphs", "combine": joined(fan_in=3), "concurrency": 4,
}  # fmt: skip
WIDEST = 100


def durable(store: Path, prompts: set[str]) -> set[str]:
    """Of these prompts, those whose reply is on disk."""
    keys = {Ask((Message("user", prompt),)).key("messages"): prompt for prompt in prompts}
    with closing(sqlite3.connect(store / "journal.db")) as db:
        return {keys[key] for (key,) in db.execute("select key from replies")}


def paid(sent: list[str]) -> list[str]:
    return [prompt for prompt in sent if prompt.startswith(JOIN) or len(prompt) <= WIDEST]


def test_killed_at_any_point_nothing_is_paid_twice(memory_path: Path) -> None:
    """Neither a piece nor a combine: the rest is asked for once, and the result is the same."""
    first = Provider(short_sighted(WIDEST))
    scene = scene_of(memory_path / "store", first, dividing(mixed(), **CRASHING))
    count: list[int] = []
    whole = play(scene, after_commit=count.append)
    assert (whole.status, outcomes(whole)) == ("complete", {"passed": 50})
    assert len(first.sent) > len(paid(first.sent)), "no piece was too long"
    points = set(Random(5).sample(count, POINTS))
    camera = Camera(memory_path / "again", memory_path / "images", lambda: None)
    camera.wanted = points.__contains__
    play(replace(scene, store=memory_path / "again"), after_commit=camera)
    assert len(camera.seen) == POINTS
    needed = set(paid(first.sent))
    interrupted = 0
    for image in camera.seen:
        known = durable(image, needed)
        interrupted += bool(joins([*known])) and known != needed
        second = Provider(short_sighted(WIDEST))
        receipt = play(replace(scene, store=image, members=(second,)), resume=True)
        assert (outcomes(receipt), receipt.result) == ({"passed": 50}, whole.result)
        assert sorted(paid(second.sent)) == sorted(needed - known)
    assert interrupted >= 4, "too few of the points were in the midst of the combines"


@pytest.mark.parametrize("seconds", [1.5, 4.5, 6.5])
def test_paused_what_is_under_way_ends_and_is_not_asked_for_again(
    memory_path: Path, seconds: float
) -> None:
    provider = Provider(short_sighted(WIDEST))
    scene = scene_of(memory_path, provider, dividing(mixed(), **CRASHING))
    paused = play(scene, meanwhile=pause_at(seconds))
    assert (paused.status, paused.maybe_paid_twice, paused.result) == ("paused", 0, None)
    assert sum(outcomes(paused).values()) == 50
    resumed = play(scene, resume=True)
    assert (resumed.status, outcomes(resumed)) == ("complete", {"passed": 50})
    assert sorted(set(paid(provider.sent))) == sorted(paid(provider.sent))
    assert dollars(provider.bill) == resumed.cost_usd


def dying(after: int, id: str) -> Provider:
    """Its account is closed after so many calls."""

    def says(ask: Ask, n: int) -> Said:
        gone = Terminal("the key was revoked", scope="pool")
        return echoing(ask, n) if n < after else Said(gone, seconds=1.0)

    return Provider(says, traits(id, price=PRICE, max_tokens=400))


def test_a_member_that_dies_half_way_is_replaced_by_another(memory_path: Path) -> None:
    mortal, other = dying(9, "mortal"), Provider(echoing, traits("other", max_tokens=400))
    pattern = dividing(words(60), fits=Fits(items=2), combine=joined(fan_in=3))
    receipt = play(scene_of(memory_path, (mortal, other), pattern))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 60})
    assert receipt.result is not None and len(mortal.sent) > 9


def test_when_the_only_member_dies_the_run_pauses_and_goes_on_with_another(
    memory_path: Path,
) -> None:
    """In the midst of the leaves, or of the combines; what it answered is not asked for again."""
    for after in (9, 33):
        mortal = dying(after, "m")
        pattern = dividing(words(60), fits=Fits(items=2), combine=joined(fan_in=3))
        scene = scene_of(memory_path / str(after), mortal, pattern)
        paused = play(scene)
        assert (paused.status, paused.result) == ("paused", None)
        answered = mortal.sent[:after]
        healthy = Provider(echoing, traits("m", price=PRICE, max_tokens=400))
        resumed = play(replace(scene, members=(healthy,)), resume=True)
        assert (resumed.status, outcomes(resumed)) == ("complete", {"passed": 60})
        assert set(answered).isdisjoint(healthy.sent)
        assert len(answered) + len(healthy.sent) == 30 + 10 + 3 + 1 + 1


def test_a_busy_member_is_tried_again(memory_path: Path) -> None:
    member = Scripted(lambda ask, n: Transient("503") if n % 3 == 0 else Reply("fine"))
    pattern = dividing(words(20), fits=Fits(items=2), combine=collect())
    receipt = play(scene_of(memory_path, member, pattern))
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 20})


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────


def narrow_server(asked: script.Asked) -> Says:
    """Above 200 characters a piece is too long."""
    if len(asked.prompt) > 200 and not asked.prompt.startswith(JOIN):
        return Says(status=400, code="context_length_exceeded")
    return Says(text=digest_of(asked.prompt))


def journaled(folder: Path, url: str, name: str) -> Receipt:
    async def main() -> Receipt:
        journal = open_store(folder)
        try:
            pattern = dividing(reviews(40), fits=Fits(items=8), combine=joined(fan_in=4))
            scene = scene_of(folder, OpenAI(like(), url, lambda: "key"), pattern, name=name)
            return await carry_out(journal, scene, RealClock())
        finally:
            journal.close()

    return asyncio.run(main())


def test_over_http_with_a_server_that_refuses_long_prompts(tmp_path: Path) -> None:
    """A second run of the same asks only for what is not on record: the refused ones."""
    books, says = tmp_path / "books.jsonl", "tests.flow.test_divide:narrow_server"
    with threaded_server(books, script=says, price=PRICE, latency_ms=2.0) as server:
        first = journaled(tmp_path / "store", server.url, "first")
        second = journaled(tmp_path / "store", server.url, "second")
        server.wait_idle()
        entries = server.books().asked
        assert dollars(server.books().bill) == first.cost_usd > 0
    assert (first.status, outcomes(first)) == ("complete", {"passed": 40})
    answered = [entry.prompt for entry in entries if entry.status == 200]
    assert sorted(set(answered)) == sorted(answered)
    found = sorted(
        (id for ids in ids_in(leaves(answered)) for id in ids), key=lambda id: int(id[1:])
    )
    assert found == [f"r{n}" for n in range(40)]
    assert isinstance(first.result, str) and first.result.startswith("<")
    assert (second.cost_usd, second.reused, second.result) == (0.0, len(answered), first.result)
