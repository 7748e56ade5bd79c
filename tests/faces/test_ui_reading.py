"""Answers that take long: a page never waits for them, and shows the last one meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.faces.ui.reading import LateAnswer, StoreReader
from fanfold.faces.web import RequestRefused
from fanfold.journal import opening
from fanfold.journal.contract import StoreView
from tests.waiting import wait_until


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[StoreReader]:
    opening.open_store(tmp_path / "store", thread=False).close()
    reader = StoreReader(str(tmp_path / "store"))
    yield reader
    reader.close()


def later(reader: StoreReader, question: object) -> LateAnswer[str]:
    return asyncio.run(reader.ask(lambda view: reader.later("key", question)))  # type: ignore[arg-type]


def test_what_takes_long_is_shown_when_it_is_there(reader: StoreReader) -> None:
    go = threading.Event()

    def slow(view: StoreView) -> str:
        go.wait()
        return "counted"

    assert later(reader, slow) == LateAnswer(None, late=True)
    go.set()
    wait_until(lambda: later(reader, slow).value == "counted")


def test_one_question_is_worked_out_once_for_all_who_ask_it(reader: StoreReader) -> None:
    go, begun = threading.Event(), []

    def slow(view: StoreView) -> str:
        begun.append(1)
        go.wait()
        return "counted"

    for _ in range(3):
        assert later(reader, slow).late
    assert len(begun) <= 1
    go.set()


def test_what_is_wrong_is_said_to_who_asked(reader: StoreReader) -> None:
    def wrong(view: StoreView) -> str:
        raise RequestRefused("there is no such item", status=404)

    with pytest.raises(RequestRefused, match="no such item"):
        wait_until(lambda: not later(reader, wrong).late)


def test_no_password_of_a_store_is_on_a_page() -> None:
    assert StoreReader("postgresql://me:secret@db/runs").shown == "postgresql://…@db/runs"
