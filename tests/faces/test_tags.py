"""Tags of a run: for what it is paid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fanfold.testing.running import RunningServer
from tests.faces.cli import environment, fanfold, python, runs
from tests.faces.project import write_function_project, write_project
from tests.faces.ui_server import served


def test_runs_are_listed_and_their_money_is_added_up_by_tag(
    tmp_path: Path, quick_server: RunningServer
) -> None:
    folder = tmp_path / "project"
    write_project(folder, quick_server.url, items=2)
    plan = folder / "plan.yaml"
    plan.write_text("tags: [acme, '2026-Q4']\n" + plan.read_text())
    assert (
        fanfold(folder, "run", "plan.yaml", "--tag", "urgent", "--tag", "acme", "--quiet").code == 0
    )
    plan.write_text(plan.read_text().replace("tags: [acme, '2026-Q4']\n", ""))
    assert fanfold(folder, "run", "plan.yaml", "--fresh", "--name", "other", "--quiet").code == 0
    tagged, other = runs(folder)
    assert (tagged["tags"], other["tags"]) == (["acme", "2026-Q4", "urgent"], [])
    listed = json.loads(fanfold(folder, "status", "--tag", "acme", "--json").out)
    assert [one["name"] for one in listed] == ["talk"]
    assert "tags        acme, 2026-Q4, urgent" in fanfold(folder, "status", "talk").out
    with served(folder) as ui:
        money = ui.page("/money").partition("By tag")[2].partition("By run")[0]
        assert ">acme</a>" in money and ">2026-Q4</a>" in money and "without" in money
        assert "other" in ui.page("/") and "other" not in ui.page("/?q=acme")
        assert 'class="tag"' in ui.page(f"/run/{tagged['run']}")


def test_a_wrong_tag_is_refused_with_its_place(tmp_path: Path) -> None:
    write_function_project(tmp_path)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--tag", "x" * 61)
    assert (ended.code, runs(tmp_path)) == (2, [])
    assert "--tag: a tag has at most 60 printable characters" in ended.err
    plan = tmp_path / "plan.yaml"
    plan.write_text(plan.read_text() + "tags: ['a\\tb']\n".replace("'", '"'))
    ended = fanfold(tmp_path, "run", "plan.yaml")
    assert (ended.code, runs(tmp_path)) == (2, [])
    assert "plan.yaml:" in ended.err and "a tag has at most 60 printable characters" in ended.err


SCRIPT = """
import fanfold as ff

async def main():
    async with ff.open_run("s", members=[ff.function(str.upper, id="f")], tags={tags}) as run:
        await ff.map_reduce(run, ["a"], member="f")

ff.run_sync(main())
"""


@pytest.mark.parametrize(
    ("tags", "found"), [('["one", "two"]', ["one", "two"]), ('"one"', ["one"])]
)
def test_of_a_script(tmp_path: Path, tags: str, found: list[str]) -> None:
    ended = python(tmp_path, SCRIPT.format(tags=tags), env=environment(tmp_path))
    assert ended.code == 0, ended
    assert runs(tmp_path)[0]["tags"] == found
