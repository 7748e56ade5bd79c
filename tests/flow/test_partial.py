"""A reduce that bends: an ask of a tree that gets no reply pauses the run, or is done without, with
its items named as missing in the ask above it, in the result's files and in what the run says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, Terminal
from fanfold.patterns.asked_reduce import asked
from fanfold.patterns.divide import divide_and_conquer
from fanfold.patterns.ensemble import ensemble
from fanfold.patterns.scatter import scatter_gather
from fanfold.run.run import Run
from fanfold.testing.member import Scripted
from fanfold.testing.script import Asked, Says
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import Missing, Part
from fanfold.work.pieces import Fits
from tests.examples import seeds
from tests.flow.killed_plans import carried_through
from tests.flow.simulation import Scene, outcomes, play, words

SHOWN = "Sum of {{ parts | map(attribute='ids') | list }} without {{ missing | map(attribute='id') | list }}"


def answering(*bad: str, fails: list[bool] | None = None) -> Scripted:
    """Sums of these items fail, as long as the list says so."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        text = ask.messages[0].content
        if (fails is None or fails) and any(text.startswith(f"Sum of {one}") for one in bad):
            return Terminal("refused", scope="ask")
        return Reply("fine" if text.startswith("Say") else "a sum", usage=Usage(1, 1))

    return Scripted(script)


def sums(member: Scripted) -> list[str]:
    return [text.removeprefix("Sum of ") for text in member.asked if text.startswith("Sum")]


def scene(store: Path, member: Scripted, n: int, **how: Any) -> Scene:
    reduce = asked(SHOWN, fan_in=2, **how)
    return Scene(store, (member,), words(n), how={"reduce": reduce, "revise": 0})


def test_a_node_without_a_reply_pauses_the_run_and_resumed_it_is_tried_again(
    memory_path: Path,
) -> None:
    fails = [True]
    member = answering('[["2"], ["3"]]', fails=fails)
    first = play(scene(memory_path, member, 8))
    assert (first.status, outcomes(first)) == ("paused", {"passed": 8})
    assert first.reason == (
        "reduce: failed: refused; all that passed is on record, resume to try this again"
    )
    fails.clear()
    second = play(scene(memory_path, member, 8), resume=True)
    assert (second.status, second.result) == ("complete", "a sum")
    again = [text for text in set(member.asked) if member.asked.count(text) > 1]
    assert [text for text in again if '[["2"], ["3"]]' not in text] == []


def test_partial_goes_on_without_it_and_names_the_gap(memory_path: Path) -> None:
    member = answering('[["2"], ["3"]]')
    receipt = play(scene(memory_path, member, 8, on_failure="partial"))
    assert (receipt.status, outcomes(receipt), receipt.result) == (
        "flagged", {"passed": 8}, "a sum",
    )  # fmt: skip
    assert receipt.reason == "reduce: 2 items that passed are not in the result: refused"
    assert sums(member)[-1] == '[["0", "1"], ["4", "5", "6", "7"]] without ["2", "3"]'


def test_the_last_ask_has_none_above_it_so_the_run_pauses(memory_path: Path) -> None:
    member = answering('[["0"], ["1"]]')
    receipt = play(scene(memory_path, member, 2, on_failure="partial"))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 2})


def test_a_synthesis_bends_too(memory_path: Path) -> None:
    member = answering('[["2"], ["3"]]')

    async def gathered(run: Run) -> None:
        write = asked(SHOWN, fan_in=2, on_failure="partial")
        await scatter_gather(run, words(4), prompt="Say {{ item.text }}", synthesise=write)

    receipt = play(Scene(memory_path, (member,), pattern=gathered))
    assert (receipt.status, receipt.result) == ("flagged", "a sum")
    assert [one for one in sums(member) if "without []" not in one] == [
        '[["0", "1"]] without ["2", "3"]'
    ]


def divided(store: Path, member: Scripted, **how: Any) -> Scene:
    async def pattern(run: Run) -> None:
        combine = asked(SHOWN, fan_in=2, **how)
        prompt = "Say {{ items | map(attribute='text') | list }}"
        await divide_and_conquer(run, words(8), fits=Fits(items=1), prompt=prompt, combine=combine)

    return Scene(store, (member,), pattern=pattern)


def test_a_combine_of_a_divide_pauses_and_bends_too(memory_path: Path) -> None:
    fails = [True]
    member = answering('[["2"], ["3"]]', fails=fails)
    first = play(divided(memory_path / "paused", member))
    assert (first.status, outcomes(first), first.result) == ("paused", {"passed": 8}, None)
    partial = play(divided(memory_path / "partial", member, on_failure="partial"))
    assert (partial.status, partial.result) == ("flagged", "a sum")
    assert partial.reason == "reduce: 2 items that passed are not in the result: refused"
    assert sums(member)[-1] == '[["0", "1"], ["4", "5", "6", "7"]] without ["2", "3"]'
    fails.clear()
    again = play(divided(memory_path / "paused", member), resume=True)
    assert (again.status, again.result) == ("complete", "a sum")


def test_an_ask_without_a_reply_pauses_the_run_unless_it_can_do_without(tmp_path: Path) -> None:
    def fails(asked: Asked) -> Says:
        return Says(status=400, message="no") if asked.prompt == "plan" else Says(text="fine")

    plan = "name: killed\nsteps:\n  - ask: {prompt: plan, member: m, attempts: 1MORE}\n"
    plan += "  - ask: {name: after, prompt: 'go on', member: m}\n"
    for more, status, calls in (("", "paused", 1), (", on_failure: partial", "flagged", 2)):
        folder = tmp_path / status
        folder.mkdir()
        receipt = carried_through(folder, plan.replace("MORE", more), fails, 0, kills=0).receipt
        assert (receipt.status, receipt.calls) == (status, calls)


def test_partial_is_for_reduces(memory_path: Path) -> None:
    with pytest.raises(BadInput, match="unknown on_failure `partial`: known: abort, hold, skip"):
        play(Scene(memory_path, (answering(),), words(1), how={"on_failure": "partial"}))


# ── functions that want to know ──────────────────────────────────────────────────────────────


def told(parts: Any, missing: list[Missing]) -> dict[str, Any]:
    found = [part.value if isinstance(part.value, list) else [part.id] for part in parts]
    ids = [id for one in found for id in (one if isinstance(one, list) else [one])]
    return {"ids": ids, "missing": [(one.id, one.state) for one in missing]}


def odd_ones_fail() -> Scripted:
    def script(ask: Ask, n: int) -> Reply | Exception:
        text = ask.messages[0].content
        return Terminal("no", scope="ask") if text[-1] in "13" else Reply("x", usage=Usage(1, 1))

    return Scripted(script)


def test_a_reducer_with_a_parameter_missing_is_told(memory_path: Path) -> None:
    how = {"reduce": told, "attempts": 1}
    receipt = play(Scene(memory_path / "map", (odd_ones_fail(),), words(4), how=how))
    gone = [["1", "failed"], ["3", "failed"]]
    assert receipt.result == {"ids": ["0", "2"], "missing": gone}

    async def voted(run: Run) -> None:
        await ensemble(run, words(4), prompt="Say {{ item.text }}", samples=2, reduce=told)

    receipt = play(Scene(memory_path / "vote", (odd_ones_fail(),), pattern=voted))
    assert receipt.result["missing"] == gone


def test_also_in_a_tree_each_node_of_those_below_it(memory_path: Path) -> None:
    seen: list[tuple[int, list[str]]] = []

    def listed(parts: Any, missing: list[Missing]) -> int:
        many = sum(part.value if isinstance(part.value, int) else 1 for part in parts)
        seen.append((many, [one.id for one in missing]))
        return many

    how = {"reduce": listed, "fan_in": 2, "attempts": 1}
    receipt = play(Scene(memory_path, (odd_ones_fail(),), words(4), how=how))
    assert receipt.result == 2
    assert seen == [(1, ["1"]), (1, ["3"]), (2, ["1", "3"])]


def test_a_part_is_still_enough(memory_path: Path) -> None:
    def counted(parts: Any) -> int:
        return len([part for part in parts if isinstance(part, Part)])

    assert play(Scene(memory_path, (answering(),), words(2), how={"reduce": counted})).result == 2


# ── over HTTP, killed and resumed, into files ────────────────────────────────────────────────

PLAN = """\
name: killed
input: {count: 12}
steps:
  - map: {prompt: "Say <{{ item.n }}>", member: m, attempts: 1, concurrency: 2}
  - reduce:
      kind: ask
      prompt: >-
        Sum of {{ parts | map(attribute='ids') | list }}
        without {{ missing | map(attribute='id') | list }}
      member: m
      fan_in: 3
      attempts: 1
      on_failure: partial
  - write: sum.md
  - write: {name: data, path: sum.json}
"""


def says(asked: Asked) -> Says:
    """Item 4 fails, and so does the sum of 6, 7 and 8."""
    if asked.prompt == "Say <4>" or re.match(r'Sum of \[\["6"\]', asked.prompt):
        return Says(status=400, message="no")
    return Says(text=f"sum {asked.prompt[-40:]}" if asked.prompt.startswith("Sum") else "fine")


@pytest.mark.parametrize("seed", seeds(range(3), quick=1))
def test_killed_and_resumed_the_files_say_what_is_missing(tmp_path: Path, seed: int) -> None:
    ended = carried_through(tmp_path, PLAN, says, seed, requests=18)
    receipt = ended.receipt
    assert (receipt.status, receipt.passed, receipt.failed) == ("flagged", 11, 1)
    refused = [text for text in ended.asked if ended.asked[text] > 1]
    assert len(refused) <= receipt.maybe_paid_twice + 2  # what failed is tried again
    text = (tmp_path / "sum.md").read_text()
    assert '"11"]] without ["4", "6", "7", "8"]' in text
    assert text.endswith("Not in this result: 4 (failed), 6 (failed), 7 (failed), 8 (failed).\n")
    assert (tmp_path / "sum.json.missing.json").exists()
