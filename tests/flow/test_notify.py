"""Somebody is told of a run's end, its pauses and its spending: each once, and it harms nothing."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fanfold.errors import BadInput, RunStopped
from fanfold.journal import opening
from fanfold.observe.notify import check_hook
from fanfold.observe.script import open_run
from fanfold.patterns.map_reduce import map_reduce
from fanfold.price import Price
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Request, Tell
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget

HOOK = """\
import sys
with open(sys.argv[1], "a") as out:
    out.write(sys.stdin.read() + "\\n")
"""


class Dear:
    """About a dollar for each call, of which at most $1.20 is reserved."""

    traits = traits("dear", price=Price(1000.0, 1000.0), max_tokens=50)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def prepare(self, ask: Ask) -> Request:
        return Request(ask, b"", 1150, 50)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        return Reply("fine", usage=Usage(1000, 10))


async def work(store: Path, hook: str | None, usd: float) -> Receipt | None:
    """None: it paused."""
    try:
        async with open_run(
            "talk", members=[Dear()], budget=Budget(usd=usd), store=store, progress=False,
            notify=hook,
        ) as run:  # fmt: skip
            await map_reduce(
                run,
                [str(n) for n in range(20)],
                prompt="{{ item.text }}",
                members=["dear"],
                concurrency=1,
            )
    except RunStopped:
        return None
    return run.closing


def told(file: Path) -> list[tuple[Any, ...]]:
    lines = file.read_text().splitlines() if file.exists() else []
    events = [json.loads(line) for line in lines]
    return sorted(
        (one["event"], one.get("percent") or one["status"], one["budget_usd"]) for one in events
    )


def test_each_is_told_once_also_across_resume(tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text(HOOK)
    file = tmp_path / "told"
    hook = shlex.join([sys.executable, str(tmp_path / "hook.py"), str(file)])
    assert asyncio.run(work(tmp_path / "store", hook, 10)) is None
    first = [("budget", 50, 10), ("budget", 80, 10), ("budget", 100, 10), ("pause", "paused", 10)]
    assert told(file) == first
    assert asyncio.run(work(tmp_path / "store", None, 10)) is None, "the hook is kept"
    assert told(file) == [*first, ("pause", "paused", 10)]
    receipt = asyncio.run(work(tmp_path / "store", None, 25))
    assert receipt is not None and receipt.status == "complete"
    more = [("budget", 50, 25), ("budget", 80, 25), ("end", "complete", 25)]
    assert told(file) == sorted([*first, ("pause", "paused", 10), *more])
    kept = tmp_path / "store" / "notify" / receipt.run
    assert kept.stat().st_mode & 0o077 == 0, "an address may hold a secret"


def test_a_hook_that_fails_harms_nothing_and_is_on_record(tmp_path: Path) -> None:
    receipt = asyncio.run(work(tmp_path, "false", 30))
    assert receipt is not None and (receipt.status, receipt.passed) == ("complete", 20)
    cannot_start = tmp_path / "cannot-start"
    cannot_start.write_text("#!/nothing/here\n")
    cannot_start.chmod(0o700)
    again = asyncio.run(work(tmp_path / "other", str(cannot_start), 30))
    assert again is not None and again.status == "complete"

    archive = opening.look(tmp_path)
    found = [(one.value, one.state, one.said) for one in archive.read.orders(1)]
    archive.close()
    assert found == [("budget 50% of 30", "refused", "ended with code 1")]


def test_a_webhook_gets_json_and_is_not_followed_elsewhere(tmp_path: Path) -> None:
    got: list[tuple[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, json.loads(body)))
            self.send_response(302 if self.path == "/moved" else 204)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        for path in ("/here?token=1", "/moved"):
            assert asyncio.run(work(tmp_path / path[1:5], url + path, 100))
    finally:
        server.shutdown()
        server.server_close()
    assert [(path, event["event"], event["passed"]) for path, event in got] == [
        ("/here?token=1", "end", 20), ("/moved", "end", 20),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("", "needs a command"), ("  ", "needs a command"), ("https://", "no host"),
        ("say 'oh", "No closing quotation"), ("ftp://host/path", "begins with http"),
        ("no-such-program --now", "there is no program 'no-such-program'"),
        ("cat >> told.jsonl", "is for a shell, and none is used; give: sh -c 'cat >> told.jsonl'"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_hook_is_refused_before_anything_starts(target: str, said: str) -> None:
    with pytest.raises(BadInput, match="--notify") as refused:
        check_hook(target)
    assert said in str(refused.value)
