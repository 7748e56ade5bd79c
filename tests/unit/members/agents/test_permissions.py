"""What a worker may do follows from its type, as a list of what is allowed."""

from __future__ import annotations

from typing import get_args

import pytest

from fanfold.members.agents.program_settings import (
    PERMITS,
    claude_tools,
    codex_network,
    codex_sandbox,
    codex_web_search,
    may_run,
    may_write,
)
from fanfold.members.agents.worker import WorkerType

FORBIDDEN: dict[WorkerType, set[str]] = {
    "read-only": {"Bash", "Edit", "Write", "Agent", "WebFetch", "WebSearch", "NotebookEdit"},
    "write": {"Bash", "Agent", "WebFetch", "WebSearch"},
    "code-run": {"Agent", "WebFetch", "WebSearch"},
    "research": {"Bash", "Edit", "Agent", "NotebookEdit"},
    "reviewer": {"Bash", "Edit", "Agent", "WebFetch", "WebSearch", "NotebookEdit", "Glob"},
    "orchestrator": {"Agent", "WebFetch", "WebSearch", "Edit", "NotebookEdit"},
}


def test_every_type_has_its_permit() -> None:
    assert set(PERMITS) == set(get_args(WorkerType)) == set(FORBIDDEN)


@pytest.mark.parametrize("type", get_args(WorkerType))
def test_no_type_may_use_what_is_forbidden_to_it(type: WorkerType) -> None:
    forbidden = FORBIDDEN[type] | {"Task", "Skill", "CronCreate", "Workflow", "EnterWorktree"}
    assert set(claude_tools(type)) & forbidden == set()


def test_the_tools_of_claude() -> None:
    look = ("Read", "Glob", "Grep")
    assert {type: claude_tools(type) for type in get_args(WorkerType)} == {
        "read-only": look,
        "write": (*look, "Write", "Edit", "NotebookEdit"),
        "code-run": (*look, "Write", "Edit", "NotebookEdit", "Bash"),
        "research": (*look, "Write", "WebFetch", "WebSearch"),
        "reviewer": ("Read", "Write"),
        "orchestrator": (*look, "Write", "Bash"),
    }


def test_the_sandbox_of_codex() -> None:
    """Only research reaches the network, only read-only cannot write."""
    types = get_args(WorkerType)
    assert {type for type in types if codex_sandbox(type) == "read-only"} == {"read-only"}
    assert {type for type in types if codex_network(type)} == {"research"}
    assert {type for type in types if codex_web_search(type)} == {"research"}
    assert {type for type in types if not may_write(type)} == {"read-only"}
    assert {type for type in types if may_run(type)} == {"code-run", "orchestrator"}


def test_without_a_type_it_may_only_look() -> None:
    found = (claude_tools(None), codex_sandbox(None), codex_network(None), may_write(None))
    assert found == (("Read", "Glob", "Grep"), "read-only", False, False)
