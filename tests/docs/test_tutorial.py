"""The section of the tutorial that needs a key, on a model server of ours; the rest is run as it
stands by `test_examples`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.docs.pages import ROOT, blocks, write_files
from tests.faces.cli import Ended, fanfold

PAGE = ROOT / "docs" / "tutorial.md"
KEY = {"ANTHROPIC_API_KEY": "not-a-key"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books", script="tests.docs.ticket_models:polite") as running:
        yield running


@pytest.fixture
def tickets(tmp_path: Path, server: RunningServer) -> Path:
    """The folder as it is at the end of the page, with the address of the server."""
    write_files(PAGE, tmp_path)
    roster = tmp_path / "tickets" / "models.yaml"
    text = roster.read_text(encoding="utf-8")
    address = f"    base_url: {server.url}\n    key:"
    roster.write_text(text.replace("    key:", address, 1), encoding="utf-8")
    return roster.parent


def typed(command: str, folder: Path, *more: str) -> Ended:
    """A command as the page has it, and it must be there."""
    (line,) = re.findall(rf"^{command}.*?(?=  |$)", _unrun(), re.MULTILINE)
    return fanfold(folder, *line.split()[1:], *more, **KEY)


def _unrun() -> str:
    return "".join(block.text for block in blocks(PAGE) if block.language == "sh")


def test_a_model_is_kicked_back_and_no_ticket_is_paid_for_twice(tickets: Path) -> None:
    first = typed("fanfold run", tickets, "--json", "--quiet").receipt
    assert (first["status"], first["passed"], first["calls"]) == ("complete", 12, 13)
    again = typed("fanfold run", tickets, "--json", "--quiet").receipt
    assert (again["status"], again["calls"], again["reused"]) == ("complete", 0, 13)
    table = tickets / "tickets.csv"
    text = table.read_text(encoding="utf-8").replace("dark mode", "light mode")
    table.write_text(text, encoding="utf-8")
    assert typed("fanfold run", tickets, "--json", "--quiet").receipt["calls"] == 1


def test_a_run_that_paused_goes_on_by_the_command_of_the_page(tickets: Path) -> None:
    """The budget is enough for the worst case of one call, so the run pauses before its end."""
    paused = typed("fanfold run", tickets, "--budget", "0.004", "--json", "--quiet")
    assert (paused.code, paused.receipt["unfunded"] > 0) == (4, True)
    ended = typed("fanfold resume", tickets, "--json", "--quiet").receipt
    assert (ended["status"], ended["passed"], ended["budget_usd"]) == ("complete", 12, 0.5)
    assert paused.receipt["calls"] + ended["calls"] == 13


def test_only_what_needs_a_key_is_not_run() -> None:
    commands = [line for line in _unrun().splitlines() if line.startswith("fanfold")]
    assert [line.split()[1] for line in commands] == ["run", "resume"]
    assert "--roster models.yaml" in commands[0]
