"""Settings of codex, as `-c KEY=VALUE` words: what `config.toml` would say, for one run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import Terminal
from fanfold.members.agents.environment import REFERENCE
from fanfold.work.nesting import decode_json

_encode = msgspec.json.Encoder().encode
_NAME = re.compile(r"[A-Za-z0-9_-]+")

# Without these it speaks to its maker's servers and others before the first call of the model.
_QUIET = (
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    "features.plugins=false",
    "features.apps=false",
)
# Agents of its own, and goals that it goes on with by itself, would escape the meter.
_BOUNDED = ("agents.enabled=false", "features.goals=false")
# Variables named like a key, a secret or a token are not shown to the commands that it runs.
_DISCREET = ("shell_environment_policy.ignore_default_excludes=false",)

ALWAYS = (*_QUIET, *_BOUNDED, *_DISCREET)

# It waits for servers only if they are required, and then for 10 seconds; there is nobody to ask; and
# what is delegated may take hours, not the usual 60 seconds.
_PATIENT = {
    "required": True, "default_tools_approval_mode": "approve", "startup_timeout_sec": 60,
    "tool_timeout_sec": 86_400,
}  # fmt: skip


def options(settings: Iterable[str]) -> Iterator[str]:
    for setting in settings:
        yield from ("-c", setting)


def toml(value: Any) -> str:
    """A value as TOML has it; JSON's strings and lists are written in the same way there."""
    if isinstance(value, Mapping):
        pairs = (f"{_text(name)}={toml(one)}" for name, one in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(toml(one) for one in value) + "]"
    return _text(value)


def _text(value: Any) -> str:
    return _encode(value).decode().replace("\x7f", "\\u007f")


# ── MCP servers ──────────────────────────────────────────────────────────────────────────────


def mcp_settings(member: str, stated: str, folder: Path) -> Iterator[str]:
    """From the form that claude and most others take: JSON, or a file that holds it.

    Their tools may be called without asking, and may take their time.
    """
    for name, server in _servers(member, stated, folder).items():
        if not _NAME.fullmatch(name) or not isinstance(server, dict):
            raise _bad(member, f"the server `{name}` cannot be read")
        table = _remote(server) if "url" in server else _local(member, name, server)
        yield f"mcp_servers.{name}={toml(table | _PATIENT)}"


def _servers(member: str, stated: str, folder: Path) -> dict[str, Any]:
    text = stated if stated.lstrip().startswith("{") else _read(member, folder / stated)
    try:
        servers = decode_json(text)["mcpServers"]
    except (ValueError, KeyError, TypeError):
        raise _bad(member, 'it must be JSON: {"mcpServers": {...}}') from None
    if not isinstance(servers, dict):
        raise _bad(member, "`mcpServers` must be a table of servers")
    return servers


def _read(member: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise _bad(member, f"the file {file} cannot be read: {why}") from None


def _local(member: str, name: str, server: dict[str, Any]) -> dict[str, Any]:
    if not server.get("command"):
        raise _bad(member, f"the server `{name}` needs a `command` or a `url`")
    table = {"command": server["command"], "args": server.get("args") or []}
    given = server.get("env") or {}
    passed = [key for key, value in given.items() if value == REFERENCE + key]
    plain = {key: value for key, value in given.items() if key not in passed}
    return table | ({"env": plain} if plain else {}) | ({"env_vars": passed} if passed else {})


def _remote(server: dict[str, Any]) -> dict[str, Any]:
    headers = server.get("headers")
    return {"url": server["url"]} | ({"http_headers": headers} if headers else {})


def _bad(member: str, why: str) -> Terminal:
    return Terminal(f"{member}: `mcp`: {why}", scope="member")
