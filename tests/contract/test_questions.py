"""Every question about a store has the same answer, whichever backend it is."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fanfold.journal.answers import ItemFilter, PlannedItem, TimeBins
from fanfold.journal.contract import Store
from fanfold.journal.facts import (
    AddRun,
    BeginJudging,
    CloseRun,
    DeclareCascade,
    DropBatch,
    EndAttempt,
    EndItems,
    EndJudging,
    GiveOrder,
    Heartbeat,
    ItemEnding,
    KeepPrompt,
    LoseAttempts,
    NameStep,
    NewReply,
    NoteWaits,
    PlanBatch,
    RecordFailure,
    RemoveRuns,
    ReopenRun,
)
from fanfold.journal.kept import KeepContent
from fanfold.journal.limits import MonthlyLimit
from fanfold.journal.questions import ReportQuestions, RunQuestions
from fanfold.journal.shares import DivideBatch, JoinRun
from fanfold.journal.sqlite.sealing import SEALED
from fanfold.journal.submissions import NoteSubmission, SubmitBatch
from fanfold.price import Price
from fanfold.work.ask import Message, Reply, Usage
from fanfold.work.item import digest
from fanfold.work.outcome import STATES
from fanfold.work.waiting import WaitingCalls
from tests.contract.backends import BACKENDS, Backend
from tests.contract.test_store import MONTH, end, record, start, write
from tests.postgres import server

CONTENT = b"what is in a file"
HASH = digest(CONTENT)
KEYS = [bytes([n]) * 16 for n in range(1, 9)]
RUN_ID, CHILD = "A" * 26, "B" * 26
ITEM = PlannedItem("i0", 0, "input", 0, b"hash")

QUESTIONS: dict[str, list[tuple[Any, ...]]] = {
    "find": [("run",), (RUN_ID,), ("AAAA",), ("none",), ("AA",), ("%",)],
    "step_names": [(1,)], "planned": [(1,), (2,)], "batches": [(1,)], "duplicate": [(1, 0), (1, 1)],
    "planned_items": [(1, 0, 1, 2)], "item_positions": [(1, "i2")], "tally": [(1,), (2,)],
    "settled": [(1, 0, 0, 4)], "parts": [(1, 0, 0)], "items_behind": [(1, 0, 0)],
    "items_missing": [(1, 0, 0), (1, 0, 0, 1, 3)], "reasons": [(1, STATES)],
    "known": [(KEYS, frozenset({"m:1"}), 1), (KEYS, frozenset({"m:1"}), 2, True)],
    "known_at": [(1, 0, 0, [0, 3])], "attempt_state": [(1,), (99,)],
    "session_of": [(n,) for n in range(1, 9)],
    "newest": [(1, ("ok", "in_doubt"), 2)], "attempts_in_doubt": [(1,), (2,)], "gate_crashes": [(1,)],
    "spent": [(1,), (2,), (9,)], "free_calls": [(1,)], "runs_below": [(1,), (2,)],
    "step_seconds": [(1,), (9,)], "submissions": [(1,), (2,)], "in_batches": [(1,), (2,)],
    "submitted_before": [()],
    "spent_below": [(1,)], "savings": [(1,)], "call_history": [("m", "m:1", "map"), ("x", "x", "map")],
    "member_stats": [("m", "m:1", "map"), ("m", "m:1", None)], "latencies": [("m", "m:1", "map")],
    "tasks_asked": [(1, "map")], "has_answered": [("m", "m:1"), ("x", "x")],
    "month_use": [("m", MONTH)], "month_uses": [(MONTH,)], "unbooked_seconds": [(1,), (2,)],
    "waits": [(1,), (2,)],
    "led_by": [(1,), (99,)],
    "sharers": [(1,)],
    "division": [(1,)],
    "open_attempts": [()],
    "runs": [()], "records": [([1, 2],), ([],)], "names": [()], "endings": [(1, STATES), (1, STATES, 1)],
    "revised": [(1,)], "revised_ids": [(1, 5)], "has_item": [(1, "i0"), (1, "no")], "item_ids": [(1,)],
    "find_items": [(1, "i0")], "step_endings": [(1, ITEM)], "item_attempts": [(1, "i0")],
    "replies_to": [(KEYS,)], "kept_prompts": [(1, "i0")],
    "attached": [(1,)], "content": [(HASH,)], "has_content": [(HASH,)],
    "step_outcomes": [(1, ["i0", "i1"])],
    "attempts": [(1,), (1, 1)], "attempts_by_number": [([1, 2],)], "attempts_to_show": [([1, 2], 1)],
    "unsettled": [(1, "in_doubt"), (1, "started")], "by_member": [(1,)], "member_totals": [([1, 2],)],
    "answered_items": [(1,)], "member_activity": [(1,)], "session_spans": [(1,)],
    "session_began": [(1, "s"), (1, "no")], "call_times": [(1, 10)],
    "binned_calls": [(1, TimeBins(0.0, 100.0, 0.0, 0.7), ["m"])], "orders": [(1,), (1, ("given",))],
    "list_items": [(1, ItemFilter()), (1, ItemFilter("failed")), (1, ItemFilter("passed", "I")),
                   (1, ItemFilter("pending", place=(1, 1), before=True))],
    "step_tally": [(1,)], "step_notes": [(1,)], "costs_over_time": [(1, 0.25, 0.7)], "spending": [(0.0,)],
    "reply_costs": [(1,), (2,)],
}  # fmt: skip


async def fill(store: Store) -> None:
    await store.write(
        AddRun(record(RUN_ID, session="s", budget=b'{"usd": 1}', plan=b'{"kind": "fleet"}'))
    )
    await write(
        store, NameStep(1, 0, "map"), NameStep(1, 1, "sum"), NameStep(1, 0, "again", "noted")
    )
    await store.plan_items((1, 0, n, f"i{n}", b"hash") for n in range(4))
    await store.plan_items((1, 1, n, "twice", b"hash") for n in range(2))
    await store.write(PlanBatch(1, 0, "input", "f", 4, 0))
    await store.write(DeclareCascade(1, 0, ("better",), Price(3, 15)))
    monthly = MonthlyLimit(MONTH, 1_000_000)
    await write(store, *(start(key, ids=(f"i{n}",), at=n + 0.5, monthly=monthly)
                         for n, key in enumerate(KEYS[:4])))  # fmt: skip
    passed = ItemEnding(0, 0, 0, "passed", (), "m", 7, 2, 0)
    kicked = ItemEnding(0, 1, 0, "kicked", ("too short", "ä"), "m", 7, 1, 0)
    large = NewReply(KEYS[1], "m:1", "m", Reply("x" * 9000), 7)
    await write(
        store, end(1, KEYS[0], at=2.5, endings=(passed,), monthly=True),
        end(2, KEYS[1], at=3.75, endings=(kicked,), landed=(large,), took=1.25),
        end(3, KEYS[2], state="error", error="503", landed=(), cost=0, at=4.0),
        EndItems(1, (ItemEnding(0, 0, 0, "passed", (), "m", 7, 2, reply=1),)),
        EndItems(1, (ItemEnding(0, 2, 0, "failed", ("503",), "m"),)),
    )  # fmt: skip
    await store.write(LoseAttempts((4,), 5.0))
    free = NewReply(KEYS[5], "f:1", "f", Reply(data={"a": 1}), 0, True)
    done = ItemEnding(0, 3, 0, "passed", (), "f", 0, 1)
    await write(
        store, EndAttempt(run=1, at=6.0, landed=(free,), endings=(done,)),
        EndAttempt(run=1, at=6.0, landed=(free,), unplaced=1),
        EndAttempt(run=1, at=6.5, landed=(free,), unplaced=1),
    )  # fmt: skip
    await store.write(RecordFailure(run=1, step=0, session="s", member="f", answerer="f:1",
                                    ids=("i3",), error="broken", at=7.0))  # fmt: skip
    await store.write(start(KEYS[3], ids=("i3",), at=8.0))
    await write(store, start(KEYS[6], ids=("i0",), at=9.0), start(KEYS[0], ids=("i0",), fresh=True))
    await store.write(end(7, KEYS[6], at=11.0, usage=Usage(5, 6, 7, 8), unusable="odd", bound=True))
    hedged = start(KEYS[7], at=12.0, why="hedge: slow")
    await store.write(hedged)
    await store.write(start(KEYS[7], at=13.0, beside=8))
    await store.write(end(9, KEYS[7], state="late", at=14.0))
    await store.write(start(b"d" * 16, at=15.0))
    await store.write(LoseAttempts((10,), 16.0))
    await store.write(GiveOrder(1, 17.0, "ann", "pause"))
    await write(
        store,
        BeginJudging(1, "s", (KEYS[0], KEYS[1])),
        Heartbeat(1, 3.0),
        Heartbeat(1, 4.0),
        NoteWaits(1, 5.0, (WaitingCalls("slot", "m", 3),)),
        NoteWaits(
            1, 6.0, (WaitingCalls("rate", "m", 2, 7.5, "rpm"), WaitingCalls("money", "run", 1))
        ),
    )
    await store.write(EndJudging(1, KEYS[1]))
    messages = b'[{"role": "user", "content": "hello"}]'
    await store.write(KeepPrompt(1, 0, "m", ("i0",), (KEYS[0],), messages))
    await store.write(KeepContent(1, "a.png", HASH, CONTENT))
    below = record(CHILD, name="below", session="t", parent=f"{RUN_ID}:1")
    await store.write(AddRun(below))
    await store.write(NameStep(2, 0, "map"))
    await store.write(start(b"c" * 16, run=2, session="t"))
    await store.write(end(11, b"c" * 16, run=2, cost=9, bound=True))
    await store.write(start(b"e" * 16, run=2, session="t"))
    await store.write(SubmitBatch(2, 0, "fanfold-1", "m", (12,), 18.0, None, b"{}"))
    await store.write(NoteSubmission(2, 1, "sent", 19.0, "batch_1"))
    await store.write(start(b"f" * 16, run=2, session="t"))
    await store.write(SubmitBatch(2, 0, "fanfold-2", "m", (13,), 20.0, 99.5, b"{}"))
    await store.write(NoteSubmission(2, 2, "unsent", 21.0))
    await store.write(LoseAttempts((12, 13), 22.0))
    await store.write(start(b"g" * 16, ids=("i1",)))
    await write(store, JoinRun(1, "v", "s"), DivideBatch(1, "s", 0, 0, 4, 1, b"{}"))


async def _changed(store: Store) -> None:
    """What is written over what is there, and removed."""
    closing = CloseRun(run=1, status="paused", reason="why", at=9.0, active=4.0, result=b"[1]",
                       rest="unfunded")  # fmt: skip
    assert await store.write(closing)
    assert await store.write(ReopenRun(1, "u", b'{"usd": 2}', "s", 1.0, ("i1",)))
    await store.write(EndItems(1, (ItemEnding(0, 0, 0, "kicked", ("late",), "m"),)))
    await store.write(DropBatch(1, 0))
    assert await store.write(RemoveRuns(((2, "t"),), True)) is not None


def answers_of(read: ReportQuestions) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for question, calls in QUESTIONS.items():
        answers = [getattr(read, question)(*call) for call in calls]
        found[question] = [list(a) if isinstance(a, Iterator) else a for a in answers]
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return _answers(BACKENDS["sqlite"](tmp_path_factory.mktemp("sqlite")))


def _answers(backend: Backend) -> list[dict[str, Any]]:
    async def main() -> list[dict[str, Any]]:
        store = backend.open()
        await fill(store)
        before = answers_of(store.read)
        await _changed(store)
        after = answers_of(store.read)
        store.close()
        return [before, after]

    return asyncio.run(main())


@pytest.mark.parametrize("name", sorted(set(BACKENDS) - {"sqlite"}))
def test_every_question_is_answered_as_by_sqlite(
    name: str, expected: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    answers = _answers(BACKENDS[name](tmp_path))
    for found, wanted in zip(answers, expected, strict=True):
        for question in QUESTIONS:
            assert found[question] == wanted[question], question


def test_both_databases_have_the_same_columns(tmp_path: Path) -> None:
    """But those of leases, of lost connections and of the queue, which only a server has; and checksums
    that triggers write, since a server has its own."""
    backends = BACKENDS["postgresql"](tmp_path), BACKENDS["sqlite"](tmp_path)
    for backend in backends:
        backend.open().close()
    schema = backends[0].place.rpartition("=")[2]
    rows = server().run(
        f"select table_name, column_name from information_schema.columns where table_schema = '{schema}'"
    )
    with closing(sqlite3.connect(Path(backends[1].place) / "journal.db")) as db:
        tables = "select m.name, t.name from sqlite_master m, pragma_table_info(m.name) t"
        columns = db.execute(f"{tables} where m.type = 'table' and m.name <> 'sqlite_sequence'")
        only_there = {"sessions", "writers", "store", "asks", "workers", "pieces", "messages",
                      "carried"}  # fmt: skip
        assert {row for row in rows if row[0] not in only_there} == {
            row
            for row in columns
            if row[0] != "store" and (row[0] not in SEALED or row[1] != "crc")
        }


def test_no_question_is_forgotten_here() -> None:
    asked = {*vars(RunQuestions), *vars(ReportQuestions)}
    assert {name for name in asked if not name.startswith("_")} == set(QUESTIONS)


def test_the_content_that_is_asked_about_is_not_empty(expected: list[dict[str, Any]]) -> None:
    before, _ = expected
    assert before["kept_prompts"][0][0].messages == (Message("user", "hello"),)
    assert {name for name, answers in before.items() if not any(answers)} == set()
