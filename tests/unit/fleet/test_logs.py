"""Logs that grow: whole lines once each, with true times, whatever is in them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from fanfold.fleet.logs import Follower, LogTimes, last_stamp, start_of_last
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.worker import LOG, TIMES, Spec
from tests.unit.fleet.staged import sample, write_log
from tests.unit.fleet.talk import said, timed

CLAUDE = DIALECTS["claude"]


def spec(**changes: object) -> Spec:
    stated = {"span": "R:1", "id": "a", "dialect": "claude", "words": ("claude",), "folder": "/"}
    return Spec(**{**stated, **changes})  # type: ignore[arg-type]


def texts(follower: Follower, *, over: bool = False) -> list[str]:
    return [one.told.text for one in follower.read(over=over)]


@pytest.mark.parametrize("content", [b"", b"a", b"a\n", b"a\nbb\nccc\n", b"a\nbb\nccc", b"\n\n\nx"])
@pytest.mark.parametrize("lines", [0, 1, 2, 3, 9])
def test_the_last_lines_are_found_from_the_end(tmp_path: Path, content: bytes, lines: int) -> None:
    file = tmp_path / "log"
    file.write_bytes(content)
    whole = content.splitlines(keepends=True)
    wanted = whole[-lines:] if lines else [one for one in whole if not one.endswith(b"\n")]
    assert content[start_of_last(file, lines) :] == b"".join(wanted)


def test_the_last_lines_are_found_across_blocks(tmp_path: Path) -> None:
    file = tmp_path / "log"
    content = b"".join(b"%d %s\n" % (n, b"x" * (n * 977 % 40_000)) for n in range(300))
    file.write_bytes(content)
    for lines in (1, 7, 150, 299, 300, 301):
        wanted = b"".join(content.splitlines(keepends=True)[-lines:])
        assert content[start_of_last(file, lines) :] == wanted


def test_a_file_that_is_not_there_has_no_lines_and_no_times(tmp_path: Path) -> None:
    assert start_of_last(tmp_path / "none", 5) == 0
    assert last_stamp(tmp_path / "none") is None
    assert LogTimes(tmp_path / "none").at(10) is None
    assert texts(Follower(tmp_path, spec(), CLAUDE), over=True) == []


def test_a_line_came_when_the_log_was_first_seen_to_be_that_long(tmp_path: Path) -> None:
    file = tmp_path / "times"
    file.write_text("10 100.5\n30 101.0\nnonsense\n\n40 102.25\n50 1")
    times = LogTimes(file)
    assert [times.at(end) for end in (5, 10, 11, 30, 40, 41)] == [
        100.5, 100.5, 101.0, 101.0, 102.25, None,
    ]  # fmt: skip
    assert last_stamp(file) == 102.25
    with file.open("a") as more:
        more.write("03.5\n")
    assert times.at(50) == 103.5


def test_what_was_read_is_not_read_again_and_half_a_line_waits(tmp_path: Path) -> None:
    follower = Follower(tmp_path, spec(), CLAUDE)
    first, second = said("one"), said("two")
    (tmp_path / LOG).write_bytes(first + second[:20])
    assert texts(follower) == ["one"]
    assert texts(follower) == []
    (tmp_path / LOG).write_bytes(first + second)
    assert texts(follower) == ["two"]


def test_when_nobody_writes_any_more_a_last_line_without_an_end_counts(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(said("one") + said("two").rstrip(b"\n"))
    assert texts(Follower(tmp_path, spec(), CLAUDE)) == ["one"]
    assert texts(Follower(tmp_path, spec(), CLAUDE), over=True) == ["one", "two"]


def test_garbage_torn_lines_and_foreign_json_are_passed_over(tmp_path: Path) -> None:
    garbage = bytes(range(256)) * 50 + b'\n{"type": "assist\n[1, 2]\nnull\n\x1b[31m\xff\xfe\n'
    (tmp_path / LOG).write_bytes(garbage + said("still here") + b"\x00\x01")
    assert texts(Follower(tmp_path, spec(), CLAUDE), over=True) == ["still here"]


def test_an_event_has_its_own_time_or_that_of_its_line_and_time_never_goes_back(
    tmp_path: Path,
) -> None:
    lines = said("one") + timed("two", "2025-06-15T15:06:50.250Z") + said("three")
    write_log(tmp_path, lines, 1_750_000_000.0, 2.0)
    follower = Follower(tmp_path, spec(begun=1_750_000_000.0), CLAUDE)
    assert [(one.at, one.told.text) for one in follower.read()] == [
        (1_750_000_002.0, "one"), (1_750_000_010.25, "two"), (1_750_000_010.25, "three"),
    ]  # fmt: skip


def test_without_a_file_of_times_the_time_is_the_last_that_is_known(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(said("one"))
    follower = Follower(tmp_path, spec(begun=1_750_000_000.0), CLAUDE)
    assert [one.at for one in follower.read()] == [1_750_000_000.0]


def test_of_a_long_log_only_the_end_is_read_with_its_true_times(tmp_path: Path) -> None:
    write_log(tmp_path, b"".join(said(str(n)) for n in range(1000)), 1_750_000_000.0, 1.0)
    follower = Follower(tmp_path, spec(), CLAUDE, lines=2)
    assert [(one.at, one.told.text) for one in follower.read()] == [
        (1_750_000_999.0, "998"), (1_750_001_000.0, "999"),
    ]  # fmt: skip
    assert (follower.whole, follower.reading.lines) == (False, 2)


def test_the_sums_of_a_codex_worker_come_from_its_meter(tmp_path: Path) -> None:
    """Its log tells what it spent at the very end only; the session's own file does meanwhile."""
    rollout = sample("x50_rollout_tools")
    session = "01a1e0c1-fa35-7d60-bed1-f4a19afb1a4b"
    (tmp_path / f"rollout-{session}.jsonl").write_bytes(rollout)
    (tmp_path / LOG).write_bytes(sample("x06_bypass").splitlines(keepends=True)[0])
    metered = spec(dialect="codex", meter=f"{tmp_path}/rollout-{{session}}.jsonl")
    reading = Follower(tmp_path, metered, DIALECTS["codex"]).catch_up()
    assert (reading.session, reading.usage.total > 0) == (session, True)


def test_memory_stays_small_whatever_the_size_of_the_log(tmp_path: Path) -> None:
    with (tmp_path / LOG).open("wb") as log, (tmp_path / TIMES).open("w") as times:
        for n in range(40):
            log.write(said("word" * 50_000) + b'{"type":"noise","x":"' + b"y" * 50_000 + b'"}\n')
            times.write(f"{log.tell()} {1_750_000_000 + n}\n")
    assert (tmp_path / LOG).stat().st_size > 10_000_000
    follower = Follower(tmp_path, spec(), CLAUDE)
    tracemalloc.start()
    try:
        reading = follower.catch_up(over=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (reading.lines, peak < 6_000_000) == (80, True)
