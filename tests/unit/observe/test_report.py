"""The account of a run as a Markdown page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fanfold.observe.amounts import duration, local_time
from fanfold.observe.report import report
from fanfold.observe.tree import draw_tree
from fanfold.patterns.fold import concat
from fanfold.testing.clock import EPOCH
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Reply, Usage
from tests.unit.observe.runs import (
    STUMBLED,
    accounted,
    answering,
    contracts,
    crashed,
    ran,
    reviewed,
)

STARTED = local_time(EPOCH)


def page(store: Path, name: str) -> str:
    return report(accounted(store, name))


def section(text: str, title: str) -> list[str]:
    """The lines of one section."""
    return text.split(f"\n## {title}\n\n")[1].split("\n\n## ")[0].rstrip("\n").splitlines()


def result_of(store: Path, value: Any) -> list[str]:
    """How a result is shown."""
    ran(store, "run", [answering()], contracts(1), reduce=lambda parts: value)
    return section(page(store, "run"), "Result")


def rows(lines: list[str]) -> list[list[str]]:
    """The cells of a table, without its head."""
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in cells[2:]]


def test_the_page_has_a_head_and_a_section_for_each_question(tmp_path: Path) -> None:
    seconds = duration(reviewed(tmp_path / "s").seconds)
    text = page(tmp_path / "s", "contract-review")
    head, *sections = text.split("\n## ")
    assert head.splitlines() == [
        "# contract-review", "", "**flagged**: 3 of 10 items did not pass", "",
        f"10 of 10 items done · ≤$0.0070 of $5.00 · run `01J`, started {STARTED}, {seconds} active",
    ]  # fmt: skip
    assert [one.splitlines()[0] for one in sections] == [
        "Receipt", "Result", "What the gate caught", "Cost and time by member",
        "Cost and time by step", "Tree", "In doubt",
    ]  # fmt: skip


def test_the_result_is_a_table_and_says_what_it_rests_on(tmp_path: Path) -> None:
    reviewed(tmp_path / "s")
    lines = section(page(tmp_path / "s", "contract-review"), "Result")
    assert lines[:3] == [
        "| severity | clause | evidence | item |", "| --- | --- | --- | --- |",
        "| high | a \\| b | sentence 1 | contract-001 |",
    ]  # fmt: skip
    assert (len(rows(lines)), lines[-1]) == (7, "Based on 7 of 10 items.")


def test_what_the_gate_caught_is_named_with_its_reason_and_its_cost(tmp_path: Path) -> None:
    reviewed(tmp_path / "s")
    lines = section(page(tmp_path / "s", "contract-review"), "What the gate caught")
    assert lines[0] == "1 item passed after a kick-back: contract-001."
    shown = {row[0]: (row[1], row[2], row[-1]) for row in rows(lines)}
    assert shown == {
        "contract-002": ("kicked", "missing or empty: \\`evidence\\`", "$0.0010"),
        "contract-003": (
            "failed",
            "503: overloaded \\| try again \\`later\\` (after 4 attempts)",
            "$0.00",
        ),
        "contract-005": ("unjudged", STUMBLED, "$0.0005"),
    }


def test_the_receipt_has_every_outcome_and_what_was_paid(tmp_path: Path) -> None:
    seconds = duration(reviewed(tmp_path / "s").seconds)
    text = page(tmp_path / "s", "contract-review")
    receipt = dict(rows(section(text, "Receipt")))
    outcomes = ("planned", "passed", "kicked", "failed", "skipped", "unjudged", "unfunded",
                "in doubt", "cancelled")  # fmt: skip
    assert [int(receipt[name]) for name in outcomes] == [10, 7, 1, 1, 0, 1, 0, 0, 0]
    assert {name: value for name, value in receipt.items() if name not in outcomes} == {
        "calls": "16", "items from replies of earlier runs": "0", "calls without a reply": "5",
        "tokens: input": "3,300", "tokens: output": "440", "tokens: cache read": "0",
        "tokens: cache write": "0", "cost": "≤$0.0070 of $5.00",
        "maybe paid twice": "1 call, at most $0.0015", "active time": seconds,
    }  # fmt: skip


def test_the_account_by_member_by_step_and_of_what_is_in_doubt(tmp_path: Path) -> None:
    reviewed(tmp_path / "s")
    found = accounted(tmp_path / "s", "contract-review")
    text = report(found)
    assert rows(section(text, "Cost and time by member")) == [
        ["haiku", "16", "9", "0", "4", "3,740", "16s", "≤$0.0070"]
    ]
    assert rows(section(text, "Cost and time by step")) == [
        ["map", "16", "3,300", "440", "4.5s", "≤$0.0070"]
    ]
    drawn = draw_tree(found.tree, 200).replace("`", "'")
    assert drawn.startswith("contract-review 01J flagged: 16 calls, 3,740 tokens, ≤$0.0070")
    assert section(text, "Tree") == ["```text", *drawn.splitlines(), "```"]
    doubt = section(text, "In doubt")
    assert doubt[0].startswith("1 attempt was lost under way and may have been carried out.")
    assert rows(doubt) == [["haiku", "contract-004", "haiku: no answer within 60 s", "$0.0015"]]


# ── the result ──


def test_a_long_list_is_cut_after_twenty_rows(tmp_path: Path) -> None:
    lines = result_of(tmp_path / "s", [{"n": n} for n in range(25)])
    assert lines == [
        "| n |", "| --- |", *(f"| {n} |" for n in range(20)), "", "… and 5 more",
    ]  # fmt: skip


def test_records_may_differ_and_hold_one_more_level(tmp_path: Path) -> None:
    found = [{"id": "1", "value": {"a|b": None, "c": 2.5}}, {"id": "2", "more": "x\ny" + "z" * 200}]
    assert result_of(tmp_path / "s", found) == [
        "| id | value.c | more |",
        "| --- | --- | --- |",
        "| 1 | 2.5 |  |",
        f"| 2 |  | x y{'z' * 116}… |",
        "",
        "Nothing in: value.a\\|b.",
    ]


def test_a_text_stands_as_it_is(tmp_path: Path) -> None:
    ran(tmp_path / "s", "text", [answering("# Title\n\n* a | b")], contracts(1), reduce=concat())
    assert section(page(tmp_path / "s", "text"), "Result") == ["# Title", "", "* a | b"]


def test_a_record_is_a_table_of_names_and_then_its_parts(tmp_path: Path) -> None:
    found = {"total": 2, "kinds": {"a": {"n": 1}, "b": {"n": 2}}, "text": "long " * 50}
    assert result_of(tmp_path / "s", found) == [
        "|  |  |", "| --- | --- |", "| total | 2 |", "",
        "### kinds", "", "|  | n |", "| --- | --- |", "| a | 1 |", "| b | 2 |", "",
        "### text", "", ("long " * 50).rstrip(),
    ]  # fmt: skip


def test_lists_of_records_in_records_are_the_rows(tmp_path: Path) -> None:
    found = [{"item": "a", "found": [{"x": 1}, {"x": 2}]}, {"item": "b", "found": []}]
    assert result_of(tmp_path / "s", found) == [
        "| item | x |", "| --- | --- |", "| a | 1 |", "| a | 2 |", "",
        "1 more records hold nothing in \\`found\\`.",
    ]  # fmt: skip


def test_what_is_neither_is_json(tmp_path: Path) -> None:
    assert result_of(tmp_path / "b", [1, [2]])[0] == "```json"
    assert result_of(tmp_path / "d", [{}])[0] == "```json"
    assert result_of(tmp_path / "f", list(range(21)))[-2:] == ["- 19", "- … and 1 more"]
    assert result_of(tmp_path / "g", 0) == ["```json", "0", "```"]


def test_a_wide_table_says_which_columns_it_lacks(tmp_path: Path) -> None:
    lines = result_of(tmp_path / "e", [{f"c{n}": n for n in range(14)}])
    assert lines[0] == "| " + " | ".join(f"c{n}" for n in range(12)) + " |"
    assert lines[-1] == "2 more columns are not shown here: c12, c13."


def test_nothing_is_said_to_be_nothing(tmp_path: Path) -> None:
    assert result_of(tmp_path / "a", None) == ["There is no result."]
    assert result_of(tmp_path / "b", []) == ["The result is empty."]
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
        "| contract-099 | kicked | the reply is empty |  | m | $0.000006 |", "", "… and 20 more",
    ]  # fmt: skip


def test_a_crashed_run_has_no_result_yet_and_its_calls_are_in_doubt(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    text = page(tmp_path / "s", "nightly")
    assert text.splitlines()[2] == "**crashed**: its process died; resume it to continue"
    assert section(text, "Result") == ["There is no result yet."]
    doubts = section(text, "In doubt")
    assert doubts[0].startswith("4 attempts were lost under way")
    assert doubts[4:] == [
        f"| haiku | contract-0{n:02} | the process died | $0.0015 |" for n in (11, 10, 9, 8)
    ]


def test_a_running_run_has_nothing_in_doubt(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    assert "## In doubt" not in report(accounted(tmp_path / "s", "nightly", alive=True))


def test_names_and_ids_cannot_break_the_page(tmp_path: Path) -> None:
    nasty = "a|b\n# c <b> `d`"
    member = Scripted(lambda ask, n: Reply(""), traits(nasty, metered=False))
    ran(tmp_path / "s", "run", [member], [{"id": nasty, "text": "x"}], revise=0, step=nasty)
    now = accounted(tmp_path / "s", "run")
    run = msgspec.structs.replace(now.summary.run, name=nasty)
    summary = msgspec.structs.replace(now.summary, run=run)
    text = report(msgspec.structs.replace(now, summary=summary))
    shown = "a\\|b # c \\<b\\> \\`d\\`"
    assert text.splitlines()[0] == f"# {shown}"
    assert text.count(shown) == 5  # the title, the item and its member, the step, the member
    assert nasty not in text
