"""`tools` of a step: read with their lines, and held against those who would be given them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import UNSET

from fanfold.members.tool_sources import look_at_tool
from fanfold.run.choose import no_tools
from fanfold.work.check import at, elements
from fanfold.work.document import Node
from fanfold.work.member import Traits
from fanfold.work.tool import StatedTool, StatedTools, as_fields, one_of_all, refuse_same_names

_BOUNDS = {"tool_rounds": "rounds", "tool_calls": "calls"}
LookFor = Callable[[Node], Callable[[str], Any]]
"""Looks for what a target at this place names, without importing it."""


def read_step_tools(node: Node, given: Any, folder: Path, look: LookFor) -> StatedTools | None:
    """Each is looked at as far as that runs nothing of it."""
    stated = [field for field in _BOUNDS if field in node.value]
    if getattr(given, "tools", UNSET) is UNSET:
        for field in stated:
            raise node.child(field).bad(f"`{field}` is for a step with `tools`")
        return None
    children = elements(node.child("tools"))
    found = tuple(
        _read_tool(child, one, folder, look)
        for child, one in zip(children, given.tools, strict=True)
    )
    refuse_same_names(found)
    return StatedTools(found, **{_BOUNDS[field]: getattr(given, field) for field in stated})


def _read_tool(node: Node, given: Any, folder: Path, look: LookFor) -> StatedTool:
    fields = at(node, lambda: as_fields(given))
    if fields.kind == "function":
        named = node if isinstance(node.value, str) else node.child("function")
        at(named, lambda: look(named)(str(fields.function)))
    stated = StatedTool(fields, str(folder), node.file, node.line)
    look_at_tool(stated)
    return stated


def trouble_with_tools(tools: StatedTools | None, members: Iterable[Traits]) -> str:
    """Why these cannot be given these tools, or, where a step states none, have not the same."""
    everyone = list(members)
    if tools is None:
        clash = one_of_all((one.id, one.tools) for one in everyone)
        return clash if isinstance(clash, str) else ""
    unfit = [one for one in everyone if tools.tools and not one.takes_tools]
    return no_tools(unfit[0]) if unfit else ""
