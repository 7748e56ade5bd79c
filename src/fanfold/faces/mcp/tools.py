"""The tools of the server, as a model reads of them: a desk's, and those that look after plans and
runs."""

from __future__ import annotations

from typing import Any

from fanfold.patterns.tools import arguments, desk_tools
from fanfold.work.ask import Tool


def tools(menu: list[dict[str, Any]]) -> list[Tool]:
    """With the members of now in their descriptions."""
    return [
        *desk_tools(menu),
        Tool(
            "run_plan",
            "Carry out a fanfold plan file (YAML) that lies in this server's folder, for work with "
            "many items: it is durable and checked. Returns its receipt; waits until it has ended.",
            arguments({"plan": {"type": "string", "description": "Path of the file."}}, "plan"),
        ),
        Tool(
            "status",
            "What was spent and what is left here, and the newest runs; or one run in detail.",
            arguments({"run": {"type": "string", "description": "A run's name or id."}}),
        ),
        Tool(
            "report",
            "The account of a run as Markdown: result, receipt, cost by member. Without `run`: of "
            "what was delegated here so far.",
            arguments({"run": {"type": "string", "description": "A run's name or id."}}),
        ),
    ]  # fmt: skip
