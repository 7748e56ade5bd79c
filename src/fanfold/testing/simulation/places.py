"""Where a process is when it is killed: the lines of our code that its tasks wait in."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import fanfold.run
from fanfold.testing.simulation.machine import SimulatedProcess


def awaits_of(process: SimulatedProcess) -> set[str]:
    """The innermost of each task, as `run/attempt.py:171`."""
    places = {_place(task.get_coro()) for task in process.tasks()}
    return places - {""}


def _place(coroutine: Any) -> str:
    found = ""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is not None:
            _, ours, file = frame.f_code.co_filename.rpartition("/fanfold/")
            if ours and not file.startswith("testing/"):
                found = f"{file}:{frame.f_lineno}"
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return found


def await_sites() -> set[str]:
    """Every line of the run's own code that awaits something."""
    folder = Path(fanfold.run.__file__ or "").parent
    return {
        f"run/{file.name}:{node.lineno}"
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Await)
    }
