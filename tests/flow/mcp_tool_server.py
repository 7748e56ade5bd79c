"""An MCP server of the official SDK, with tools that behave and tools that do not: over stdio, or over
HTTP on the port that it prints."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("tests")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@server.tool()
def note(word: str) -> str:
    """Notes a word."""
    with open(sys.argv[1], "a") as file:
        file.write(f"{word}\n")
    return f"noted {word}"


@server.tool(annotations=READS)
def big() -> str:
    """Ten megabytes."""
    return "begin" + "." * 10_000_000 + "end"


@server.tool(annotations=READS)
def fails() -> str:
    """Fails."""
    raise ValueError("no such city")


@server.tool(annotations=READS)
def secrets() -> str:
    """What it sees."""
    return ",".join(sorted(set(os.environ) & {"GIVEN", "SECRET_TOKEN"}))


@server.tool(annotations=READS)
def hangs() -> str:
    """Never ends, and has a child."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(f"{sys.argv[1]}.pids", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    time.sleep(600)
    return "late"


@server.tool(annotations=READS)
def dies() -> str:
    """Ends the server."""
    os._exit(3)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        server.run("streamable-http", host="127.0.0.1", port=port)
    server.run("stdio")
