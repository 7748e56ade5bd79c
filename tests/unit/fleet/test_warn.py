"""What is told before a fleet starts, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.fleet.load import load_fleet
from fanfold.fleet.preflight import warnings_of
from tests.unit.fleet.fleets import worker, write_fleet, write_prompt


def warned(root: Path, prompts: dict[str, str], *workers: dict[str, Any], **top: Any) -> list[str]:
    write_fleet(root, list(workers), **top)
    for id, text in prompts.items():
        write_prompt(root, id, text)
    return warnings_of(load_fleet(root))


LOOKS = "it may look for a tool that it does not have until its budget is used up; use the type write, research or code-run"  # noqa: E501


@pytest.mark.parametrize(
    "text",
    [
        "Write your findings to a file.",
        "Summarise, then save it as findings.md in your folder",
        "create the file report.json",
        "Save ALL output files to /x/workers/a/output/ — use absolute paths.",
    ],
)
def test_a_read_only_worker_that_is_asked_to_write(tmp_path: Path, text: str) -> None:
    assert warned(tmp_path, {"a": text}, worker("a", type="read-only")) == [
        f"worker `a` is read-only and is asked to write files: {LOOKS}"
    ]


def test_its_task_counts_too(tmp_path: Path) -> None:
    found = warned(tmp_path, {"a": "Look."}, {"id": "a", "task": "write synthesis.md"})
    assert found == [f"worker `a` is read-only and is asked to write files: {LOOKS}"]


@pytest.mark.parametrize(
    "text",
    [
        "Read src/a.py and answer.",
        "Do not write any files.",
        "You must never create or change files.",
        "Analyse without saving to disk; don't write a file.",
        "Write a short answer.",
    ],
)
def test_one_that_only_reads_is_left_in_peace(tmp_path: Path, text: str) -> None:
    assert warned(tmp_path, {"a": text}, worker("a", type="read-only")) == []


def test_one_that_may_write_is_too(tmp_path: Path) -> None:
    assert warned(tmp_path, {"a": "Write a file."}, worker("a", type="research")) == []


def test_one_whose_files_others_are_told_to_read(tmp_path: Path) -> None:
    prompts = {"a": "Look.", "b": "Read workers/a/output/x.md", "c": "Read workers/ab/output/x.md"}
    found = warned(
        tmp_path, prompts, worker("a", type="read-only"), worker("b", "a"), worker("c", "a")
    )
    assert found == [
        f"worker `a` is read-only and cannot write the files that b should read: {LOOKS}"
    ]


def test_a_budget_of_codex_is_kept_by_the_meter_and_told_once(tmp_path: Path) -> None:
    codex = {"provider": "codex", "model": "gpt-5.4"}
    found = warned(
        tmp_path, {}, worker("a", **codex, max_budget_usd=1), worker("b", **codex),
        worker("c", **codex, max_budget_usd=2), worker("d", max_budget_usd=2),
    )  # fmt: skip
    assert found == [
        "codex has no budget option: `max_budget_usd` of `a`, `c` is enforced by fanfold, which stops the"
        " worker once it has been exceeded"
    ]


def test_recording_is_said_to_be_ignored(tmp_path: Path) -> None:
    found = warned(tmp_path, {}, worker("a"), worker("b"), config={"record": True})
    assert found == ["`record` is ignored: every worker's log is kept, see `fanfold view`"]
