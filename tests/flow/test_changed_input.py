"""An input that changes while the run reads it: what was not planned is never asked about, and no
answer stands under the id of another item. The run pauses and names what differs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fanfold.journal import opening
from fanfold.patterns.map_reduce import map_reduce
from fanfold.patterns.pipeline import pipeline, stage
from fanfold.plans.header import Input
from fanfold.plans.inputs import open_input
from fanfold.run.run import Run
from fanfold.testing.member import Scripted
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.item import Item
from fanfold.work.outcome import Receipt
from tests.flow.simulation import Scene, outcomes, play

LONG = "x" * 8000  # 300 such lines are more than what is read ahead


def line(n: int, text: str) -> str:
    return json.dumps({"id": f"id-{n}", "text": text, "long": LONG}) + "\n"


def echo(ask: Ask, n: int) -> Reply:
    return Reply(ask.messages[0].content, usage=Usage(1, 1))


def at_first(act: Callable[[], object], then: Any = echo) -> Scripted:
    """A member that answers what it was asked; `act` is done when it is asked for the first time."""

    def script(ask: Ask, n: int) -> Any:
        if n == 0:
            act()
        return then(ask, n)

    return Scripted(script)


def answers(store: Path) -> dict[str, str]:
    archive = opening.look(store)
    try:
        run = archive.read.find("scene")
        assert run is not None
        return {one.id: str(one.value) for one in archive.read.endings(run.no, ("passed",))}
    finally:
        archive.close()


def mapped(folder: Path, act: Callable[[Path], object]) -> tuple[Receipt, Scripted]:
    """A map over 300 lines; the file is changed when the first of them is asked about."""
    file = folder / "items.jsonl"
    file.write_text("".join(line(n, f"word {n}") for n in range(300)))
    member = at_first(lambda: act(file))
    source = open_input(Input("jsonl", str(file)), folder)
    return play(Scene(folder / "store", (member,), source, how={"reduce": None})), member


def test_a_file_rewritten_in_place_is_refused_by_name_and_no_answer_stands_under_another_id(
    memory_path: Path,
) -> None:
    def reverse(file: Path) -> None:
        file.write_text("".join(line(n, f"word {n}") for n in reversed(range(300))))

    receipt, _ = mapped(memory_path, reverse)
    assert (receipt.status, receipt.planned) == ("paused", 300)
    assert sum(outcomes(receipt).values()) == 300
    found = answers(memory_path / "store")
    assert 0 < len(found) < 300
    assert found == {f"id-{n}": f"Say word {n}" for n in range(len(found))}
    reason = receipt.reason or ""
    assert re.search(r"items\.jsonl:1\d\d: item 'id-1\d\d' (is not what|was planned as)", reason)
    assert "resume" in reason and "new run" in reason


def test_lines_that_were_appended_are_never_asked_about(memory_path: Path) -> None:
    """All that was planned is done; then the run pauses, and says that there is more."""

    def append(file: Path) -> None:
        with file.open("a") as more:
            more.writelines(line(n, f"word {n}") for n in range(300, 350))

    receipt, member = mapped(memory_path, append)
    assert (receipt.status, receipt.planned, receipt.passed) == ("paused", 300, 300)
    assert len(member.asked) == 300
    assert "items.jsonl:301: item 'id-300' was added after" in (receipt.reason or "")


def test_a_file_that_was_cut_short_is_refused_and_the_first_that_is_gone_is_named(
    memory_path: Path,
) -> None:
    def cut(file: Path) -> None:
        with file.open("r+b") as stream:
            stream.truncate(len(line(0, "word 0")) * 250 - 1)

    receipt, _ = mapped(memory_path, cut)
    assert receipt.status == "paused"
    assert sum(outcomes(receipt).values()) == 300
    assert "items.jsonl" in (receipt.reason or "") and "the input changed" in (receipt.reason or "")


# ── every kind of input ──────────────────────────────────────────────────────────────────────


def two_stages(items: Any) -> Callable[[Run], Any]:
    """The second stage reads the items again when the first has ended."""

    async def work(run: Run) -> None:
        stages = (stage("Say {{ item.text }}"), stage("Again {{ item.text }}"))
        await pipeline(run, items, *stages, mode="batch")

    return work


def jsonl(texts: list[str]) -> str:
    return "".join(json.dumps({"id": f"id-{n}", "text": t}) + "\n" for n, t in enumerate(texts))


WRITTEN: dict[str, Callable[[list[str]], str]] = {
    "jsonl": jsonl,
    "json": lambda texts: json.dumps([{"id": f"id-{n}", "text": t} for n, t in enumerate(texts)]),
    "csv": lambda texts: "text\n" + "".join(f"{text}\n" for text in texts),
    "lines": lambda texts: "".join(f"{text}\n" for text in texts),
}
THEN = {
    "changed": ["a", "b", "other"],
    "shorter": ["a", "b"],
    "removed": None,
}


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("kind", WRITTEN)
def test_any_file_that_is_read_again_must_be_what_was_planned(
    memory_path: Path, kind: Any, then: str
) -> None:
    file, write = memory_path / f"items.{kind}", WRITTEN[kind]
    file.write_text(write(["a", "b", "c"]))
    texts = THEN[then]
    member = at_first(file.unlink if texts is None else lambda: file.write_text(write(texts)))
    source = open_input(Input(kind, str(file)), memory_path)
    refused(memory_path, member, source, str(file))


def refused(folder: Path, member: Scripted, source: Any, name: str) -> None:
    """The first stage is done as planned, the second one pauses and names what differs."""
    receipt = play(Scene(folder / "store", (member,), pattern=two_stages(source)))
    assert (receipt.status, receipt.planned) == ("paused", 3)
    assert sum(outcomes(receipt).values()) == 3
    assert name in (receipt.reason or "") and "the input changed" in (receipt.reason or "")
    again = [text for text in member.asked if text.startswith("Again")]
    assert set(again) <= {"Again a", "Again b", "Again c"}


def test_one_of_many_files_that_changes_is_refused_by_its_name(memory_path: Path) -> None:
    for name in "abc":
        (memory_path / f"{name}.txt").write_text(name)
    member = at_first(lambda: (memory_path / "b.txt").write_text("other"))
    refused(memory_path, member, open_input(Input("files", "*.txt"), memory_path), "b.txt: item")


@pytest.mark.parametrize("kind", ["command"])
def test_what_a_program_gave_is_checked_too(memory_path: Path, kind: Any) -> None:
    """Its output is kept in the store, where somebody may change it."""
    command = [sys.executable, "-c", f"print({jsonl(['a', 'b', 'c'])!r})"]
    source = open_input(Input(kind, command), memory_path, spool=memory_path / "spool")
    (kept,) = (memory_path / "spool").iterdir()
    member = at_first(lambda: kept.write_text(jsonl(["a", "other", "c"])))
    where = f"the output of `{sys.executable}`:2"
    refused(memory_path, member, source, f"{where}: item 'id-1' is not what was planned")


def test_a_list_that_the_script_changes_meanwhile_is_refused(memory_path: Path) -> None:
    items = [{"id": f"id-{n}", "text": text} for n, text in enumerate("abc")]
    member = at_first(lambda: items[1].update(text="other"))
    refused(memory_path, member, items, "item 1: item 'id-1' is not what was planned")


class Moody:
    """A source of a user's own that says something else the second time."""

    def __init__(self) -> None:
        self.walks = 0

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        self.walks += 1
        for n, text in enumerate("abc" if self.walks < 3 else "acb"):
            yield n, Item(f"id-{n}", {"text": text})

    def fingerprint(self) -> str:
        return "moody"


def test_a_source_that_gives_other_items_the_second_time_is_refused(memory_path: Path) -> None:
    member = Scripted(echo)
    refused(memory_path, member, Moody(), "item 1: item 'id-1' is not what was planned")


# ── what is no change ────────────────────────────────────────────────────────────────────────


def test_a_function_may_change_the_item_that_it_was_given(memory_path: Path) -> None:
    """It has a copy: the next stage, and the script's own list, have the item as planned."""
    items = [{"id": "a", "text": "a", "more": {"list": [1]}}]
    seen: list[Any] = []

    def script(ask: Ask, n: int) -> Reply:
        data = ask.items[0].data
        seen.append(json.loads(json.dumps(data)))
        data["text"] = "changed"
        data["more"]["list"].append(2)
        return echo(ask, n)

    scene = Scene(memory_path / "store", (Scripted(script),), pattern=two_stages(items))
    assert (play(scene).status, len(seen)) == ("complete", 2)
    assert seen[1]["more"] == {"list": [1]} and items[0]["more"] == {"list": [1]}


def test_a_run_that_paused_for_its_input_goes_on_when_that_is_restored(memory_path: Path) -> None:
    file = memory_path / "items.jsonl"
    file.write_text(jsonl(["a", "b", "c"]))
    member = at_first(lambda: file.write_text(jsonl(["a", "other", "c"])))
    source = open_input(Input("jsonl", str(file)), memory_path)
    scene = Scene(memory_path / "store", (member,), pattern=two_stages(source))
    assert play(scene).status == "paused"
    file.write_text(jsonl(["a", "b", "c"]))
    again = play(scene, resume=True)
    assert (again.status, outcomes(again)) == ("complete", {"passed": 3})
    assert sorted(member.asked) == sorted(
        [*(f"Say {t}" for t in "abc"), *(f"Again {t}" for t in "abc")]
    )


def test_a_source_that_gives_what_it_should_leave_out_does_no_harm(memory_path: Path) -> None:
    """`skip` spares work; a source of a user's own may ignore it."""

    class All(Moody):
        def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
            return ((n, Item(f"id-{n}", {"text": text})) for n, text in enumerate("abc"))

    async def work(run: Run) -> None:
        await map_reduce(run, All(), prompt="Say {{ item.text }}")

    member = Scripted(echo)
    scene = Scene(memory_path / "store", (member,), pattern=work)
    assert outcomes(play(scene)) == {"passed": 3}
    assert (outcomes(play(scene, resume=True)), len(member.asked)) == ({"passed": 3}, 3)
