"""Which workers are at work, for whoever wants to launch one of them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.fleet import relaunch
from fanfold.fleet.relaunch import at_work
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage
from tests.unit.fleet.talk import said


def test_a_worker_that_has_ended_is_waited_for_until_its_end_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files tell of the end before the journal does, and `status` goes by them."""
    stage = Stage(tmp_path / "fleet", [worker("a"), worker("b")])
    attempts = {id: stage.starts(id, 0) for id in ("a", "b")}
    for id, attempt in attempts.items():
        stage.works(id, attempt, said("hello"))
    stage.hosted("a", alive=True)
    stage.exits("b", 1, 5)
    waited: list[float] = []

    def settles(seconds: float) -> None:
        waited.append(seconds)
        stage.ends("b", attempts["b"], 5, 0.01, "it failed")

    monkeypatch.setattr(relaunch.time, "sleep", settles)
    archive, record = stage.look()
    assert at_work(archive, record, ("a",)) == {"a"}
    assert (at_work(archive, record, ("b",)), len(waited)) == (set(), 1)
    archive.close()
    stage.close()
