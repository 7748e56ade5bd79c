"""What the agents' programs are started with: permissions by the worker's type, variables, models.

The matrix of what is forbidden is turned into what is allowed, so that a tool nobody thought of is
not open. For claude these are tools; codex has a sandbox instead, which is coarser: whoever may write
may run commands there too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fanfold.errors import Terminal
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
    "research": Permission(
        (*_LOOK, "Write", "WebFetch", "WebSearch"), network=True, web_search=True
    ),
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


REFERENCE = "env:"


def resolved(env: Mapping[str, str], around: Mapping[str, str]) -> dict[str, str]:
    """`env` with each `env:NAME` replaced by the value of NAME in `around`.

    It is looked up at the last moment, so that no secret is ever written down. A variable that is
    not set (or empty) is a fault of the account: Terminal for the pool.
    """
    return {name: _value(name, stated, around) for name, stated in env.items()}


def references(env: Mapping[str, str]) -> frozenset[str]:
    """The names of the variables that `env` refers to: secrets, which nobody else is to see."""
    return frozenset(_name(stated) for stated in env.values() if stated.startswith(REFERENCE))


def _name(stated: str) -> str:
    return stated.removeprefix(REFERENCE)


def _value(name: str, stated: str, around: Mapping[str, str]) -> str:
    if not stated.startswith(REFERENCE):
        return stated
    value = around.get(_name(stated), "")
    if not value.strip():
        missing = _name(stated)
        text = f"env.{name}: the variable {missing} is not set; export it, or change the roster"
        raise Terminal(text, scope="pool")
    return value


_CLAUDE = {
    "": "claude-opus-5-5",
    "default": "claude-opus-5-5",
    "best": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
    "opus": "claude-opus-5-5",
    "opusplan": "claude-opus-5-5",  # plans with opus, works with sonnet: the dearer of the two
}
"""As claude 2.1.325 takes them with an API key; other versions and logins may differ. What a call
cost is told by the model that its events name."""


def pricing_model(provider: str, model: str | None) -> str:
    """The model's name in the price table. The program itself gets the name as it was written."""
    name = model or ""
    if provider == "claude":
        return _CLAUDE.get(name.removesuffix("[1m]"), name.removesuffix("[1m]"))
    return name
