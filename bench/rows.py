"""The rows of the table: what is measured, against what, and what it should be."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from fleet import WORKERS, measured
from measure import Job, Pair, Sample, in_turn, job, median, program
from workers import Parties, middle

from fanfold.price import Price
from fanfold.testing.running import running_server

MICRO = 1e6


class Size(NamedTuple):
    """How much of it. The targets hold for the full size; the quick one is only a look."""

    runs: int
    items: int
    many: int
    few: int
    posts: int
    done: int
    launches: int


FULL = Size(
    runs=5, items=20_000, many=100_000, few=1_000, posts=5_000, done=100_000, launches=1_000
)
QUICK = Size(runs=3, items=5_000, many=20_000, few=1_000, posts=1_000, done=10_000, launches=200)


class Line(NamedTuple):
    """One line of the table. With `times` the target bounds ours / raw, without it ours itself.

    `ours` None: it could not be measured, `note` says why.
    """

    what: str
    unit: str
    raw: float | None
    ours: float | None
    target: float
    times: bool = True
    note: str = ""

    @property
    def value(self) -> float | None:
        """What the target bounds."""
        if self.ours is None:
            return None
        return self.ours / self.raw if self.times and self.raw else self.ours

    @property
    def met(self) -> bool | None:
        return None if self.value is None else self.value <= self.target


class Way(NamedTuple):
    """`uvloop` is for both sides alike."""

    size: Size
    uvloop: bool

    def job(self, target: str, **arguments: Any) -> Job:
        return job(target, uvloop=self.uvloop, **arguments)

    def in_turn(self, raw: Job, ours: Job) -> Pair:
        return in_turn(raw, ours, self.size.runs)


def _cpu(items: int) -> Callable[[Sample], float]:
    return lambda sample: sample.cpu / items * MICRO


def _wall(sample: Sample) -> float:
    return sample.wall


def function_map(way: Way) -> Iterator[Line]:
    n = way.size.items
    given = {"items": n, "concurrency": 64}
    pair = way.in_turn(way.job("raw:pool", **given), way.job("ours:function_map", **given))
    raw, ours = median(pair.raw, _cpu(n)), median(pair.ours, _cpu(n))
    usual = way.job("raw:tasks", **given)
    other = median([usual() for _ in range(way.size.runs)], _cpu(n))
    yield Line(
        f"no-op function map, {n:,} items, durable, gated, budgeted: CPU per item", "µs", raw, ours,
        4.0, note="raw: 64 workers and a group-committing writer;"
        f" {ours / other:.1f} × a task per item behind a semaphore ({other:.1f} µs)",
    )  # fmt: skip


def linear(way: Way) -> Iterator[Line]:
    few, many = way.size.few, way.size.many
    pair = way.in_turn(
        way.job("ours:function_map", items=few, concurrency=64),
        way.job("ours:function_map", items=many, concurrency=64),
    )
    single = way.job("ours:function_map", items=1, concurrency=64)
    fixed = median([single() for _ in range(way.size.runs)], _cpu(few))
    raw, ours = median(pair.raw, _cpu(few)), median(pair.ours, _cpu(many))
    peak = median(pair.ours, lambda sample: sample.found["peak_mb"])
    growth = (ours - fixed * few / many) / (raw - fixed)
    yield Line(
        f"the same, {many:,} items against {few:,}: CPU per item", "µs", raw, ours, 1.15,
        note=f"raw: ours with {few:,}; {growth:.2f} × without what one item alone takes;"
        f" peak {peak:.0f} MB",
    )  # fmt: skip


def http(way: Way) -> Iterator[Line]:
    n = way.size.posts
    with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as folder:
        price = Price(input=1.0, output=5.0)
        with running_server(Path(folder) / "books.jsonl", price=price, latency_ms=50) as server:
            given = {"items": n, "concurrency": 256}
            pair = way.in_turn(
                way.job("raw:http", url=f"{server.url}/v1/chat/completions", **given),
                way.job("ours:http_map", url=f"{server.url}/v1", **given),
            )
    raw, ours = median(pair.raw, _cpu(n)), median(pair.ours, _cpu(n))
    what = f"HTTP, 50 ms server, 256 at once, {n:,} items, paid member"
    yield Line(f"{what}: CPU per item", "µs", raw, ours, 1.25, note="raw: aiohttp, nothing kept")
    yield Line("the same: wall time", "s", median(pair.raw, _wall), median(pair.ours, _wall), 1.15)


def http_waiting(way: Way) -> Iterator[Line]:
    given = {"target": "ours:http_map", "items": way.size.posts, "slots": 64}
    yield _http_line(
        way, {**given, "concurrency": 64}, {**given, "concurrency": 256},
        "HTTP, 64 slots, 256 workers against 64: CPU per item", 1.05,
    )  # fmt: skip


def http_script(way: Way) -> Iterator[Line]:
    given = {"items": way.size.posts, "concurrency": 256}
    yield _http_line(
        way, {"target": "ours:http_map", **given}, {"target": "ours:http_script", **given},
        "HTTP, 256 at once, as a user's script against the benchmark's own: CPU per item", 1.1,
    )  # fmt: skip


def _http_line(
    way: Way, one: dict[str, Any], other: dict[str, Any], what: str, target: float
) -> Line:
    """Ours against ours."""
    with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as folder:
        price = Price(input=1.0, output=5.0)
        with running_server(Path(folder) / "books.jsonl", price=price, latency_ms=50) as server:
            url = f"{server.url}/v1"
            pair = way.in_turn(way.job(**one, url=url), way.job(**other, url=url))
    each = _cpu(one["items"])
    return Line(what, "µs", median(pair.raw, each), median(pair.ours, each), target,
                note="raw: ours")  # fmt: skip


def team_store(way: Way) -> Iterator[Line]:
    """Ours against ours: the calls of `http`, in a new store for each run."""
    what = "HTTP, 64 at once, store on PostgreSQL against SQLite: CPU per item, our process"
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests import postgres  # its server is that of the tests

    try:
        places = postgres.server().place
    except BaseException as skipped:  # as pytest says it
        yield Line(what, "µs", None, None, 3.0, note=str(skipped))
        return
    n = way.size.posts
    with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as folder:
        price = Price(input=1.0, output=5.0)
        with running_server(Path(folder) / "books.jsonl", price=price, latency_ms=50) as server:
            given = {"items": n, "concurrency": 64, "url": f"{server.url}/v1"}
            pair = way.in_turn(
                way.job("ours:http_map", **given),
                lambda: way.job("ours:http_map", **given, folder=places())(),
            )
    postgres.shut_down()
    raw, ours = median(pair.raw, _cpu(n)), median(pair.ours, _cpu(n))
    yield Line(what, "µs", raw, ours, 3.0, note="raw: ours on SQLite")


def queued(way: Way) -> Iterator[Line]:
    """The same plan with and without workers, on one PostgreSQL."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests import postgres

    what = "members of 50 ms through one queue, 64 at once, two workers: "
    try:
        parties = Parties(way, postgres.server())
    except BaseException as skipped:  # as pytest says it
        yield Line(what + "asks in a second", "", None, None, 150.0, note=str(skipped))
        return
    n, few = way.size.few, range(min(3, way.size.runs))
    ways = [(n, 64, 0), (n, 64, 2), (n // 10, 1, 0), (n // 10, 1, 2)]
    found = [[parties.measured(*one) for one in ways] for _ in few]  # in turn
    local, ours, alone, one = (middle(list(same)) for same in zip(*found, strict=True))
    postgres.shut_down()
    yield Line(what + "ms for each of 1,000 asks in a row", "ms", 1e3 / local["rate"], 1e3 / ours["rate"],
               6.6, times=False, note=f"{ours['rate']:.0f} asks in a second; at least 150")  # fmt: skip
    server = f"PostgreSQL {ours['server']:.2f} ms ({local['server']:.2f} without)"
    shares = f"workers {ours['workers']:.2f} ms, {server}"
    yield Line(what + "CPU per ask, the run", "ms", local["run"], ours["run"], 3.0, note=shares)
    yield Line("one ask at a time through a queue: time added, median", "ms", None,
               one["latency"] - alone["latency"], 30.0, times=False)  # fmt: skip


def followed(way: Way) -> Iterator[Line]:
    given = {"items": way.size.many, "concurrency": 64}
    pair = way.in_turn(way.job("ours:function_map", **given), way.job("ours:followed", **given))
    raw, ours = (median(samples, lambda sample: sample.found["took"]) for samples in pair)
    yield Line(
        f"function map, {way.size.many:,} items, a subscriber and a process that follows: wall time",
        "s", raw, ours, 1.05, note="raw: ours without them",
    )  # fmt: skip


def resume(way: Way) -> Iterator[Line]:
    yield _resumed(way, "function", "function member")
    yield _resumed(way, "openai", "openai member")


def _resumed(way: Way, kind: str, who: str) -> Line:
    done = way.size.done
    given = {"kind": kind, "done": done, "items": done + 100}
    with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as folder:
        seed, copy = Path(folder) / "seed", Path(folder) / "copy"
        way.job("ours:half_done", **{**given, "folder": str(seed)})()
        with running_server(Path(folder) / "books.jsonl") as server:
            again = way.job(
                "ours:resume", **{**given, "folder": str(copy), "url": f"{server.url}/v1"}
            )
            samples = [_on_copy(seed, copy, again) for _ in range(way.size.runs)]
    first = median(samples, lambda sample: sample.found["first"] - sample.found["begun"])
    cpu = median(samples, lambda sample: sample.cpu)
    return Line(
        f"resume with {done:,} items done, {who}: to the first new call", "s", None, first, 2.0,
        times=False, note=f"from process start; {cpu:.1f} s CPU until the end of the run",
    )  # fmt: skip


def _on_copy(seed: Path, copy: Path, again: Job) -> Sample:
    """A store can be resumed only once."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(seed, copy)
    return again()


def command(way: Way) -> Iterator[Line]:
    n = way.size.launches
    numbers = "\n".join(map(str, range(n))).encode()
    pair = way.in_turn(
        program(["xargs", "-P8", "-n1", "true"], numbers),
        way.job("ours:command_map", items=n, concurrency=8),
    )
    what = f"{n:,} × `true` as command member, 8 at once: wall time"
    yield Line(
        what, "s", median(pair.raw, _wall), median(pair.ours, _wall), 2.0, note="raw: xargs -P8"
    )


def start(way: Way) -> Iterator[Line]:
    python = [sys.executable, "-c"]
    yield _started(way, "import fanfold", [*python, "import fanfold"])
    command = [*python, "from fanfold.faces.cli.main import main; main()", "--help"]
    yield _started(way, "fanfold --help", command if _has_cli() else None)


def _started(way: Way, what: str, command: list[str] | None) -> Line:
    name = f"`{what}`: CPU"
    if command is None:
        return Line(name, "ms", None, None, 200.0, times=False, note="there is no CLI yet")
    bare = program([sys.executable, "-c", "pass"])
    pair = way.in_turn(bare, program(command))
    raw, ours = (median(samples, lambda sample: sample.cpu * 1000) for samples in pair)
    return Line(name, "ms", raw, ours, 200.0, times=False, note="raw: the bare interpreter")


def demo(way: Way) -> Iterator[Line]:
    what = "`fanfold demo`, from its start to the report: wall time"
    if not _has_cli():
        yield Line(what, "s", None, None, 5.0, times=False, note="there is no CLI yet")
        return
    call = [sys.executable, "-c", "from fanfold.faces.cli.main import main; main()", "demo"]
    samples = [_in_new_folder(call) for _ in range(way.size.runs)]
    yield Line(what, "s", None, median(samples, _wall), 5.0, times=False)


def _in_new_folder(call: list[str]) -> Sample:
    with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as folder:
        return program(call, folder=Path(folder))()


def fleet(way: Way) -> Iterator[Line]:
    """On a machine without /proc there is nothing to measure it by."""
    if not Path("/proc/self/stat").exists():
        return
    found = measured()
    about = f"while {WORKERS} workers are at it"
    yield Line(f"supervisor's share of a core, {about}", "%", None, found.share, 3.0, times=False)
    yield Line(f"supervisor's memory, {about}", "MB", None, found.memory, 80.0, times=False)
    yield Line("a worker's host: share of a core", "%", None, found.host_share, 1.0, times=False)
    yield Line("a worker's host: memory", "MB", None, found.host_memory, 20.0, times=False)


def _has_cli() -> bool:
    return find_spec("fanfold.faces.cli.main") is not None


ROWS: dict[str, Callable[[Way], Iterable[Line]]] = {
    "map": function_map,
    "linear": linear,
    "http": http,
    "waiting": http_waiting,
    "script": http_script,
    "followed": followed,
    "team": team_store,
    "workers": queued,
    "resume": resume,
    "command": command,
    "start": start,
    "demo": demo,
    "fleet": fleet,
}
