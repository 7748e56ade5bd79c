"""Runs the real claude through its dialect, against a model server on loopback, once for each case,
and prints what came of them as one JSON object: `claude_runs.py PROGRAM FOLDER`. Run it where there
is no other network."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import MemberError
from fanfold.members.agents.claude import Claude
from fanfold.members.agents.dialect import CommandLine, Start
from fanfold.members.agents.fields import AgentFields
from fanfold.members.agents.messages import spoken
from fanfold.members.agents.worker import Exit
from fanfold.price import Price
from fanfold.testing.script import Asked, Says, Script
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Ask, Message, Schema, Usage
from fanfold.work.member import Traits
from tests.waiting import LONG

PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
BIG = Usage(100_000, 1_000)
NUMBER = Schema.of(
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
)  # fmt: skip
SESSION = "11111111-2222-4333-8444-55555555555"
DIALECT = Claude()
SECONDS = LONG

Meanwhile = Callable[[Process, asyncio.Event], Awaitable[None]]


class Case(msgspec.Struct, kw_only=True):
    """`after`: another case, whose folder and session it goes on with."""

    script: Script
    setup: AgentFields = AgentFields()
    schema: Schema | None = None
    stated: bool = True
    after: str = ""
    meanwhile: Meanwhile | None = None


class Ran(msgspec.Struct, kw_only=True):
    """`made` is `Reply`, or the error's class. `live` is the cost by the log without its results."""

    code: int
    made: str
    text: str = ""
    data: Any = None
    finish: str = ""
    lost: bool = False
    scope: str = ""
    cost: int | None = None
    exact: bool = False
    live: int | None = None
    bill: int = 0
    turns: int = 0
    retries: int = 0
    denied: tuple[str, ...] = ()
    tools: list[str] = []
    told: list[tuple[str, str]] = []
    files: dict[str, str] = {}
    asked: int = 0
    output: list[int | None] = []


# ── scripts ──────────────────────────────────────────────────────────────────────────────────


def results(asked: Asked) -> int:
    """How many of its tools' answers the request holds."""
    contents = [message["content"] for message in asked.body["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return sum(part["type"] == "tool_result" for part in parts)


def calls(*tools: tuple[str, dict[str, Any]], usage: Usage | None = None) -> Script:
    """Calls the tools one after the other, then says that it is done."""

    def says(asked: Asked) -> Says:
        done = results(asked)
        if done < len(tools):
            return Says(tool=tools[done][0], data=tools[done][1], usage=usage)
        return Says(text="all done", usage=usage)

    return says


def write(path: str) -> tuple[str, dict[str, Any]]:
    return "Write", {"file_path": path, "content": "found it"}


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "Bash", {"command": command, "description": "try"}


def notebook(path: str) -> tuple[str, dict[str, Any]]:
    return "NotebookEdit", {"notebook_path": path, "new_source": "1", "edit_mode": "insert"}


def hangs_after_a_tool(asked: Asked) -> Says:
    return (
        Says(hang=True) if results(asked) else Says(tool="Read", data={"file_path": "/etc/hosts"})
    )


async def kill_at_the_second_ask(process: Process, asked_twice: asyncio.Event) -> None:
    await asked_twice.wait()
    process.kill()


# ── cases ────────────────────────────────────────────────────────────────────────────────────


def cases(out: str) -> dict[str, Case]:
    """`out` is an absolute folder that is not where they work."""
    tries = (write(f"{out}/no.txt"), notebook(f"{out}/no.ipynb"), bash(f"touch {out}/no"))
    look = ("Read", {"file_path": "/etc/hosts"})
    usual = calls(look)
    return {
        "write": Case(script=calls(write("here.txt"), write(f"{out}/there.txt"), bash("touch no")),
                      setup=AgentFields(type="write")),
        "read-only": Case(script=calls(*tries), setup=AgentFields(type="read-only")),
        "plain": Case(script=calls(*tries)),
        "code-run": Case(script=calls(bash("echo ran > ran.txt")), setup=AgentFields(type="code-run")),
        "reviewer": Case(script=calls(write("verdict.md"), bash("touch no")),
                         setup=AgentFields(type="reviewer")),
        "research": Case(script=calls(write("found.md"), bash("touch no")),
                         setup=AgentFields(type="research")),
        "orchestrator": Case(script=calls(bash("echo ran > ran.txt")),
                             setup=AgentFields(type="orchestrator")),
        "git only": Case(script=calls(bash("touch no.txt")), setup=AgentFields(tools=("Bash(git *)",))),
        "no tools": Case(script=calls(look), setup=AgentFields(tools=())),
        "own figures": Case(script=usual, stated=False),
        "budget": Case(script=calls(look, look, look, usage=BIG),
                       setup=AgentFields(max_budget_usd=0.5)),
        "turns": Case(script=calls(look, look, look), setup=AgentFields(max_turns=2)),
        "api error": Case(script=lambda asked: Says(status=500),
                          setup=AgentFields(env={"CLAUDE_CODE_MAX_RETRIES": "1"})),
        "bad key": Case(script=lambda asked: Says(status=401),
                        setup=AgentFields(env={"CLAUDE_CODE_MAX_RETRIES": "0"})),
        "refusal": Case(script=lambda asked: Says(finish="refusal", text="no")),
        "schema": Case(script=lambda asked: Says(tool="StructuredOutput", data={"n": 3}),
                       schema=NUMBER),
        "schema wrong": Case(script=lambda asked: Says(tool="StructuredOutput", data={"n": "x"}),
                             schema=NUMBER, setup=AgentFields(env={"MAX_STRUCTURED_OUTPUT_RETRIES": "2"})),
        "schema never": Case(script=calls(), schema=NUMBER),
        "killed": Case(script=hangs_after_a_tool, meanwhile=kill_at_the_second_ask),
        "resumed": Case(script=usual, setup=AgentFields(session=f"{SESSION}{9}"), after="own figures"),
        "session in use": Case(script=usual, after="own figures"),
    }  # fmt: skip


# ── one case ─────────────────────────────────────────────────────────────────────────────────


def around(folder: Path, url: str) -> dict[str, str]:
    """What keeps it to this machine and this folder; and what a claude around it would set."""
    scratch = folder / "tmp"
    scratch.mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"], "HOME": str(folder / "home"), "TERM": "dumb",
        "TMPDIR": str(scratch), "CLAUDE_CODE_TMPDIR": str(scratch),
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "2",
        "CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_CHILD_SESSION": "1",
    }  # fmt: skip


async def run(program: str, folder: Path, case: Case, session: str) -> Ran:
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    setup = msgspec.structs.replace(case.setup, program=program)
    traits = Traits(
        id="w", kind="claude", answerer="claude", model="claude-sonnet-4-5", tier="paid",
        max_tokens=7_000, price=PRICE,
    )  # fmt: skip
    ask = Ask((Message("user", "do it"),), schema=case.schema)
    words = DIALECT.words(traits, setup, Start(ask, str(work), str(folder), session, "label"))
    log = folder / f"{case.after}log.jsonl"
    limits: list[int | None] = []
    asked_twice = asyncio.Event()

    def script(asked: Asked) -> Says:
        limits.append(asked.max_tokens)
        if len(limits) == 2:
            asked_twice.set()
        return case.script(asked)

    async with ModelServer(script, prices=PRICE) as server:
        env = DIALECT.environment(around(folder, server.url), traits, setup)
        code = await carry_out(words, (work, log), env, case.meanwhile, asked_twice)
        bill, asked = server.books.bill, len(server.books)
    ran = read(log, code, case, ask)
    ran.bill, ran.asked, ran.output = bill, asked, limits
    ran.files = {file.name: file.read_text() for file in sorted(work.iterdir()) if file.is_file()}
    return ran


async def carry_out(
    words: CommandLine,
    files: tuple[Path, Path],
    env: dict[str, str],
    meanwhile: Meanwhile | None,
    asked_twice: asyncio.Event,
) -> int:
    work, log = files
    prompt, errors = log.with_suffix(".txt"), log.with_suffix(".err")
    prompt.write_bytes(spoken(words.stdin.decode()))
    with prompt.open("rb") as given, log.open("wb") as out, errors.open("wb") as err:
        process = await asyncio.create_subprocess_exec(
            *words.words, cwd=work, env=env, stdin=given, stdout=out, stderr=err
        )
        try:
            async with asyncio.timeout(SECONDS):
                if meanwhile is not None:
                    await meanwhile(process, asked_twice)
                return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def read(log: Path, code: int, case: Case, ask: Ask) -> Ran:
    price, resumed = PRICE if case.stated else None, case.setup.session is not None
    reader, live = DIALECT.reader(price, resumed=resumed), DIALECT.reader(price, resumed=resumed)
    told: list[tuple[str, str]] = []
    tools: list[str] = []
    for line in log.read_bytes().splitlines():
        told += [(one.kind, one.text) for one in reader.feed(line)]
        event = msgspec.json.decode(line)
        if event["type"] != "result":
            live.feed(line)
        if event.get("subtype") == "init":
            tools = event["tools"]
    reading = reader.reading
    made = DIALECT.conclude("w", reading, Exit(code=code, at=0.0), ask)
    ran = Ran(
        code=code, made=type(made).__name__, told=told, tools=tools, turns=reading.turns,
        retries=reading.retries, denied=reading.denied, exact=reading.exact,
        live=live.reading.cost,
    )  # fmt: skip
    if isinstance(made, MemberError):
        ran.text, ran.lost, ran.cost = str(made), made.lost, made.cost
        ran.scope = getattr(made, "scope", "")
    else:
        ran.text, ran.data, ran.finish, ran.cost = made.text, made.data, made.finish, reading.cost
    return ran


async def main(program: str, folder: Path) -> None:
    out = folder / "out"
    out.mkdir()
    ran: dict[str, Ran] = {}
    for place, (name, case) in enumerate(cases(str(out)).items()):
        where = folder / (case.after or name).replace(" ", "-")
        session = (
            f"{SESSION}{9}" if "own figures" in (name, case.after) else f"{SESSION[:-2]}{place:03}"
        )
        ran[name] = await run(program, where, case, session)
    found = {"ran": ran, "out": sorted(file.name for file in out.iterdir())}
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
