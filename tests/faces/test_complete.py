"""Completion on Tab: what is offered where, as bash itself asks for it; quick, and silent."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.faces.cli import WARM, environment, fanfold
from tests.faces.project import write_function_project

pytestmark = pytest.mark.slow

SOURCE = """\
eval "$(fanfold completion bash)"
COMP_WORDS=(fanfold {words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_fanfold
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p fanfold
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """With a run, and with `fanfold` on the path."""
    write_function_project(tmp_path)
    assert fanfold(tmp_path, "run", "plan.yaml", "--name", "my run").code == 1
    (tmp_path / "bin").mkdir()
    WARM.write_program(tmp_path / "bin" / "fanfold")
    return tmp_path


def tab(project: Path, *words: str) -> list[str]:
    """What bash has to choose from after these words; the last is as far as it was typed."""
    env = environment(project, {})
    env["PATH"] = f"{project / 'bin'}:{env['PATH']}"
    script = SOURCE.format(words=shlex.join(words))
    ended = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=project, env=env, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert ended.stderr == ""
    *found, registered = ended.stdout.splitlines()
    assert registered == "complete -F _fanfold fanfold"
    return [word for word in found if word]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["sta"], ["status"]),
        (["re"], ["resume", "report", "retry", "relaunch"]),
        (["status", "--w"], ["--watch"]),
        (["status", ""], [r"my\ run"]),
        (["status", "--json", "m"], [r"my\ run"]),
        (["status", "nobody"], []),
        (["runs", "r"], ["rm"]),
        (["runs", "rm", "x", "m"], [r"my\ run"]),
        (["runs", "prune", "--k"], ["--keep"]),
        (["members", "set", ""], ["shout"]),
        (["ask", "--member", "s"], ["shout"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["run", "--store", "elsewhere", "--fre"], ["--fresh"]),
        (["status", "--store", "elsewhere", ""], []),
        (["nonsense", ""], []),
        (["run", "plan"], []),  # files: bash completes them by itself
    ],
)
def test_bash_offers_verbs_options_runs_and_members(
    project: Path, words: list[str], offered: list[str]
) -> None:
    assert tab(project, *words) == offered


def test_every_verb_is_offered_with_its_options(project: Path) -> None:
    listed = fanfold(project, "--help").out.partition("First steps:\n")[2]
    verbs = [
        line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "
    ]
    assert sorted(tab(project, "")) == sorted(verbs)
    assert {"--budget", "--dry-run", "--help"} <= set(tab(project, "run", "--"))


def test_a_file_is_completed_as_a_file(project: Path) -> None:
    assert fanfold(project, "__complete", "run", "").out == ":files\n"
    assert fanfold(project, "__complete", "members", "--roster", "r").out == ":files\n"


def test_a_run_is_completed_by_its_id_too(project: Path) -> None:
    (row,) = msgspec.json.decode(fanfold(project, "runs", "--json").out)
    assert fanfold(project, "__complete", "status", row["run"][:4]).out == f"{row['run']}\n"


@pytest.mark.parametrize("spoiled", [".fanfold/journal.db", "roster.yaml", "completion.json"])
@pytest.mark.parametrize("words", [("status", ""), ("members", "set", "")])
def test_what_cannot_be_read_offers_nothing_and_says_nothing(
    project: Path, spoiled: str, words: tuple[str, ...]
) -> None:
    env = environment(project, {})
    cache = Path(env.get("XDG_CACHE_HOME") or Path(env["HOME"], ".cache"), "fanfold")
    fanfold(project, "__complete", "")
    file = cache / spoiled if spoiled == "completion.json" else project / spoiled
    file.write_bytes(b"\x00[: {" * 400)
    ended = fanfold(project, "__complete", *words)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out in ("", "my run\n", "shout\n")


def test_it_looks_and_changes_nothing_in_a_store(project: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (project / ".fanfold").rglob("*")}
    assert fanfold(project, "__complete", "status", "").out == "my run\n"
    assert {path: path.stat().st_mtime_ns for path in (project / ".fanfold").rglob("*")} == before


def test_it_is_quick_because_it_loads_next_to_nothing(project: Path) -> None:
    """Once the commands are known: no other module of ours takes part, and no large one of others."""
    fanfold(project, "__complete", "")
    code = (
        "import sys; from fanfold.faces.cli.main import main; main(['__complete', 'status', '']);"
        " print(*sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=environment(project, {}), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    offered, loaded = ended.stdout.splitlines()
    assert offered == "my run"
    rooms = {name.split(".")[1] for name in loaded.split() if name.startswith("fanfold.")}
    assert rooms <= {"errors", "faces", "journal", "members", "work"}
    assert {"msgspec", "jinja2", "asyncio", "fanfold.members.roster"}.isdisjoint(loaded.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(project: Path, shell: str) -> None:
    ended = fanfold(project, "completion", shell)
    assert (ended.code, ended.err) == (0, "") and "__complete" in ended.out


def test_the_help_says_where_the_script_belongs(project: Path) -> None:
    said = fanfold(project, "completion", "--help").out
    for shell in ("bash", "zsh", "fish"):
        assert f"  fanfold completion {shell} > ~/" in said


def test_a_shell_that_is_lacking_or_unknown_is_one_line(project: Path) -> None:
    for words in ((), ("tcsh",)):
        ended = fanfold(project, "completion", *words)
        assert (ended.code, ended.err.count("\n")) == (2, 1) and "bash" in ended.err
