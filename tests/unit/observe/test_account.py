"""All that a report of a run says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fanfold.journal.answers import EndedItem
from fanfold.observe.account import excerpt
from tests.unit.observe.runs import accounted, reviewed


def ended(value: Any, *reasons: str) -> EndedItem:
    return EndedItem("i", "kicked", reasons, "m", 0, value)


def test_a_reply_is_shown_from_its_beginning() -> None:
    assert excerpt(ended("prose " * 100, "the reply is not JSON"), 20) == "prose prose prose p…"
    assert excerpt(ended({"a": 1}, "missing or empty: `b`")) == "a: 1"
    assert excerpt(ended(None, "503")) == excerpt(ended(" ", "the reply is empty")) == ""


def test_a_run_s_account_is_whole(tmp_path: Path) -> None:
    reviewed(tmp_path / "s")
    found = accounted(tmp_path / "s", "contract-review")
    caught = found.caught
    assert (caught.whole, caught.revised, caught.ids) == (3, 1, ("contract-001",))
    assert [one.id for one in caught.ended] == ["contract-002", "contract-003", "contract-005"]
    assert [(one.account.member, one.seconds) for one in found.members] == [("haiku", 16.0)]
    assert [one.ids for one in found.doubts] == [("contract-004",)]
    assert (found.receipt.calls, found.tree.own.calls) == (16, 16)
