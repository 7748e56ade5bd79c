"""RunFeed and view: what workers say, in the order of true times, however long their logs are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fanfold.fleet.logs import LogEvent
from fanfold.fleet.look import RunSnapshot
from fanfold.fleet.stream import (
    FeedEvent,
    FeedFilter,
    RunFeed,
    WorkerStream,
    closing_line,
    feed_json,
    feed_line,
    plain,
    view_lines,
)
from fanfold.fleet.worker_view import WorkerFiles
from fanfold.members.agents.dialect import EventLine
from fanfold.members.agents.worker import LOG, TIMES, Exit
from fanfold.observe.table import cells_wide
from fanfold.testing.clock import EPOCH
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage
from tests.unit.fleet.talk import codex_said, line, said, timed, tool


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Two workers whose words came in turns: a every 10 seconds, b (codex) in between."""
    made = Stage(tmp_path / "fleet", [worker("a"), worker("b", provider="codex"), worker("c")])
    a, b = made.starts("a", 0), made.starts("b", 4)
    made.works("a", a, said("a10") + tool("Bash", command="ls") + said("a30"), seconds=10)
    made.works("b", b, codex_said("b15") + codex_said("b25"), dialect="codex", at=5, seconds=10)
    for id in ("a", "b"):
        made.hosted(id, alive=True)
    yield made
    made.close()


def told(stage: Stage, feed: RunFeed, lines: int | None = 50) -> list[tuple[float, str, str]]:
    archive, record = stage.look()
    scene = RunSnapshot(archive, record, EPOCH + 60)
    found = feed.more(scene) if lines is None else feed.last(scene, lines)
    archive.close()
    return [(one.at - EPOCH, one.agent, one.text) for one in found]


def test_events_of_all_workers_and_facts_of_the_journal_are_merged_by_time(stage: Stage) -> None:
    assert told(stage, RunFeed(FeedFilter())) == [
        (0.0, "a", "attempt 1, a, at most $0.50 reserved"),
        (4.0, "b", "attempt 2, b, at most $0.50 reserved"),
        (10.0, "a", "a10"),
        (15.0, "b", "b15"),
        (20.0, "a", "Bash ls"),
        (25.0, "b", "b25"),
        (30.0, "a", "a30"),
    ]


def test_the_newest_so_many_are_the_newest_of_all(stage: Stage) -> None:
    assert [text for _, _, text in told(stage, RunFeed(FeedFilter()), 3)] == [
        "Bash ls",
        "b25",
        "a30",
    ]
    assert told(stage, RunFeed(FeedFilter()), 0) == []


@pytest.mark.parametrize(
    ("wanted", "texts"),
    [
        (FeedFilter(agent="b"), ["attempt 2, b, at most $0.50 reserved", "b15", "b25"]),
        (FeedFilter(type="tool"), ["Bash ls"]),
        (FeedFilter(type="item"), ["b15", "b25"]),
        (FeedFilter(type="item.completed"), ["b15", "b25"]),
        (FeedFilter("a", "assistant"), ["a10", "Bash ls", "a30"]),
        (FeedFilter(type="attempt/started", agent="a"), ["attempt 1, a, at most $0.50 reserved"]),
        (FeedFilter(type="nothing"), []),
    ],
)
def test_only_some_can_be_asked_for(stage: Stage, wanted: FeedFilter, texts: list[str]) -> None:
    assert [text for _, _, text in told(stage, RunFeed(wanted))] == texts


def test_following_tells_each_thing_once_and_new_workers_too(stage: Stage) -> None:
    feed = RunFeed(FeedFilter())
    told(stage, feed, 1)
    assert told(stage, feed, None) == []
    with (stage.place("a") / LOG).open("ab") as log, (stage.place("a") / TIMES).open("a") as times:
        log.write(said("a40"))
        times.write(f"{log.tell()} {EPOCH + 40}\n")
    c = stage.starts("c", 35)
    stage.works("c", c, said("c38"), at=28, seconds=10)
    stage.hosted("c", alive=True)
    assert told(stage, feed, None) == [
        (35.0, "c", f"attempt {c}, c, at most $0.50 reserved"), (38.0, "c", "c38"),
        (40.0, "a", "a40"),
    ]  # fmt: skip
    assert told(stage, feed, None) == []


def test_ends_kills_and_a_stop_for_lack_of_money_are_told(stage: Stage) -> None:
    stage.ends("a", 1, 50, 0.25)
    stage.ends("b", 2, 55, 0.125, "b: killed by the operator")
    stage.closes("paused", 60, "out of budget: usd 5 of 5 spent")
    archive, record = stage.look()
    found = RunFeed(FeedFilter(type="fact")).last(RunSnapshot(archive, record, EPOCH + 90), 3)
    archive.close()
    assert [(one.at - EPOCH, one.agent, one.event, one.text) for one in found] == [
        (50.0, "a", "attempt/ended", "attempt 1, a, $0.25"),
        (55.0, "b", "attempt/failed", "attempt 2, b, $0.12: b: killed by the operator"),
        (60.0, "", "run/paused", "out of budget: usd 5 of 5 spent"),
    ]  # fmt: skip


def test_of_a_log_full_of_noise_enough_is_read_to_find_what_is_wanted(stage: Stage) -> None:
    noise = line(type="stream_event", event={"type": "content_block_delta"})
    stage.works("a", 1, tool("Bash", command="early") + noise * 3000 + said("late"))
    assert [text for _, _, text in told(stage, RunFeed(FeedFilter("a", "tool")), 2)] == [
        "Bash early"
    ]


def test_an_event_that_tells_its_own_time_has_that(stage: Stage) -> None:
    stamp = datetime.fromtimestamp(EPOCH + 12.5, UTC).isoformat()
    stage.works("a", 1, timed("own", stamp), seconds=20)
    assert (12.5, "a", "own") in told(stage, RunFeed(FeedFilter("a")))


def test_a_line_of_the_feed_has_its_columns_and_fits() -> None:
    one = FeedEvent(EPOCH, "a-worker-with-a-long-name", "result/error_max_budget_usd", "x" * 500)
    stamp = datetime.fromtimestamp(EPOCH, UTC).astimezone().strftime("%H:%M:%S")
    wide = feed_line(one, 120)
    assert wide == f"{stamp}  a-worke…ng-name  result/error_max_budget_usd     " + "x" * 60 + "…"
    assert [cells_wide(feed_line(one, width)) for width in (60, 80, 200)] == [60, 80, 200]
    assert feed_line(FeedEvent(EPOCH, "", "run/killed", "a\x1b[2J\nb"), 80) == (
        f"{stamp}  -                run/killed          a [2J b"
    )


def test_a_line_for_programs() -> None:
    assert feed_json(FeedEvent(EPOCH + 0.25, "", "run/killed", "why")) == {
        "at": "2025-06-15T15:06:40.250Z", "agent": None, "event": "run/killed", "kind": "fact",
        "text": "why",
    }  # fmt: skip


# ── one worker ───────────────────────────────────────────────────────────────────────────────


def trace_in(stage: Stage, id: str) -> WorkerFiles:
    archive, record = stage.look()
    found = RunSnapshot(archive, record, EPOCH).find(id)
    archive.close()
    assert found is not None
    return found


def test_a_view_has_the_last_things_said_and_goes_on_from_there(stage: Stage) -> None:
    view = WorkerStream(trace_in(stage, "a"))
    assert [one.told.text for one in view.last(2, over=False)] == ["Bash ls", "a30"]
    with (stage.place("a") / LOG).open("ab") as log:
        log.write(said("a40") + said("half")[:10])
    assert [one.told.text for one in view.more(over=False)] == ["a40"]
    assert [one.told.text for one in view.more(over=True)] == []


def test_raw_lines_are_as_they_are_but_for_what_would_steer_a_terminal(stage: Stage) -> None:
    stage.works("a", 1, b"one\ntw\x1b[2Jo\xff\n\x00\n")
    view = WorkerStream(trace_in(stage, "a"))
    assert view.last_raw(9, over=True) == ["one", "tw\\x1b[2Jo\\xff", "\\x00"]
    assert plain("grüße 日本\t!".encode()) == "grüße 日本\t!"


def test_what_is_said_is_wrapped_at_the_terminal_with_its_time_before_it() -> None:
    stamp = datetime.fromtimestamp(EPOCH, UTC).astimezone().strftime("%H:%M:%S")
    shown = view_lines(LogEvent(EPOCH, EventLine("tool", "Write " + "long " * 20)), 60)
    assert shown == [
        f"{stamp}  🔧 Write long long long long long long long long",
        "          long long long long long long long long long long",
        "          long long",
    ]
    assert view_lines(LogEvent(EPOCH, EventLine("text", "")), 60) == [stamp]
    assert view_lines(LogEvent(EPOCH, EventLine("text", "one\n\ntwo\x1b[2J")), 60) == [
        f"{stamp}  one", "          two [2J",
    ]  # fmt: skip


def test_the_last_line_says_how_it_ended(stage: Stage) -> None:
    stamp = datetime.fromtimestamp(EPOCH, UTC).astimezone().strftime("%H:%M:%S")
    spec = trace_in(stage, "a").spec
    exits = [
        None, Exit(code=0, at=EPOCH), Exit(code=-9, at=EPOCH),
        Exit(code=-15, at=EPOCH, why="killed", said="killed by the operator"),
    ]  # fmt: skip
    assert [closing_line(WorkerFiles(Path(), spec, False, exit), 80) for exit in exits] == [
        "── exited without a record of how it ended",
        f"── ended at {stamp}, exit code 0",
        f"── ended at {stamp}, signal 9",
        f"── ended at {stamp}, signal 15: killed by the operator",
    ]
