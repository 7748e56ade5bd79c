"""The progress line: what it says, that it fits, and when it is shown."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import termios
from pathlib import Path

import pytest

from fanfold.journal.facts import RunRecord
from fanfold.observe.progress import ItemRate, NoProgress, Progress, line
from fanfold.observe.table import cells_wide
from fanfold.run.figures import Statistics
from fanfold.run.run import Run
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.work.task import Budget
from tests.unit.observe.runs import answering, contracts, ran

NOW = Statistics(
    planned=500, done=120, in_flight=8, passed=112, not_passed=0, kicked_back=3, retries=2,
    calls=132, reused=0, cost=410_000_000, reserved=120_000_000, budget=5_000_000_000, seconds=19.4,
)  # fmt: skip
FULL = (
    "contract-review  120/500  8 in flight  112 passed  3 kicked back  2 retries"
    "  $0.41 of $5.00  6.1/s  1m 02s left"
)


# ── the line ──


def test_the_line_says_where_the_run_stands() -> None:
    assert line(NOW, "contract-review", 200, 6.13) == FULL


def test_items_that_did_not_pass_are_counted_while_the_run_is_under_way() -> None:
    """Also where there is little room: it is what an operator must see in time."""
    bad = NOW._replace(passed=104, not_passed=8)
    assert "  104 passed  8 did not pass  " in line(bad, "contract-review", 200, 6.13)
    assert "  8 did not pass  " in line(bad, "contract-review", 75, 6.13)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (111, FULL),
        (110, FULL.replace("  6.1/s", "")),
        (100, FULL.replace("  2 retries", "")),
        (81, "contract-review  120/500  8 in flight  3 kicked back  $0.41 of $5.00  1m 02s left"),
        (80, "contract-review  120/500  8 in flight  112 passed  $0.41 of $5.00  1m 02s left"),
        (60, "contract-review  120/500  $0.41 of $5.00  6.1/s  1m 02s left"),
        (40, "contract-review  120/500  $0.41 of $5.00"),
        (30, "contract-review  120/500"),
        (16, "contra…  120/500"),
        (5, "…  1…"),
    ],
)
def test_in_little_room_the_least_important_is_left_out(width: int, shown: str) -> None:
    """Nothing is cut: items that were kicked back are not kicked."""
    assert line(NOW, "contract-review", width, 6.13) == shown


@pytest.mark.parametrize("name", ["x", "合同審査" * 20, "a\nb\x1b[2J"])
def test_the_line_fits_every_width_and_is_one_line(name: str) -> None:
    for width in range(1, 140):
        shown = line(NOW, name, width, 0.003)
        assert cells_wide(shown) <= width
        assert shown.isprintable()


def test_without_a_rate_that_of_the_whole_time_is_taken() -> None:
    assert line(NOW, "r", 200).endswith("6.2/s  1m 01s left")


def test_nothing_is_promised_before_anything_is_known() -> None:
    fresh = Statistics(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, 0.4)
    assert line(fresh, "review", 80) == "review  planning"
    planned = fresh._replace(planned=9, in_flight=8)
    assert (
        line(planned, "review", 80)
        == "review  0/9  8 in flight  0 passed  0 kicked back  0 retries  $0.00"
    )
    over = planned._replace(done=12)
    assert "left" not in line(over, "review", 80)


# ── the rate ──


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    rate = ItemRate()
    seen = [rate.see(second, 100 * second) for second in range(1, 21)]
    assert seen[-1] == 100.0
    for second in range(21, 41):
        last = rate.see(second, 2000 + 10 * (second - 20))
    assert last == 10.0


def test_the_rate_of_slow_items_reaches_back_to_the_last_four() -> None:
    rate = ItemRate()
    for n in range(1, 9):
        last = rate.see(30.0 * n, n)
    assert last == pytest.approx(1 / 30)
    assert rate.see(30.0 * 8 + 120, 8) == pytest.approx(4 / 240)


# ── when it is shown ──


class Watching:
    """Something to watch, that a test moves by hand."""

    def __init__(self, stats: Statistics = NOW) -> None:
        self.record = RunRecord(id="01", name="review", created=0.0)
        self.stats = stats

    def statistics(self) -> Statistics:
        return self.stats


def watched(seconds: float, *, live: bool, each_second: int = 0) -> list[tuple[float, str]]:
    """What was written when, while a run did `each_second` items a second for some seconds."""

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            written.append((round(clock.monotonic(), 3), text))
            return len(text)

    async def main(given: VirtualClock) -> None:
        nonlocal clock
        clock = given
        run = Watching()
        task = asyncio.ensure_future(Progress(run, Out(), live=live, clock=clock).watch())
        for second in range(int(seconds)):
            run.stats = NOW._replace(done=120 + each_second * second, seconds=20.0 + second)
            await clock.sleep(1)
        task.cancel()
        await asyncio.wait((task,))

    written: list[tuple[float, str]] = []
    clock = VirtualClock()
    run_virtual(main)
    return written


def test_on_a_terminal_one_line_is_redrawn_five_times_a_second_and_erased() -> None:
    written = watched(2, live=True, each_second=1)
    times = [at for at, _ in written]
    assert times[0] <= 1
    assert times[:-1] == [round(0.3 + 0.2 * n, 3) for n in range(9)]
    assert all(text.startswith("\r") and "\n" not in text for _, text in written)
    longest = max(len(text) - 1 for _, text in written[:-1])
    assert longest <= 79
    assert written[-1] == (2.0, "\r" + " " * (len(written[-2][1].rstrip()) - 1) + "\r")


def test_a_shorter_line_covers_the_longer_one_before_it() -> None:
    out = io.StringIO()

    async def main(clock: VirtualClock) -> None:
        run = Watching()
        task = asyncio.ensure_future(Progress(run, out, live=True, clock=clock).watch())
        await clock.sleep(0.4)
        run.stats = NOW._replace(planned=0, done=0)
        await clock.sleep(0.2)
        task.cancel()
        await asyncio.wait((task,))

    run_virtual(main)
    first, second = out.getvalue().split("\r")[1:3]
    assert second == "review  planning".ljust(len(first))


def test_in_a_log_there_is_a_line_within_a_second_and_then_every_ten() -> None:
    written = watched(31, live=False, each_second=1)
    assert [at for at, _ in written] == [0.3, 10.3, 20.3, 30.3]
    assert written[0][1].startswith("review  120/500  8 in flight  112 passed")
    assert written[1][1].startswith("review  130/500  8 in flight")
    assert all(text.endswith(" left\n") and "\r" not in text for _, text in written)


def test_in_a_log_nothing_is_repeated_while_nothing_changes() -> None:
    assert [at for at, _ in watched(60, live=False)] == [0.3]


def test_something_else_is_said_above_the_line() -> None:
    out = io.StringIO()

    async def main(clock: VirtualClock) -> None:
        progress = Progress(Watching(), out, live=True, clock=clock)
        task = asyncio.ensure_future(progress.watch())
        await clock.sleep(0.4)
        progress.say("stopping")
        await clock.sleep(0.2)
        task.cancel()
        await asyncio.wait((task,))

    run_virtual(main)
    drawn, blank, said, drawn_again, _, rest = out.getvalue().split("\r")[1:]
    assert drawn == drawn_again
    assert blank == " " * len(drawn)
    assert (said, rest) == ("stopping\n", "")


def test_a_reader_who_went_away_does_not_disturb_the_run() -> None:
    tried: list[str] = []

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            tried.append(text)
            raise BrokenPipeError

    async def main(clock: VirtualClock) -> None:
        progress = Progress(Watching(), Gone(), live=True, clock=clock)
        await progress.watch()
        progress.say("nobody hears this")

    run_virtual(main)
    assert len(tried) == 1, "it is not written to again"


def test_the_line_fits_the_terminal_it_is_drawn_on() -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 61))

    async def main(clock: VirtualClock) -> None:
        with os.fdopen(theirs, "w") as out:
            task = asyncio.ensure_future(Progress(Watching(), out, live=True, clock=clock).watch())
            await clock.sleep(0.4)
            task.cancel()
            await asyncio.wait((task,))
            drawn.append(os.read(ours, 1000).decode())

    drawn: list[str] = []
    run_virtual(main)
    os.close(ours)
    assert drawn[0].split("\r")[1] == line(NOW, "review", 60, 120 / 19.4)


def test_quiet_shows_nothing_and_takes_the_place_of_progress(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def main(clock: VirtualClock) -> None:
        quiet = NoProgress()
        await quiet.watch()
        quiet.say("not said")
        quiet.erase()

    run_virtual(main)
    assert capfd.readouterr() == ("", "")
    public = [{name for name in vars(face) if name[0] != "_"} for face in (Progress, NoProgress)]
    assert public[0] == public[1]


def test_a_real_run_is_watched_to_its_end(tmp_path: Path) -> None:
    out = io.StringIO()

    async def watch(run: Run, clock: VirtualClock) -> None:
        task = asyncio.ensure_future(Progress(run, out, live=False, clock=clock).watch())
        await clock.sleep(21)
        task.cancel()
        await asyncio.wait((task,))

    ran(tmp_path / "s", "review", [answering()], contracts(40), watch, concurrency=2,
        run_budget=Budget(usd=1))  # fmt: skip
    assert out.getvalue().splitlines() == [
        "review  0/40  2 in flight  0 passed  0 kicked back  0 retries  $0.00 of $1.00",
        "review  20/40  2 in flight  20 passed  0 kicked back  0 retries  $0.01 of $1.00"
        "  1.9/s  10s left",
        "review  40/40  0 in flight  40 passed  0 kicked back  0 retries  $0.02 of $1.00  2.0/s",
    ]
