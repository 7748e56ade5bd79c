"""The same six tasks for fanfold and for others, on the same model server, counted by its books.

    python bench/peers/run.py [--rounds N] [--only PEER,…] [--tasks TASK,…] [--write]

Each peer is a file of this folder (`job.py` says what one is), installed from the package index into an
environment of its own in `.peers`. Where the system allows it, all of this runs in a network of its own
that has nothing but the loopback device, so no peer can send anything anywhere. `--write` puts the
tables into docs/promises.md.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from job import Job

from fanfold.price import Price, dollars
from fanfold.testing.running import RunningServer, running_server
from fanfold.testing.script import Asked, Says, key_required, random_usage

HERE = Path(__file__).parent
TOP = HERE.parent.parent
ENVIRONMENTS = TOP / ".peers"
PAGE = TOP / "docs" / "promises.md"
BEGIN, END = "<!-- peers: begin -->\n", "<!-- peers: end -->\n"
PRICE = Price(input=1.0, output=5.0)
CAP, KILLS, MAX_TOKENS = 0.05, 4, 200
GUARD = 240.0  # seconds for one start; then it is ended, and the table says so
FEW, MANY = 100, 600  # items, whose difference is measured: what is taken once does not count

# What the server says; it imports these from here.


def _spoken(asked: Asked) -> Says:
    """The prompt comes back; as the field `answer` where a schema asks for it."""
    return Says(data={"answer": asked.prompt}) if asked.schema is not None else Says()


costly = random_usage(1, _spoken)
locked = key_required("the right one", _spoken)
plain = _spoken


class _Busy:
    """One call in ten is answered 429, by lot."""

    def __init__(self) -> None:
        self._chance = random.Random(1)

    def __call__(self, asked: Asked) -> Says:
        if self._chance.random() < 0.1:
            return Says(status=429, latency=0.0)
        return _spoken(asked)


busy = _Busy()

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
    """`answers` None: it gave none, for `why`. `cpu`: seconds, of it and what it started."""

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
        began, before = time.monotonic(), os.times()
        process = self.start(task, **given)
        late = ""
        try:
            out, _ = process.communicate(timeout=GUARD)
        except subprocess.TimeoutExpired:
            late = f"not ended after {GUARD:g} s"
            end(process)
            out = ""
        end(process)  # what it may have left behind
        reap()
        after = os.times()
        cpu = (
            after.children_user
            - before.children_user
            + after.children_system
            - before.children_system
        )
        self.server.wait_idle()
        answers = _answers(out)
        why = late or ("" if answers is not None else self._error(process.returncode))
        return Ended(answers, cpu, time.monotonic() - began, why)

    def _error(self, code: int) -> str:
        lines = (self.folder / "stderr").read_text().strip().splitlines() or ["no message"]
        return f"ended with {code}: {lines[-1][:200]}"


def _answers(out: str) -> dict[str, Any] | None:
    for line in reversed(out.splitlines()):
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "answers" in found:
                return dict(found["answers"])
    return None


def end(process: subprocess.Popen[str]) -> None:
    """It and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ValueError):
        process.communicate()


def adopt_orphans() -> None:
    """What a peer starts and leaves behind becomes ours, so that its CPU time is counted. Linux only."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


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
            books, script=f"run:{script}", price=PRICE, latency_ms=latency
        ) as server:
            yield Scene(peer, folder, server, concurrency)


def items(count: int, about: str = "") -> list[dict[str, str]]:
    return [
        {"id": f"i{n}", "text": f"What is the {n}th thing to say?{about}"} for n in range(count)
    ]


def asked(scene: Scene) -> list[Any]:
    """Requests for answers; some clients also ask for the list of models, or send a test of their own."""
    return [entry for entry in scene.server.books().asked if "thing to say" in entry.prompt]


# ── the tasks ────────────────────────────────────────────────────────────────────────────────


def kills(peer: Peer, seed: int) -> str:
    """120 items, 8 at once, killed with -9 four times, then run to the end."""
    chance = random.Random(seed)
    with scene(peer, 8) as here:
        here.write(items(120))
        for number in range(KILLS):
            process = here.start("kills")
            wait_for(process, lambda goal=24 * (number + 1): here.server.totals().asked >= goal)
            time.sleep(chance.random() * 0.1)
            end(process)
            here.server.wait_idle()
        ended = here.run("kills")
        again, answered = 0, set[str]()
        for entry in (found := asked(here)):
            again += entry.prompt in answered
            answered |= {entry.prompt} if entry.answered else set()
        repeats = len(found) - len({entry.prompt for entry in found})
        return f"{again} · {repeats}" + _gaps(ended, 120)


def wait_for(process: subprocess.Popen[str], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GUARD
    while process.poll() is None and not done() and time.monotonic() < deadline:
        time.sleep(0.01)


def _gaps(ended: Ended, wanted: int) -> str:
    if ended.answers is None:
        return f"; {ended.why}"
    return "" if len(ended.held) == wanted else f"; {len(ended.held)} of {wanted} answered"


def cap(peer: Peer, seed: int) -> str:
    """400 items, 64 at once, a budget of $0.05, usage drawn at random up to max_tokens."""
    with scene(peer, 64, "costly") as here:
        here.write(items(400, f" ({seed})"))
        ended = here.run("cap", budget=CAP)
        books = here.server.books()
        bill, paid = dollars(books.bill), len([e for e in asked(here) if e.cost])
        over = max(0.0, bill / CAP - 1)
        lost = f"{paid - len(ended.held)} of {paid}" if ended.answers is not None else ended.why
        return f"{over:.0%} · {lost}"


def edit(peer: Peer, seed: int) -> str:
    """120 items; then one is edited, and the lines are shuffled."""
    with scene(peer, 8) as here:
        given = items(120)
        here.write(given)
        first = here.run("edit")
        before = len(asked(here))
        given[seed]["text"] += " And now?"
        random.Random(seed).shuffle(given)
        here.write(given)
        ended = here.run("edit")
        stale = sum(ended.held.get(item["id"], item["text"]) != item["text"] for item in given)
        return f"{len(asked(here)) - before} · {stale}" + (_gaps(first, 120) or _gaps(ended, 120))


def refusals(peer: Peer, seed: int) -> str:
    """500 items, 64 at once; then the same with one call in ten refused (429)."""
    seconds = []
    for script in ("plain", "busy"):
        with scene(peer, 64, script) as here:
            here.write(items(500, f" ({seed})"))
            ended = here.run("refusals")
            seconds.append(ended.seconds)
            sent = len(asked(here))
    return f"{seconds[1] / seconds[0]:.1f} · {500 - len(ended.held)} · {sent}"


def bad_key(peer: Peer, seed: int) -> str:
    """640 items, 64 at once, a key that the server refuses."""
    with scene(peer, 64, "locked") as here:
        here.write(items(640))
        ended = here.run("bad_key", key="a wrong one")
        late = f"; {ended.why}" if ended.why.startswith("not ended") else ""
        return f"{len(here.server.books().asked)}{late}"


def overhead(peer: Peer, seed: int, *, local: bool = False) -> float | str:
    """CPU seconds of one item, of it and what it starts: the difference of two runs."""
    used = []
    for count in (FEW, MANY):
        with scene(peer, 16, latency=0.0) as here:
            here.write(items(count, f" ({seed})"))
            ended = here.run("overhead", local=local)
            if len(ended.held) != count:
                return ended.why or f"{len(ended.held)} of {count} answered"
            used.append(ended.cpu)
    return (used[1] - used[0]) / (MANY - FEW)


class Task(NamedTuple):
    title: str
    figures: str
    measure: Callable[[Peer, int], Any]


TASKS = {
    "kills": Task("four kills (-9)", "answered asked again · repeats in all", kills),
    "cap": Task("a $0.05 cap, 64 at once", "over the cap · paid replies not held", cap),
    "edit": Task("one item edited, shuffled", "calls · stale answers", edit),
    "refusals": Task("one in ten 429", "time × · items lost · requests", refusals),
    "bad_key": Task("a bad key", "requests of 640 items", bad_key),
    "http": Task("CPU per HTTP call", "× the bare client (of that: ms)", overhead),
    "local": Task(
        "CPU per item", "ms, without HTTP", lambda peer, seed: overhead(peer, seed, local=True)
    ),
}

# ── the table ────────────────────────────────────────────────────────────────────────────────

Found = dict[str, dict[str, list[Any]]]


def cell(found: Found, peer: Peer, task: str) -> str:
    """Figures of all rounds, the distinct ones."""
    if why := peer.not_offered.get(task):
        return f"not offered: {why}"
    values = found[peer.name].get(task, [])
    if not values:
        return ""
    broken = [value for value in values if isinstance(value, str)]
    if task in ("http", "local") and broken:
        return broken[0]
    if task == "http" and peer.name != "raw":
        return _spread(values, "{:.1f}")
    if task in ("http", "local"):
        return _spread([value * 1000 for value in values], "{:.2f}")
    return "<br>".join(dict.fromkeys(values))


def _spread(values: list[float], form: str) -> str:
    shown = form.format(median(values))
    if len(values) == 1:
        return shown
    return f"{shown} ({form.format(min(values))} to {form.format(max(values))})"


def tables(found: Found, shown: list[Peer], versions: dict[str, str], rounds: int) -> str:
    chosen = [name for name in TASKS if any(name in found.get(peer.name, {}) for peer in shown)]
    head = ["", *(f"{TASKS[name].title}: {TASKS[name].figures}" for name in chosen)]
    lines = [_row(head), _row(["---"] * len(head))]
    for peer in shown:
        lines.append(_row([f"{peer.name}", *(cell(found, peer, name) for name in chosen)]))
    settings = [_row(["peer", "version", "as its docs say"]), _row(["---"] * 3)]
    settings += [
        _row([p.name, versions.get(p.name, "cannot be installed"), p.settings]) for p in shown
    ]
    made = (
        f"Made on {datetime.now(UTC):%Y-%m-%d}, Python {sys.version.split()[0]}, {rounds} rounds."
    )
    return "\n\n".join([made, "\n".join(lines), "\n".join(settings)]) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(one.replace("|", "\\|") for one in cells) + " |"


def alone() -> None:
    """Again in a network of its own, where the system lets us."""
    words = ["unshare", "--net", "--map-root-user", "sh", "-c"]
    script = 'ip link set lo up && exec "$@"'
    if os.environ.get("PEERS_ALONE") or not (shutil.which("unshare") and shutil.which("ip")):
        return
    if subprocess.run([*words, "ip link set lo up"], capture_output=True).returncode:
        return
    os.environ["PEERS_ALONE"] = "1"
    os.execvp("unshare", [*words, script, "sh", sys.executable, *sys.argv])


def measured(shown: list[Peer], tasks: list[str], rounds: int, into: Path) -> Found:
    """Round by round, so that what else the machine does falls on all alike; CPU of a call as a ratio to
    that of the bare client in the same round. What is measured replaces what `into` has of it."""
    found: Found = json.loads(into.read_text()) if into.exists() else {}
    for peer in shown:
        here = found.setdefault(peer.name, {})
        here.update({task: [] for task in tasks if task not in peer.not_offered})
    for seed in range(rounds):
        for task in tasks:
            for peer in shown:
                if task in peer.not_offered:
                    continue
                value = TASKS[task].measure(peer, seed)
                if task == "http" and peer.name == "raw":
                    base = value
                elif task == "http" and not isinstance(value, str):
                    value /= base
                found[peer.name][task].append(value)
                print(f"{datetime.now(UTC):%H:%M} {task:9} {peer.name:16} {value}", flush=True)
                into.write_text(json.dumps(found, indent=1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/peers/run.py")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="peers, with commas")
    parser.add_argument("--tasks", default=",".join(TASKS), help="tasks, with commas")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/promises.md")
    given = parser.parse_args()
    wanted = {*given.only.split(","), "raw"} if given.only else {peer.name for peer in peers()}
    chosen = [peer for peer in peers() if peer.name in wanted]
    ENVIRONMENTS.mkdir(exist_ok=True)
    lacking = {peer.name: why for peer in chosen if (why := install(peer))}
    alone()
    adopt_orphans()
    for name, why in lacking.items():
        print(f"{name} cannot be installed: {why}")
    shown = [peer for peer in chosen if peer.name not in lacking]
    versions = {peer.name: installed(peer) for peer in shown}
    found = measured(shown, given.tasks.split(","), given.rounds, ENVIRONMENTS / "found.json")
    text = tables(found, chosen, versions, given.rounds)
    print(text)
    if given.write:
        page = PAGE.read_text()
        before, _, rest = page.partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}")


if __name__ == "__main__":
    main()
