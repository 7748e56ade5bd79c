"""A plan by the real LiteLLM, which has an environment of its own (`make litellm`): replies and bill by the
books of the model server; and nothing is reached but that."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from signal import SIGKILL

import msgspec
import pytest

from fanfold.price import Price
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.work.ask import Usage
from tests.faces.cli import SRC, Program, environment
from tests.waiting import LONG

pytestmark = pytest.mark.slow
PYTHON = Path(__file__).parents[2] / ".litellm" / "bin" / "python"
PRICE = Price(input=1.0, output=5.0)
USED = Usage(120, 30)
ROSTER = """\
members:
  - {{id: m, kind: litellm, model: "{model}", base_url: "{url}", max_tokens: 100,
     price: {{input: 1, output: 5}}}}
"""
PLAN = """\
name: p
input: {list: [fine, slow, long, fine too]}
steps:
  - map: {name: say, prompt: "Say {{ item.text }}", schema: {type: object, required: [said]}}
"""
ALONE = """\
import socket, sys
def refuse(self, address):
    if not isinstance(address, tuple) or address[0] != "127.0.0.1":
        raise SystemExit(f"it wanted to reach {address}")
    return connect(self, address)
def resolve(host, *rest, **named):
    if host not in ("127.0.0.1", "localhost"):
        raise SystemExit(f"it wanted to find {host}")
    return found(host, *rest, **named)
connect, socket.socket.connect = socket.socket.connect, refuse
found, socket.getaddrinfo = socket.getaddrinfo, resolve
"""


class LitellmProgram(Program):
    python = str(PYTHON)


keys: set[str] = set()


def script(asked: Asked) -> Says:
    """One is told to come back once; one is too long."""
    keys.update(
        asked.headers[name] for name in ("authorization", "x-api-key") if name in asked.headers
    )
    if "slow" in asked.prompt and asked.n == 1:
        return Says(status=429)
    if "long" in asked.prompt:
        return Says(status=400, message="This model's maximum context length is 5 tokens")
    return Says(data={"said": "it"}, usage=USED)


@pytest.fixture(autouse=True)
def there() -> None:
    if not PYTHON.exists():
        pytest.skip("LiteLLM is not there: make litellm")


@pytest.mark.parametrize("model", ["openai/x", "anthropic/claude-x"])
def test_a_plan_is_asked_once_and_billed_as_the_books_have_it(tmp_path: Path, model: str) -> None:
    keys.clear()
    with threaded_server(tmp_path / "books", script=f"{__name__}:script", price=PRICE) as server:
        url = f"{server.url}/v1" if model.startswith("openai") else server.url
        (tmp_path / "roster.yaml").write_text(ROSTER.format(model=model, url=url))
        (tmp_path / "plan.yaml").write_text(PLAN)
        (tmp_path / "sitecustomize.py").write_text(ALONE)
        words = ("run", "plan.yaml", "--json", "--quiet", "--budget", "1")
        env = {"PYTHONPATH": f"{tmp_path}:{SRC}", "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
        ended = LitellmProgram(tmp_path, words, env).end()
        assert (ended.code, ended.receipt["passed"], ended.receipt["failed"]) == (1, 3, 1), (
            ended.err
        )
        books = server.books()
        assert [one.billed for one in books.asked].count(True) == 3
        assert (books.paid_twice(), ended.receipt["cost_usd"]) == ({}, books.bill / 1e9)
        assert keys <= {"none", "Bearer none"}, "nothing that it found in the environment"
        assert keys


SCRIPT = """\
import sys
import fanfold as ff

async def main():
    async with ff.open_run("s", store="other", roster="roster.yaml", allow_paid=True) as run:
        done = await ff.map_reduce(
            run, ["a", "b", "c"], step="say", member="m", params={"reasoning": "low"},
            prompt="Say {{ item.text }}", schema={"type": "object", "required": ["said"]},
        )
    assert (done.receipt.passed, done.receipt.calls) == (3, 3), done.receipt

ff.run_sync(main())
"""
SAME = """\
name: same
input: {list: [a, b, c]}
steps:
  - map: {name: say, member: m, prompt: "Say {{ item.text }}", reasoning: low,
          schema: {type: object, required: [said]}}
"""
bodies: list[bytes] = []


def note(asked: Asked) -> Says:
    bodies.append(msgspec.json.encode(asked.body, order="sorted"))
    return Says(data={"said": "it"}, usage=USED)


def taken() -> list[bytes]:
    found = sorted(bodies)
    bodies.clear()
    return found


def test_a_plan_and_python_send_the_same_once(tmp_path: Path) -> None:
    bodies.clear()
    with threaded_server(tmp_path / "books", script=f"{__name__}:note", price=PRICE) as server:
        (tmp_path / "roster.yaml").write_text(
            ROSTER.format(model="openai/x", url=f"{server.url}/v1")
        )
        (tmp_path / "plan.yaml").write_text(SAME)
        words = ("run", "plan.yaml", "--json", "--quiet", "--allow-paid")
        first = LitellmProgram(tmp_path, words, {}).end()
        by_plan = taken()
        assert (first.code, first.receipt["passed"], len(by_plan)) == (0, 3, 3), first.err
        again = LitellmProgram(tmp_path, words, {}).end()
        assert (again.receipt["passed"], again.receipt["calls"], taken()) == (3, 0, [])
        done = subprocess.run(
            [PYTHON, "-c", SCRIPT], cwd=tmp_path, env=environment(tmp_path), capture_output=True,
            text=True, timeout=LONG,
        )  # fmt: skip
        assert (done.returncode, taken()) == (0, by_plan), done.stderr


class Killing:
    """Kills its client at its second request."""

    victim: int | None = None
    arrived = 0

    def __call__(self, asked: Asked) -> Says:
        self.arrived += 1
        if self.arrived == 2 and self.victim is not None:
            os.kill(self.victim, SIGKILL)
        return Says(data={"said": "it"}, usage=USED)


killing = Killing()


def test_killed_and_resumed_it_pays_for_nothing_twice_unsaid(tmp_path: Path) -> None:
    killing.victim, killing.arrived = None, 0
    with threaded_server(tmp_path / "books", script=f"{__name__}:killing", price=PRICE) as server:
        (tmp_path / "roster.yaml").write_text(
            ROSTER.format(model="openai/x", url=f"{server.url}/v1").replace(
                "max_tokens", "concurrency: 1, max_tokens"
            )
        )
        (tmp_path / "plan.yaml").write_text(SAME)
        words = ("run", "plan.yaml", "--json", "--quiet", "--allow-paid", "--name", "r")
        program = LitellmProgram(tmp_path, words, {})
        killing.victim = program.process.pid
        assert program.process.wait(LONG) == -SIGKILL, program.said
        server.wait_idle()
        words = ("resume", "r", "--json", "--quiet", "--retry-in-doubt")
        ended = LitellmProgram(tmp_path, words, {}).end()
        asked = [one.content for one in server.books().asked]
        assert (ended.code, ended.receipt["passed"], len({*asked})) == (0, 3, 3), ended.err
        assert len(asked) - 3 <= ended.receipt["maybe_paid_twice"] <= 1


def test_it_is_imported_without_a_network(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ALONE)
    code = "from fanfold.members.litellm import _imported; print(_imported().telemetry)"
    env = {"PYTHONPATH": f"{tmp_path}:{SRC}", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [PYTHON, "-c", code], env=env, capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
