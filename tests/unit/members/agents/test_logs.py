"""Files beside a worker's log: each line once, and none of an earlier worker's."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from fanfold.members.agents.logs import SpendingFiles
from fanfold.members.agents.worker import Spec

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()


def spec(folder: Path, begun: float = 0.0) -> Spec:
    return Spec(
        span="r:1", id="w", dialect="codex", words=("x",), folder="/", begun=begun,
        meter=f"{folder}/*/rollout-*-{{session}}.jsonl",
    )  # fmt: skip


def rollout(folder: Path, session: str) -> Path:
    (folder / "day").mkdir(exist_ok=True)
    return folder / "day" / f"rollout-1-{session}.jsonl"


def test_lines_come_once_and_whole(tmp_path: Path) -> None:
    file, meter = rollout(tmp_path, "one"), SpendingFiles(spec(tmp_path))
    meter.search("one")
    assert (list(meter.lines()), meter.has_grown()) == ([], False)
    file.write_bytes(b"first\nhal")
    meter.search("one")
    assert (meter.has_grown(), list(meter.lines())) == (True, [b"first"])
    assert (meter.has_grown(), list(meter.lines())) == (False, [])
    with file.open("ab") as stream:
        stream.write(b"f\n")
    assert (meter.has_grown(), list(meter.lines())) == (True, [b"half"])


def test_another_sessions_file_is_never_read(tmp_path: Path) -> None:
    rollout(tmp_path, "one").write_bytes(b"theirs\n")
    rollout(tmp_path, "two").write_bytes(b"ours\n")
    meter = SpendingFiles(spec(tmp_path))
    meter.search("")
    assert list(meter.lines()) == []
    meter.search("two")
    assert list(meter.lines()) == [b"ours"]


def test_lines_from_before_this_worker_are_passed_over(tmp_path: Path) -> None:
    lines = [
        b'{"timestamp":"2026-11-16T11:59:59.999Z","n":1}',
        b'{"timestamp":"2026-11-16T12:00:00.000Z","n":2}',
        b'{"timestamp":"2026-11-16T13:00:00.001+01:00","n":3}',
        b'{"timestamp":"no time at all","n":4}',
        b'{"n":5}',
    ]
    rollout(tmp_path, "one").write_bytes(b"\n".join(lines) + b"\n")
    meter = SpendingFiles(spec(tmp_path, begun=NOON + 0.0004))
    meter.search("one")
    assert list(meter.lines()) == lines[1:]


def test_a_file_that_vanishes_is_no_growth(tmp_path: Path) -> None:
    file, meter = rollout(tmp_path, "one"), SpendingFiles(spec(tmp_path))
    file.write_bytes(b"x\n")
    meter.search("one")
    assert (meter.has_grown(), list(meter.lines())) == (True, [b"x"])
    file.unlink()
    assert (meter.has_grown(), list(meter.lines())) == (False, [])
