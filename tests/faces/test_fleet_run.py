"""`fanfold run`, `resume` and `graph` on a fleet: a folder with a fleet.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faces.cli import fanfold, runs
from tests.unit.fleet.fleets import worker, write_fleet

WORKERS = [worker("a"), worker("b", type="read-only"), worker("c", "a", "b")]
STAND_INS = """\
members:
  - {id: a, kind: command, cmd: [cat], price: {call: 0}}
  - {id: b, kind: command, cmd: [cat], price: {call: 0}}
  - {id: c, kind: command, cmd: [cat], price: {call: 0}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = write_fleet(
        tmp_path / "f", WORKERS, fleet_name="night", config={"launch_delay_seconds": 0}
    )
    (tmp_path / "r.yaml").write_text(STAND_INS)
    return made


def files(folder: Path) -> list[str]:
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith((".out-", ".err-")))


@pytest.mark.parametrize("named", ["f", "f/fleet.json"])
def test_a_fleet_is_carried_out_and_kept_beside_its_file(
    root: Path, tmp_path: Path, named: str
) -> None:
    ended = fanfold(tmp_path, "run", named, "--roster", "r.yaml", "--json", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    assert (ended.receipt["name"], ended.receipt["passed"]) == ("night", 3)
    assert ended.receipt["result"]["b"] == "Do b."
    (kept,) = runs(tmp_path, "--store", "f/.fanfold")
    assert (kept["name"], kept["status"]) == ("night", "complete")
    assert not (tmp_path / ".fanfold").exists()


def test_another_store_is_used_when_it_is_named(root: Path, tmp_path: Path) -> None:
    words = ("run", "f", "--roster", "r.yaml", "--store", "elsewhere", "--quiet")
    assert fanfold(tmp_path, *words).code == 0
    assert len(runs(tmp_path, "--store", "elsewhere")) == 1
    assert not (root / ".fanfold").exists()


def test_a_worker_without_an_agent_has_no_log_to_view(root: Path, tmp_path: Path) -> None:
    assert fanfold(tmp_path, "run", "f", "--roster", "r.yaml", "--quiet").code == 0
    viewed = fanfold(tmp_path, "view", "f", "b")
    assert (viewed.code, viewed.err) == (0, "")
    assert viewed.out == "b ended passed and left no log; see: fanfold show night b\n"


def test_it_goes_on_by_the_name_of_its_folder(root: Path, tmp_path: Path) -> None:
    words = ("--roster", "r.yaml", "--json", "--quiet")
    first = fanfold(tmp_path, "run", "f", "--budget", "calls=2", *words)
    assert (first.code, first.receipt["status"], first.receipt["passed"]) == (4, "paused", 2)
    again = fanfold(tmp_path, "resume", "f", "--budget", "calls=9", "--json", "--quiet")
    assert (again.code, again.receipt["run"]) == (0, first.receipt["run"])
    assert (again.receipt["passed"], again.receipt["calls"]) == (3, 1)


def test_what_is_likely_to_end_badly_is_said_on_stderr(root: Path, tmp_path: Path) -> None:
    (root / "workers" / "b" / "prompt.md").write_text("Write b.md")
    ended = fanfold(tmp_path, "run", "f", "--roster", "r.yaml", "--json", "--quiet")
    assert ended.code == 0
    assert ended.err.startswith("warning: worker `b` is read-only and is asked to write files: ")
    assert ended.err.count("\n") == 1


def test_a_preview_asks_nobody_and_touches_nothing(root: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    ended = fanfold(tmp_path, "run", "f", "--roster", "r.yaml", "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert "  Layer 1 (DEFERRED)\n" in ended.out
    assert "3 workers across 2 layers" in ended.out
    assert "night: a preview; nothing is asked, paid or written" in ended.out
    assert files(tmp_path) == before


def test_a_fleet_is_drawn_layer_by_layer_without_its_prompts(root: Path, tmp_path: Path) -> None:
    for id in "abc":
        (root / "workers" / id / "prompt.md").unlink()
    drawn = fanfold(tmp_path, "graph", "f")
    assert (drawn.code, drawn.err) == (0, "")
    assert "  Layer 0 (LAUNCH)\n" in drawn.out
    assert "  Layer 1 (DEFERRED)\n" in drawn.out
    assert drawn.out.endswith(
        "  Layer 0 starts first; layer 1 starts after dependencies complete\n"
    )
    chart = fanfold(tmp_path, "graph", "f/fleet.json", "--mermaid").out
    assert chart.startswith(
        '```mermaid\ngraph TD\n    subgraph dag ["night — per-iteration DAG"]\n'
    )
    assert "    a --> c\n    b --> c\n" in chart


@pytest.mark.parametrize("command", ["run", "graph"])
def test_a_cycle_is_refused_and_nothing_touched(tmp_path: Path, command: str) -> None:
    write_fleet(tmp_path / "f", [worker("a", "b"), worker("b", "a")])
    before = files(tmp_path)
    ended = fanfold(tmp_path, command, "f")
    assert (ended.code, ended.out) == (2, "")
    assert "CYCLE:a,b\n" in ended.err
    assert files(tmp_path) == before


@pytest.mark.parametrize("command", ["run", "graph"])
def test_a_folder_that_is_no_fleet(tmp_path: Path, command: str) -> None:
    (tmp_path / "g").mkdir()
    ended = fanfold(tmp_path, command, "g")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "fanfold: g: holds no fleet.json; name a plan, or the folder of a fleet\n"


def test_a_program_that_is_not_installed(root: Path, tmp_path: Path) -> None:
    ended = fanfold(tmp_path, "run", "f", FANFOLD_CLAUDE=str(tmp_path / "none"))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"fanfold: f/fleet.json:5: worker `a` needs the program {tmp_path}/none, which is not on"
        " PATH; install it (npm install -g @anthropic-ai/claude-code) or name it in FANFOLD_CLAUDE\n"
    )
    assert not (root / ".fanfold").exists()
