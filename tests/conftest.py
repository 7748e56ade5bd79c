"""Fixtures that more than one room's tests use, and how all of them are run."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests import postgres

SHARED_MEMORY = Path("/dev/shm")
ROOM = 2_000_000_000
"""Bytes that must be free there; all the folders of a whole run take a few hundred million."""

PYTHONS = os.path.dirname(os.path.realpath(sys.executable))
"""`python3` is the one that runs the tests: no script of a version manager, which takes ten times as
long to start, and that for every worker of a fleet."""

settings.register_profile(
    "quick", max_examples=25, deadline=None, derandomize=True, print_blob=True
)
settings.register_profile("sweep", settings.get_profile("quick"), max_examples=100)
settings.load_profile("quick")


def pytest_configure(config: pytest.Config) -> None:
    """Folders of tests lie in memory where there is enough of it: nobody waits for the disk then.

    What is durable there is what was committed, all the same. TMPDIR or `--basetemp` put them elsewhere.
    A shell that starts tests in the background, or nohup, has signals ignored, by all their
    processes too. Of what is collected nothing is garbage: nobody looks for it until that is done.
    """
    gc.disable()
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    if os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free > ROOM:
        os.environ.setdefault("TMPDIR", str(SHARED_MEMORY))
        tempfile.tempdir = None
    os.environ["PATH"] = f"{PYTHONS}{os.pathsep}{os.environ['PATH']}"


def pytest_collection_finish() -> None:
    """Thousands of tests stay in memory until the end; what looks for garbage need not go through
    them again and again, and need not look that often: a twentieth of the time. What is garbage by now
    is little, and to find it takes half a second in each process."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 50)


def pytest_sessionfinish() -> None:
    postgres.shut_down()


@pytest.fixture
def memory_path(tmp_path: Path) -> Path:
    """A folder for simulations of hundreds of runs: in memory where there is enough of it."""
    return tmp_path
