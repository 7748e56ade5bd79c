"""The account of a run as a Markdown page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fanfold.observe.amounts import duration, local_time
from fanfold.observe.foliage import draw_tree
from fanfold.observe.report import report
from fanfold.patterns.fold import concat
from fanfold.testing.clock import EPOCH
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Reply, Usage
from tests.unit.observe.runs import accounted, answering, contracts, crashed, ran, reviewed

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


def test_the_whole_page(tmp_path: Path) -> None:
    seconds = duration(reviewed(tmp_path / "s").seconds)
    found = accounted(tmp_path / "s", "contract-review")
    drawn = draw_tree(found.branch, 200).replace("`", "'")
    assert drawn.startswith("contract-review 01J flagged: 16 calls, 3,740 tokens, $0.0070")
    assert (
        report(found)
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

## What the gate caught

1 item passed after a kick-back: contract-001.

| item | outcome | reasons | what the reply said | member | cost |
| --- | --- | --- | --- | --- | ---: |
| contract-002 | kicked | missing or empty: \\`evidence\\` | “severity: medium, clause: a \\| b” | haiku | $0.0010 |
| contract-003 | failed | 503: overloaded \\| try again \\`later\\` (after 4 attempts) |  |  | $0.00 |
| contract-005 | unjudged | the gate raised KeyError: 'page' | “severity: medium, clause: a \\| b, evidence: sentence 5” | haiku | $0.0005 |

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

## Cost and time by member

| member | calls | items answered | of these reused | errors | tokens | time of calls | cost |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| haiku | 16 | 9 | 0 | 4 | 3,740 | 16s | $0.0070 |

## Cost and time by step

| step | calls | input | output | first to last call | cost |
| --- | ---: | ---: | ---: | ---: | ---: |
| map | 16 | 3,300 | 440 | {seconds} | $0.0070 |

## Tree

```text
{drawn}
```

## In doubt

1 attempt was lost under way and may have been carried out. At most $0.0015, which is counted as spent.

| member | item | what happened | at most |
| --- | --- | --- | ---: |
| haiku | contract-004 | haiku: no answer within 60 s | $0.0015 |
"""  # noqa: E501
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
    assert text.splitlines()[2] == "**crashed**: its process died; resume it to go on"
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
    run = msgspec.structs.replace(now.standing.run, name=nasty)
    standing = msgspec.structs.replace(now.standing, run=run)
    text = report(msgspec.structs.replace(now, standing=standing))
    shown = "a\\|b # c \\<b\\> \\`d\\`"
    assert text.splitlines()[0] == f"# {shown}"
    assert text.count(shown) == 5  # the title, the item and its member, the step, the member
    assert nasty not in text
