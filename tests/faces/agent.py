"""An orchestrator for the tests, as a program: it starts the MCP server it is told of, looks at the
menu, delegates three parts at once, and answers with all three. It has no keys of its own.

It speaks the protocol by hand: the official client takes seconds to import, and is tried elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import IO, Any

TASKS = [
    {"prompt": "Sum this up", "needs": ["summaries"]},
    {"prompt": "Is this legal?", "needs": ["legal"]},
    {"prompt": "What is 2+2?", "needs": ["maths"]},
]
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "agent", "version": "1"},
}


def send(to: IO[bytes], **said: Any) -> None:
    to.write(json.dumps({"jsonrpc": "2.0", **said}).encode() + b"\n")
    to.flush()


def asked(server: subprocess.Popen[bytes], method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result; what the server says unasked is passed over."""
    assert server.stdin is not None and server.stdout is not None
    send(server.stdin, id=method, method=method, params=params)
    for line in server.stdout:
        said = json.loads(line)
        if said.get("id") == method:
            found: dict[str, Any] = said["result"]
            return found
    raise SystemExit("the server is gone")


def called(server: subprocess.Popen[bytes], tool: str, **arguments: Any) -> Any:
    return asked(server, "tools/call", {"name": tool, "arguments": arguments})["structuredContent"]


def main() -> None:
    question = sys.stdin.read()
    assert "ALBA_KEY" not in os.environ
    (config,) = json.loads(sys.argv[2])["mcpServers"].values()
    command = [config["command"], *config["args"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        asked(server, "initialize", HELLO)
        assert server.stdin is not None
        send(server.stdin, method="notifications/initialized")
        menu = called(server, "menu")
        done = called(server, "delegate_many", tasks=TASKS)
    who = ", ".join(one["id"] for one in menu["members"])
    said = " | ".join(one.get("text") or one["status"] for one in done["results"])
    sys.stdout.write(f"{question}: {said} (of {who}; left {menu['left_usd']})\n")
    sys.stdout.write('{"fanfold": {"usd": 0.5, "input": 100, "output": 20}}\n')


main()
