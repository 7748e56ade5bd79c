"""What was claimed and never sent is known after a killed process, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fanfold.journal.sqlite.marks import SLOTS, SentFile

ONE, OTHER = "0123456789abcdef", "fedcba9876543210"


def opened(folder: Path, boot: str = "boot-1", session: str = ONE) -> SentFile:
    marks = SentFile(folder / "sent", boot)
    marks.cover(session)
    return marks


def test_what_was_not_marked_was_not_sent(tmp_path: Path) -> None:
    """The one who looks is another process: the first one never closed."""
    marks = opened(tmp_path)
    for attempt in (3, 4, 5):
        marks.mark(attempt)
    marks.unmark([4])
    marks.mark(6)
    later = opened(tmp_path, session=OTHER)
    assert later.unsent(dict.fromkeys(range(1, 8), ONE)) == (1, 2, 4, 7)


@pytest.mark.parametrize("boot", ["boot-2", ""])
def test_after_a_restart_of_the_machine_the_marks_say_nothing(tmp_path: Path, boot: str) -> None:
    opened(tmp_path).mark(1)
    assert opened(tmp_path, boot, OTHER).unsent({1: ONE, 2: ONE}) == ()


def test_a_session_without_marks_is_in_doubt(tmp_path: Path) -> None:
    """Its process could not make the file, or ran on another machine."""
    opened(tmp_path)
    assert opened(tmp_path, session=OTHER).unsent({1: "another session!"}) == ()


def test_a_closed_file_says_nothing(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert opened(tmp_path, session=OTHER).unsent({1: ONE}) == ()
    assert len(list((tmp_path / "sent").iterdir())) == 1


def test_marks_of_which_one_is_damaged_say_nothing(tmp_path: Path) -> None:
    """Else an attempt that was sent would count as never sent, and be asked again."""
    marks = opened(tmp_path)
    marks.mark(3)
    (file,) = (tmp_path / "sent").iterdir()
    whole = bytearray(file.read_bytes())
    whole[SLOTS] ^= 1
    file.write_bytes(whole)
    assert opened(tmp_path, session=OTHER).unsent({2: ONE, 3: ONE}) == ()


def test_what_cannot_be_marked_is_not_taken_for_unsent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = opened(tmp_path)
    marks.mark(1)
    with monkeypatch.context() as full:

        def refuse(*args: object) -> int:
            raise OSError(28, "No space left on device")

        full.setattr(os, "pwrite", refuse)
        marks.mark(2)
    assert opened(tmp_path, session=OTHER).unsent({1: ONE, 2: ONE, 3: ONE}) == ()


def test_a_forked_child_leaves_the_marks_of_its_parent_alone(tmp_path: Path) -> None:
    marks = opened(tmp_path)
    marks.mark(1)
    child = os.fork()
    if not child:
        marks.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert opened(tmp_path, session=OTHER).unsent({1: ONE, 2: ONE}) == (2,)


def test_files_of_settled_sessions_are_removed(tmp_path: Path) -> None:
    opened(tmp_path)
    later = opened(tmp_path, session=OTHER)
    later.forget({ONE})
    assert later.unsent({1: ONE}) == ()
    assert len(list((tmp_path / "sent").iterdir())) == 1


def test_there_is_room_for_many_and_places_are_used_again(tmp_path: Path) -> None:
    marks = opened(tmp_path)
    for attempt in range(1, 20_001):
        marks.mark(attempt)
    for attempt in range(1, 20_001, 2):
        marks.unmark([attempt])
    size = next((tmp_path / "sent").iterdir()).stat().st_size
    for attempt in range(20_001, 30_001):
        marks.mark(attempt)
    later = opened(tmp_path, session=OTHER)
    assert later.unsent(dict.fromkeys(range(1, 11), ONE)) == (1, 3, 5, 7, 9)
    assert size == max(file.stat().st_size for file in (tmp_path / "sent").iterdir())
