"""Where tools come from: functions, programs, MCP servers; opened, or only looked at."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from msgspec import UNSET

from fanfold.errors import BadInput
from fanfold.members.process import why_not_startable
from fanfold.members.tools import ANYTHING, ToolMember, command_tool, function_tool, stated_command
from fanfold.work.ask import Tool
from fanfold.work.tool import StatedTool


async def open_tools(stated: StatedTool) -> tuple[ToolMember, ...]:
    """The tools that are meant: one, or those of a server, which is started for it. BadInput with the
    line when it cannot be had."""
    look_at_tool(stated)
    match stated.fields.kind:
        case "function":
            return (function_tool(stated),)
        case "command":
            return (command_tool(stated),)
    from fanfold.members.mcp_tools import server_tools

    try:
        return await server_tools(stated)
    except BadInput as error:
        raise stated.bad(error.what) from None


def look_at_tool(stated: StatedTool) -> None:
    """What keeps it from being used, found without running or starting anything: BadInput. A function
    is looked for elsewhere."""
    fields = stated.fields
    words = fields.command if fields.kind == "command" else fields.mcp
    if fields.kind == "mcp" and find_spec("mcp") is None:
        raise stated.bad("tools of MCP servers need the extra `mcp`: pip install 'fanfold[mcp]'")
    if words is UNSET or isinstance(words, str):
        return
    if why := why_not_startable(words[0], Path(stated.folder)):
        raise stated.bad(f"tool {stated.shown}: {why}")


def unopened(stated: StatedTool) -> tuple[Tool, ...]:
    """What is known without importing or starting anything; a stand-in for the rest."""
    if stated.fields.kind == "command":
        return (stated_command(stated),)
    return (Tool(stated.shown, "", ANYTHING),)
