"""An orchestrator for the tests, as a program: it starts the MCP server it is told of, looks at the
menu, delegates three parts at once, and answers with all three. It has no keys of its own."""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

TASKS = [
    {"prompt": "Sum this up", "needs": ["summaries"]},
    {"prompt": "Is this legal?", "needs": ["legal"]},
    {"prompt": "What is 2+2?", "needs": ["maths"]},
]


async def main() -> None:
    question = sys.stdin.read()
    assert "ALBA_KEY" not in os.environ
    (config,) = msgspec.json.decode(sys.argv[2])["mcpServers"].values()
    server = StdioServerParameters(command=config["command"], args=config["args"])
    async with Client(stdio_client(server)) as client:
        menu = (await client.call_tool("menu", {})).structured_content
        done = (await client.call_tool("delegate_many", {"tasks": TASKS})).structured_content
    assert menu is not None and done is not None
    who = ", ".join(one["id"] for one in menu["members"])
    said = " | ".join(one.get("text") or one["status"] for one in done["results"])
    sys.stdout.write(f"{question}: {said} (of {who}; left {menu['left_usd']})\n")
    sys.stdout.write('{"fanfold": {"usd": 0.5, "input": 100, "output": 20}}\n')


asyncio.run(main())
