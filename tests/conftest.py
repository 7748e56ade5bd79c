"""Fixtures that more than one room's tests use."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

SHARED_MEMORY = Path("/dev/shm")

settings.register_profile("here", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("here")


def pytest_collection_finish() -> None:
    """Thousands of tests stay in memory until the end; what looks for garbage need not go through
    them again and again."""
    gc.collect()
    gc.freeze()


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
