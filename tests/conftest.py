"""Fixtures that more than one room's tests use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
SHARED_MEMORY = Path("/dev/shm")

TOGETHER = ("apps", "docs", "faces")

settings.register_profile("here", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("here")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On several cores the tests of one file stay together in these rooms, where a file often
    prepares something once: a wheel, a server, a run of real agents. All others go where there is
    time for them.
    """
    for item in items:
        room, *_ = item.path.relative_to(HERE).parts
        if room in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one, for simulations of hundreds of runs.

    What is durable there is what was committed, all the same; only waiting for the disk is spared.
    """
    if not os.access(SHARED_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY, prefix="fanfold-test-") as folder:
        yield Path(folder)
