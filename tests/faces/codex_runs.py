"""Runs the real codex as a member, in hosts of its own, against a model server on loopback: each case
once, all in one CODEX_HOME, and prints what came of them as one JSON object:
`codex_runs.py PROGRAM FOLDER`. Run it where there is no other network."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import MemberError
from fanfold.members.agents.agent import Agent
from fanfold.members.agents.agent_files import AgentFolders
from fanfold.members.agents.codex import Codex
from fanfold.members.agents.fields import AgentFields
from fanfold.members.agents.worker import read_host
from fanfold.price import Price, dollars
from fanfold.testing.script import Asked, Says, Script, by_prompt
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Ask, Message, Reply, Schema, Usage
from fanfold.work.member import Event, Request, Traits
from tests.faces.codex_config import CODEX_CONFIG
from tests.waiting import LONG

PRICE = Price(input=1.25, output=10.0, cache_read=0.125)
NUMBER = Schema.of(
    {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
)
PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+by a patch\n*** End Patch\n"
SECONDS = LONG
AT_ONCE = 5


class Case(msgspec.Struct, kw_only=True):
    """`after`: another case, whose folder and session it goes on with. `waits`: when this is set,
    its program is killed behind everybody's back."""

    script: Script
    setup: AgentFields = AgentFields(type="code-run")
    schema: Schema | None = None
    after: str = ""
    waits: asyncio.Event | None = None


class Ran(msgspec.Struct, kw_only=True):
    """`made` is `Reply`, or the error's class."""

    made: str
    text: str = ""
    data: Any = None
    lost: bool = False
    scope: str = ""
    cost: float | None = None
    tokens: int = 0
    bill: float = 0.0
    calls: int = 0
    session: str = ""
    files: list[str] = []
    notes: list[str] = []


# ── scripts ──────────────────────────────────────────────────────────────────────────────────


def outputs(asked: Asked) -> list[str]:
    return [turn.text for turn in asked.messages if turn.role == "tool"]


def steps(*each: Says) -> Script:
    """One after the other, by how many answers of tools the request holds."""
    return lambda asked: each[min(len(outputs(asked)), len(each) - 1)]


def runs(command: str) -> Script:
    """Runs a command and says what came of it."""
    call = Says(tool="exec_command", data={"cmd": command}, usage=Usage(1000, 50, 200))

    def script(asked: Asked) -> Says:
        found = outputs(asked)
        return Says(text=found[-1], usage=Usage(1100, 60, 900)) if found else call

    return script


def hangs(begun: asyncio.Event) -> Script:
    def script(asked: Asked) -> Says:
        begun.set()
        return Says(hang=True)

    return script


def never_ends(asked: Asked) -> Says:
    """$0.1 for each call, and always one thing more to do."""
    command = {"cmd": f"echo {len(outputs(asked))}"}
    return Says(tool="exec_command", data=command, usage=Usage(80_000), latency=0.05)


def cases(port: int) -> dict[str, Case]:
    connects = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo REACHED || echo CUT OFF"
    begun = asyncio.Event()
    works = steps(
        Says(
            tool="exec_command", data={"cmd": "echo hello > made.txt"}, usage=Usage(900, 90, 10, 40)
        ),
        Says(tool="apply_patch", data=PATCH, usage=Usage(800, 30, 1200), reasoning=20),
        Says(text="all done", usage=Usage(700, 20, 1900)),
    )
    return {
        "works": Case(script=works),
        "goes on": Case(script=works, after="works"),
        "looks": Case(script=runs("touch made.txt"), setup=AgentFields(type="read-only")),
        "is cut off": Case(script=runs(connects)),
        "researches": Case(script=runs(connects), setup=AgentFields(type="research")),
        "has no key": Case(script=runs("env | grep -c dummy-key || true")),
        "fails": Case(script=lambda asked: Says(status=500)),
        "is slowed down": Case(script=lambda asked: Says(status=429)),
        "gives data": Case(script=lambda asked: Says(), schema=NUMBER),
        "gives no data": Case(script=lambda asked: Says(text="not json"), schema=NUMBER),
        "is killed": Case(script=hangs(begun), waits=begun),
        "spends": Case(
            script=never_ends, setup=AgentFields(type="code-run", max_budget_usd=0.45)
        ),
        "turns": Case(script=never_ends, setup=AgentFields(type="code-run", max_turns=2)),
    }  # fmt: skip


# ── one case ─────────────────────────────────────────────────────────────────────────────────


class Lab:
    def __init__(self, program: str, folder: Path, server: ModelServer) -> None:
        self._program, self._folder, self._server = program, folder, server
        home = folder / "home"
        (home / "codex").mkdir(parents=True)
        (home / "codex" / "config.toml").write_text(CODEX_CONFIG.format(url=server.url))
        self._env = {
            "HOME": str(home),
            "CODEX_HOME": str(home / "codex"),
            "FAKE_API_KEY": "env:FAKE_API_KEY",
        }
        self._places = asyncio.Semaphore(AT_ONCE)
        self._ran: dict[str, asyncio.Future[Ran]] = {}

    async def all(self, cases: dict[str, Case]) -> dict[str, Ran]:
        loop = asyncio.get_running_loop()
        self._ran = {name: loop.create_future() for name in cases}
        await asyncio.gather(*(self._case(name, case) for name, case in cases.items()))
        return {name: done.result() for name, done in self._ran.items()}

    async def _case(self, name: str, case: Case) -> None:
        session = (await self._ran[case.after]).session if case.after else None
        async with self._places:
            self._ran[name].set_result(await self._run(name, case, session))

    async def _run(self, name: str, case: Case, session: str | None) -> Ran:
        folder = self._folder / (case.after or name)
        folder.mkdir(exist_ok=True)
        setup = msgspec.structs.replace(
            case.setup, program=self._program, env=self._env, session=session
        )
        traits = Traits(
            id=name, kind="codex", answerer="codex:gpt-5.5", model="gpt-5.5", price=PRICE,
            timeout=SECONDS, agent=True,
        )  # fmt: skip
        ask = Ask(messages=(Message("user", f"[{name}]"),), schema=case.schema)
        agent = Agent(traits, setup, Codex(), AgentFolders(folder))
        span, store = f"{name}:1", str(self._folder / "store")
        request = msgspec.structs.replace(agent.prepare(ask), span=span, store=store)
        before = self._billed(name)
        told: list[Event] = []
        asking = asyncio.ensure_future(self._asked(agent, request, told))
        if case.waits is not None:
            await asyncio.wait_for(case.waits.wait(), SECONDS)
            kill(agent.place_of(span, store))
        ran = await asking
        bill, calls = self._billed(name)
        ran.bill, ran.calls = bill - before[0], calls - before[1]
        ran.files = sorted(file.name for file in folder.iterdir())
        ran.notes = [event.text for event in told]
        ran.session = next(
            (text.split()[1] for text in ran.notes if text.startswith("session ")), ""
        )
        return ran

    async def _asked(self, agent: Agent, request: Request, told: list[Event]) -> Ran:
        try:
            reply: Reply = await agent.ask(request, told.append)
        except MemberError as error:
            cost = None if error.cost is None else dollars(error.cost)
            return Ran(
                made=type(error).__name__, text=str(error), lost=error.lost, cost=cost,
                scope=getattr(error, "scope", ""), tokens=error.usage.total,
            )  # fmt: skip
        assert reply.usage is not None
        return Ran(
            made="Reply", text=reply.text, data=reply.data, cost=reply.cost_usd,
            tokens=reply.usage.total,
        )  # fmt: skip

    def _billed(self, name: str) -> tuple[float, int]:
        entries = self._server.books.of_prompt(f"[{name}]")
        return dollars(sum(entry.cost for entry in entries)), len(entries)


def kill(place: Path) -> None:
    record = read_host(place)
    assert record is not None
    os.kill(record.program.pid, signal.SIGKILL)


async def main(program: str, folder: Path) -> None:
    os.environ["FAKE_API_KEY"] = "dummy-key"
    scripts: dict[str, Script] = {}
    async with ModelServer(by_name(scripts), prices=PRICE) as server:
        todo = cases(int(server.url.rsplit(":", 1)[1]))
        scripts |= {f"[{name}]": case.script for name, case in todo.items()}
        found = await Lab(program, folder, server).all(todo)
    sys.stdout.buffer.write(msgspec.json.encode(found))


def by_name(scripts: dict[str, Script]) -> Script:
    return lambda asked: by_prompt(scripts)(asked)


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
