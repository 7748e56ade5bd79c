"""Where the time goes: the top of a profile of the function map and of the HTTP map.

    python bench/hotspots.py [map|http] [--lines 35] [--sort tottime|cumtime]

The event loop's thread and the journal's thread are profiled apart. A profiler makes small Python
functions look dearer than they are; the first line of each says what it took without one.
(Not called `profile.py`: cProfile imports a module of that name.)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import io
import pstats
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import ours
from measure import job

import fanfold
from fanfold.testing.running import running_server

ITEMS = {"map": 20_000, "http": 5_000}
TARGETS = {"map": "ours:function_map", "http": "ours:http_map"}


class Profiles:
    """One profile per thread: cProfile sees only the thread it was switched on in."""

    def __init__(self) -> None:
        self.of: dict[str, cProfile.Profile] = {}

    def begin(self, *event: object) -> None:
        """Called in a thread; after that the profile itself gets its events."""
        profile = cProfile.Profile()
        with contextlib.suppress(ValueError):  # since Python 3.12 there can be only one
            profile.enable()
            self.of[threading.current_thread().name] = profile

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        threading.setprofile(self.begin)
        self.begin()
        try:
            asyncio.run(work)
        finally:
            threading.setprofile(None)
            self.of[threading.current_thread().name].disable()


@contextlib.contextmanager
def given(name: str) -> Iterator[dict[str, Any]]:
    """The arguments of the job, and its server while it is needed."""
    items = ITEMS[name]
    if name == "map":
        yield {"items": items, "concurrency": 64}
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder) / "books.jsonl", latency_ms=50) as server,
    ):
        yield {"items": items, "concurrency": 256, "url": f"{server.url}/v1"}


def show(name: str, lines: int, sort: str) -> None:
    with given(name) as arguments, tempfile.TemporaryDirectory() as folder:
        plain = job(TARGETS[name], **arguments)()
        profiles = Profiles()
        work = getattr(ours, TARGETS[name].partition(":")[2])
        profiles.run(work(folder=folder, **arguments))
    each = 1e6 / ITEMS[name]
    loop = plain.found["loop_cpu"]
    print(f"═══ {name}: {plain.cpu * each:.1f} µs per item without a profiler: {loop * each:.1f} in"
          f" the loop's thread, {(plain.cpu - loop) * each:.1f} in others")  # fmt: skip
    for thread, profile in profiles.of.items():
        print(f"─── {thread}")
        print(_top(profile, lines, sort))


def _top(profile: cProfile.Profile, lines: int, sort: str) -> str:
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats(sort).print_stats(lines)
    source = str(Path(fanfold.__file__).parent)
    return out.getvalue().replace(source, "fanfold").strip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/hotspots.py")
    parser.add_argument("names", nargs="*", metavar="map|http", default=list(ITEMS))
    parser.add_argument("--lines", type=int, default=35)
    parser.add_argument("--sort", default="tottime")
    options = parser.parse_args()
    for name in options.names:
        show(name, options.lines, options.sort)


if __name__ == "__main__":
    main()
