"""A loop of five tool calls in a process that is killed with -9 after each: what was paid or has had
effects is not repeated."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from fanfold.plans.prepare import Options, prepare_resume
from fanfold.price import Price
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests.flow import killed_plans
from tests.flow.killed_plans import script
from tests.flow.small_plans import executed
from tests.flow.tool_models import calling, results

ROSTER = """\
members:
  - {{id: m, kind: {kind}, model: one, base_url: "{url}", max_tokens: 300, price: {{input: 1, output: 1}}}}
"""
PLAN = """\
name: killed
roster: roster.yaml
input: {{list: [{{id: a, text: one}}]}}
steps:
  - map:
      name: look
      member: m
      prompt: "Say {{{{ item.text }}}}"
      tools:
        - {{function: "own:count"}}
        - command: [{python}, note.py]
          name: note
          timeout: 600
  - reduce: {{kind: collect}}
"""
# A line for each call; where `kill` says so, the run dies before the result could be recorded.
NOTE = """\
import json, os, signal, sys
given = json.load(sys.stdin)
with open("noted", "a") as file:
    file.write(given["word"] + "\\n")
if os.path.exists("kill") and open("kill").read() == given["word"]:
    os.remove("kill")
    os.kill(os.getppid(), signal.SIGKILL)
print("noted " + given["word"])
"""
OWN = """\
def count(word: str) -> str:
    "Counts."
    with open("counted", "a") as file:
        file.write(word + "\\n")
    return "counted " + word
"""
ROUNDS = [
    [("count", {"word": "w0"})], [("note", {"word": "w1"})], [("count", {"word": "w2"})],
    [("note", {"word": "w3"})], [("note", {"word": "w4"})],
]  # fmt: skip
ANSWER = "counted w0 | noted w1 | counted w2 | noted w3 | noted w4"


def lines(folder: Path, name: str) -> Counter[str]:
    file = folder / name
    return Counter(file.read_text().split() if file.exists() else ())


def write(folder: Path, server: RunningServer, kind: str) -> None:
    url = f"{server.url}/v1" if kind == "openai" else server.url
    (folder / "p.yaml").write_text(PLAN.format(python=sys.executable))
    (folder / "roster.yaml").write_text(ROSTER.format(kind=kind, url=url))
    (folder / "note.py").write_text(NOTE)
    (folder / "own.py").write_text(OWN.replace('open("', f'open("{folder}/'))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_killed_after_each_tool_call_no_ask_is_repeated(tmp_path: Path, kind: str) -> None:
    """The server kills the run when the ask with the next result arrives, before it answers: so that
    call of the model was never billed, and all before it are on record."""
    says = calling(*ROUNDS)
    killed: set[int] = set()

    def kills(asked: Asked) -> Says:
        at = len(results(asked))
        if at and at not in killed and script.victim is not None:
            killed.add(at)
            os.kill(script.victim, signal.SIGKILL)
            script.victim = None
            return Says(drop="before", status=500)
        return says(asked)

    script.says, script.arrived, script.kill_at, script.victim = kills, 0, 0, None
    with threaded_server(
        tmp_path / "books", script="tests.flow.killed_plans:script", price=Price(input=1, output=1)
    ) as server:
        write(tmp_path, server, kind)
        receipt = None
        for again in range(12):
            receipt = killed_plans._carried(tmp_path, server, resume=again > 0)
            if receipt is not None:
                break
        assert receipt is not None and receipt.status == "complete"
        assert killed == {1, 2, 3, 4, 5}
        asked = Counter(entry.content for entry in server.books().asked if entry.billed)
    assert (len(asked), set(asked.values())) == (6, {1})
    assert lines(tmp_path, "noted") == Counter(["w1", "w3", "w4"])
    assert lines(tmp_path, "counted") == Counter(["w0", "w2"])
    assert receipt.maybe_paid_twice <= 5


def test_a_call_with_effects_that_was_under_way_is_in_doubt(tmp_path: Path) -> None:
    """The tool kills the run before its result is on record. Nothing repeats it but the operator."""
    script.says, script.arrived, script.kill_at, script.victim = calling(*ROUNDS), 0, 0, None
    with threaded_server(
        tmp_path / "books", script="tests.flow.killed_plans:script", price=Price(input=1, output=1)
    ) as server:
        write(tmp_path, server, "openai")
        (tmp_path / "kill").write_text("w3")
        assert killed_plans._carried(tmp_path, server, resume=False) is None
        for _ in range(2):
            held = killed_plans._carried(tmp_path, server, resume=True)
            assert held is not None and (held.status, held.in_doubt) == ("paused", 1)
        assert lines(tmp_path, "noted") == Counter(["w1", "w3"])
        store = str(tmp_path / "store")
        again = executed(prepare_resume("killed", Options(store=store, retry_in_doubt=None)))
        assert again.status == "complete"
        asked = Counter(entry.content for entry in server.books().asked)
    assert lines(tmp_path, "noted") == Counter(["w1", "w3", "w3", "w4"])
    assert (len(asked), set(asked.values())) == (6, {1})


def test_a_call_without_effects_is_just_made_again(tmp_path: Path) -> None:
    script.says, script.arrived, script.kill_at, script.victim = calling(*ROUNDS), 0, 0, None
    with threaded_server(
        tmp_path / "books", script="tests.flow.killed_plans:script", price=Price(input=1, output=1)
    ) as server:
        write(tmp_path, server, "openai")
        plan = (tmp_path / "p.yaml").read_text()
        (tmp_path / "p.yaml").write_text(
            plan.replace("name: note\n", "name: note\n          effects: false\n")
        )
        (tmp_path / "kill").write_text("w3")
        assert killed_plans._carried(tmp_path, server, resume=False) is None
        receipt = killed_plans._carried(tmp_path, server, resume=True)
        assert receipt is not None and receipt.status == "complete"
        asked = Counter(entry.content for entry in server.books().asked)
    assert lines(tmp_path, "noted") == Counter(["w1", "w3", "w3", "w4"])
    assert (len(asked), set(asked.values())) == (6, {1})
