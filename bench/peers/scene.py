"""A peer, installed; and one start of it, in a folder of its own, beside a model server."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from job import Job

from fanfold.price import Price
from fanfold.testing.running import RunningServer, running_server

HERE = Path(__file__).parent
TOP = HERE.parent.parent
ENVIRONMENTS = TOP / ".peers"
PRICE = Price(input=1.0, output=5.0)
MAX_TOKENS = 200
GUARD = 240.0  # seconds for one start; then it is ended, and the table says so

# ── peers ────────────────────────────────────────────────────────────────────────────────────


class Peer(NamedTuple):
    """A file of this folder, as its constants describe it."""

    name: str
    file: Path
    needs: list[str]
    settings: str
    not_offered: dict[str, str]

    @property
    def python(self) -> str:
        own = ENVIRONMENTS / self.name / "bin" / "python"
        return str(own) if self.needs else sys.executable


def peers() -> list[Peer]:
    """The bare client, fanfold, then the others by name."""
    files = sorted(HERE.glob("*_.py"), key=lambda file: (file.stem != "fanfold_", file.stem))
    return [_peer(file) for file in (HERE / "raw.py", *files)]


def _peer(file: Path) -> Peer:
    found: dict[str, Any] = {}
    for node in ast.parse(file.read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id in ("NEEDS", "SETTINGS", "NOT_OFFERED"):
            found[target.id] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
    name = file.stem.rstrip("_")
    return Peer(name, file, found["NEEDS"], found["SETTINGS"], found["NOT_OFFERED"])


def install(peer: Peer) -> str:
    """Into an environment of its own, unless it is there. Why it cannot be had, or ""."""
    folder = ENVIRONMENTS / peer.name
    mark = folder / "installed.json"
    if not peer.needs or (mark.exists() and json.loads(mark.read_text()) == peer.needs):
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", *peer.needs]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    mark.write_text(json.dumps(peer.needs))
    return ""


def installed(peer: Peer) -> str:
    """The versions of what it needs."""
    if not peer.needs:
        return version("fanfold")
    needs = peer.needs if len(peer.needs) == 1 else [n for n in peer.needs if n != "openai"]
    names = [re.split(r"[\[<>=]", need)[0] for need in needs]
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    done = subprocess.run([peer.python, "-c", code, *names], capture_output=True, text=True)
    return ", ".join(f"{n} {v}" for n, v in zip(names, done.stdout.split(), strict=True))


# ── one start of a peer ──────────────────────────────────────────────────────────────────────


class Ended(NamedTuple):
    """`answers` None: it gave none, for `why`. `cpu`: seconds since it had imported all."""

    answers: dict[str, Any] | None
    cpu: float
    seconds: float
    why: str = ""

    @property
    def held(self) -> dict[str, str]:
        return {id: said for id, said in (self.answers or {}).items() if said is not None}


class Scene:
    """A folder for a peer, and a server; items go into the folder."""

    def __init__(self, peer: Peer, folder: Path, server: RunningServer, concurrency: int) -> None:
        self.peer, self.folder, self.server, self._concurrency = peer, folder, server, concurrency

    def write(self, items: list[dict[str, str]]) -> None:
        (self.folder / "items.jsonl").write_text("".join(json.dumps(i) + "\n" for i in items))

    def start(self, task: str, **given: Any) -> subprocess.Popen[str]:
        job = Job(
            task, f"{self.server.url}/v1", given.get("key", "the right one"), "test-model", MAX_TOKENS,
            self._concurrency, given.get("budget"), PRICE.input, PRICE.output, given.get("local", False),
        )  # fmt: skip
        env = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "OPENAI_API_KEY": "the right one",
            "TMPDIR": str(self.folder), "PYTHONPATH": str(TOP / "src") if not self.peer.needs else "",
        }  # fmt: skip
        with (self.folder / "stderr").open("a") as errors:
            return subprocess.Popen(
                [self.peer.python, self.peer.file, json.dumps(job._asdict())], cwd=self.folder,
                env=env, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
            )  # fmt: skip

    def run(self, task: str, **given: Any) -> Ended:
        began = time.monotonic()
        process = self.start(task, **given)
        late = ""
        try:
            out, _ = process.communicate(timeout=GUARD)
        except subprocess.TimeoutExpired:
            late = f"not ended after {GUARD:g} s"
            end(process)
            out = ""
        end(process)  # what it may have left behind
        self.server.wait_idle()
        answers, cpu = _said(out)
        why = late or ("" if answers is not None else self._error(process.returncode))
        return Ended(answers, cpu, time.monotonic() - began, why)

    def _error(self, code: int) -> str:
        lines = (self.folder / "stderr").read_text().strip().splitlines() or ["no message"]
        return f"ended with {code}: {lines[-1][:200]}"


def _said(out: str) -> tuple[dict[str, Any] | None, float]:
    """The answers, and what they took."""
    for line in reversed(out.splitlines()):
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "answers" in found:
                return dict(found["answers"]), float(found["cpu"])
    return None, 0.0


def end(process: subprocess.Popen[str]) -> None:
    """It and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ValueError):
        process.communicate()


@contextmanager
def scene(
    peer: Peer, concurrency: int, script: str = "plain", latency: float = 100.0
) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory(
        prefix=f"peer-{peer.name}-", ignore_cleanup_errors=True
    ) as name:
        folder, books = Path(name) / "work", Path(name) / "books.jsonl"
        folder.mkdir()
        with running_server(
            books, script=f"tasks:{script}", price=PRICE, latency_ms=latency
        ) as server:
            yield Scene(peer, folder, server, concurrency)


def wait_for(process: subprocess.Popen[str], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GUARD
    while process.poll() is None and not done() and time.monotonic() < deadline:
        time.sleep(0.01)
