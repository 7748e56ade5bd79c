"""The wheel, built and installed in a new environment outside the checkout, works there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

from fanfold.faces.cli import examples
from tests.faces.cli import Ended
from tests.waiting import LONG

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r"\d+(\.\d)?s$|\b[0-9A-HJKMNP-TV-Z]{26}\b", re.MULTILINE)
"""What differs from run to run: the time it took, and its id."""


class Example(NamedTuple):
    """The first example of the README: its files, its first command, and what that prints."""

    files: dict[str, str]
    command: str
    prints: str


def first_example() -> Example:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    begin = text.index("<!-- file: ")
    console = CONSOLE.search(text, begin)
    assert console is not None
    files = {found[1]: found[2] for found in FILE.finditer(text, begin, console.start())}
    command, *printed = console[1].removeprefix("$ ").split("\n$ ")[0].splitlines()
    return Example(files, command, "".join(f"{line}\n" for line in printed))


class Installed:
    """A new environment with the wheel in it, and nothing of this one."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"
        venv.create(folder, with_pip=False, symlinks=True)

    @property
    def bytes(self) -> int:
        """Without Python's own, which are links."""
        return sum(path.lstat().st_size for path in self._bin.parent.rglob("*") if path.is_file())

    def pip(self, *words: str) -> subprocess.CompletedProcess[str]:
        python = str(self._bin / "python")
        pip = [sys.executable, "-m", "pip", "--python", python, "--no-input"]
        return run([*pip, "--disable-pip-version-check", "install", *words], ROOT)

    def fanfold(self, folder: Path, *words: str) -> Ended:
        env = {"PATH": str(self._bin), "HOME": str(folder), "LANG": "C.UTF-8"}
        done = run([str(self._bin / "fanfold"), *words], folder, env)
        return Ended(done.returncode, done.stdout, done.stderr)


def run(
    command: list[str], folder: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=LONG
    )


def copied(source: Path, to: Path) -> Path:
    """The project without what building and testing left in it, so that nothing is written there."""
    left = shutil.ignore_patterns(".*", "__pycache__", "dist", "build", "tests", "bench", "results")
    return shutil.copytree(source, to, ignore=left)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    top = tmp_path_factory.mktemp("wheel")
    project = copied(ROOT, top / "project")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(top)]
    built = run([*build, str(project)], top)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = top.glob("*.whl")
    shutil.rmtree(project)
    new = Installed(top / "env")
    locked = new.pip("--require-hashes", "--requirement", str(ROOT / "requirements.lock"))
    if locked.returncode and "connection broken" in locked.stderr:
        pytest.skip("the packages of the lock file are not in pip's cache, and there is no network")
    assert locked.returncode == 0, locked.stderr
    alone = new.pip("--no-deps", "--no-index", str(wheel))
    assert alone.returncode == 0, alone.stderr
    return new


def test_the_demo_runs_from_the_wheel(installed: Installed, tmp_path: Path) -> None:
    ended = installed.fanfold(tmp_path, "demo", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[:2] == [
        "contract-review complete",
        "163 of 163 done: 163 passed",
    ]
    assert (tmp_path / ".fanfold" / "demo" / "contracts" / "report.md").stat().st_size > 0


def test_the_first_example_of_the_readme_runs_from_the_wheel(
    installed: Installed, tmp_path: Path
) -> None:
    example = first_example()
    for name, text in example.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    program, *words = shlex.split(example.command)
    assert program == "fanfold"
    ended = installed.fanfold(tmp_path, *words)
    assert ended.err == ""
    assert SECONDS.sub("", ended.out) == SECONDS.sub("", example.prints)
    assert ended.code == (1 if " flagged: " in example.prints else 0)


@pytest.mark.parametrize("name", examples.names())
def test_an_application_is_in_the_wheel_with_all_its_files(
    installed: Installed, tmp_path: Path, name: str
) -> None:
    assert installed.fanfold(tmp_path, "new", name, "--from", name).code == 0
    ours = ROOT / "src" / "fanfold" / "apps" / name
    assert _files(tmp_path / name) == _files(ours) - {"report.md", "report.html", "findings.json"}


def _files(folder: Path) -> set[str]:
    """But for what Python and tools leave behind where they run."""
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    own = [one for one in found if one.parts[0][0] != "." and "__pycache__" not in one.parts]
    return {one.as_posix() for one in own}


def test_the_skill_is_in_the_wheel(installed: Installed, tmp_path: Path) -> None:
    text = (ROOT / "skills" / "fanfold" / "SKILL.md").read_text(encoding="utf-8")
    assert installed.fanfold(tmp_path, "skill", "show") == Ended(0, text, "")


def test_a_base_installation_is_small(installed: Installed) -> None:
    """Most of it is compiled: uvloop, the JSON Schema validator, aiohttp."""
    assert installed.bytes < 76_000_000


def test_the_wheel_knows_its_version(installed: Installed, tmp_path: Path) -> None:
    ended = installed.fanfold(tmp_path, "--version")
    assert re.fullmatch(r"fanfold \d+\.\d+\.\d+\n", ended.out)
