"""Why the calls of a run wait: noted by its process, and said by status, the page and the feed."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from fanfold.testing.running import RunningServer
from tests.faces.cli import fanfold, runs, started
from tests.faces.project import write_project
from tests.faces.ui_server import served


def test_while_it_runs_everybody_says_why_calls_wait(tmp_path: Path, server: RunningServer) -> None:
    """The server holds the first three of six calls; then the other member is closed by an order."""
    folder = tmp_path / "project"
    write_project(folder, server.url)

    def waits() -> list[list[object]]:
        ended = fanfold(folder, "status", "talk", "--json")
        shown = json.loads(ended.out)["waits"] if ended.code == 0 else []  # it is not there yet
        return [[one["why"], one["calls"]] for one in shown]

    with ExitStack() as stack:
        run = stack.enter_context(started(folder, "run", "plan.yaml"))
        run.until(lambda: [why for why, _ in waits()] == ["slot"])
        assert "wait for a slot of m" in fanfold(folder, "status", "talk").out
        assert "run/waits" in fanfold(folder, "feed", "talk").out
        ui = stack.enter_context(served(folder))
        page = ui.page(f"/run/{runs(folder)[-1]['run']}")
        assert "wait for a slot of m" in page
        assert fanfold(folder, "pause", "talk").code == 0
        assert fanfold(folder, "set", "talk", "m=off").code == 0
        run.until(lambda: ["breaker", 0] in waits())
        assert (
            "m is not asked: switched off by the operator" in fanfold(folder, "status", "talk").out
        )
        assert fanfold(folder, "set", "talk", "m=on").code == 0
        server.release()
        assert fanfold(folder, "resume", "talk").code == 0
        assert run.end().code == 0
    assert waits() == []
