"""Fleets of the real claude and codex, launched, killed and resumed by the command line, against a
model server on loopback: `fleet_runs.py CLAUDE CODEX FOLDER` prints what was seen as one JSON
object. Run it where there is no other network. It looks at processes and files, and at the server's
books; what the tool says of itself is only handed on."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from fanfold.members.agents.worker import read_host, read_spec
from fanfold.price import Price, dollars, lookup
from fanfold.testing.server import ModelServer
from tests.faces.cli import Ended, fanfold
from tests.faces.codex_config import CODEX_CONFIG
from tests.faces.fleet_scripts import GAP, works
from tests.waiting import LONG

CLAUDE, DEARER, CODEX = "claude-haiku-4-5", "claude-sonnet-4-5", "gpt-5.5"
SECONDS = LONG


def prices() -> dict[str, Price]:
    made = {name: "openai" if name == CODEX else "anthropic" for name in (CLAUDE, DEARER, CODEX)}
    found = {name: lookup(name, maker) for name, maker in made.items()}
    return {name: price for name, price in found.items() if price is not None}


def worker(id: str, *depends_on: str, codex: bool = False, **more: Any) -> dict[str, Any]:
    who = {"provider": "codex", "model": CODEX} if codex else {}
    return {"id": id, "type": "write", "task": id, "depends_on": list(depends_on), **who, **more}


class Fleet:
    """One fleet in a folder of its own."""

    def __init__(
        self, lab: Lab, name: str, workers: Iterable[dict[str, Any]], **config: Any
    ) -> None:
        self.lab, self.name, self.root = lab, name, lab.folder / name
        self.workers = list(workers)
        usual = {"model": CLAUDE, "fallback_model": CLAUDE, "launch_delay_seconds": 0}
        self.ids = [one["id"] for one in self.workers]
        for one in self.workers:
            self.tell(one["id"], one.pop("do", "write"))
        made = {"fleet_name": name, "config": usual | config, "workers": self.workers}
        (self.root / "fleet.json").write_bytes(msgspec.json.encode(made))

    def tell(self, id: str, do: str) -> None:
        home = self.root / "workers" / id
        home.mkdir(parents=True, exist_ok=True)
        (home / "prompt.md").write_text(f"You are {id}. DO:{do}\n")

    def place(self, id: str) -> Path:
        return self.root / "workers" / id

    async def fanfold(self, *words: str) -> Ended:
        return await asyncio.to_thread(fanfold, self.root, *words, **self.lab.env)

    async def launch(self, *words: str) -> Ended:
        return await self.fanfold("launch", str(self.root), "--no-tmux", *words)

    async def status(self) -> dict[str, Any]:
        ended = await self.fanfold("status", str(self.root), "--json")
        found: dict[str, Any] = msgspec.json.decode(ended.out)
        return found

    async def states(self) -> dict[str, str]:
        return {one["id"]: one["status"] for one in (await self.status())["workers"]}

    async def over(self) -> None:
        """Until the run has an end, by its journal."""
        deadline = time.monotonic() + SECONDS
        while (await self.status())["status"] == "running":
            assert time.monotonic() < deadline, await self.status()
            await asyncio.sleep(0.3)

    def log(self, id: str) -> Path:
        return self.place(id) / "session.jsonl"

    def outputs(self) -> dict[str, list[str]]:
        return {id: sorted(f.name for f in self.place(id).glob("output/*")) for id in self.ids}

    def program(self, id: str) -> int:
        record = read_host(self.place(id))
        return 0 if record is None else record.program.pid

    def session(self, id: str) -> str:
        """The program's own, by which the server knows it."""
        spec = read_spec(self.place(id))
        assert spec is not None
        if spec.dialect == "claude":
            return spec.session
        first = self.log(id).read_bytes().split(b"\n")[0]
        return str(msgspec.json.decode(first)["thread_id"])

    def bill(self, id: str) -> float:
        session = self.session(id)
        entries = self.lab.server.books.asked
        return dollars(sum(one.cost for one in entries if one.session == session))

    async def costs(self) -> dict[str, tuple[float, float]]:
        """By worker: what we say, what the server's books say."""
        told = {one["id"]: one["cost"] for one in (await self.status())["workers"]}
        return {id: (told[id], self.bill(id)) for id in self.ids}


class Lab:
    def __init__(self, programs: tuple[str, str], folder: Path, server: ModelServer) -> None:
        self.folder, self.server = folder, server
        home = folder / "home"
        for name in ("codex", "tmp"):
            (home / name).mkdir(parents=True)
        (home / "codex" / "config.toml").write_text(CODEX_CONFIG.format(url=server.url))
        self.env = {
            "HOME": str(home), "CODEX_HOME": str(home / "codex"), "TMPDIR": str(home / "tmp"),
            "TMUX_TMPDIR": str(home / "tmp"),
            "CLAUDE_CODE_TMPDIR": str(home / "tmp"), "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "dummy", "FAKE_API_KEY": "dummy", "TERM": "dumb",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "1",
            "FANFOLD_CLAUDE": programs[0], "FANFOLD_CODEX": programs[1],
        }  # fmt: skip

    async def asked(self, session: Callable[[], str], least: int = 1) -> None:
        """Until the server has so many requests of a session."""

        def there() -> bool:
            return sum(one.session == session() for one in self.server.books.asked) >= least

        await until(there)


async def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            if true():
                return
        except (FileNotFoundError, AssertionError, IndexError, msgspec.DecodeError):
            pass
        assert time.monotonic() < deadline, true
        await asyncio.sleep(0.05)


def alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def digests(fleet: Fleet, but: str) -> dict[str, str]:
    logs = {id: fleet.log(id) for id in fleet.ids if id != but}
    return {id: hashlib.md5(log.read_bytes()).hexdigest() for id, log in logs.items()}


# ── what is tried ────────────────────────────────────────────────────────────────────────────


async def diamond(lab: Lab) -> dict[str, Any]:
    """Six workers of both providers; then one of the finished fleet is relaunched."""
    fleet = Fleet(lab, "diamond", [
        worker("top"), worker("left", "top", codex=True), worker("right", "top"),
        worker("bottom", "left", "right"), worker("alone", codex=True), worker("last", "bottom"),
    ], max_budget_fleet=5)  # fmt: skip
    launched = await fleet.launch()
    await fleet.over()
    first = {
        "launched": launched.code, "states": await fleet.states(), "costs": await fleet.costs(),
        "outputs": fleet.outputs(), "began": {id: read_began(fleet, id) for id in fleet.ids},
    }  # fmt: skip
    before = digests(fleet, "right")
    fleet.tell("right", "write once more")
    (fleet.place("right") / "output" / "finding.md").unlink()
    again = await fleet.fanfold("relaunch", str(fleet.root), "right", "--no-tmux")
    await until(lambda: (fleet.place("right") / "output" / "finding.md").exists())
    await fleet.over()
    return {
        "first": first, "relaunched": again.code, "states": await fleet.states(),
        "untouched": digests(fleet, "right") == before,
        "rotated": len(list(fleet.place("right").glob("session.jsonl.*.bak"))),
        "cost": (await fleet.costs())["right"],
        "prompt": (fleet.place("right") / "prompt.txt").read_text(),
    }  # fmt: skip


def read_began(fleet: Fleet, id: str) -> tuple[float, float]:
    """When its program began, and when its log was last written to."""
    record = read_host(fleet.place(id))
    assert record is not None
    return record.at, fleet.log(id).stat().st_mtime


async def endings(lab: Lab) -> dict[str, Any]:
    """Each goes wrong in its own way; none stands in the way of the others."""
    fleet = Fleet(lab, "endings", [
        worker("fine"),
        worker("spends", do="spend", max_budget_usd=0.1),
        worker("turns", do="turn", max_turns=2),
        worker("fails", do="fail"),
        worker("refuses", do="refuse"),
        worker("codex-spends", do="spend", codex=True, max_budget_usd=0.5),
        worker("codex-fails", do="fail", codex=True),
        worker("after", "fails"),
    ], max_concurrent=4)  # fmt: skip
    await fleet.launch()
    await fleet.over()
    report = await fleet.fanfold("report", str(fleet.root))
    status = await fleet.status()
    return {
        "states": await fleet.states(), "report": report.out,
        "said": {one["id"]: one["error"] for one in status["workers"]},
        "costs": await costs_of_those_that_ran(fleet),
    }  # fmt: skip


async def costs_of_those_that_ran(fleet: Fleet) -> dict[str, tuple[float, float]]:
    ran = [id for id in fleet.ids if fleet.log(id).exists()]
    told = {one["id"]: one["cost"] for one in (await fleet.status())["workers"]}
    return {id: (told[id], fleet.bill(id)) for id in ran}


async def shot(lab: Lab) -> dict[str, Any]:
    """A worker's program is killed behind everybody's back."""
    fleet = Fleet(lab, "shot", [worker("victim", do="hang"), worker("other")])
    await fleet.launch()
    await lab.asked(lambda: fleet.session("victim"))
    os.kill(fleet.program("victim"), signal.SIGKILL)
    await fleet.over()
    verbose = await fleet.fanfold("status", str(fleet.root), "--json", "-v")
    return {
        "states": await fleet.states(), "session": fleet.session("victim"), "status": verbose.out,
    }  # fmt: skip


async def orphaned(lab: Lab) -> dict[str, Any]:
    """The supervisor is killed with -9: one worker ends meanwhile, others go on."""
    fleet = Fleet(lab, "orphaned", [
        worker("quick"), worker("slow", do="slowly"), worker("slow-codex", do="slowly", codex=True),
        worker("next", "quick", "slow", "slow-codex"),
    ])  # fmt: skip
    launched = await fleet.launch("--json")
    pid = msgspec.json.decode(launched.out)["pid"]
    for id in ("quick", "slow", "slow-codex"):
        await lab.asked(lambda id=id: fleet.session(id))  # type: ignore[misc]
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not alive(pid))
    living = {id: alive(fleet.program(id)) for id in ("slow", "slow-codex")}
    crashed = (await fleet.status())["status"]
    resuming = asyncio.create_task(fleet.fanfold("resume", str(fleet.root), "--json"))
    adopted = False
    while not resuming.done():
        adopted = adopted or (await fleet.status())["status"] == "running"
        if adopted:
            lab.server.release()
        await asyncio.wait([resuming], timeout=0.1)
    resumed = await resuming
    sessions = {id: fleet.session(id) for id in fleet.ids}
    return {
        "living": living, "crashed": crashed, "resumed": resumed.code,
        "receipt": msgspec.json.decode(resumed.out), "states": await fleet.states(),
        "costs": await fleet.costs(), "outputs": fleet.outputs(),
        "asked": {id: sum(one.session == s for one in lab.server.books.asked)
                  for id, s in sessions.items()},
    }  # fmt: skip


async def killed(lab: Lab) -> dict[str, Any]:
    """One worker with a grandchild in a session of its own is killed; its namesake lives; then all
    are."""
    fleet = Fleet(lab, "killed", [
        worker("a", do="daemon", type="code-run"), worker("ab", do="hang"),
        worker("codex", do="hang", codex=True), worker("after", "a"),
    ])  # fmt: skip
    await fleet.launch()
    daemon = fleet.root / "daemon.pid"
    await until(lambda: daemon.exists() and bool(daemon.read_text().strip()))
    await lab.asked(lambda: fleet.session("a"), least=2)
    await lab.asked(lambda: fleet.session("ab"))
    await lab.asked(lambda: fleet.session("codex"))
    grandchild = int(daemon.read_text())
    programs = {id: fleet.program(id) for id in ("a", "ab", "codex")}
    before = {"grandchild": alive(grandchild), **{id: alive(p) for id, p in programs.items()}}
    one = await fleet.fanfold("kill", str(fleet.root), "a", "--force")
    after = {"grandchild": alive(grandchild), **{id: alive(p) for id, p in programs.items()}}
    states = await fleet.states()
    every = await fleet.fanfold("kill", str(fleet.root), "all", "--force")
    return {
        "before": before, "code": one.code, "after": after, "states": states,
        "all": every.code, "left": {id: alive(pid) for id, pid in programs.items()},
        "run": (await fleet.status())["status"], "end": await fleet.states(),
        "costs": await costs_of_those_that_ran(fleet),
        "at_most": {one["id"]: one["at_most"] for one in (await fleet.status())["workers"]},
    }  # fmt: skip


async def fallback(lab: Lab) -> dict[str, Any]:
    """The model is overloaded and a dearer one takes over, which passes the worker's budget."""
    fleet = Fleet(
        lab, "fallback", [worker("w", do="overload", max_budget_usd=0.3)], fallback_model=DEARER,
        max_budget_fleet=1.0,
    )  # fmt: skip
    usual, lab.env["CLAUDE_CODE_MAX_RETRIES"] = lab.env["CLAUDE_CODE_MAX_RETRIES"], "3"
    launched = await fleet.launch()
    await fleet.over()
    lab.env["CLAUDE_CODE_MAX_RETRIES"] = usual
    status = await fleet.status()
    return {
        "launched": launched.code, "costs": await fleet.costs(), "receipt": status["cost_usd"],
        "overrun": status["overrun_usd"], "states": await fleet.states(), "said": launched.err,
    }  # fmt: skip


async def handed(lab: Lab) -> dict[str, Any]:
    """Dependents with the results of their parents, in worktrees; then the sessions are continued
    with the commands that `status` names."""
    fleet = Fleet(lab, "handed", [
        worker("look", do="note"), worker("bad", do="fail"),
        worker("check", "look", codex=True, do="note {{ parents.look }}"),
        worker("sum", "check", "bad", partial=True, do="note {{ parents.check }}"),
        worker("reads", "look", do="parents"),
    ], isolation="worktree")  # fmt: skip
    await asyncio.to_thread(put_into_git, fleet.root)
    await fleet.launch()
    await fleet.over()
    told = {one["id"]: one for one in (await fleet.status())["workers"]}
    done = [id for id in fleet.ids if told[id]["status"] == "DONE"]
    return {
        "states": await fleet.states(), "last": {id: told[id]["last_msg"] for id in done},
        "sent": {id: (fleet.place(id) / "prompt.txt").read_text() for id in done},
        "trees": {id: texts(fleet, id) for id in done},
        "errors": {id: one["error"] for id, one in told.items()},
        "continued": {id: await continued(lab, fleet, id, told[id]["continue"]) for id in done},
    }  # fmt: skip


def put_into_git(folder: Path) -> None:
    for words in ("init -q", "add fleet.json", "commit -qm first"):
        own = ("-c", "user.name=t", "-c", "user.email=t@localhost", *words.split())
        subprocess.run(["git", *own], cwd=folder, check=True, capture_output=True)


def texts(fleet: Fleet, id: str) -> list[str]:
    """The text files in the folder that it worked in."""
    spec = read_spec(fleet.place(id))
    assert spec is not None
    return sorted(file.name for file in Path(spec.folder).glob("*.txt"))


async def continued(lab: Lab, fleet: Fleet, id: str, command: str) -> tuple[int | None, int, int]:
    """How it ended, and how many requests of the session the server had before and after. Both would
    want a terminal: so one question is asked, with the same words otherwise."""
    session = fleet.session(id)

    def asked() -> int:
        return sum(one.session == session for one in lab.server.books.asked)

    before = asked()
    command = command.replace("codex resume", "codex exec resume").replace(
        "claude --", "claude -p --"
    )
    env = {"PATH": os.environ["PATH"], **lab.env}
    process = await asyncio.create_subprocess_shell(
        f"{command} 'DO:note once more'", env=env, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    await asyncio.wait_for(process.wait(), SECONDS)
    return process.returncode, before, asked()


async def raised(lab: Lab) -> dict[str, Any]:
    """Workers that were stopped at their caps continue in their sessions, with raised ones."""
    fleet = Fleet(lab, "raised", [
        worker("claude", do="spend", max_budget_usd=0.1),
        worker("codex", do="spend", codex=True, max_budget_usd=0.5),
    ])  # fmt: skip
    await fleet.launch()
    await fleet.over()
    sessions, before = {id: fleet.session(id) for id in fleet.ids}, await fleet.states()
    codes = {}
    for id in fleet.ids:
        await fleet.fanfold("set", str(fleet.root), f"{id}.max_budget_usd=2")
        again = await fleet.fanfold("relaunch", str(fleet.root), id, "--continue", "--no-tmux")
        codes[id] = (again.code, again.err)
        await fleet.over()
    told = {one["id"]: one for one in (await fleet.status())["workers"]}
    return {
        "before": before, "codes": codes, "states": await fleet.states(),
        "last": {id: one["last_msg"] for id, one in told.items()},
        "same": {id: fleet.session(id) == session for id, session in sessions.items()},
        "costs": await fleet.costs(),
    }  # fmt: skip


async def told(lab: Lab) -> dict[str, Any]:
    """A claude at work is given a message, and reads it; codex gets it at its next start. Both call a
    tool again and again until they have read it."""
    fleet = Fleet(lab, "told", [
        worker("claude", do="listen", max_turns=400), worker("codex", do="listen", codex=True),
    ])  # fmt: skip
    await fleet.launch()
    said = {}
    for id in fleet.ids:
        await lab.asked(lambda id=id: fleet.session(id), least=2)  # type: ignore[misc]
        said[id] = (await fleet.fanfold("tell", str(fleet.root), id, f"{GAP}, {id}.")).out
    sessions = {id: fleet.session(id) for id in fleet.ids}
    await fleet.fanfold("kill", str(fleet.root), "codex", "--force")
    await fleet.over()
    first = await fleet.states()
    await fleet.fanfold("relaunch", str(fleet.root), "codex", "--continue", "--no-tmux")
    await fleet.over()
    view = await fleet.fanfold("view", str(fleet.root), "claude")
    return {
        "said": said, "first": first, "states": await fleet.states(), "view": view.out,
        "last": {one["id"]: one["last_msg"] for one in (await fleet.status())["workers"]},
        "same": {id: fleet.session(id) == session for id, session in sessions.items()},
        "costs": (await fleet.costs())["claude"],
    }  # fmt: skip


TRIED = (diamond, endings, shot, orphaned, killed, fallback, handed, raised, told)


async def main(programs: tuple[str, str], folder: Path) -> None:
    async with ModelServer(works, prices=prices()) as server:
        lab = Lab(programs, folder, server)
        found = {tried.__name__: await tried(lab) for tried in TRIED}
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    asyncio.run(main((sys.argv[1], sys.argv[2]), Path(sys.argv[3])))
