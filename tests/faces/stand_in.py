#!/usr/bin/env python3
"""A stand-in for `claude`: it does what its prompt says, line by line, and tells it as claude does.

WAIT FILE     until the file is there
START FILE    a child in a session of its own, which lives on; its number goes into the file
HEAR FILE     until it gets a message, which it puts there
WRITE FILE    puts the first line of the prompt there
COPY A B      what is in A, in capitals, goes to B
COMMIT        all that there is, to git
FAIL          ends with an error
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SESSION = "0a64e87e-0000-4000-8000-000000000001"
USAGE = {
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}


def prompt() -> str:
    """All of stdin, or a message of it where those come one by one."""
    if "--input-format" not in sys.argv:
        return sys.stdin.read()
    return str(json.loads(sys.stdin.readline())["message"]["content"])


def tell(**event: Any) -> None:
    sys.stdout.write(json.dumps({**event, "session_id": SESSION}) + "\n")
    sys.stdout.flush()


def obey(lines: list[str]) -> bool:
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "WAIT":
            while not Path(rest).exists():
                time.sleep(0.01)
        elif word == "START":
            start(Path(rest))
        elif word == "HEAR":
            heard = prompt()
            tell(type="user", message={"role": "user", "content": heard}, isReplay=True)
            Path(rest).write_text(heard)
        elif word == "WRITE":
            Path(rest).write_text(lines[0])
        elif word == "COPY":
            source, target = map(Path, rest.split())
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source.read_text().upper())
        elif word == "COMMIT":
            who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
            for words in (("add", "--all"), (*who, "commit", "--quiet", "-m", "work")):
                subprocess.run(["git", *words], check=True)
        elif word == "FAIL":
            return False
    return True


def start(file: Path) -> None:
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL)
    file.with_suffix(".new").write_text(str(child.pid))
    file.with_suffix(".new").rename(file)


def main() -> int:
    lines = prompt().splitlines()
    tell(type="system", subtype="init", model="claude-sonnet-4-5", tools=[])
    tell(type="user", message={"role": "user", "content": "\n".join(lines)}, isReplay=True)
    said = [{"type": "text", "text": lines[0]}]
    tell(type="assistant", message={"id": "m1", "model": "claude-sonnet-4-5", "content": said,
                                    "usage": USAGE})  # fmt: skip
    good = obey(lines)
    tell(
        type="result", subtype="success" if good else "error_during_execution", is_error=not good,
        num_turns=1, result=lines[0], total_cost_usd=0.25, usage=USAGE, duration_ms=5,
    )  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
