"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.fleet_root import Root, fleet
from tests.faces.project import PRICE


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """Its first three replies come when the test releases them, all others at once."""
    script = "tests.faces.scripts:held_at_first"
    with threaded_server(tmp_path / "books", price=PRICE, script=script) as server:
        yield server


@pytest.fixture
def quick_server(tmp_path: Path) -> Iterator[RunningServer]:
    """Whatever it is asked comes back, at once."""
    with threaded_server(tmp_path / "books", price=PRICE) as server:
        yield server


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Root]:
    """A fleet whose workers are programs; what they started is ended with the test."""
    with fleet(tmp_path) as root:
        yield root
