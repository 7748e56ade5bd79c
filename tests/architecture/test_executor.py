"""An ask leaves the process in one place."""

from __future__ import annotations

import ast

from tests.architecture.sources import modules, nodes

ALLOWED = {"fanfold.run.executor"}
"""Besides members that wrap others: they are members themselves."""
WRAPPING = ("fanfold.members.", "fanfold.faces.cli.orchestrator", "fanfold.testing.")


def test_nothing_but_the_executor_asks_a_member() -> None:
    """A call `one.ask(request, tell)`; prompts have an `ask` of their own, with one argument."""
    found = {
        name
        for name in modules()
        for call in nodes(name, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "ask" and len(call.args) == 2
    }
    assert {name for name in found if not name.startswith(WRAPPING)} == ALLOWED
