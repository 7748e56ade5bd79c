"""`fanfold ask`: who answers, what it may delegate, what all of it costs."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import MCP, environment, fanfold, lacking, runs
from tests.faces.desk import write_roster
from tests.faces.project import PRICE
from tests.waiting import LONG

AGENT = Path(__file__).with_name("agent.py")
CHIEF = """\
  - id: {id}
    kind: command
    cmd: [{python}, {agent}, --mcp-config]
    delegate_args: ["{{delegate_mcp_json}}"]
    price: {{call: 1.0}}
    can_orchestrate: true
    can_delegate: false
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """Whatever it is asked comes back, at once."""
    with threaded_server(tmp_path / "books", price=PRICE) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, server: RunningServer) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    write_roster(folder, server.url)
    return folder


def with_chief(folder: Path, url: str, **of: str) -> None:
    assert MCP.address, "the server that it starts is forked, too"
    write_roster(folder, url, CHIEF.format(id="chief", python=sys.executable, agent=AGENT), **of)


def tree_of(folder: Path, run: str) -> dict[str, Any]:
    ended = fanfold(folder, "tree", run, "--json", "--all")
    assert ended.code == 0, ended
    found: dict[str, Any] = msgspec.json.decode(ended.out)
    return found


# ── an orchestrator that delegates ───────────────────────────────────────────────────────────


def test_an_orchestrator_delegates_and_one_budget_holds_for_all(
    project: Path, server: RunningServer
) -> None:
    with_chief(project, server.url)
    receipt = fanfold(project, "ask", "Do it", "--budget", "10", "--json").receipt
    delegated = receipt["delegated"]
    assert receipt["result"] == (
        "Do it: Sum this up | Is this legal? | What is 2+2? (of alba, bruno, carla; left 9.0)"
    )
    assert (receipt["status"], receipt["member"], receipt["cost_usd"]) == ("complete", "chief", 0.5)
    assert (delegated["calls"], delegated["cost_usd"]) == (
        3, pytest.approx(server.totals().bill / 1e9),
    )  # fmt: skip
    assert {(run["name"], run["status"], run["passed"]) for run in runs(project)} == {
        ("ask", "complete", 1), ("delegates", "complete", 3),
    }  # fmt: skip


def test_fresh_holds_for_what_is_delegated_too(project: Path, server: RunningServer) -> None:
    """A program that leads is asked each time; what it delegates is on record unless all is to be
    asked anew."""
    with_chief(project, server.url)
    asked = []
    for words in ((), (), ("--fresh",)):
        assert fanfold(project, "ask", "Do it", *words).code == 0
        asked.append(server.totals().asked)
    assert asked == [3, 3, 6]


@pytest.mark.parametrize(("words", "most"), [((), 64), (("--concurrency", "2"), 2)])
def test_the_server_of_an_orchestrator_has_the_concurrency_of_the_request(
    project: Path, server: RunningServer, words: tuple[str, ...], most: int
) -> None:
    with_chief(project, server.url)
    text = (project / "roster.yaml").read_text()
    printing = text.replace(str(AGENT), "show.py")
    (project / "show.py").write_text(SHOW)
    (project / "roster.yaml").write_text(printing)
    ended = fanfold(project, "ask", "Do it", *words)
    assert (ended.code, f"--concurrency {most} " in ended.out) == (0, True), ended


SHOW = """\
import json, pathlib, sys
config = json.loads(sys.argv[sys.argv.index("--mcp-config") + 1])
print(pathlib.Path(config["mcpServers"]["fanfold"]["command"]).read_text())
"""


def test_the_tree_shows_one_parent_and_three_children(project: Path, server: RunningServer) -> None:
    """Each with what it cost; the whole is the sum, each dollar once."""
    with_chief(project, server.url)
    receipt = fanfold(project, "ask", "Do it", "--json").receipt
    tree = tree_of(project, "ask")
    (parent,) = tree["steps"][0]["attempts"]
    (below,) = parent["children"]
    children = below["steps"][0]["attempts"]
    assert (parent["member"], below["name"], below["parent"]) == (
        "chief", "delegates", parent["span"],
    )  # fmt: skip
    assert {one["member"] for one in children} == {"alba", "bruno", "carla"}
    assert [one["verdict"] for one in children] == ["passed"] * 3
    assert sum(one["cost_usd"] for one in children) == pytest.approx(
        receipt["delegated"]["cost_usd"]
    )
    whole = receipt["cost_usd"] + receipt["delegated"]["cost_usd"]
    assert tree["total"]["cost_usd"] == pytest.approx(whole)


# ── an orchestrator whose tools are not there ────────────────────────────────────────────────

BREAKS_ITS_SERVER = """\
import json, pathlib, subprocess, sys
words = sys.argv
where = words[words.index("--mcp-config") + 1]
config = json.loads(where if where.startswith("{") else pathlib.Path(where).read_text())
pathlib.Path("roster.yaml").write_text("members: 7")  # from here on no server can start
command = config["mcpServers"]["fanfold"]["command"]
code = subprocess.run([command], stdin=subprocess.DEVNULL, capture_output=True).returncode
"""
ANSWERS = """\
print("an answer without any tools")
print('{"fanfold": {"usd": 0.5, "input": 100, "output": 20}}')
"""
AS_CLAUDE = """\
def tell(**event):
    print(json.dumps(event), flush=True)

status = "connected" if code == 0 else "failed"
servers = [{"name": "fanfold", "status": status}]
tell(type="system", subtype="init", session_id="s", model="claude-sonnet-4-5", cwd=".",
     mcp_servers=servers, claude_code_version="2.1.325")
"""
HANGS = "sys.stdin.read()\nimport signal\nwhile True: signal.pause()\n"
RESULT = """\
usage = {"input_tokens": 100, "output_tokens": 20}
tell(type="result", subtype="success", is_error=False, result="no tools, but an answer",
     session_id="s", total_cost_usd=0.25, usage=usage, num_turns=1)
"""
WHY = "roster.yaml:1: `members` must be a list, not the number 7"


@pytest.mark.parametrize(("answers", "spent"), [(ANSWERS, "$0.50"), ("print(1)\n", "$1.00")])
def test_a_program_that_answers_without_its_tools_has_failed(
    project: Path, server: RunningServer, answers: str, spent: str
) -> None:
    """One line says why, one what it cost: as it reports, else by its price. It is not asked again."""
    with_chief(project, server.url)
    text = (project / "roster.yaml").read_text().replace(str(AGENT), "lead.py")
    (project / "roster.yaml").write_text(text)
    (project / "lead.py").write_text(BREAKS_ITS_SERVER + answers)
    ended = fanfold(project, "ask", "Do it")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        "fanfold: chief: it has no tools to delegate with, `fanfold mcp` did not start:"
        f" {project}/{WHY}",
        f"fanfold: spent: {spent}",
    ]


CLAUDE = """\
  - id: chief
    kind: claude
    program: {program}
    model: claude-sonnet-4-5
    max_budget_usd: 1
    can_orchestrate: true
    can_delegate: false
"""


@pytest.mark.parametrize("then", [HANGS, RESULT], ids=["at work", "quick"])
def test_a_claude_without_its_server_is_ended_and_has_failed(
    project: Path, server: RunningServer, then: str
) -> None:
    """By its own first event: it does not get as far as its work."""
    program = project / "claude"
    program.write_text(f"#!{sys.executable}\n{BREAKS_ITS_SERVER}{AS_CLAUDE}{then}")
    program.chmod(0o700)
    write_roster(project, server.url, CLAUDE.format(program=program))
    ended = fanfold(project, "ask", "Do it", "--budget", "9", "--store", str(project / "store"))
    assert (ended.code, ended.out) == (1, ""), ended
    said, spent = ended.err.splitlines()
    assert said == (
        "fanfold: chief: it has no tools to delegate with, `fanfold mcp` did not start:"
        f" {project}/{WHY}"
    )
    assert spent == "fanfold: spent: $0.25" or (then is HANGS and "spent: ≤$" in spent)


def test_without_the_extra_nobody_is_asked_and_the_check_finds_it(
    project: Path, server: RunningServer
) -> None:
    with_chief(project, server.url)
    missing = "fanfold mcp needs the MCP SDK; install it with: pip install 'fanfold[mcp]'"
    ended = lacking({"mcp"}, project, "ask", "Do it")
    assert (ended.code, ended.err) == (2, f"fanfold: chief would delegate over MCP: {missing}\n")
    assert runs(project) == []
    checked = lacking({"mcp"}, project, "members", "--check", "--json")
    troubles = {one["id"]: one["trouble"] for one in msgspec.json.decode(checked.out)}
    assert troubles == {"alba": None, "bruno": None, "carla": None, "chief": missing}
    assert lacking({"mcp"}, project, "ask", "Do it", "--member", "alba").code == 0
    with_chief(project, server.url, alba="can_orchestrate: true")
    other = lacking({"mcp"}, project, "ask", "Do it, alba")
    assert (other.code, other.out) == (0, "Do it, alba\n")
    assert other.err.startswith(f"fanfold: chief would delegate over MCP: {missing}\n")


def test_keys_reach_the_delegates_and_never_the_orchestrator(tmp_path: Path) -> None:
    """The agent asserts that it does not see the variable; the server refuses any other key."""
    script = "tests.faces.scripts:with_key"
    with threaded_server(tmp_path / "books", price=PRICE, script=script) as server:
        with_chief(tmp_path, server.url, alba="key: env:ALBA_KEY", bruno="key: env:ALBA_KEY",
                   carla="key: env:ALBA_KEY")  # fmt: skip
        ended = fanfold(tmp_path, "ask", "Do it", ALBA_KEY="sesame")
    assert ended.code == 0, ended
    assert ended.out.startswith("Do it: Sum this up | Is this legal? | What is 2+2?")
    everything = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"sesame" not in everything


def test_delegates_get_only_what_is_left(project: Path, server: RunningServer) -> None:
    """$1 is reserved for the chief's own call; with $2.18 no more than one delegate fits."""
    with_chief(project, server.url)
    receipt = fanfold(project, "ask", "Do it", "--budget", "2.18", "--json").receipt
    assert receipt["result"].count("unfunded") == 2
    assert receipt["cost_usd"] + receipt["delegated"]["cost_usd"] <= 2.18


# ── an orchestrator behind an API ────────────────────────────────────────────────────────────

API = """\
  - id: chief
    kind: {kind}
    model: chief-model
    base_url: {url}
    price: {{input: 100, output: 100}}
    max_tokens: 200
    can_orchestrate: true
"""
ANSWER = "Whole: Sum this up | Is this legal? | What is 2+2?"


@pytest.fixture
def led(tmp_path: Path) -> Iterator[RunningServer]:
    """The chief's model uses the tools it is offered; the others say what they are asked."""
    script = "tests.faces.scripts:leads"
    with threaded_server(tmp_path / "books", price=PRICE, script=script) as server:
        yield server


def with_api(tmp_path: Path, url: str, kind: str, **of: str) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    write_roster(folder, url, API.format(kind=kind, url=f"{url}/v1"), **of)
    return folder


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_model_behind_an_api_leads_by_the_same_tools(
    tmp_path: Path, led: RunningServer, kind: str
) -> None:
    """Menu, delegation, answer: three calls of its own and three of others, in one tree; asked
    again, all of it is on record."""
    folder = with_api(tmp_path, led.url, kind)
    receipt = fanfold(folder, "ask", "Do it", "--budget", "20", "--json").receipt
    assert (receipt["status"], receipt["member"], receipt["result"]) == (
        "complete", "chief", ANSWER,
    )  # fmt: skip
    assert (receipt["planned"], receipt["calls"], receipt["delegated"]["calls"]) == (1, 3, 3)
    tree = tree_of(folder, "ask")
    attempts = tree["steps"][0]["attempts"]
    assert [(one["member"], len(one["children"])) for one in attempts] == [
        ("chief", 0), ("chief", 1), ("chief", 0),
    ]  # fmt: skip
    (below,) = attempts[1]["children"]
    children = below["steps"][0]["attempts"]
    assert [(one["member"], one["verdict"]) for one in children] == [
        ("alba", "passed"), ("bruno", "passed"), ("carla", "passed"),
    ]  # fmt: skip
    assert all(one["tokens"]["input"] and one["cost_usd"] for one in (*attempts, *children))
    whole = receipt["cost_usd"] + receipt["delegated"]["cost_usd"]
    assert tree["total"]["cost_usd"] == pytest.approx(whole)
    again = fanfold(folder, "ask", "Do it", "--budget", "30", "--json").receipt
    assert (again["result"], again["calls"], again["delegated"]["calls"]) == (ANSWER, 0, 0)
    assert led.totals().asked == 6


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_its_answer_is_streamed(tmp_path: Path, led: RunningServer, kind: str) -> None:
    """On a terminal: the answer once, and what it used meanwhile on stderr."""
    folder = with_api(tmp_path, led.url, kind)
    shown = on_a_terminal(folder, "ask", "Do it")
    assert shown == "Streamed: Sum this up | Is this legal? | What is 2+2?\n"


def test_one_that_only_answers_gets_no_tools(tmp_path: Path, led: RunningServer) -> None:
    """Named, but not for orchestrating: the server refuses tools there."""
    folder = with_api(tmp_path, led.url, "openai")
    ended = fanfold(folder, "ask", "Hi", "--member", "alba")
    assert (ended.code, ended.out) == (0, "Hi\n")


# ── who answers ──────────────────────────────────────────────────────────────────────────────


def test_without_an_orchestrator_the_best_member_answers(project: Path) -> None:
    ended = fanfold(project, "ask", "Say hello", "--needs", "legal")
    assert (ended.code, ended.out) == (0, "Say hello\n")
    assert "nobody here can orchestrate" in ended.err
    assert "fanfold: bruno, $0.0" in ended.err


def test_needs_are_a_preference(project: Path) -> None:
    ended = fanfold(project, "ask", "Say hello", "--needs", "physics")
    assert (ended.code, ended.out) == (0, "Say hello\n")
    assert "nobody is good at physics; another member answers" in ended.err


def test_a_newcomer_without_a_roster_gets_an_answer(tmp_path: Path) -> None:
    ended = fanfold(tmp_path, "ask", "The sun shone. It was warm. The sun shone on us all.")
    assert ended.code == 0, ended
    assert "sun shone" in ended.out


LEADERS = dict.fromkeys(("alba", "bruno", "carla"), "can_orchestrate: true")


def test_orchestrators_take_turns(project: Path, server: RunningServer) -> None:
    write_roster(project, server.url, **LEADERS)
    who = [fanfold(project, "ask", f"Question {n}", "--json").receipt["member"] for n in range(4)]
    assert who == ["alba", "bruno", "carla", "alba"]


def test_when_one_fails_the_next_is_asked(project: Path, server: RunningServer) -> None:
    write_roster(project, server.url, **LEADERS)
    text = (project / "roster.yaml").read_text()
    (project / "roster.yaml").write_text(text.replace(server.url, "http://127.0.0.1:1", 1))
    receipt = fanfold(project, "ask", "Say hello", "--json").receipt
    assert (receipt["status"], receipt["member"], receipt["result"]) == (
        "complete", "bruno", "Say hello",
    )  # fmt: skip
    assert (receipt["planned"], receipt["passed"], receipt["calls"]) == (1, 1, 2)


def test_when_all_fail_each_is_named(project: Path, server: RunningServer) -> None:
    write_roster(project, "http://127.0.0.1:1", **LEADERS)
    ended = fanfold(project, "ask", "Say hello")
    assert (ended.code, ended.out) == (1, "")
    assert all(f"{id}: " in ended.err for id in LEADERS)


def test_one_member_and_nobody_else(project: Path) -> None:
    assert fanfold(project, "ask", "Hi", "--member", "carla", "--json").receipt["member"] == "carla"
    ended = fanfold(project, "ask", "Hi", "--member", "nobody")
    assert (ended.code, ended.err) == (
        2, "fanfold: there is no member `nobody`; there are: alba, bruno, carla\n",
    )  # fmt: skip


def test_only_local_members(project: Path, server: RunningServer) -> None:
    write_roster(project, server.url, alba="tier: subscription", bruno="tier: subscription")
    assert fanfold(project, "ask", "Hi", "--local", "--json").receipt["member"] == "carla"


def test_an_answer_on_record_is_not_paid_again(project: Path, server: RunningServer) -> None:
    first = fanfold(project, "ask", "Say hello", "--member", "alba")
    again = fanfold(project, "ask", "Say hello", "--member", "alba")
    assert (first.out, again.out) == ("Say hello\n", "Say hello\n")
    assert "on record already" in again.err
    assert server.totals().asked == 1
    assert fanfold(project, "ask", "Say hello", "--member", "alba", "--fresh").code == 0
    assert server.totals().asked == 2


def test_out_of_money_is_a_pause_and_says_so(project: Path) -> None:
    ended = fanfold(project, "ask", "Say hello", "--budget", "0.5")
    assert (ended.code, ended.out) == (4, "")
    assert "out of budget: dollars of the run" in ended.err


def test_an_empty_question_is_refused(project: Path) -> None:
    ended = fanfold(project, "ask", " ")
    assert (ended.code, ended.err) == (2, "fanfold: this task has an empty `prompt`\n")
    assert runs(project) == []


# ── showing it ───────────────────────────────────────────────────────────────────────────────


def test_on_a_terminal_the_answer_is_shown_while_it_comes(project: Path) -> None:
    """Once, and not a second time when it is complete."""
    long = "a rather long answer " * 20
    shown = on_a_terminal(project, "ask", long, "--member", "alba")
    assert shown.count("a rather long answer") == 20


def on_a_terminal(folder: Path, *words: str) -> str:
    """What a reader sees of stdout."""
    ours, theirs = pty.openpty()
    process = subprocess_on(theirs, folder, *words)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    assert process.wait(LONG) == 0
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def subprocess_on(terminal: int, folder: Path, *words: str) -> Any:
    return subprocess.Popen(
        [*MCP.command, *words], cwd=folder, env=environment(folder),
        stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL,
    )  # fmt: skip
