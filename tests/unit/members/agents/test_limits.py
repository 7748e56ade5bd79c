"""Limits that a host carries out: time, silence, money and turns."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.members.agents.dialect import EventLine, WorkerReading
from fanfold.members.agents.limits import LimitWatch
from fanfold.members.agents.worker import LOG, Spec, WorkerLimits
from tests.unit.members.agents.hosted import Stage, ended, how, log_of, python, sh

DOLLAR = 1_000_000_000


class Counting:
    """A reader for which each line says what was spent: `COST TURNS`, then `end` for an answer."""

    def __init__(self) -> None:
        self.reading = WorkerReading()

    def feed(self, line: bytes) -> tuple[EventLine, ...]:
        cost, turns, *end = line.split()
        self.reading.cost, self.reading.turns = int(cost), int(turns)
        self.reading.ended = bool(end)
        return ()

    def meter(self, line: bytes) -> None:
        self.reading.cost = (self.reading.cost or 0) + int(line)


class Desk:
    """A watch over a log that a test writes, at times that it says."""

    def __init__(
        self, place: Path, bounds: WorkerLimits, *, meter: str = "", metered: bool = False
    ):
        spec = Spec(span="s", id="w", dialect="d", words=(), folder="", bounds=bounds, meter=meter)
        self.log = place / LOG
        self.log.touch()
        self.watch = LimitWatch(spec, place, 100.0, Counting() if metered else None)

    def look(self, after: float, said: str = "") -> tuple[str, str] | None:
        with self.log.open("a") as log:
            log.write(said)
        return self.watch.look(100.0 + after, said != "")


def test_without_limits_nothing_is_ever_due(tmp_path: Path) -> None:
    desk = Desk(tmp_path, WorkerLimits())
    assert desk.look(1e9) is None
    assert desk.watch.rest(200) == 5.0


def test_time_counts_whatever_is_said(tmp_path: Path) -> None:
    desk = Desk(tmp_path, WorkerLimits(seconds=10))
    assert desk.look(9.9, "x\n") is None
    assert desk.watch.rest(109.9) == pytest.approx(0.1)
    assert desk.look(10, "x\n") == ("time", "ended at its limit of 10 s")


def test_silence_begins_anew_with_every_word(tmp_path: Path) -> None:
    desk = Desk(tmp_path, WorkerLimits(silence=10))
    assert desk.look(9) is None
    assert desk.look(9.5, "x\n") is None
    assert desk.look(19.4) is None
    assert desk.watch.rest(119.4) == pytest.approx(0.1)
    assert desk.look(19.5) == ("silence", "ended after 10 s without output")


def test_a_word_in_a_file_that_has_just_come_breaks_the_silence(tmp_path: Path) -> None:
    desk = Desk(tmp_path, WorkerLimits(silence=1), meter=str(tmp_path / "rollout-*"))
    assert desk.look(0.1) is None
    (tmp_path / "rollout-1").write_text("1\n")
    assert desk.look(1.1) is None
    assert desk.look(2.0) is None
    assert desk.look(2.1) == ("silence", "ended after 1 s without output")


def test_money_ends_it_at_the_limit(tmp_path: Path) -> None:
    desk = Desk(tmp_path, WorkerLimits(usd=DOLLAR // 2), metered=True)
    assert desk.look(1, f"{DOLLAR // 2 - 1} 1\n") is None
    assert desk.look(2, f"{DOLLAR // 2}") is None
    assert desk.look(3, " 2\n") == ("budget", "ended at $0.5000 of its limit of $0.5000")


def test_money_that_other_files_tell_of_counts_too(tmp_path: Path) -> None:
    pattern = str(tmp_path / "**" / "rollout-*")
    desk = Desk(tmp_path, WorkerLimits(usd=DOLLAR), meter=pattern, metered=True)
    assert desk.look(0.5) is None
    (tmp_path / "2026").mkdir()
    (tmp_path / "2026" / "rollout-1").write_text(f"{DOLLAR // 2}\n{DOLLAR // 2}")
    assert desk.look(3) is None
    assert desk.watch.rest(103) == 0.5
    with (tmp_path / "2026" / "rollout-1").open("a") as file:
        file.write("\n")
    assert desk.look(3.5) == ("budget", "ended at $1.0000 of its limit of $1.0000")


def test_an_answer_in_the_last_turn_is_an_answer(tmp_path: Path) -> None:
    desk = Desk(tmp_path, WorkerLimits(turns=2), metered=True)
    assert desk.look(1, "0 1\n") is None
    assert desk.look(2, "0 2\n") is None
    assert desk.look(3, "0 3\n") == ("turns", "ended after its limit of 2 turns")


def test_a_program_that_has_answered_may_end_by_itself(tmp_path: Path) -> None:
    """Its money is spent; to end it now would only lose how it ended."""
    desk = Desk(tmp_path, WorkerLimits(usd=DOLLAR), metered=True)
    assert desk.look(1, f"{DOLLAR} 1 end\n") is None
    assert desk.watch.rest(101) == 0.5
    assert desk.look(5.9) is None
    assert desk.look(6) == ("budget", "ended at $1.0000 of its limit of $1.0000")


@pytest.mark.parametrize(
    ("bounds", "why"), [(WorkerLimits(usd=1, turns=1), "budget"), (WorkerLimits(turns=1), "turns")]
)
def test_what_cannot_be_measured_is_ended(tmp_path: Path, bounds: WorkerLimits, why: str) -> None:
    desk = Desk(tmp_path, bounds, metered=True)
    reached = desk.look(1, "what?\n")
    assert reached is not None
    assert reached[0] == why
    assert reached[1].startswith("ended because its log cannot be read: ValueError(")


# ── in a real host, by a real program's events ──


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.clear()


def reply(number: int) -> str:
    """A message of claude as it stands in its log: 1,000 tokens in, a third of a cent."""
    usage = {"input_tokens": 1000, "output_tokens": 1}
    message = {"id": f"msg_{number}", "role": "assistant", "model": "claude-sonnet-4-5",
               "content": [], "usage": usage}  # fmt: skip
    return json.dumps({"type": "assistant", "message": message, "session_id": "s"})


@pytest.mark.skipif(sys.platform != "linux", reason="judged by /proc")
@pytest.mark.parametrize(
    ("bounds", "why", "said"),
    [
        (WorkerLimits(turns=3), "turns", "ended after its limit of 3 turns"),
        (WorkerLimits(usd=9_000_000), "budget", "ended at $0.0"),
    ],
)
def test_a_host_meters_its_program(stage: Stage, bounds: WorkerLimits, why: str, said: str) -> None:
    """One more message comes each time the last one stands in the times: none is missed."""
    code = (
        "import os, time\n"
        f"for line in {[reply(n) for n in range(50)]!r}:\n"
        "    size = os.path.getsize('place/session.times')\n"
        "    print(line, flush=True)\n"
        "    while os.path.getsize('place/session.times') == size: time.sleep(0.01)\n"
        "time.sleep(300)\n"
    )
    host = stage.start(python(code), bounds=bounds)
    code, reached, told = how(ended(host))
    assert (code, reached) == (-15, why)
    assert told.startswith(said)
    assert 3 <= len(log_of(host).splitlines()) <= 5


@pytest.mark.skipif(sys.platform != "linux", reason="judged by /proc")
def test_a_program_within_its_limits_is_left_alone(stage: Stage) -> None:
    bounds = WorkerLimits(seconds=60, silence=60, usd=9_000_000, turns=2)
    host = stage.start(
        sh(f"echo '{reply(1)}'; echo '{reply(2)}'; sleep 0.5; exit 3"), bounds=bounds
    )
    assert how(ended(host)) == (3, "", "")
