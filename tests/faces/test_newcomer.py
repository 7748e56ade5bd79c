"""What somebody meets who has only just cloned the project."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fanfold.faces.cli import examples
from tests.faces.cli import SRC, Ended, environment, fanfold
from tests.waiting import LONG

ROOT = SRC.parent
ALONE = ["unshare", "--user", "--map-root-user", "--net"]
"""No network at all, not even on loopback."""


def titles() -> dict[str, str]:
    """What each application's README begins with, `# NAME: what it is`."""
    pages = {name: SRC / "fanfold" / "apps" / name / "README.md" for name in examples.names()}
    first = {name: page.read_text(encoding="utf-8").splitlines()[0] for name, page in pages.items()}
    return {name: line.removeprefix(f"# {name}: ") for name, line in first.items()}


@pytest.mark.parametrize("command", ["demo", "new"])
def test_the_help_says_which_applications_there_are(tmp_path: Path, command: str) -> None:
    helped = fanfold(tmp_path, command, "--help").out
    _, mark, listed = helped.partition("Applications:\n")
    lines = [line.strip() for line in listed.splitlines()]
    assert mark and [re.split(" {2,}", line) for line in lines] == [
        [name, title] for name, title in titles().items()
    ]


def test_the_readme_has_all_applications_and_names_their_pattern() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `fanfold demo (\w+)` \| `(\w+)` \|", readme, re.MULTILINE)
    assert sorted(name for name, _ in rows) == examples.names()
    shapes = re.findall(r"^\| `(\w+)` \| ", readme.partition("## The shapes")[2], re.MULTILINE)
    assert {pattern for _, pattern in rows} <= set(shapes)


def installed(folder: Path) -> Path:
    """`bin/fanfold` beside `bin/activate`, as in a virtual environment."""
    (folder / "bin").mkdir()
    (folder / "bin" / "activate").touch()
    program = folder / "bin" / "fanfold"
    program.write_text(f"#!{sys.executable}\nfrom fanfold.faces.cli.main import main\n\nmain()\n")
    program.chmod(0o755)
    return program


def test_after_make_demo_it_says_how_fanfold_is_found(tmp_path: Path) -> None:
    """It is not on the path then, and the commands that are printed would not be found."""
    installed(tmp_path)
    env = environment(tmp_path) | {"PATH": "/usr/bin:/bin"}
    assert onward(tmp_path, env) == [
        "first:   . bin/activate", "report:  fanfold report intel",
        "yours:   fanfold new my-intel --from intel",
    ]  # fmt: skip
    env["PATH"] = f"{tmp_path / 'bin'}:{env['PATH']}"
    assert onward(tmp_path, env) == [
        "report:  fanfold report intel",
        "yours:   fanfold new my-intel --from intel",
    ]


def onward(folder: Path, env: dict[str, str]) -> list[str]:
    """The lines after the places of the files."""
    ended = subprocess.run(
        ["bin/fanfold", "demo", "intel", "--quiet"], cwd=folder, env=env, capture_output=True,
        text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    return lines[lines.index("page:    .fanfold/demo/intel/report.html") + 1 :]


@pytest.mark.slow
def test_the_demo_runs_where_there_is_no_network_whatever(tmp_path: Path) -> None:
    ended = alone(tmp_path, "demo", "--quiet")
    assert (ended.code, ended.err) == (0, "")


def test_what_needs_the_network_says_so_in_one_line(tmp_path: Path) -> None:
    ended = alone(tmp_path, "local", "setup")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "check the network" in ended.err


def alone(folder: Path, *words: str) -> Ended:
    try:
        able = subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        able = False
    if not able:
        pytest.skip("a network of its own cannot be made here")
    ended = subprocess.run(
        [*ALONE, sys.executable, "-m", "fanfold", *words], cwd=folder, capture_output=True,
        env=environment(folder, {"XDG_CACHE_HOME": str(folder)}), text=True, timeout=LONG,
        check=False,
    )  # fmt: skip
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def test_the_embedded_model_without_its_weights_is_one_line(tmp_path: Path) -> None:
    """In an application too, when a roster names it."""
    assert fanfold(tmp_path, "new", "mine", "--from", "contracts").code == 0
    roster = tmp_path / "mine" / "local.yaml"
    stated = (tmp_path / "mine" / "roster.yaml").read_text(encoding="utf-8")
    small = "  - {id: small, kind: local, good_at: [legal]}\n"
    assert "[legal" in stated
    roster.write_text(stated.replace("[legal", "[law") + small, encoding="utf-8")
    given = ("run", "plan.yaml", "--roster", "local.yaml", "--quiet")
    ended = fanfold(tmp_path / "mine", *given, XDG_CACHE_HOME=str(tmp_path))
    said = "fanfold: the weights of the embedded model are not there; run: fanfold local setup\n"
    assert ended == Ended(2, "", said)
