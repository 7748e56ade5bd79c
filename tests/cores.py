"""How `make test` spreads the tests over several cores.

Some rooms have files that prepare something once: a wheel, a server, runs of real agents. The tests
of such a file stay together, and begin first; so do all those that read the whole source. The others
go wherever there is time for them.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

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
