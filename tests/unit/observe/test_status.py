"""All runs in one table, in narrow and in wide terminals."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fanfold.observe.amounts import duration, local_time, short_time
from fanfold.observe.status import RunSummary, overview, overview_json
from fanfold.testing.clock import EPOCH
from tests.unit.observe.runs import (
    answering,
    contracts,
    crashed,
    looked_at,
    out_of_money,
    ran,
    reviewed,
    with_id,
)  # fmt: skip

LONG = "a-review-of-all-contracts-of-the-last-ten-years-in-three-languages"
HOUR, DATE = short_time(EPOCH, EPOCH), local_time(EPOCH)


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunSummary]]:
    folder = tmp_path_factory.mktemp("status")
    reviewed(folder / "s")
    out_of_money(folder / "s")
    ran(folder / "s", LONG, [answering()], contracts(120))
    crashed(folder / "c")
    with looked_at(folder / "s") as (_, of), looked_at(folder / "c") as (_, dead):
        found = [of("contract-review"), of("too-dear"), of(LONG), dead("nightly")]
        yield [with_id(s, f"01JXT21Q0{n}ABCDEFGHJKMNPQR") for n, s in enumerate(found)]


def test_a_narrow_terminal_gets_short_ids_and_times(summaries: list[RunSummary]) -> None:
    lines = overview(summaries, now=EPOCH + 60, width=80).splitlines()
    assert lines == [
        "NAME           ID          STATUS       DONE  PASSED      COST   BUDGET  STARTED",
        f"contract-rev…  01JXT21Q00  flagged     10/10       7  ≤$0.0070    $5.00  {HOUR}",
        f"too-dear       01JXT21Q01  paused      27/40      27   $0.0135  $0.0150  {HOUR}",
        f"a-review-of-…  01JXT21Q02  complete  120/120     120   $0.0555        -  {HOUR}",
        f"nightly        01JXT21Q03  crashed      8/40       8  ≤$0.0102    $1.00  {HOUR}",
        "",
        "to continue one: fanfold resume RUN",
        "crashed: the process died; what was recorded is safe",
    ]


def test_a_wide_terminal_gets_everything_in_full(summaries: list[RunSummary]) -> None:
    lines = overview(summaries, now=EPOCH + 60, width=200).splitlines()
    name, id = len(LONG[:59]) + 3, "01JXT21Q0{}ABCDEFGHJKMNPQR  "
    active = [duration(summary.seconds).rjust(6) for summary in summaries]
    assert lines[:5] == [
        "NAME".ljust(name) + "ID".ljust(len(id) - 1)
        + "STATUS       DONE  PASSED      COST   BUDGET  STARTED           ACTIVE",
        "contract-review".ljust(name) + id.format(0)
        + f"flagged     10/10       7  ≤$0.0070    $5.00  {DATE}  {active[0]}",
        "too-dear".ljust(name) + id.format(1)
        + f"paused      27/40      27   $0.0135  $0.0150  {DATE}  {active[1]}",
        (LONG[:59] + "…").ljust(name) + id.format(2)
        + f"complete  120/120     120   $0.0555        -  {DATE}  {active[2]}",
        "nightly".ljust(name) + id.format(3)
        + f"crashed      8/40       8  ≤$0.0102    $1.00  {DATE}    2.0s",
    ]  # fmt: skip


def test_every_line_fits_from_sixty_columns_on(summaries: list[RunSummary]) -> None:
    for width in range(60, 220):
        lines = overview(summaries, now=EPOCH + 60, width=width).splitlines()
        assert max(map(len, lines[:5])) <= width
        assert all(word in lines[0] for word in ("NAME", "ID", "STATUS", "DONE", "COST"))


def test_ids_are_as_long_as_it_takes_to_tell_them_apart(summaries: list[RunSummary]) -> None:
    twins = [with_id(summaries[0], f"01JXT21Q00ABCD{end}") for end in ("XF", "YF")]
    rows = overview(twins, now=EPOCH, width=80).splitlines()[1:3]
    assert [row.split()[1] for row in rows] == ["01JXT21Q00ABCDX", "01JXT21Q00ABCDY"]


def test_the_command_to_continue_with_names_a_store_that_is_not_the_usual_one(
    summaries: list[RunSummary],
) -> None:
    lines = overview(summaries, now=EPOCH, width=80, store="my store").splitlines()
    assert "to continue one: fanfold resume RUN --store 'my store'" in lines


def test_a_store_without_runs_says_what_to_do() -> None:
    told = "no runs in this store yet; start one with: fanfold run PLAN"
    assert overview([], now=EPOCH) == told


def test_no_crash_no_word_about_it(summaries: list[RunSummary]) -> None:
    assert "crashed" not in overview(summaries[:2], now=EPOCH)


def test_programs_get_the_same_as_json(summaries: list[RunSummary]) -> None:
    assert json.loads(overview_json(summaries[1:2])) == [
        {
            "run": "01JXT21Q01ABCDEFGHJKMNPQR", "name": "too-dear", "status": "paused",
            "reason": "out of budget: dollars of the run: $0.001500 left, the next call may"
            " cost $0.001540 (contract-027, step map, member haiku)",
            "planned": 40, "done": 27, "passed": 27,
            "cost_usd": 0.0135, "cost_at_most": False, "budget_usd": 0.015, "started": "2025-06-15T15:06:40Z",
            "seconds": 8.0, "resumable": True, "tags": [],
        }
    ]  # fmt: skip
    shown = json.loads(overview_json(summaries))
    assert [(row["status"], row["resumable"]) for row in shown] == [
        ("flagged", True), ("paused", True), ("complete", False), ("crashed", True),
    ]  # fmt: skip
