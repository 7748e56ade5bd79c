"""How `make test` spreads the tests over several cores.

Some rooms have files that prepare something once: a wheel, a server, runs of real agents. The tests
of such a file stay together, and begin first; so do all those that read the whole source. The others
go wherever there is time for them.

In a fresh clone the tests have to be compiled, which takes longer than importing them. Each process
begins with other files, so that they compile them together and not each all of them.

They share the processes that `fanfold` is forked from: those take longer to start than many a test.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.faces import cli, warm

TOGETHER = (
    "tests/apps/", "tests/docs/", "tests/faces/", "tests/contract/test_questions.py",
    "tests/flow/test_ensemble.py", "tests/flow/test_never_pay_twice.py",
    "tests/flow/test_operator_plans.py", "tests/flow/test_operators.py",
    "tests/flow/test_routing_scores.py", "tests/unit/fleet/test_fleet_table.py",
    "tests/unit/members/test_local_engine.py", "tests/unit/observe/test_status.py",
)  # fmt: skip
READERS = "tests/architecture/"


class ByRoom(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        """Tests with the same scope go to the same process."""
        if nodeid.startswith(READERS):
            return READERS
        return nodeid.partition("::")[0] if nodeid.startswith(TOGETHER) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByRoom:
    return ByRoom(config, log)


@cache
def forking() -> str:
    """The folder of what forks `fanfold` for all processes; the controller starts it."""
    cli.WARM.open()
    cli.MCP.open()
    return str(warm.doors())


def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput["forking"] = forking()


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        warm.share(Path(worker["forking"]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Only where all tests run. What cannot be imported is said when it is collected."""
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    root = config.rootpath
    files = sorted((root / "tests").rglob("test_*.py"))
    mine = int(worker["workerid"].removeprefix("gw")) * len(files) // worker["workercount"]
    for file in files[mine:] + files[:mine]:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))
