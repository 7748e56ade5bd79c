"""What watching costs a run: one run over a model server, with three pages open and without, in turns.

Each page does what a browser does at most: it listens to the events, and reads itself again every second.
By processor time of the run's own process, and by the clock. `python -m bench.watched`
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from fanfold.journal import opening
from fanfold.testing.running import RunningServer, running_server

ROUNDS, SECONDS = 12, 4.0
PLAN = """\
name: watched
input: {count: 1000000}
steps:
  - map: {prompt: "Say {{ item.n }}", member: m, concurrency: 32}
"""
ROSTER = """\
members:
  - {{id: m, kind: openai, model: m, base_url: "{url}/v1", price: {{input: 1, output: 1}}, max_tokens: 50,
     limits: {{concurrency: 32}}}}
"""


class Pace(NamedTuple):
    """Calls for each second that the process of the run worked, and for each of the clock."""

    by_cpu: float
    by_clock: float


@contextmanager
def watched(link: str, paths: tuple[str, ...]) -> Iterator[None]:
    """So many pages are open."""
    parts, ended = urlsplit(link), threading.Event()
    cookie = {"Cookie": f"fanfold-{parts.port}={parts.query.partition('=')[2]}"}

    def client(path: str) -> http.client.HTTPConnection:
        made = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
        made.request("GET", path, headers=cookie)
        return made

    def page(path: str) -> None:
        events = client("/events")
        while not ended.wait(1.0):
            asked = client(path)
            assert asked.getresponse().read()
            asked.close()
        events.close()

    pages = [threading.Thread(target=page, args=(path,)) for path in paths]
    for one in pages:
        one.start()
    try:
        yield
    finally:
        ended.set()
        for one in pages:
            one.join()


def pace(run: psutil.Process, server: RunningServer) -> Pace:
    def worked() -> float:
        times = run.cpu_times()
        return float(times.user + times.system)

    calls, cpu, clock = server.totals().asked, worked(), time.monotonic()
    time.sleep(SECONDS)
    made = server.totals().asked - calls
    return Pace(made / (worked() - cpu), made / (time.monotonic() - clock))


def compared(folder: Path, server: RunningServer) -> tuple[list[Pace], list[Pace]]:
    """Alone and watched, in turns: what changes on the machine meanwhile changes both."""
    fanfold = [sys.executable, "-m", "fanfold"]
    env = {**os.environ, "HOME": str(folder)}
    run = subprocess.Popen([*fanfold, "run", "plan.yaml", "--quiet"], cwd=folder, env=env)
    while not server.totals().asked:
        assert run.poll() is None
        time.sleep(0.1)
    ui = subprocess.Popen(
        [*fanfold, "ui", "--no-open"], cwd=folder, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        assert ui.stdout is not None
        link, process = ui.stdout.readline().strip(), psutil.Process(run.pid)
        view = opening.look(str(folder / ".fanfold"))
        path = f"/run/{view.read.runs()[-1].id}"
        view.close()
        alone, beside = [], []
        for _ in range(ROUNDS):
            alone.append(pace(process, server))
            with watched(link, ("/", path, f"{path}?tab=items")):
                beside.append(pace(process, server))
        return alone, beside
    finally:
        for program in (ui, run):
            program.kill()
            program.wait()


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with running_server(folder / "books", latency_ms=5) as server:
            (folder / "plan.yaml").write_text(PLAN)
            (folder / "roster.yaml").write_text(ROSTER.format(url=server.url))
            alone, beside = compared(folder, server)
    for name in Pace._fields:
        before, after = (median(getattr(one, name) for one in paces) for paces in (alone, beside))
        each = median(
            getattr(b, name) / getattr(a, name) for a, b in zip(alone, beside, strict=True)
        )
        sys.stdout.write(
            f"{name}: {before:,.0f} alone, {after:,.0f} watched by three pages; in pairs {each - 1:+.1%}\n"
        )


if __name__ == "__main__":
    main()
