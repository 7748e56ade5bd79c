"""What the model server says to a fleet's workers: each does what its prompt tells it, by `DO:`."""

from __future__ import annotations

import re
from typing import Any

from fanfold.members.agents.continuing import CONTINUE
from fanfold.testing.script import Asked, Says
from fanfold.work.ask import Usage

USAGE = Usage(1000, 100, 2000, 500)
LONG = Usage(60_000, 1000)
GAP = "Mind the gap"
_DO = re.compile(r"DO:([a-z-]+)")
_OUTPUT = re.compile(r"Save ALL output files to (\S+?)/ ")


def works(asked: Asked) -> Says:
    """A tool is called first, and when it has answered the worker says that it is done."""
    text = asked.raw.decode()
    do = _DO.search(text)
    match do.group(1) if do else "write":
        case "write":
            return _written(asked, text)
        case "note":
            return _noted(asked, text)
        case "parents":
            return _read_parents(asked, text)
        case "slowly":
            return _written(asked, text, latency=3600.0)  # until it is released
        case "spend" if CONTINUE in text:
            return Says(text=f"Continued after {_results(asked)} tools.", usage=LONG)
        case "spend":
            return _never_ends(asked, LONG)
        case "listen" if GAP in text:
            return Says(text="I mind the gap.", usage=USAGE)
        case "listen":
            return _never_ends(asked, USAGE, latency=0.3)
        case "turn":
            return _never_ends(asked, USAGE)
        case "overload":
            haiku = "haiku" in str(asked.body["model"])
            return Says(status=529) if haiku else _never_ends(asked, LONG)
        case "fail":
            return Says(status=500)
        case "refuse":
            return Says(finish="refusal", text="I will not.", usage=USAGE)
        case "daemon":
            return Says(hang=True) if _results(asked) else _shell(asked, DAEMON)
        case _:
            return Says(hang=True)


DAEMON = "setsid sh -c 'echo $$ > daemon.pid; exec sleep 600' >/dev/null 2>&1 & echo started"


def _written(asked: Asked, text: str, latency: float | None = None) -> Says:
    if _results(asked):
        return Says(text="The finding is written.", usage=USAGE, latency=latency)
    found = _OUTPUT.search(text)
    assert found is not None, text[-2000:]
    file = f"{found.group(1)}/finding.md"
    if asked.wire == "anthropic":
        return Says(tool="Write", data={"file_path": file, "content": "found\n"}, usage=USAGE)
    return _shell(asked, f"echo found > {file}")


def _noted(asked: Asked, text: str) -> Says:
    """A file in the folder that it works in, named after it."""
    if _results(asked):
        return Says(text="The note is there.", usage=USAGE)
    found = re.search(r"You are ([a-z]+)\.", text)
    assert found is not None, text[-2000:]
    name = f"{found.group(1)}.txt"
    if asked.wire == "anthropic":
        return Says(tool="Write", data={"file_path": name, "content": "noted\n"}, usage=USAGE)
    return _shell(asked, f"echo noted > {name}")


def _read_parents(asked: Asked, text: str) -> Says:
    """The file that lists its parents, which lies outside of the worktree that it works in."""
    if _results(asked):
        seen = r"\"passed\": true" in text
        return Says(text="I have read it." if seen else "I cannot read it.", usage=USAGE)
    found = _OUTPUT.search(text)
    assert found is not None, text[-2000:]
    file = found.group(1).removesuffix("/output") + "/parents.json"
    return Says(tool="Read", data={"file_path": file}, usage=USAGE)


def _never_ends(asked: Asked, usage: Usage, latency: float | None = None) -> Says:
    if asked.wire == "anthropic":
        return Says(tool="Read", data={"file_path": "/etc/hostname"}, usage=usage, latency=latency)
    return _shell(asked, "true", usage, latency)


def _shell(asked: Asked, command: str, usage: Usage = USAGE, latency: float | None = None) -> Says:
    if asked.wire == "anthropic":
        return Says(tool="Bash", data={"command": command}, usage=usage, latency=latency)
    return Says(tool="exec_command", data={"cmd": command}, usage=usage, latency=latency)


def _results(asked: Asked) -> int:
    """How many tools have answered by now."""
    body = asked.body
    if asked.wire == "anthropic":
        blocks = [b for m in body["messages"] for b in _listed(m["content"])]
        return sum(block.get("type") == "tool_result" for block in blocks)
    return sum(str(one.get("type", "")).endswith("_output") for one in body["input"])


def _listed(content: Any) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else []
