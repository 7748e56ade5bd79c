"""The figures of docs/promises.md, counted by a model server's books, never by ours.

    python bench/promises.py [--rounds N] [--only PART]

Each round runs `fanfold` in a process of its own against a server in another one, in a folder that
is thrown away. The kills come at random moments, so a few figures differ from round to round.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from fanfold.journal import opening
from fanfold.price import Price, dollars
from fanfold.testing.running import RunningServer, running_server
from fanfold.testing.script import Asked, Says, Script, key_required, random_usage
from fanfold.work.ask import Usage

PRICE = Price(input=1.0, output=5.0)
PROGRAM = [sys.executable, "-c", "from fanfold.faces.cli.main import main; main()"]
ROSTER = """\
members:
  - id: model
    kind: openai
    model: test-model
    base_url: {url}/v1
    key: env:BENCH_KEY
    price: {{input: 1.0, output: 5.0}}
    max_tokens: 200
    limits: {{concurrency: 64}}
"""
PLAN = """\
name: promises
input: {{jsonl: items.jsonl}}
steps:
  - map:
      member: model
      prompt: "{{{{ item.text }}}}"
      concurrency: {concurrency}
  - reduce: collect
"""
KILLS = 4
LATENCY_MS = 100

CAP = 0.05

# What the server says; it imports these from here.
costly = random_usage(1)
locked = key_required("the right one")


def refusing(share: float, seed: int) -> Script:
    """This share of the calls is answered 429, by chance."""
    chance = random.Random(seed)
    return lambda asked: Says(status=429, latency=0.0) if chance.random() < share else Says()


busy_0, busy_1, busy_2 = (refusing(0.1, seed) for seed in range(3))


def reporting(usage: Callable[[Usage], Any]) -> Script:
    """Bills as `costly` and says something else of it."""

    def says(asked: Asked) -> Says:
        true = costly(asked)
        assert true.usage is not None
        return replace(true, reports=usage(true.usage))

    return says


def _of(input: int, output: int) -> dict[str, int]:
    return {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output}


negative = reporting(lambda usage: _of(usage.input, -99_000))
zeros = reporting(lambda usage: _of(0, 0))
tenth = reporting(lambda usage: _of(usage.input, usage.output // 10))
silent = random_usage(1, Says(tells_usage=False))


def gateway(asked: Asked) -> Says:
    """The model answers and bills; every fifth answer is lost behind a gateway's 504."""
    true = costly(asked)
    return replace(true, status=504, billed=True) if asked.n % 5 == 0 else true


class Figure(NamedTuple):
    what: str
    found: list[str]


class Project:
    """A folder with a roster, a plan and an input, and the program that runs it."""

    def __init__(self, folder: Path, server: RunningServer, concurrency: int) -> None:
        self.folder, self.server = folder, server
        (folder / "roster.yaml").write_text(ROSTER.format(url=server.url))
        (folder / "plan.yaml").write_text(PLAN.format(concurrency=concurrency))

    def write(self, items: list[dict[str, str]]) -> None:
        lines = "".join(json.dumps(item) + "\n" for item in items)
        (self.folder / "items.jsonl").write_text(lines)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*PROGRAM, *words, "--quiet", "--json"], cwd=self.folder, stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(sys.path), "BENCH_KEY": "the wrong one"},
        )  # fmt: skip

    def receipt(self, *words: str) -> dict[str, Any]:
        out, _ = self.start(*words).communicate()
        self.server.wait_idle()
        found: dict[str, Any] = json.loads(out)
        return found

    def passed(self) -> set[str]:
        """The texts of the items whose reply is in the store."""
        return set(self.answers().values())

    def answers(self) -> dict[str, str]:
        """The replies in the store, by the ids of their items."""
        if not (self.folder / ".fanfold" / "journal.db").exists():
            return {}
        archive = opening.look(self.folder / ".fanfold")
        try:
            record = archive.read.find("promises")
            endings = [] if record is None else archive.read.endings(record.no, ["passed"])
            return {ending.id: str(ending.value) for ending in endings}
        finally:
            archive.close()


def items(count: int) -> list[dict[str, str]]:
    return [{"id": str(n), "text": f"What is the {n}th thing to say?"} for n in range(count)]


@contextmanager
def project(concurrency: int, script: str | None = None) -> Iterator[Project]:
    with tempfile.TemporaryDirectory(prefix="fanfold-promises-") as name:
        folder = Path(name)
        books = folder / "books.jsonl"
        with running_server(books, script=script, price=PRICE, latency_ms=LATENCY_MS) as server:
            yield Project(folder, server, concurrency)


def kills(seed: int) -> str:
    """120 items, 8 at once, killed with -9 four times, each time after some more replies."""
    chance = random.Random(seed)
    with project(8) as here:
        here.write(items(120))
        recorded: list[tuple[int, set[str]]] = []
        for number in range(KILLS):
            words = ("resume", "promises") if here.passed() else ("run", "plan.yaml")
            process = here.start(*words)
            wait_for(lambda goal=24 * (number + 1): len(here.server.books()) >= goal)
            time.sleep(chance.random() * LATENCY_MS / 1000)
            process.kill()
            process.communicate()
            here.server.wait_idle()
            recorded.append((len(here.server.books()), here.passed()))
        receipt = here.receipt("resume", "promises")
        assert receipt["passed"] == 120, receipt
        return _told(here.server, recorded, receipt)


def _told(server: RunningServer, recorded: list[tuple[int, set[str]]], receipt: Any) -> str:
    asked = server.books().asked
    again = sum(e.prompt in texts for seen, texts in recorded for e in asked[seen:])
    answered: set[str] = set()
    unrecorded = 0
    for entry in asked:
        unrecorded += entry.prompt in answered
        answered |= {entry.prompt} if entry.answered else set()
    return (
        f"{again} recorded replies asked for again, {unrecorded} sent but not yet recorded;"
        f" {len(asked) - 120} repeats in all, {receipt['maybe_paid_twice']} by the receipt"
    )


def wait_for(done: Callable[[], bool]) -> None:
    while not done():
        time.sleep(0.002)


def cap(seed: int) -> str:
    """400 items, 64 at once, a budget of $0.05, usage drawn at random up to max_tokens."""
    with project(64, "promises:costly") as here:
        receipt = capped(here, seed)
        paid = here.server.books().paid_calls
        lost = paid - receipt["passed"]
        return f"{_billed(here)}; {lost} of {paid} paid replies lost; {receipt['status']}"


def capped(here: Project, seed: int) -> dict[str, Any]:
    here.write([{**item, "text": f"{item['text']} ({seed})"} for item in items(400)])
    return here.receipt("run", "plan.yaml", "--budget", str(CAP))


def _billed(here: Project) -> str:
    bill = dollars(here.server.books().bill)
    return f"{max(0.0, bill / CAP - 1):.0%} over (${bill:.4f} billed, {bill / CAP:.0%} of it)"


def lying(script: str) -> Callable[[int], str]:
    """As `cap`, and the service does not say what it bills."""

    def measure(seed: int) -> str:
        with project(64, f"promises:{script}") as here:
            receipt = capped(here, seed)
            bill = dollars(here.server.books().bill)
            return (
                f"{_billed(here)}; the receipt says ${receipt['cost_usd']:.4f}"
                f" ({receipt['cost_usd'] / bill:.0%} of the bill),"
                f" {receipt['unusable_usage']} of {receipt['passed']} with unusable usage"
            )

    return measure


def behind_a_gateway(policy: str) -> Callable[[int], str]:
    """120 items, 8 at once; one reply in five is billed and lost behind a 504. `policy` is
    `in_doubt`."""

    def measure(seed: int) -> str:
        with project(8, "promises:gateway") as here:
            plan = here.folder / "plan.yaml"
            stated = plan.read_text().replace("map:\n", f"map:\n      in_doubt: {policy}\n")
            plan.write_text(stated)
            here.write([{**item, "text": f"{item['text']} ({seed})"} for item in items(120)])
            receipt = here.receipt("run", "plan.yaml")
            books = here.server.books()
            prompts = Counter(entry.prompt for entry in books.paid)
            return (
                f"{len(books.paid) - len(prompts)} paid again,"
                f" {receipt['maybe_paid_twice']} by the receipt; ${dollars(books.bill):.4f} billed,"
                f" ${receipt['cost_usd']:.4f} by the receipt; {receipt['passed']} passed,"
                f" {receipt['in_doubt']} in doubt"
            )

    return measure


def edit(seed: int) -> str:
    """120 items; then one is edited and the lines are shuffled."""
    with project(8) as here:
        given = items(120)
        here.write(given)
        here.receipt("run", "plan.yaml")
        before = len(here.server.books())
        given[seed]["text"] += " And now?"
        random.Random(seed).shuffle(given)
        here.write(given)
        receipt = here.receipt("run", "plan.yaml")
        stale = sum(
            part["value"] != item["text"]
            for part, item in zip(receipt["result"], given, strict=True)
        )
        return f"{len(here.server.books()) - before} calls; {stale} stale answers"


def bad_key(seed: int) -> str:
    """640 items, 64 at once, a key that the server refuses."""
    with project(64, "promises:locked") as here:
        here.write(items(640))
        receipt = here.receipt("run", "plan.yaml")
        return f"{len(here.server.books())} requests; {receipt['status']}"


def refusals(seed: int) -> str:
    """1,000 items, 64 at once; then the same with one call in ten refused by chance (429)."""
    quiet = _wall(None)
    noisy = _wall(f"promises:busy_{seed % 3}")
    return f"{noisy:.1f} s instead of {quiet:.1f} s, {noisy / quiet:.2f} times as long"


def _wall(script: str | None) -> float:
    """Active seconds of a run, without the start of its process."""
    with project(64, script) as here:
        here.write(items(1000))
        receipt = here.receipt("run", "plan.yaml")
        assert receipt["passed"] == 1000, receipt
        return float(receipt["seconds"])


def changing(seed: int) -> str:
    """600 items, 16 at once; meanwhile the file is rewritten in place, shuffled, with 50 more."""
    with project(16) as here:
        planned = [{**item, "more": "x" * 6000} for item in items(650)]
        texts = {item["id"]: item["text"] for item in planned[:600]}
        here.write(planned[:600])
        process = here.start("run", "plan.yaml")
        wait_for(lambda: len(here.server.books()) >= 30)
        random.Random(seed).shuffle(planned)
        here.write(planned)
        out, _ = process.communicate()
        here.server.wait_idle()
        receipt = json.loads(out)
        wrong = sum(texts.get(id) != value for id, value in here.answers().items())
        unplanned = {entry.prompt for entry in here.server.books().asked} - set(texts.values())
        return (
            f"{wrong} answers under another id, {len(unplanned)} unplanned items paid;"
            f" {receipt['passed']} of {receipt['planned']} passed, {receipt['status']}"
        )


FIGURES = {
    "four kills, 120 items, 8 at once": kills,
    "a $0.05 budget, 64 at once": cap,
    "the same, usage of -99,000": lying("negative"),
    "the same, usage of 0": lying("zeros"),
    "the same, no usage": lying("silent"),
    "the same, a tenth of the output": lying("tenth"),
    "a 504 after one reply in five, 120 items": behind_a_gateway("retry"),
    "a 504 after one reply in five, held": behind_a_gateway("hold"),
    "one edited item of 120, shuffled": edit,
    "a bad key, 640 items, 64 at once": bad_key,
    "one call in ten answered 429, 1,000 items, 64 at once": refusals,
    "an input that changes, 600 items, 16 at once": changing,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/promises.py")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="figures whose name holds this")
    given = parser.parse_args()
    for what, measure in FIGURES.items():
        for seed in range(given.rounds if given.only in what else 0):
            print(f"{what}: {measure(seed)}", flush=True)


if __name__ == "__main__":
    main()
