"""What `cli.started` forks is what `python -m fanfold` is: what the tests see there, users see too."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faces.cli import WARM, Ended, fanfold, new_process
from tests.faces.project import write_function_project
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
CHANGES = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b|\b\d+(\.\d+)?s\b|\d{4}-\d\d-\d\d \d\d:\d\d")

WHERE = """\
import locale, os, signal, stat, sys

def heard_by(number):
    handler = signal.getsignal(number)
    return getattr(handler, "__qualname__", str(handler))

def shout(item):
    return {
        "folder": os.getcwd(), "environment": dict(os.environ), "path": sys.path,
        "words": sys.argv, "main": sys.modules["__main__"].__spec__.name,
        "encodings": [sys.stdout.encoding, sys.getfilesystemencoding(), locale.getencoding()],
        "streams": [stat.S_IFMT(os.fstat(n).st_mode) for n in (0, 1, 2)],
        "buffers": [sys.stdout.line_buffering, sys.stderr.line_buffering],
        "signals": [heard_by(n) for n in (signal.SIGPIPE, signal.SIGTERM)],
    }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_function_project(tmp_path)
    return tmp_path


def both(folder: Path, *words: str) -> tuple[Ended, Ended]:
    fork = fanfold(folder, *words)
    with new_process(folder, *words) as program:
        return fork, program.end()


def bare(ended: Ended) -> Ended:
    """Without ids and times."""
    return Ended(ended.code, CHANGES.sub("…", ended.out), CHANGES.sub("…", ended.err))


@pytest.mark.parametrize(
    ("words", "code"),
    [("--help", 0), ("run plan.yaml", 1), ("run none.yaml", 2), *(
        pytest.param(*one, marks=pytest.mark.sweep)
        for one in (("run plan.yaml --quiet", 1), ("graph plan.yaml", 0), ("members", 0), ("stauts", 2),
                    ("status --json extra words", 2))
    )],
)  # fmt: skip
def test_a_fork_says_what_a_new_process_says(project: Path, words: str, code: int) -> None:
    fork, process = both(project, *words.split())
    assert bare(fork) == bare(process)
    assert process.code == code


def test_code_of_the_user_finds_itself_in_the_same_place(tmp_path: Path) -> None:
    write_function_project(tmp_path, code=WHERE)
    fork, process = both(tmp_path, "run", "plan.yaml", "--json", "--quiet")
    assert fork.receipt["result"] == process.receipt["result"]
    assert [found["value"]["folder"] for found in process.receipt["result"]] == [str(tmp_path)] * 3


# ── the process that forks ───────────────────────────────────────────────────────────────────


def test_who_is_gone_before_it_has_said_what_it_wants_takes_nobody_along(tmp_path: Path) -> None:
    for said in (b"", b"\0\0", b"\0\0\0\x09{"):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(WARM.address)
            link.sendall(said)
    assert fanfold(tmp_path, "--version").code == 0


OWNER = """\
import sys
from pathlib import Path
from tests.faces.cli import WARM, environment
from tests.faces.warm import Call, doors

folder = Path(sys.argv[1])
waits = "import signal; print('up', flush=True); signal.pause()"
call = Call(folder, (), environment(folder), folder / "out", folder / "err", waits)
print(doors(), WARM.start(call).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_owner_and_so_does_what_is_under_way(
    tmp_path: Path, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as owner:  # fmt: skip
        assert owner.stdout
        doors, fork = owner.stdout.readline().split()
        wait_until(lambda: (tmp_path / "out").read_text())
        owner.send_signal(number)
    wait_until(lambda: not listening(f"{doors}/commands"))
    wait_until(lambda: not Path("/proc", fork).exists())
    shutil.rmtree(doors)


def listening(address: str) -> bool:
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(address)
        except OSError:
            return False
    return os.path.exists(address)
