"""The account of a run as a Markdown page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fanfold.observe.amounts import duration, local_time
from fanfold.observe.report import report
from fanfold.patterns.fold import concat
from fanfold.testing.clock import EPOCH
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Reply, Usage
from tests.unit.observe.runs import (
    answering,
    contracts,
    crashed,
    looked_at,
    ran,
    reviewed,
    with_id,
)  # fmt: skip

STARTED = local_time(EPOCH)


def page(store: Path, name: str) -> str:
    with looked_at(store) as (read, of):
        return report(read, with_id(of(name), "01J"))


def section(text: str, title: str) -> list[str]:
    """The lines of one section."""
    return text.split(f"\n## {title}\n\n")[1].split("\n\n## ")[0].rstrip("\n").splitlines()


def result_of(store: Path, value: Any) -> list[str]:
    """How a result is shown."""
    ran(store, "run", [answering()], contracts(1), reduce=lambda parts: value)
    return section(page(store, "run"), "Result")


def test_the_whole_page(tmp_path: Path) -> None:
    seconds = duration(reviewed(tmp_path / "s").seconds)
    assert (
        page(tmp_path / "s", "contract-review")
        == f"""\
# contract-review

**flagged**: 3 of 10 items did not pass

10 of 10 items done · $0.0070 of $5.00 · run `01J`, started {STARTED}, {seconds} active

## Result

| severity | clause | evidence | item |
| --- | --- | --- | --- |
| high | a \\| b | sentence 1 | contract-001 |
| high | a \\| b | sentence 4 | contract-004 |
| high | a \\| b | sentence 7 | contract-007 |
| medium | a \\| b | sentence 8 | contract-008 |
| low | a \\| b | sentence 0 | contract-000 |
| low | a \\| b | sentence 6 | contract-006 |
| low | a \\| b | sentence 9 | contract-009 |

It rests on 7 of 10 planned items.

## Receipt

| receipt |  |
| --- | ---: |
| planned | 10 |
| passed | 7 |
| kicked | 1 |
| failed | 1 |
| skipped | 0 |
| unjudged | 1 |
| unfunded | 0 |
| in doubt | 0 |
| cancelled | 0 |
| calls | 16 |
| reused replies | 0 |
| calls without a reply | 5 |
| tokens: input | 3,300 |
| tokens: output | 440 |
| tokens: cache read | 0 |
| tokens: cache write | 0 |
| cost | $0.0070 of $5.00 |
| maybe paid twice | 1 call, at most $0.0015 |
| active time | {seconds} |

## What the gate caught

1 item passed after a kick-back.

| item | outcome | reasons | member | cost |
| --- | --- | --- | --- | ---: |
| contract-002 | kicked | missing or empty: \\`evidence\\` | haiku | $0.0010 |
| contract-003 | failed | 503: overloaded \\| try again \\`later\\` (after 4 attempts) |  | $0.00 |
| contract-005 | unjudged | the gate raised KeyError: 'page' | haiku | $0.0005 |

## Steps

| step | calls | input | output | cost |
| --- | ---: | ---: | ---: | ---: |
| map | 16 | 3,300 | 440 | $0.0070 |

## Cost by member

| member | calls | items answered | of these reused | errors | tokens | cost |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| haiku | 16 | 9 | 0 | 4 | 3,740 | $0.0070 |

## In doubt

1 attempt was lost under way and may have been carried out. At most $0.0015, which is counted as spent.

| member | item | what happened | at most |
| --- | --- | --- | ---: |
| haiku | contract-004 | haiku: no answer within 60 s | $0.0015 |
"""
    )


# ── the result ──


def test_a_long_list_is_cut_after_twenty_rows(tmp_path: Path) -> None:
    lines = result_of(tmp_path / "s", [{"n": n} for n in range(25)])
    assert lines == [
        "| n |", "| --- |", *(f"| {n} |" for n in range(20)), "", "… and 5 more",
    ]  # fmt: skip


def test_records_may_differ_and_hold_one_more_level(tmp_path: Path) -> None:
    found = [{"id": "1", "value": {"a|b": None, "c": 2.5}}, {"id": "2", "more": "x\ny" + "z" * 200}]
    assert result_of(tmp_path / "s", found) == [
        "| id | value.a\\|b | value.c | more |",
        "| --- | --- | --- | --- |",
        "| 1 |  | 2.5 |  |",
        f"| 2 |  |  | x y{'z' * 116}… |",
    ]


def test_a_text_stands_as_it_is(tmp_path: Path) -> None:
    ran(tmp_path / "s", "text", [answering("# Title\n\n* a | b")], contracts(1), reduce=concat())
    assert section(page(tmp_path / "s", "text"), "Result") == ["# Title", "", "* a | b"]


def test_what_is_not_flat_is_json(tmp_path: Path) -> None:
    assert result_of(tmp_path / "a", {"x": 1}) == ["```json", "{", '  "x": 1', "}", "```"]
    assert result_of(tmp_path / "b", [1, [2]])[0] == "```json"
    assert result_of(tmp_path / "c", [{"a": {"b": []}}])[0] == "```json"
    assert result_of(tmp_path / "d", [{}])[0] == "```json"
    wide = [{f"column {n}": n for n in range(11)}]
    assert result_of(tmp_path / "e", wide)[0] == "```json"
    assert result_of(tmp_path / "f", list(range(21)))[-2:] == ["", "… and 1 more"]


def test_nothing_is_said_to_be_nothing(tmp_path: Path) -> None:
    assert result_of(tmp_path / "a", None) == ["There is no result."]
    assert result_of(tmp_path / "b", []) == ["The result is an empty list."]
    assert result_of(tmp_path / "c", " ") == ["The result is an empty text."]


# ── what went wrong, and what did not ──


def test_a_fine_run_says_so_and_has_no_doubts(tmp_path: Path) -> None:
    ran(tmp_path / "s", "fine", [answering()], contracts(2))
    text = page(tmp_path / "s", "fine")
    assert section(text, "What the gate caught") == ["No item was kicked, unjudged or failed."]
    assert "## In doubt" not in text
    assert "| maybe paid twice | $0.00 |" in text


def test_many_items_are_cut_and_counted(tmp_path: Path) -> None:
    member = Scripted(lambda ask, n: Reply("", usage=Usage(1, 1)), traits("m"))
    ran(tmp_path / "s", "bad", [member], contracts(120), revise=0)
    lines = section(page(tmp_path / "s", "bad"), "What the gate caught")
    assert len(lines) == 2 + 100 + 2
    assert lines[-3:] == [
        "| contract-099 | kicked | the reply is empty | m | $0.000006 |", "", "… and 20 more",
    ]  # fmt: skip


def test_a_crashed_run_has_no_result_yet_and_its_calls_are_in_doubt(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    text = page(tmp_path / "s", "nightly")
    assert text.splitlines()[2] == "**crashed**: its process died; resume it to go on"
    assert section(text, "Result") == ["There is no result yet."]
    doubts = section(text, "In doubt")
    assert doubts[0].startswith("4 attempts were lost under way")
    assert doubts[4:] == [
        f"| haiku | contract-0{n:02} | the process died | $0.0015 |" for n in (11, 10, 9, 8)
    ]


def test_a_running_run_has_nothing_in_doubt(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    with looked_at(tmp_path / "s", alive=True) as (read, of):
        assert "## In doubt" not in report(read, of("nightly"))


def test_names_and_ids_cannot_break_the_page(tmp_path: Path) -> None:
    nasty = "a|b\n# c <b> `d`"
    member = Scripted(lambda ask, n: Reply(""), traits(nasty, metered=False))
    ran(tmp_path / "s", "run", [member], [{"id": nasty, "text": "x"}], revise=0, step=nasty)
    with looked_at(tmp_path / "s") as (read, of):
        now = of("run")
        named = msgspec.structs.replace(now, run=msgspec.structs.replace(now.run, name=nasty))
        text = report(read, named)
    shown = "a\\|b # c \\<b\\> \\`d\\`"
    assert text.splitlines()[0] == f"# {shown}"
    assert text.count(shown) == 5  # the title, the item and its member, the step, the member
    assert nasty not in text
