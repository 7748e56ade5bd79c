"""Which runs may be removed: none that is running, and none whose workers live."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fanfold.fleet.removal import old_runs, remove_runs, why_not_removable
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage


@pytest.mark.parametrize("script", [False, True], ids=["fleet", "script"])
def test_a_run_whose_workers_outlived_it_stays_until_they_have_ended(
    tmp_path: Path, script: bool
) -> None:
    stage = Stage(tmp_path / "fleet", [worker("a")], script=script)
    attempt = stage.starts("a", 0)
    stage.works("a", attempt, "c01_trivial")
    stage.hosted("a", alive=True)
    archive, record = stage.look()
    assert (
        why_not_removable(archive, record)
        == f"is running; end it first: fanfold kill {record.id} all"
    )
    archive.close()
    stage.crashes()
    archive, record = stage.look()
    said = f"has workers at work (a); end them first: fanfold kill {record.id} all"
    assert why_not_removable(archive, record) == said
    assert old_runs(archive, None, keep=0) == []
    stage.exits("a", 0, 9)
    assert why_not_removable(archive, record) == ""
    assert old_runs(archive, None, keep=0) == [record]
    archive.close()
    stage.close()


def test_its_agents_logs_go_with_it_and_a_fleets_folder_stays(tmp_path: Path) -> None:
    for script in (False, True):
        stage = Stage(tmp_path / f"{script}", [worker("a")], script=script)
        attempt = stage.starts("a", 0)
        place = stage.works("a", attempt, "c01_trivial")
        stage.exits("a", 0, 9)
        stage.crashes()
        archive, record = stage.look()
        archive.close()
        stage.close()
        freed = asyncio.run(remove_runs(str(stage.store), [record], replies=False))
        assert freed.runs == (record.id,)
        assert place.exists() is not script
