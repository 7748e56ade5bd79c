"""What a worker may do, by its type: the matrix of what is forbidden, turned into what is allowed,
so that a tool nobody thought of is not open.

For claude these are tools; codex has a sandbox instead, which is coarser: whoever may write may run
commands there too.
"""

from __future__ import annotations

from typing import NamedTuple

from fanfold.members.agents.worker import Sandbox, WorkerType

_LOOK = ("Read", "Glob", "Grep")
_EDIT = ("Write", "Edit", "NotebookEdit")


class Permission(NamedTuple):
    """`tools` of claude; the rest is codex's: `network` for its commands, `web_search` for the
    model itself."""

    tools: tuple[str, ...]
    sandbox: Sandbox = "workspace-write"
    network: bool = False
    web_search: bool = False


PERMITS: dict[WorkerType, Permission] = {
    "read-only": Permission(_LOOK, sandbox="read-only"),
    "write": Permission((*_LOOK, *_EDIT)),
    "code-run": Permission((*_LOOK, *_EDIT, "Bash")),
    "research": Permission((*_LOOK, "Write", "WebFetch", "WebSearch"), network=True, web_search=True),
    "reviewer": Permission(("Read", "Write")),
    "orchestrator": Permission((*_LOOK, "Write", "Bash")),
}


def permit(type: WorkerType | None) -> Permission:
    """Without a type it may only look."""
    return PERMITS[type or "read-only"]


def claude_tools(type: WorkerType | None) -> tuple[str, ...]:
    return permit(type).tools


def codex_sandbox(type: WorkerType | None) -> Sandbox:
    return permit(type).sandbox


def codex_network(type: WorkerType | None) -> bool:
    """Whether its commands may reach the network: research only."""
    return permit(type).network


def codex_web_search(type: WorkerType | None) -> bool:
    return permit(type).web_search


def may_write(type: WorkerType | None) -> bool:
    """False: asked to save files, it would burn its budget looking for a way."""
    return permit(type).sandbox != "read-only"


def may_run(type: WorkerType | None) -> bool:
    """Whether it may run commands."""
    return "Bash" in permit(type).tools
