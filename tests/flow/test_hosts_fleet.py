"""Six real claude and codex workers over two hosts, by ssh: each kind of death, kill, launched again. The
model server's books say what was asked, the processes on the hosts what is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from fanfold.price import dollars
from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import SRC
from tests.faces.codex_config import CODEX_CONFIG
from tests.faces.fleet_runs import CLAUDE, CODEX, prices
from tests.faces.test_agents import program
from tests.flow.proxy import Proxy
from tests.hosts import LAB, Host, laboratory
from tests.sshd import SshServer, place_of, sshd
from tests.waiting import wait_until

pytestmark = pytest.mark.sweep
_FANFOLD = """\
#!/bin/sh
export HOME=$PWD CODEX_HOME=$PWD/codex TMPDIR=$PWD/tmp CLAUDE_CODE_TMPDIR=$PWD/tmp LANG=C.UTF-8
export PATH={path} PYTHONPATH={src} TERM=dumb ANTHROPIC_BASE_URL={url}
export ANTHROPIC_API_KEY=dummy FAKE_API_KEY=dummy CLAUDE_CODE_MAX_RETRIES=1
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
exec {python} -m fanfold "$@"
"""


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    program("claude")
    program("codex")
    with laboratory("desk", "mill", "gpu") as made:
        yield made


@pytest.fixture
def model(hosts: list[Host], tmp_path: Path) -> Iterator[RunningServer]:
    script, books = "tests.flow.hosts_script:held", tmp_path / "books.jsonl"
    with threaded_server(books, script=script, price=prices()) as running:
        yield running


class Fleet:
    """On the desk; its workers are on both other hosts."""

    def __init__(
        self, desk: Host, servers: list[SshServer], model: RunningServer, root: Path
    ) -> None:
        self.desk, self._servers, self._model, self.root = desk, servers, model, root / "desk"
        self.root.mkdir()
        port = Proxy(int(model.url.rpartition(":")[2]), LAB).port
        first, other = servers
        (other.folder / "authorized_keys").write_text((first.folder / "key.pub").read_text())
        with (first.folder / "known_hosts").open("a") as known:
            known.write((other.folder / "known_hosts").read_text())
        at = place_of(servers, first, slots=3)
        url = f"http://{LAB}:{port}"
        for server in servers:
            for name in ("codex", "tmp"):
                (server.home / name).mkdir()
            (server.home / "codex" / "config.toml").write_text(CODEX_CONFIG.format(url=url))
            (server.home / "workers.yaml").write_text(self._members(""))
        text = _FANFOLD.format(path=os.environ["PATH"], src=SRC, url=url, python=sys.executable)
        (first.folder / "fanfold").write_text(text)
        (self.root / "roster.yaml").write_text(self._members(f", at: {at}"))
        tasks = [
            {"id": f"w{n}", "prompt": f"You are w{n}.", "member": "cx"[n % 2], "verbatim": True}
            for n in range(6)
        ]
        plan = {"name": "fleet", "budget": {"usd": 50}, "steps": [{"graph": {"tasks": tasks}}]}
        (self.root / "plan.yaml").write_bytes(msgspec.json.encode(plan))

    def _members(self, more: str) -> str:
        claude = f"{{id: c, kind: claude, model: {CLAUDE}, program: {program('claude')}"
        codex = f"{{id: x, kind: codex, model: {CODEX}, program: {program('codex')}"
        same = f", tier: api, type: write, max_budget_usd: 2, concurrency: 6{more}}}"
        return f"settings: {{allow_paid: true}}\nmembers:\n  - {claude}{same}\n  - {codex}{same}\n"

    def at_work(self, count: int) -> bool:
        """So many have used their tool, and wait for what comes next."""
        return self._model.totals().in_flight == count

    def shown(self, *words: str) -> str:
        return self.desk.fanfold(self.root, *words).out

    def costs(self) -> dict[str, float]:
        """By worker, what it has cost so far."""
        lines = self.shown("status", "fleet").splitlines()
        rows = [re.match(r"(w\d) +(\w+) .*?[~≤]?\$([\d.]+) / ", line) for line in lines]
        return {row[1]: float(row[3]) for row in rows if row}

    def states(self) -> dict[str, str]:
        rows = re.findall(r"^(w\d) +(\w+) ", self.shown("status", "fleet"), re.MULTILINE)
        return dict(rows)


def find(host: Host, words: str) -> list[int]:
    """Processes on a host, by their numbers outside of it."""
    return [pid for pid, line in host.outside() if words in line]


def test_a_fleet_over_two_hosts_lives_through_every_death(
    hosts: list[Host], model: RunningServer, tmp_path: Path
) -> None:
    desk, *others = hosts
    with ExitStack() as stack:
        servers = [
            stack.enter_context(sshd(tmp_path / host.name, host.address, host.words()))
            for host in others
        ]
        fleet = Fleet(desk, servers, model, tmp_path)
        with desk.started(fleet.root, "run", "plan.yaml", "--json") as run:
            run.until(lambda: fleet.at_work(6))
            assert [len(find(host, "fanfold.members.agents.host")) for host in others] == [3, 3]
            run.until(lambda: len(fleet.costs()) == 6 and min(fleet.costs().values()) > 0)
            for pid in find(others[0], "worker --stdio"):
                os.kill(pid, signal.SIGKILL)
            os.kill(find(others[1], "fanfold.members.agents.host")[0], signal.SIGKILL)
            run.until(lambda: len(find(others[0], "worker --stdio")) == 1)
            run.kill()
        with desk.started(fleet.root, "resume", "fleet", "--json") as run:
            run.until(lambda: list(fleet.states().values()) == ["RUNNING"] * 6)
            assert fleet.at_work(6), "nothing was asked again"
            run.until(lambda: '"killed":["w0"]' in fleet.shown("kill", "fleet", "w0", "--json"))
            assert sum(len(find(host, "You are w0.")) for host in others) == 0
            model.release()
            ended = run.end()
        receipt = ended.receipt
        assert (receipt["passed"], receipt["failed"], receipt["in_doubt"]) == (5, 1, 0), ended
        assert fleet.states() == {f"w{n}": "DONE" if n else "KILLED" for n in range(6)}
        again = desk.fanfold(fleet.root, "relaunch", "fleet", "w0", "--no-tmux")
        assert again.code == 0, again
        wait_until(lambda: fleet.at_work(1))
        model.release()
        wait_until(lambda: list(fleet.states().values()) == ["DONE"] * 6)
        asked = list(model.books().asked)
        assert len(asked) == 14, "two calls of each, and of w0 once more"
        bill = dollars(sum(one.cost for one in asked))
        assert bill <= sum(fleet.costs().values()) < bill + 1.0
        wait_until(lambda: all(find(host, "fanfold") == [] for host in others))


def written_fleet(root: Path, servers: list[SshServer], text: str) -> None:
    """A fleet.json with a place for each of its workers; the hosts have copies of it."""
    first, _ = servers
    ways = {"roster": "fleet.json", "program": f"{first.folder}/fanfold"}
    at = [{"ssh": [one.url], "config": f"{first.folder}/ssh_config", **ways} for one in servers]
    config = {
        "model": CLAUDE,
        "fallback_model": CLAUDE,
        "billing": "api",
        "launch_delay_seconds": 0,
    }
    codex = {"provider": "codex", "model": CODEX}
    workers: list[dict[str, object]] = [
        {"id": "look", "type": "write", "at": at[0]},
        {"id": "check", "type": "write", "at": at[1], "depends_on": ["look"], **codex},
    ]
    done = {
        "fleet_name": "night",
        "config": {**config, "isolation": "worktree"},
        "workers": workers,
    }
    for one in workers:
        (root / "workers" / str(one["id"])).mkdir(parents=True)
        (root / "workers" / str(one["id"]) / "prompt.md").write_text(
            f"You are {one['id']}. {text}\n"
        )
    for folder in (root, *(one.home for one in servers)):
        (folder / "fleet.json").write_bytes(msgspec.json.encode(done))
    (first.folder / "fanfold").write_text(
        (first.folder / "fanfold").read_text().replace(
            "exec ", f"export FANFOLD_CLAUDE={program('claude')} FANFOLD_CODEX={program('codex')}\nexec "
        )
    )  # fmt: skip


def test_a_fleet_file_says_on_which_host_each_worker_runs(
    hosts: list[Host], tmp_path: Path
) -> None:
    """Each gets the repository where it is, the second with what the first one did; branches come back."""
    desk, *others = hosts
    books = tmp_path / "books.jsonl"
    with (
        ExitStack() as stack,
        threaded_server(books, script="tests.faces.fleet_scripts:works", price=prices()) as model,
    ):
        servers = [
            stack.enter_context(sshd(tmp_path / host.name, host.address, host.words()))
            for host in others
        ]
        fleet = Fleet(desk, servers, model, tmp_path)
        written_fleet(fleet.root, servers, "DO:note")
        made = (
            ("init", "-q", "-b", "main"),
            ("add", "fleet.json"),
            ("commit", "-q", "-m", "fleet"),
        )
        for words in made:
            _git(fleet.root, *words)
        with desk.started(fleet.root, "run", ".", "--json", "--allow-paid") as run:
            ended = run.end()
        assert (ended.code, ended.receipt["passed"], ended.receipt["calls"]) == (0, 2, 2), ended
        bill = sum(entry.cost for entry in model.books().asked)
        assert dollars(bill) == pytest.approx(ended.receipt["cost_usd"], rel=0.02)
        branches = _git(fleet.root, "branch", "--list", "fanfold/*", "--format=%(refname)").split()
        (last,) = [one for one in branches if "/check-" in one]
        names = _git(fleet.root, "ls-tree", "--name-only", last).split()
        assert names == ["check.txt", "fleet.json", "look.txt"]


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode()
