"""The same six tasks for fanfold and for others, on the same model server, counted by its books.

    python bench/peers/run.py [--rounds N] [--only PEER,…] [--tasks TASK,…] [--write]

Each peer is a file of this folder (`job.py` says what one is), installed from the package index into an
environment of its own in `.peers`. Where the system allows it, all of this runs in a network of its own
that has nothing but the loopback device, so no peer can send anything anywhere. `--write` puts the
tables into docs/promises.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from scene import ENVIRONMENTS, TOP, Peer, install, installed, peers
from tasks import TASKS

PAGE = TOP / "docs" / "promises.md"
BEGIN, END = "<!-- peers: begin -->\n", "<!-- peers: end -->\n"
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
