#!/usr/bin/env python3
"""A stand-in for `claude` and `codex` that misbehaves as its prompt says, line by line.

COUNT FILE    adds a line with its id to the file: how often it was started
WAIT FILE     until the file is there
REPLAY FILE GATE  nothing but a recorded log; before its last line it waits for the gate
COST USD      what the result says that it took
TOKENS IN OUT the usage that it reports; codex at its end
RECORD IN OUT a record of one reply in the rollout that codex keeps
OUTPUT SIZE   what a tool gave back, in that rollout: the model is asked again
RUN WORDS     a program, to its end
FLOOD MB      so much log
GARBAGE       bytes that are no text
DEAF          SIGTERM is nothing to it
START FILE    a child in a session of its own; its number goes into the file
WRITE FILE    puts the first line of the prompt there
MUTTER        a line on stderr, and one on stdout after the result
FAIL, DIE     ends with an error; ends without a result
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

SESSION = str(uuid.uuid4())


def prompt() -> str:
    """All of stdin, or a message of it where those come one by one."""
    if "--input-format" not in sys.argv:
        return sys.stdin.read()
    return str(json.loads(sys.stdin.readline())["message"]["content"])


def tell(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class Agent:
    def __init__(self, prompt: str) -> None:
        self.lines = prompt.splitlines() or [""]
        self.cost, self.tokens = 0.01, (100, 20)
        self.good, self.mutters = True, False

    def obey(self) -> None:
        for line in self.lines:
            word, _, rest = line.strip().partition(" ")
            if word in DOES:
                DOES[word](self, rest)

    def count(self, rest: str) -> None:
        """One write, so that several never mix."""
        handle = os.open(rest, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, os.environ.get("WORKER_ID", self.lines[0]).encode() + b"\n")
        os.close(handle)

    def wait(self, rest: str) -> None:
        while not Path(rest).exists():
            time.sleep(0.01)

    def replay(self, rest: str) -> None:
        log, gate = rest.split()
        *first, last = Path(log).read_text().splitlines(keepends=True)
        sys.stdout.write("".join(first))
        sys.stdout.flush()
        self.wait(gate)
        sys.stdout.write(last)
        sys.stdout.flush()
        os._exit(0)

    def take(self, rest: str) -> None:
        self.cost = float(rest)

    def use(self, rest: str) -> None:
        given, made = rest.split()
        self.tokens = int(given), int(made)

    def record(self, rest: str) -> None:
        given, made = rest.split()
        usage = {"input_tokens": int(given), "cached_input_tokens": 0, "output_tokens": int(made)}
        told = {"turn_id": "t", "response_id": str(uuid.uuid4()), "usage": usage,
                "thread_token_usage": usage}  # fmt: skip
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.999Z", time.gmtime())
        line = {"timestamp": stamp, "type": "token_usage_record", "payload": told}
        folder = Path(os.environ["CODEX_HOME"], "sessions/2026/11/17")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"rollout-2026-11-17T00-00-00-{SESSION}.jsonl").open("a") as rollout:
            rollout.write(json.dumps(line) + "\n")

    def output(self, rest: str) -> None:
        """Its time is now, so that what the next call can have written by its end is little."""
        now = time.time_ns() // 10**6  # read once: between two looks a second may begin
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1000)) + f".{now % 1000:03}Z"
        item = {"type": "function_call_output", "output": "x" * int(rest)}
        line = {"timestamp": stamp, "type": "response_item", "payload": item}
        (rollout,) = Path(os.environ["CODEX_HOME"]).glob(
            f"sessions/*/*/*/rollout-*-{SESSION}.jsonl"
        )
        with rollout.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def run(self, rest: str) -> None:
        subprocess.run(rest.split(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def flood(self, rest: str) -> None:
        block = {"type": "system", "subtype": "status", "text": "x" * 10_000}
        data = (json.dumps(block) + "\n").encode() * 100
        for _ in range(int(rest)):
            sys.stdout.buffer.write(data)

    def rubbish(self, rest: str) -> None:
        sys.stdout.buffer.write(
            bytes(range(256)) * 400 + b'\n\x1b[2J{"type": \xff}\n[1, 2]\nnull\n'
        )
        sys.stdout.flush()

    def be_deaf(self, rest: str) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def start(self, rest: str) -> None:
        words = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        child = subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL)
        new = Path(f"{rest}.new")
        new.write_text(str(child.pid))
        new.rename(rest)

    def write(self, rest: str) -> None:
        Path(rest).write_text(self.lines[0])

    def mutter(self, rest: str) -> None:
        self.mutters = True

    def fail(self, rest: str) -> None:
        self.good = False

    def die(self, rest: str) -> None:
        os._exit(7)


DOES: dict[str, Callable[[Agent, str], None]] = {
    "COUNT": Agent.count, "WAIT": Agent.wait, "REPLAY": Agent.replay, "COST": Agent.take,
    "TOKENS": Agent.use, "RECORD": Agent.record, "OUTPUT": Agent.output,
    "RUN": Agent.run, "FLOOD": Agent.flood, "GARBAGE": Agent.rubbish, "DEAF": Agent.be_deaf,
    "START": Agent.start, "WRITE": Agent.write, "MUTTER": Agent.mutter,
    "FAIL": Agent.fail, "DIE": Agent.die,
}  # fmt: skip


def as_claude(agent: Agent) -> None:
    given, made = agent.tokens
    usage = {"input_tokens": given, "output_tokens": made, "cache_read_input_tokens": 0,
             "cache_creation_input_tokens": 0}  # fmt: skip
    tell(type="system", subtype="init", session_id=SESSION, model="claude-sonnet-4-5", tools=[])
    if any(line.startswith("REPLAY") for line in agent.lines):
        agent.obey()
    said = [{"type": "text", "text": agent.lines[0]}]
    message = {"id": "m1", "model": "claude-sonnet-4-5", "content": said, "usage": usage}
    tell(type="assistant", session_id=SESSION, message=message)
    agent.obey()
    tell(
        type="result", subtype="success" if agent.good else "error_during_execution",
        is_error=not agent.good, num_turns=1, result=agent.lines[0], session_id=SESSION,
        total_cost_usd=agent.cost, usage=usage, duration_ms=5,
    )  # fmt: skip


def as_codex(agent: Agent) -> None:
    """It tells what it used at the end of a turn only; its rollout file is its meter."""
    tell(type="thread.started", thread_id=SESSION)
    tell(type="turn.started")
    agent.obey()
    if not agent.good:
        tell(type="turn.failed", error={"message": "it went wrong"})
        return
    tell(type="item.completed", item={"id": "i1", "type": "agent_message", "text": agent.lines[0]})
    given, made = agent.tokens
    usage = {"input_tokens": given, "cached_input_tokens": 0, "output_tokens": made}
    tell(type="turn.completed", usage=usage)


def main() -> int:
    agent = Agent(prompt())
    (as_codex if "exec" in sys.argv else as_claude)(agent)
    if agent.mutters:
        sys.stderr.write("a warning on stderr\n")
        sys.stdout.write("Shell cwd was reset\n")
    return 0 if agent.good else 1


if __name__ == "__main__":
    sys.exit(main())
